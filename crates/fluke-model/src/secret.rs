//! Texts that must not be shown, and comparing them without saying how close a guess was.

use std::fmt;
use std::hint::black_box;

use crate::id::Hash256;

/// A token or password. Has no way into a log: `Debug` hides it, and there is no `Display`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes a text out of sight.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that must send it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a side that only compares should keep instead.
    pub fn digest(&self) -> SecretDigest {
        SecretDigest::of(&self.0)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.digest().same(&other.digest())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// A secret as a verifier keeps it: enough to recognise it, not enough to use it.
#[derive(Clone, Copy)]
pub struct SecretDigest(Hash256);

impl SecretDigest {
    /// Digests `text`.
    pub fn of(text: &str) -> Self {
        Self(Hash256::of(text.as_bytes()))
    }

    /// Whether `text` is the secret. Takes the same time for every wrong guess of one length.
    pub fn matches(&self, text: &str) -> bool {
        self.same(&Self::of(text))
    }

    /// A key for `purpose` that whoever holds the secret has as well, and nobody else.
    pub fn key(&self, purpose: &str) -> [u8; 32] {
        let content = [purpose.as_bytes(), b"\0", self.0.as_bytes()].concat();
        *Hash256::of(&content).as_bytes()
    }

    /// Whether both are of one secret, in constant time.
    pub fn same(&self, other: &Self) -> bool {
        let pairs = self.0.as_bytes().iter().zip(other.0.as_bytes());
        black_box(pairs.fold(0, |differing, (a, b)| black_box(differing | (a ^ b)))) == 0
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretDigest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_cannot_be_printed() {
        let secret = Secret::new("hunter2");
        let shown = format!("{secret:?} {:?}", secret.digest());
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn keys_differ_by_secret_and_purpose() {
        let key = |secret: &str, purpose: &str| SecretDigest::of(secret).key(purpose);
        assert_eq!(key("a", "x"), key("a", "x"));
        assert_ne!(key("a", "x"), key("b", "x"));
        assert_ne!(key("a", "x"), key("a", "y"));
    }

    #[test]
    fn a_digest_recognises_its_secret_alone() {
        let digest = Secret::new("hunter2").digest();
        assert!(digest.matches("hunter2"));
        for wrong in ["", "hunter", "hunter22", "Hunter2"] {
            assert!(!digest.matches(wrong), "{wrong}");
        }
    }
}
