//! What is wrong with a private key for ssh that `ssh` itself does not say: without a terminal it
//! passes over a key with a passphrase in silence.

use std::path::Path;

use base64::Engine;

/// Why no `ssh` without a user in front of it can use the key in `file`.
pub(super) fn problem(file: &Path) -> Option<String> {
    let shown = file.display();
    match std::fs::read(file) {
        Err(error) => Some(format!("the key {shown} cannot be read: {error}")),
        Ok(content) if needs_passphrase(&content) => Some(format!(
            "the key {shown} has a passphrase, which nobody is here to type; take it off with \
             `ssh-keygen -p -f {shown}`, or use a deploy key without one"
        )),
        Ok(_) => None,
    }
}

fn needs_passphrase(content: &[u8]) -> bool {
    const OPENSSH: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
    const MAGIC: &[u8] = b"openssh-key-v1\0";
    /// Of a key in the clear: the name of its cipher, with the length before it.
    const NONE: &[u8] = b"\0\0\0\x04none";
    let text = String::from_utf8_lossy(content);
    let Some((_, body)) = text.split_once(OPENSSH) else {
        return text.lines().take(3).any(|line| line.contains("ENCRYPTED"));
    };
    // Enough of it to get behind the cipher's name; a multiple of four.
    let start: String = body.chars().filter(|c| !c.is_whitespace()).take(64).collect();
    let decoded = base64::engine::general_purpose::STANDARD.decode(start).unwrap_or_default();
    decoded.strip_prefix(MAGIC).is_some_and(|rest| !rest.starts_with(NONE))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn keys_with_a_passphrase_are_told_from_those_without() {
        let directory = tempfile::tempdir().expect("a directory");
        for (format, kind, passphrase) in [
            ("RFC4716", "ed25519", ""),
            ("RFC4716", "ed25519", "secret"),
            ("RFC4716", "ecdsa", "secret"),
            ("PEM", "ecdsa", ""),
            ("PEM", "ecdsa", "secret"),
            ("PKCS8", "ecdsa", "secret"),
        ] {
            let file = directory.path().join(format!("{format}-{kind}-{passphrase}"));
            let made = Command::new("ssh-keygen")
                .args(["-q", "-m", format, "-t", kind, "-N", passphrase, "-f"])
                .arg(&file)
                .status();
            assert!(made.expect("ssh-keygen runs").success());
            let found = problem(&file);
            assert_eq!(found.is_some(), !passphrase.is_empty(), "{format} {kind}: {found:?}");
        }
        let missing = problem(&directory.path().join("missing")).expect("a problem");
        assert!(missing.contains("missing cannot be read: No such file"), "{missing}");
        let other = directory.path().join("other");
        std::fs::write(&other, "-----BEGIN OPENSSH PRIVATE KEY-----\n!!").expect("written");
        assert_eq!(problem(&other), None, "what it is, ssh says");
    }
}
