//! A large repository to measure with: thousands of tasks with ten steps each, for a thousand hosts.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fluke_manifest::{DEFAULT_GLOB, Loader};
use fluke_model::label::Labels;
use fluke_server::git::{Branch, Checkout, GitConfig, Mirror, RemoteUrl};

use crate::command::ran;
use crate::folder::folder;
use crate::row::Trouble;
use tempfile::TempDir;

/// Steps of a task.
pub const STEPS: usize = 10;
/// Hosts that tasks are spread over.
pub const HOSTS: usize = 1000;

/// A repository's content.
#[derive(Debug, Clone)]
pub struct Estate {
    tasks: usize,
    /// The task that is another one than before, if any, and how often it has changed.
    changed: Option<(usize, usize)>,
}

impl Estate {
    /// So many tasks, each in a file of its own.
    pub fn new(tasks: usize) -> Self {
        Self { tasks, changed: None }
    }

    /// The same, with one task changed for the so-many-th time.
    pub fn with_change(&self, task: usize, times: usize) -> Self {
        Self { tasks: self.tasks, changed: Some((task, times)) }
    }

    /// Paths and texts.
    pub fn files(&self) -> Vec<(String, String)> {
        let task = |number| {
            let changed = self.changed.filter(|(task, _)| *task == number);
            (path(number), manifest(number, changed.map_or(0, |(_, times)| times)))
        };
        let base = ("base.fluke.hcl".to_string(), "locals {\n  root = \"/opt/app\"\n}\n".into());
        (0..self.tasks).map(task).chain([base]).collect()
    }

    /// The file of one task.
    pub fn file(&self, number: usize) -> Vec<(String, String)> {
        let wanted = path(number);
        self.files().into_iter().filter(|(path, _)| *path == wanted).collect()
    }

    /// A bare repository with all of it, and a mirror of that.
    pub fn cloned(&self) -> Result<Clone, Trouble> {
        let folder = folder()?;
        let clone = Clone { folder };
        ran(Command::new("git").args(["init", "--quiet", "--bare"]).arg(clone.origin()))?;
        clone.commit(&self.files())?;
        clone.opened()?.checkout()?;
        Ok(clone)
    }
}

fn path(number: usize) -> String {
    format!("tasks/{:03}/{number:05}.fluke.hcl", number / 100)
}

fn manifest(number: usize, release: usize) -> String {
    let step = |step| {
        let file = format!("${{local.root}}/{number}-{step}-{release}");
        format!(
            "  shell \"step-{step}\" {{\n    check   = \"test -f {file}\"\n    command = \"touch {file}\"\n  }}\n"
        )
    };
    let steps: String = (0..STEPS).map(step).collect();
    let host = number % HOSTS;
    format!(
        "# Task {number}\ntask \"task-{number}\" {{\n  description = \"Number {number}\"\n\n  \
         selector {{\n    match_labels = {{ host = \"h{host}\" }}\n  }}\n\n{steps}}}\n"
    )
}

/// The labels of every host.
pub fn hosts() -> Result<Vec<Labels>, Trouble> {
    let labels = |number| {
        let pair = Labels::parse_pair(&format!("host=h{number}"));
        let pair = pair.map_err(|error| Trouble::failed("make a label", error))?;
        Ok(Labels([pair].into()))
    };
    (0..HOSTS).map(labels).collect()
}

/// What reads manifests, and knows none yet.
pub fn loader() -> Result<Loader, Trouble> {
    Loader::new(DEFAULT_GLOB).map_err(|error| Trouble::failed("read the usual glob", error))
}

/// A bare repository and a mirror of it, in a temporary folder.
pub struct Clone {
    folder: TempDir,
}

impl Clone {
    /// The repository that is mirrored.
    pub fn origin(&self) -> PathBuf {
        self.folder.path().join("origin.git")
    }

    /// Commits these files on top, the others staying as they are. No work tree is needed.
    pub fn commit(&self, files: &[(String, String)]) -> Result<(), Trouble> {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.origin()).args(["fast-import", "--quiet", "--force"]);
        let failed = |error| Trouble::failed("commit the estate", error);
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(failed)?;
        let exists = self.origin().join("refs/heads/main").exists();
        let script = script(files, exists);
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(script.as_bytes()).map_err(failed)?;
        }
        match child.wait().map_err(failed)?.success() {
            true => Ok(()),
            false => Err(Trouble::failed("commit the estate", "git fast-import said no")),
        }
    }

    /// The mirror, as a server that starts opens it.
    pub fn opened(&self) -> Result<Opened, Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("open the mirror", error);
        let url = RemoteUrl::parse(&self.origin().display().to_string());
        let url = url.map_err(|error| failed(&error))?;
        let branch = Branch::parse("main").map_err(|error| failed(&error))?;
        let mirror = Mirror::new(GitConfig::new(url, branch, self.folder.path().join("cache")));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        Ok(Opened { mirror, runtime })
    }

    /// Reads every blob of the commit with git alone.
    pub fn reads_blobs(&self) -> Result<(), Trouble> {
        let line = "git ls-tree -r --object-only main | git cat-file --batch >/dev/null";
        ran(Command::new("sh").args(["-c", line]).current_dir(self.origin()))
    }
}

/// What `git fast-import` is told.
fn script(files: &[(String, String)], exists: bool) -> String {
    let from = if exists { "from refs/heads/main^0\n" } else { "" };
    let who = "committer Bench <bench@example.org> 1700000000 +0000";
    let mut script = format!("commit refs/heads/main\n{who}\ndata 1\nx\n{from}");
    for (path, text) in files {
        script += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
    }
    script
}

/// A mirror that is looked at.
pub struct Opened {
    mirror: Mirror,
    runtime: tokio::runtime::Runtime,
}

impl Opened {
    /// The newest commit with its manifests read ahead.
    pub fn checkout(&mut self) -> Result<Checkout, Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("read the mirror", error);
        let checkout = self.runtime.block_on(self.mirror.checkout(None));
        let checkout = checkout.map_err(|error| failed(&error))?;
        checkout.ok_or_else(|| failed(&"it has no commit"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estate_is_valid_and_every_host_has_its_share() {
        let tree = fluke_manifest::tree::MemoryTree::new(Estate::new(2 * HOSTS).files());
        let model = loader().expect("a glob").load(&tree).model.expect("valid");
        assert_eq!(model.tasks.len(), 2 * HOSTS);
        let compiler =
            fluke_model::snapshot::Compiler::new(&model, fluke_model::policy::Policy::Remediate);
        for host in hosts().expect("labels").iter().take(10) {
            assert_eq!(compiler.snapshot(host).step_count(), 2 * STEPS);
        }
    }

    #[test]
    fn a_change_changes_one_file() {
        let (before, after) = (Estate::new(50), Estate::new(50).with_change(7, 1));
        let changed: Vec<_> =
            before.files().into_iter().zip(after.files()).filter(|(a, b)| a != b).collect();
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].0.0, path(7));
    }

    #[test]
    fn a_clone_is_read_back_whole_and_follows_its_origin() {
        let estate = Estate::new(20);
        let clone = estate.cloned().expect("a clone");
        clone.reads_blobs().expect("blobs");
        let changed = estate.with_change(3, 1);
        clone.commit(&changed.files()).expect("a commit");
        let tree = clone.opened().expect("a mirror").checkout().expect("a commit").tree;
        let read = loader().expect("a glob").load(&tree).model.expect("valid");
        let meant = fluke_manifest::tree::MemoryTree::new(changed.files());
        let meant = loader().expect("a glob").load(&meant).model.expect("valid");
        assert_eq!(read.tasks, meant.tasks);
    }
}
