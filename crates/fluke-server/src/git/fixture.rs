//! Real repositories for tests, and a server for them.

pub(crate) mod forge;

use std::path::{Path, PathBuf};
use std::process::Command;

use fluke_model::id::CommitId;
use tempfile::TempDir;

use super::{Branch, GitConfig, RemoteUrl};

/// A repository with a work tree on branch `main`, and room for a mirror beside it.
pub(crate) struct Repository {
    root: TempDir,
}

impl Repository {
    pub(crate) fn empty() -> Self {
        let repository = Self { root: TempDir::new().expect("a temporary directory") };
        std::fs::create_dir(repository.path()).expect("a directory");
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }

    pub(crate) fn with(path: &str, content: &str) -> Self {
        let repository = Self::empty();
        repository.commit(path, content);
        repository
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.root.path().join("cache")
    }

    /// A place for canaries and keys.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn config(&self) -> GitConfig {
        self.config_for(self.path().to_str().expect("a plain path"))
    }

    pub(crate) fn config_for(&self, url: &str) -> GitConfig {
        let url = RemoteUrl::parse(url).expect("an address");
        GitConfig::new(url, Branch::parse("main").expect("a branch"), self.cache())
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, content).expect("a file");
    }

    pub(crate) fn commit(&self, path: &str, content: &str) -> CommitId {
        self.write(path, content);
        self.commit_all()
    }

    pub(crate) fn commit_all(&self) -> CommitId {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=change"]);
        self.head()
    }

    pub(crate) fn head(&self) -> CommitId {
        CommitId::new(self.git(&["rev-parse", "HEAD"]).trim())
    }

    /// Takes the repository away, and gives it back.
    pub(crate) fn hide(&self) {
        std::fs::rename(self.path(), self.beside("hidden")).expect("renamed");
    }

    pub(crate) fn show(&self) {
        std::fs::rename(self.beside("hidden"), self.path()).expect("renamed");
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.path(), arguments)
    }
}

pub(crate) fn git_in(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").expect("a PATH"))
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@example.org")])
        .envs([("GIT_COMMITTER_NAME", "C"), ("GIT_COMMITTER_EMAIL", "c@example.org")])
        .output()
        .expect("git runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
