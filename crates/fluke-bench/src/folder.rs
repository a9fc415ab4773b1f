//! A folder that goes with the value.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::row::Trouble;

/// A temporary folder.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new one, which nobody else has.
    pub fn new() -> Result<Self, Trouble> {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("fluke-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Not where somebody else has put something: it would be theirs.
        let made = std::fs::create_dir(&path);
        made.map_err(|error| Trouble::failed(format!("make {}", path.display()), error))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_one_s_own_and_go() {
        let (one, other) = (Folder::new().expect("one"), Folder::new().expect("another"));
        let path = one.path().to_path_buf();
        assert!(path.is_dir() && path != other.path());
        std::fs::write(path.join("file"), "x").expect("room");
        drop(one);
        assert!(!path.exists());
    }
}
