//! The variables that `$NAME` in a config refers to: those of a file, and those of this process.
//!
//! A process cannot be given new variables, but a file can be read again: that is what lets a
//! token change without a restart.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::read_bounded;

/// Why a file of variables cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VariablesError {
    /// It is there, and cannot be read.
    #[error("could not read the variables in {}; check who may read it", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line of it says nothing.
    #[error("line {line} of {} is not NAME=VALUE", file.display())]
    Line {
        /// Which file.
        file: PathBuf,
        /// Counted from one.
        line: usize,
    },
}

/// The names in the file when this process was started: systemd gave them to the process as well,
/// where they must not outlive their lines in the file.
static AT_START: OnceLock<Vec<String>> = OnceLock::new();

/// Whether the process has `name` from the file as it was at the start.
pub fn was_in_file(name: &str) -> bool {
    AT_START.get().is_some_and(|names| names.iter().any(|known| known == name))
}

/// Variables by name; the file's win over the process's.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(Vec<(String, String)>);

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values are secrets.
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl Variables {
    /// Reads `file`; one that is not there says nothing.
    pub fn load(file: Option<&Path>) -> Result<Self, VariablesError> {
        let Some(file) = file else { return Ok(Self::default()) };
        let text = match read_bounded(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => {
                return Err(VariablesError::Unreadable { file: file.to_path_buf(), source });
            }
        };
        let variables = Self::parse(&String::from_utf8_lossy(&text))
            .map_err(|line| VariablesError::Line { file: file.to_path_buf(), line })?;
        AT_START.get_or_init(|| variables.0.iter().map(|(name, _)| name.clone()).collect());
        Ok(variables)
    }

    /// Lines of `NAME=VALUE`, as systemd reads them: quotes around a value are not part of it,
    /// and `#` or `;` begins a comment. `Err` is the number of a line that is none.
    pub fn parse(text: &str) -> Result<Self, usize> {
        let mut pairs = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            pairs.push(pair(line).ok_or(number + 1)?);
        }
        Ok(Self(pairs))
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<String> {
        let own = self.0.iter().rev().find(|(known, _)| known == name);
        let of_process = || std::env::var(name).ok().filter(|_| !was_in_file(name));
        own.map(|(_, value)| value.clone()).or_else(of_process)
    }

    /// Those of the file.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

fn pair(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let (value, unclosed) = unquote(value.trim());
    (is_name && !unclosed && !value.ends_with('\\')).then(|| (name.to_string(), value))
}

/// The value within its quotes, and whether they are not closed.
fn unquote(value: &str) -> (String, bool) {
    let quote = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => quote,
        _ => return (value.to_string(), false),
    };
    let Some(inner) = value[1..].strip_suffix(quote) else { return (String::new(), true) };
    if quote == '\'' {
        return (inner.to_string(), false);
    }
    let mut plain = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    (plain, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_variables_is_read_as_systemd_reads_it() {
        let text =
            "# tokens\n\nA=1\n B = two words \n; more\nC=\"a \\\"b\\\" $c\"\nD='$x'\nE=\nA=2\n";
        let variables = Variables::parse(text).expect("good lines");
        for (name, value) in
            [("A", "2"), ("B", "two words"), ("C", "a \"b\" $c"), ("D", "$x"), ("E", "")]
        {
            assert_eq!(variables.get(name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn a_line_that_says_nothing_is_named() {
        for (text, line) in
            [("A=1\nexport", 2), ("1A=x", 1), ("A-B=x", 1), ("\n\nA=\"open", 3), ("A=on\\", 1)]
        {
            assert_eq!(Variables::parse(text), Err(line), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_leaves_the_variables_of_the_process() {
        let variables = Variables::load(Some(Path::new("/nowhere/at/all"))).expect("nothing");
        assert_eq!(variables.get("PATH"), std::env::var("PATH").ok());
        assert!(variables.pairs().is_empty());
    }
}
