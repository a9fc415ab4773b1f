//! A real Git repository that a story commits to.

use std::path::{Path, PathBuf};
use std::process::Command;

use fluke_model::id::CommitId;

/// A real Git repository, with a work tree.
pub struct Repository {
    path: PathBuf,
}

impl Repository {
    /// An empty one, without a commit.
    pub fn new(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).expect("a folder");
        let repository = Self { path };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    /// Where it is; servers on this machine clone from there.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the files, and commits everything.
    pub fn commit(&self, message: &str, files: &[(&str, &str)]) -> CommitId {
        for (name, text) in files {
            let path = self.path.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a file is written");
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head()
    }

    /// The newest commit.
    pub fn head(&self) -> CommitId {
        CommitId::new(self.git(&["rev-parse", "HEAD"]).trim())
    }

    /// Runs git in it, whatever the user's own settings are.
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("-C")
            .arg(&self.path)
            .args(["-c", "user.name=Story", "-c", "user.email=story@example.org"])
            .args(["-c", "commit.gpgSign=false"])
            .args(arguments)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }
}
