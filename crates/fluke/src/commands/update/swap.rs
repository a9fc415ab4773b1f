//! One program in the place of another, so that at every moment there is one.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fluke_model::id::Hash256;
use sha2::{Digest, Sha256};

/// What became of a program's place.
#[derive(Debug, PartialEq, Eq)]
pub enum Swap {
    /// It held this program already.
    Same,
    /// It holds another one.
    Changed {
        /// What that says of itself.
        version: String,
    },
}

/// A program, and what is kept beside it.
#[derive(Debug, Clone)]
pub struct Beside {
    program: PathBuf,
}

impl Beside {
    /// Links are followed: it is the file that is replaced.
    pub fn of(program: &Path) -> Self {
        let real = std::fs::canonicalize(program);
        Self { program: real.unwrap_or_else(|_| program.to_path_buf()) }
    }

    /// The program itself.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The one that was there before.
    pub fn previous(&self) -> PathBuf {
        previous_of(&self.program)
    }

    fn named(&self, suffix: &str) -> PathBuf {
        named(&self.program, suffix)
    }

    /// Whether the program has this content.
    pub fn is(&self, hash: &Hash256) -> bool {
        hash_of(&self.program).is_ok_and(|own| own == *hash)
    }

    /// A file to write a new program to; gone again unless it takes the place.
    pub fn candidate(&self) -> io::Result<Candidate> {
        let path = self.named(&format!(".new-{}", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o700)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(&path)?;
        Ok(Candidate { beside: self.clone(), path, file: Some(file), hash: Sha256::new() })
    }

    /// Swaps the program and the one before it.
    pub fn exchange(&self) -> io::Result<()> {
        let aside = self.named(".aside");
        remove(&aside)?;
        std::fs::hard_link(&self.program, &aside)?;
        std::fs::rename(self.previous(), &self.program)?;
        std::fs::rename(&aside, self.previous())?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(self.program.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

/// A new program that is not in place yet.
pub struct Candidate {
    beside: Beside,
    path: PathBuf,
    /// None once written: a file that is open for writing cannot be run.
    file: Option<File>,
    hash: Sha256,
}

impl Candidate {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds to it.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// It is complete. Returns its hash.
    pub fn finish(&mut self) -> io::Result<Hash256> {
        if let Some(file) = self.file.take() {
            let old = std::fs::metadata(&self.beside.program);
            let mode = old.map_or(0o755, |old| old.permissions().mode() & 0o777);
            file.set_permissions(Permissions::from_mode(mode))?;
            file.sync_all()?;
        }
        Ok(finished(std::mem::take(&mut self.hash)))
    }

    /// Replaces the program; the old one is kept as the previous.
    pub fn take_the_place(self) -> io::Result<()> {
        let beside = &self.beside;
        if beside.program.exists() {
            let aside = beside.named(".aside");
            remove(&aside)?;
            std::fs::hard_link(&beside.program, &aside)?;
            std::fs::rename(&aside, beside.previous())?;
        }
        std::fs::rename(&self.path, &beside.program)?;
        beside.sync()
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // In place, it has this name no longer.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Where the program that was in the place of `program` is kept.
pub fn previous_of(program: &Path) -> PathBuf {
    named(program, ".previous")
}

fn named(program: &Path, suffix: &str) -> PathBuf {
    let mut name = program.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    program.with_file_name(name)
}

/// The hash of a file's content.
pub fn hash_of(path: &Path) -> io::Result<Hash256> {
    let (mut file, mut hash, mut part) = (File::open(path)?, Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(finished(hash)),
            read => hash.update(&part[..read]),
        }
    }
}

fn finished(hash: Sha256) -> Hash256 {
    Hash256::from_bytes(hash.finalize().into())
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(beside: &Beside, content: &str) -> Candidate {
        let mut candidate = beside.candidate().expect("room");
        candidate.write(content.as_bytes()).expect("room");
        assert_eq!(candidate.finish().expect("room"), Hash256::of(content.as_bytes()));
        candidate
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap_or_default()
    }

    #[test]
    fn a_program_is_replaced_the_old_one_kept_and_put_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let beside = Beside::of(&dir.path().join("fluke"));
        candidate(&beside, "one").take_the_place().expect("room");
        assert!(!beside.previous().exists(), "there was none");
        candidate(&beside, "two").take_the_place().expect("room");
        candidate(&beside, "three").take_the_place().expect("room");
        let both = || (read(beside.program()), read(&beside.previous()));
        assert_eq!(both(), ("three".into(), "two".into()));
        beside.exchange().expect("room");
        assert_eq!(both(), ("two".into(), "three".into()));
        beside.exchange().expect("room");
        assert_eq!(both(), ("three".into(), "two".into()));
        let mode = std::fs::metadata(beside.program()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 2, "nothing else");
    }

    #[test]
    fn what_does_not_take_the_place_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("fluke");
        std::fs::write(&program, "one").expect("room");
        let beside = Beside::of(&program);
        assert!(beside.is(&Hash256::of(b"one")));
        drop(candidate(&beside, "two"));
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1);
        assert_eq!(read(&program), "one");
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let (real, link) = (dir.path().join("fluke-1"), dir.path().join("fluke"));
        std::fs::write(&real, "one").expect("room");
        std::os::unix::fs::symlink(&real, &link).expect("room");
        candidate(&Beside::of(&link), "two").take_the_place().expect("room");
        assert!(link.is_symlink());
        assert_eq!(read(&real), "two");
    }
}
