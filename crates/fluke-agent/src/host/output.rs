//! What a command printed: its tail, and with secrets masked.

use fluke_model::verdict::{MAX_OUTPUT, Output};

/// What stands where a secret was.
pub const MASK: &str = "•••";

/// Secrets shorter than this are not looked for line by line, only as a whole.
const SHORTEST_LINE: usize = 8;

/// Collects output of any length in bounded memory.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: Vec<u8>,
    dropped: u64,
}

impl Tail {
    /// How much is read at once; also what one silent command costs in memory.
    const CHUNK: usize = 4 * 1024;

    /// Room for the next read, behind what is already there.
    pub fn room(&mut self) -> &mut Vec<u8> {
        // Once there is a lot it comes in pipefuls.
        let chunk = if self.bytes.len() > Self::CHUNK { MAX_OUTPUT } else { Self::CHUNK };
        if self.bytes.len() >= 4 * MAX_OUTPUT {
            self.shed();
        }
        self.bytes.reserve(chunk);
        &mut self.bytes
    }

    fn shed(&mut self) {
        let beyond = self.bytes.len().saturating_sub(MAX_OUTPUT);
        self.bytes.drain(..beyond);
        self.dropped += beyond as u64;
    }

    /// The tail, and how much came before it.
    pub fn into_output(mut self) -> Output {
        self.shed();
        self.bytes.shrink_to_fit();
        Output { tail: self.bytes, dropped: self.dropped }
    }
}

/// Values that must not be shown to anybody.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    /// Takes the values of variables.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut needles: Vec<Vec<u8>> = Vec::new();
        for value in values {
            needles.push(value.trim_ascii().to_vec());
            let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            needles.extend(lines.filter(|line| line.len() >= SHORTEST_LINE).map(<[u8]>::to_vec));
        }
        Self::of(needles)
    }

    fn of(mut needles: Vec<Vec<u8>>) -> Self {
        needles.retain(|needle| !needle.is_empty());
        // The longest first, so that a secret that holds another one goes as a whole.
        needles.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        needles.dedup();
        Self(needles)
    }

    /// Puts [`MASK`] wherever a secret stands.
    pub fn mask(&self, output: Output) -> Output {
        if self.0.is_empty() {
            return output;
        }
        let mut masked = Vec::with_capacity(output.tail.len());
        let mut rest = &output.tail[..];
        if output.dropped > 0
            && let Some(cut) = self.cut_at_the_front(rest)
        {
            masked.extend_from_slice(MASK.as_bytes());
            rest = &rest[cut..];
        }
        while let Some(first) = rest.first() {
            match self.0.iter().find(|secret| rest.starts_with(secret)) {
                Some(secret) => {
                    masked.extend_from_slice(MASK.as_bytes());
                    rest = &rest[secret.len()..];
                }
                None => {
                    masked.push(*first);
                    rest = &rest[1..];
                }
            }
        }
        let mut output = Output { tail: masked, dropped: output.dropped };
        output.trim();
        output
    }

    /// The same for text.
    pub fn mask_text(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        self.mask(Output { tail: text.as_bytes().to_vec(), dropped: 0 }).text()
    }

    /// How much of the front is the end of a secret whose beginning was dropped.
    fn cut_at_the_front(&self, tail: &[u8]) -> Option<usize> {
        let ends = |secret: &Vec<u8>| {
            (1..secret.len()).rev().find(|n| tail.starts_with(&secret[secret.len() - n..]))
        };
        self.0.iter().filter_map(ends).max()
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// The last lines of an output that say something, for a reason; empty when there are none.
pub fn last_lines(output: &Output, count: usize) -> String {
    const LONGEST: usize = 300;
    let text = output.text();
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .map(plain)
        .filter(|line| !line.is_empty())
        .take(count)
        .map(|line| match line.char_indices().nth(LONGEST) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        })
        .collect();
    lines.reverse();
    lines.join("\n")
}

/// A line without terminal control sequences and trailing blanks.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => {
                // A sequence ends at its first letter.
                chars.by_ref().find(|c| c.is_ascii_alphabetic());
            }
            '\t' => plain.push(' '),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests;
