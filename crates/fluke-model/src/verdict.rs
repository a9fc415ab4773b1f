//! What a check found, and how an apply ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most output that is kept of one command, in bytes: its tail.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// A check's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is so.
    Satisfied,
    /// It is not so.
    Drifted(Drift),
    /// It could not be told; nothing is applied on an error.
    Error {
        /// What was attempted, why it failed, what to do.
        reason: String,
    },
}

/// Why a step is not as it should be. Only a check makes one, and an apply needs one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// One or a few lines for people.
    pub reason: String,
    /// What differs, where the executor can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl Drift {
    /// A drift without a diff.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), diff: None }
    }
}

/// How a step's turn in an apply ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Applied, and the check agrees.
    Success,
    /// The apply failed or could not be run.
    Failure,
    /// Applied without error, and the check still says no: a bug in the check or the apply.
    AppliedButDrifted,
    /// Already as it should be when its turn came; nothing was run.
    Healed,
    /// An earlier step of the task failed and said `abort`.
    Skipped,
    /// The agent ended in the middle of it.
    Interrupted,
}

impl Outcome {
    /// Whether the step is not as it should be after all.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Failure | Self::AppliedButDrifted | Self::Skipped | Self::Interrupted => true,
            Self::Success | Self::Healed => false,
        }
    }

    /// The name used in events and alerts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::AppliedButDrifted => "applied_but_drifted",
            Self::Healed => "healed",
            Self::Skipped => "skipped",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The tail of what a command printed, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Output {
    /// At most [`MAX_OUTPUT`] bytes.
    pub tail: Vec<u8>,
    /// How many bytes came before the tail and were dropped.
    pub dropped: u64,
}

impl Output {
    /// Text as output.
    pub fn from_text(text: impl Into<String>) -> Self {
        let mut output = Self { tail: text.into().into_bytes(), dropped: 0 };
        output.trim();
        output
    }

    /// Drops what is beyond [`MAX_OUTPUT`], from the front, and counts it.
    pub fn trim(&mut self) {
        let beyond = self.tail.len().saturating_sub(MAX_OUTPUT);
        self.tail.drain(..beyond);
        self.dropped += beyond as u64;
    }

    /// For people and JSON: bytes that are not UTF-8 become `\xNN`, and a cut is said.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.tail.len());
        if self.dropped > 0 {
            text.push_str(&format!("[{} earlier bytes not kept]\n", self.dropped));
        }
        for chunk in self.tail.utf8_chunks() {
            text.push_str(chunk.valid());
            chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_keeps_the_tail_and_says_what_it_dropped() {
        let mut output = Output { tail: vec![b'x'; MAX_OUTPUT + 10], dropped: 5 };
        output.trim();
        assert_eq!((output.tail.len(), output.dropped), (MAX_OUTPUT, 15));
        assert!(output.text().starts_with("[15 earlier bytes not kept]\nxxx"));
    }

    #[test]
    fn bytes_that_are_no_text_survive() {
        let output = Output { tail: b"a\xff\xfeb\xc3\xa9".to_vec(), dropped: 0 };
        assert_eq!(output.text(), "a\\xff\\xfebé");
    }
}
