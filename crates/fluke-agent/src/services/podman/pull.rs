//! Fetching an image, line by line.

use reqwest::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::PodmanError;

/// A line longer than this is none.
const LONGEST: usize = 1 << 20;

/// How far a pull is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// In Podman's words.
    Says(String),
    /// It is here, under this id.
    Done(String),
}

/// A pull that is under way; dropped, it ends.
#[derive(Debug)]
pub struct Pull {
    what: String,
    lines: Lines,
}

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    stream: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    id: Option<String>,
}

impl Pull {
    pub(super) fn new(what: String, answer: Response) -> Self {
        Self { lines: Lines::new(what.clone(), answer), what }
    }

    /// What is new. Cancel-safe.
    pub async fn next(&mut self) -> Result<Progress, PodmanError> {
        let refused =
            |why: String| Err(PodmanError::Refused { what: self.what.clone(), why, status: 500 });
        loop {
            let Some(line) = self.lines.next::<Line>().await? else {
                return refused("it ended without saying that the image is here".into());
            };
            match line {
                Line { error: Some(why), .. } => return refused(why),
                Line { id: Some(id), .. } => return Ok(Progress::Done(id)),
                Line { stream: Some(text), .. } => return Ok(Progress::Says(text.trim().into())),
                _ => {}
            }
        }
    }
}

/// An answer that comes as lines of JSON.
#[derive(Debug)]
pub(super) struct Lines {
    what: String,
    answer: Response,
    rest: Vec<u8>,
}

impl Lines {
    pub(super) fn new(what: String, answer: Response) -> Self {
        Self { what, answer, rest: Vec::new() }
    }

    /// The next one; none at the end. Cancel-safe: what was read stays.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, PodmanError> {
        let garbled = |why: String| PodmanError::Garbled { what: self.what.clone(), why };
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(|error| garbled(error.to_string()));
            }
            if self.rest.len() > LONGEST {
                return Err(garbled("a line has no end".into()));
            }
            match self.answer.chunk().await {
                Ok(Some(chunk)) => self.rest.extend_from_slice(&chunk),
                Ok(None) => return Ok(None),
                Err(error) => return Err(garbled(error.to_string())),
            }
        }
    }
}
