//! Names and identities, each a type of its own, each with one grammar.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest name that is accepted anywhere, in bytes.
pub const MAX_NAME: usize = 128;

/// The grammar of [`check_name`], for readers that know regular expressions.
const NAME_PATTERN: &str = "^[A-Za-z0-9._/-]+$";

/// The same for names that are part of an address: see [`check_path`].
const PATH_PATTERN: &str = concat!(
    r"^(?:\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]*|\.{3}[A-Za-z0-9._-]*)",
    r"(?:/(?:\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]*|\.{3}[A-Za-z0-9._-]*))*$"
);

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Nothing was given.
    #[error("{what} must not be empty")]
    Empty {
        /// What the name was for, with its article.
        what: &'static str,
    },
    /// More than [`MAX_NAME`] bytes.
    #[error("{what} has at most {MAX_NAME} characters; this one has {length}")]
    TooLong {
        /// What the name was for, with its article.
        what: &'static str,
        /// How long the text was.
        length: usize,
    },
    /// A character outside the grammar.
    #[error("{character:?} is not allowed in {what}; use letters, digits, `.`, `_`, `-` and `/`")]
    Character {
        /// What the name was for, with its article.
        what: &'static str,
        /// The first offending character.
        character: char,
    },
    /// A text that cannot be part of a host name.
    #[error(
        "{what} becomes part of a host name: use lower-case letters, digits and `-`, at most \
         {MAX_WORD}, with a letter or digit at both ends"
    )]
    Word {
        /// What the name was for, with its article.
        what: &'static str,
    },
    /// A part between slashes that an address would lose.
    #[error("{what} must have something else than `.` and `..` before, between and behind its `/`")]
    Part {
        /// What the name was for, with its article.
        what: &'static str,
    },
}

/// Checks `text` against the one grammar of names: letters, digits, `.`, `_`, `-`, `/`.
pub fn check_name(what: &'static str, text: &str) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty { what });
    }
    if text.len() > MAX_NAME {
        return Err(InvalidName::TooLong { what, length: text.chars().count() });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    match text.chars().find(|c| !allowed(*c)) {
        Some(character) => Err(InvalidName::Character { what, character }),
        None => Ok(()),
    }
}

/// Checks a name that is part of an address, where `..` and the like lead elsewhere.
fn check_path(what: &'static str, text: &str) -> Result<(), InvalidName> {
    check_name(what, text)?;
    match text.split('/').any(|part| matches!(part, "" | "." | "..")) {
        true => Err(InvalidName::Part { what }),
        false => Ok(()),
    }
}

/// The longest part of a host name.
pub const MAX_WORD: usize = 63;

/// The grammar of [`check_word`].
const WORD_PATTERN: &str = "^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$";

/// Checks a name that becomes one part of a host name.
fn check_word(what: &'static str, text: &str) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty { what });
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_word = text.len() <= MAX_WORD
        && text.chars().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_word { Ok(()) } else { Err(InvalidName::Word { what }) }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:ident, $pattern:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(extend("pattern" = $pattern, "minLength" = 1, "maxLength" = MAX_NAME))]
        pub struct $name(Arc<str>);

        impl $name {
            /// Accepts `text` if it keeps to the grammar of names.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
                $check($what, text.as_ref())?;
                Ok(Self(Arc::from(text.as_ref())))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.to_string()
            }
        }
    };
}

name_type!(
    /// What an agent calls itself; one living agent per name.
    AgentName,
    "an agent name",
    check_path,
    PATH_PATTERN
);
name_type!(
    /// A task's name, unique across all manifests of a commit.
    TaskName,
    "a task name",
    check_path,
    PATH_PATTERN
);
name_type!(
    /// A service's name, unique across all manifests of a commit: the `web` of `web.internal`.
    ServiceName,
    "a service name",
    check_word,
    WORD_PATTERN
);
name_type!(
    /// A port's name, unique within its service.
    PortName,
    "a port name",
    check_word,
    WORD_PATTERN
);
name_type!(
    /// A volume's name, unique within its service.
    VolumeName,
    "a volume name",
    check_word,
    WORD_PATTERN
);
name_type!(
    /// The key of a label.
    LabelKey,
    "a label key",
    check_name,
    NAME_PATTERN
);
name_type!(
    /// The value of a label.
    LabelValue,
    "a label value",
    check_name,
    NAME_PATTERN
);

/// A step's place within its task: `kind.name`, for example `shell.migrate`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = r"^[A-Za-z0-9_/-]{1,128}\.[A-Za-z0-9._/-]{1,128}$"))]
pub struct StepAddress {
    text: Arc<str>,
    /// Where the kind ends.
    dot: u8,
}

impl StepAddress {
    /// Joins an executor's kind and a block's name.
    pub fn new(kind: &str, name: &str) -> Result<Self, InvalidName> {
        check_name("an executor kind", kind)?;
        check_name("a step name", name)?;
        Ok(Self { text: format!("{kind}.{name}").into(), dot: kind.len() as u8 })
    }

    /// The executor's kind: `shell`, `mise`, …
    pub fn kind(&self) -> &str {
        &self.text[..usize::from(self.dot)]
    }

    /// The block's label.
    pub fn name(&self) -> &str {
        &self.text[usize::from(self.dot) + 1..]
    }
}

impl Ord for StepAddress {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.kind(), self.name()).cmp(&(other.kind(), other.name()))
    }
}

impl PartialOrd for StepAddress {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for StepAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for StepAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for StepAddress {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        match text.split_once('.') {
            Some((kind, name)) => Self::new(kind, name),
            None => Self::new(&text, ""),
        }
    }
}

impl From<StepAddress> for String {
    fn from(address: StepAddress) -> String {
        String::from(&*address.text)
    }
}

/// The id of a commit (or, for a watched folder, of its content).
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CommitId(Arc<str>);

impl CommitId {
    /// Takes an id as Git prints it.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Arc::from(text.as_ref()))
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first characters, enough for people.
    pub fn short(&self) -> &str {
        let end = self.0.char_indices().nth(9).map_or(self.0.len(), |(at, _)| at);
        &self.0[..end]
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A SHA-256 over some content, shown as hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[0-9a-f]{64}$"))]
pub struct Hash256([u8; 32]);

impl Hash256 {
    /// Wraps a digest.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Hashes `content`.
    pub fn of(content: &[u8]) -> Self {
        use sha2::Digest;
        Self(sha2::Sha256::digest(content).into())
    }

    /// The digest itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A hash of which there is more to come.
#[derive(Debug, Clone, Default)]
pub struct Digest(sha2::Sha256);

impl Digest {
    /// Of this behind what there was.
    #[must_use]
    pub fn with(mut self, content: &[u8]) -> Self {
        sha2::Digest::update(&mut self.0, content);
        self
    }

    /// The hash of all of it.
    pub fn hash(self) -> Hash256 {
        Hash256(sha2::Digest::finalize(self.0).into())
    }
}

impl fmt::Display for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Hash256> for String {
    fn from(hash: Hash256) -> String {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash256 {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return Err(format!("a hash has 64 hexadecimal digits; this one has {}", digits.len()));
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| (d as char).to_digit(16).ok_or("a hash is hexadecimal");
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

/// One stream's identity; a message of another session is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

/// One instruction of the server to one agent, never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstructionId {
    /// The session it was given in.
    pub session: SessionId,
    /// Counts up within the session.
    pub number: u64,
}

/// One agent installation, made once and kept in its state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_one_grammar() {
        for good in ["web-01", "a", "role/web", "x_y.z", &"n".repeat(128)] {
            assert!(AgentName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "naïve", "../\0", "a\x1b[31m", "<script>", &"n".repeat(129)] {
            assert!(AgentName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_an_address_would_lose_are_refused() {
        for good in ["a/b", "...", ".config/x", "..a", "a/...b"] {
            assert!(AgentName::new(good).is_ok() && TaskName::new(good).is_ok(), "{good}");
        }
        for bad in ["/", "..", ".", "../source", "a//b", "a/", "/a", "a/./b", "a/.."] {
            let refused = InvalidName::Part { what: "an agent name" };
            assert_eq!(AgentName::new(bad), Err(refused), "{bad}");
            assert!(TaskName::new(bad).is_err() && LabelValue::new(bad).is_ok(), "{bad}");
        }
    }

    #[test]
    fn what_becomes_part_of_a_host_name_keeps_to_its_grammar() {
        for good in ["web", "a", "0", "web-2", &"n".repeat(63)] {
            assert!(ServiceName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "Web", "web.eu", "-web", "web-", "w_b", "a/b", &"n".repeat(64)] {
            assert!(ServiceName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hashes_survive_text() {
        let hash = Hash256::of(b"fluke");
        assert_eq!(Hash256::try_from(hash.to_string()), Ok(hash));
        assert!(Hash256::try_from("ab".to_string()).is_err());
        assert!(Hash256::try_from("zz".repeat(32)).is_err());
    }

    #[test]
    fn a_step_address_is_kind_dot_name() {
        let address = StepAddress::try_from("shell.a.b".to_string()).expect("valid");
        assert_eq!((address.kind(), address.name()), ("shell", "a.b"));
        assert!(StepAddress::try_from("shell".to_string()).is_err());
    }
}
