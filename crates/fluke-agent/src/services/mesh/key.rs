//! The host's own key: made here, kept here, told to nobody but the interface.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fluke_model::directory::PublicKey;
use x25519_dalek::StaticSecret;

use crate::host::files;

/// Which bits of a file's mode let others read it.
const OTHERS: u32 = 0o077;
const PRIVATE: u32 = 0o600;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error(
        "cannot {what} the mesh key {}: {source}; the agent's state_dir must be its own",
        path.display()
    )]
    File {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("cannot make a mesh key: {0}")]
    Random(String),
}

/// A WireGuard key that nobody else may know. Forgotten when dropped, never shown.
#[derive(Clone)]
pub struct PrivateKey(StaticSecret);

impl PrivateKey {
    /// A new one.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| KeyError::Random(error.to_string()))?;
        Ok(Self::new(bytes))
    }

    /// The one that is kept at `path`, or a new one that is kept there from now on.
    ///
    /// What cannot be read is put aside: the host then is another one to its peers, of which they
    /// hear by the server.
    pub fn load_or_make(path: &Path) -> Result<Self, KeyError> {
        let failed = |what| move |source| KeyError::File { what, path: path.into(), source };
        let Some(content) = files::read(path).map_err(failed("read"))? else {
            return Self::make(path);
        };
        Self::hide(path).map_err(failed("hide"))?;
        if let Some(key) = Self::read(&content) {
            return Ok(key);
        }
        let aside = files::quarantine(path).map_err(failed("put aside"))?;
        tracing::error!(
            path = %path.display(), aside = %aside.display(),
            "the mesh key is damaged; a new one is made, and peers hear of it by the server"
        );
        Self::make(path)
    }

    /// What others may know of it.
    pub fn public(&self) -> PublicKey {
        PublicKey(x25519_dalek::PublicKey::from(&self.0).to_bytes())
    }

    /// For the interface alone.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    /// From an interface, or from the file.
    pub(super) fn new(mut bytes: [u8; 32]) -> Self {
        // As WireGuard itself does, so that the bytes of equal keys are equal.
        bytes[0] &= 0b1111_1000;
        bytes[31] = bytes[31] & 0b0111_1111 | 0b0100_0000;
        Self(StaticSecret::from(bytes))
    }

    fn make(path: &Path) -> Result<Self, KeyError> {
        let key = Self::generate()?;
        let content = BASE64_STANDARD.encode(key.bytes()) + "\n";
        let written = files::replace(path, content.as_bytes());
        written.map_err(|source| KeyError::File { what: "write", path: path.into(), source })?;
        Ok(key)
    }

    fn read(content: &[u8]) -> Option<Self> {
        let bytes = BASE64_STANDARD.decode(content.trim_ascii()).ok()?;
        Some(Self::new(bytes.try_into().ok()?))
    }

    fn hide(path: &Path) -> io::Result<()> {
        let mut permissions = std::fs::metadata(path)?.permissions();
        if permissions.mode() & OTHERS == 0 {
            return Ok(());
        }
        tracing::warn!(path = %path.display(), "others could read the mesh key; now they cannot");
        permissions.set_mode(PRIVATE);
        std::fs::set_permissions(path, permissions)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

#[cfg(test)]
mod tests;
