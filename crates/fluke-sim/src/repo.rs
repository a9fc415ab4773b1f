//! The repository: commits of real manifests, good and bad, without Git.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluke_manifest::tree::MemoryTree;
use fluke_manifest::{DEFAULT_GLOB, Loader};
use fluke_model::policy::Policy;
use fluke_model::snapshot::Model;
use fluke_model::task::ExecutorSpec;

use crate::dice::Dice;
use crate::trace::Said;

/// What a commit does to the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A task wants something else of its hosts.
    Task(usize),
    /// A task comes, or goes.
    Toggle(usize),
    /// A task has another policy.
    Policy(usize),
    /// Nothing of what hosts should be.
    Nothing,
    /// Nothing can be read any more.
    Broken,
    /// Every manifest is gone.
    Empty,
    /// The branch is set back to where it once was.
    Force(usize),
}

/// One task, as it is written down.
#[derive(Debug, Clone)]
struct Line {
    steps: usize,
    role: Option<&'static str>,
    policy: Policy,
    carries_on: bool,
    version: u64,
    there: bool,
}

/// One commit.
#[derive(Debug, Clone)]
pub struct Commit {
    /// Forty characters, as Git's.
    pub id: String,
    /// The one manifest.
    pub text: String,
    lines: Vec<Line>,
    broken: bool,
}

/// The branch that servers follow. Clones share it.
#[derive(Debug, Clone)]
pub struct Repo(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    commits: Vec<Commit>,
    head: usize,
    versions: u64,
    reachable: bool,
}

impl Repo {
    /// A first, good commit.
    pub fn new(dice: &Dice) -> Self {
        let tasks = 1 + dice.below(4);
        let line = |_| Line {
            steps: 1 + dice.below(3) as usize,
            role: dice.one_of(&[None, None, Some("web"), Some("db")]),
            policy: dice.one_of(&[
                Policy::Remediate,
                Policy::Remediate,
                Policy::RemediateAndAlert,
                Policy::AlertOnly,
            ]),
            carries_on: dice.chance(40),
            version: 0,
            there: true,
        };
        let lines: Vec<_> = (0..tasks).map(line).collect();
        let first = commit(0, lines, false);
        let inner = Inner { commits: vec![first], head: 0, versions: 0, reachable: true };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// Makes a commit, or moves the branch.
    pub fn change(&self, change: Change) {
        let mut inner = self.lock();
        inner.versions += 1;
        let version = inner.versions;
        let mut lines = inner.commits[inner.head].lines.clone();
        let mut broken = false;
        let count = lines.len().max(1);
        match change {
            Change::Task(task) => lines[task % count].version = version,
            Change::Toggle(task) => lines[task % count].there ^= true,
            Change::Policy(task) => {
                let line = &mut lines[task % count];
                let at = Policy::ALL.iter().position(|policy| *policy == line.policy);
                line.policy = Policy::ALL[(at.unwrap_or(0) + 1) % Policy::ALL.len()];
            }
            Change::Nothing => {}
            Change::Broken => broken = true,
            Change::Empty => lines.iter_mut().for_each(|line| line.there = false),
            Change::Force(back) => {
                inner.head = inner.head.saturating_sub(1 + back % 3);
                return;
            }
        }
        let next = commit(inner.commits.len(), lines, broken);
        inner.commits.push(next);
        inner.head = inner.commits.len() - 1;
    }

    /// A good commit follows if the branch points to a bad one.
    pub fn mend(&self) {
        let is_broken = {
            let inner = self.lock();
            inner.commits[inner.head].broken
        };
        if is_broken {
            self.change(Change::Nothing);
        }
    }

    /// A step that the branch once had, by any numbers.
    pub fn step(&self, task: usize, step: usize) -> String {
        let inner = self.lock();
        let lines = &inner.commits[inner.head].lines;
        let task = task % lines.len().max(1);
        format!("t{task}/s{}", step % lines[task].steps)
    }

    /// Whether servers can read it.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().reachable = reachable;
    }

    /// The newest commit of the branch, if it can be had.
    pub fn head(&self) -> Option<Commit> {
        let inner = self.lock();
        inner.reachable.then(|| inner.commits[inner.head].clone())
    }

    /// What each good commit said.
    pub fn said(&self) -> BTreeMap<String, Said> {
        let commits = self.lock().commits.clone();
        let good = commits.iter().filter(|commit| !commit.broken);
        good.filter_map(|commit| Some((commit.id.clone(), said(&commit.load()?)))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commit {
    /// What it says; none if it is broken.
    pub fn load(&self) -> Option<Model> {
        Loader::new(DEFAULT_GLOB).ok()?.load(&self.tree()).model
    }

    /// Its files.
    pub fn tree(&self) -> MemoryTree {
        MemoryTree::new([("site.fluke.hcl", &self.text)])
    }
}

fn commit(number: usize, lines: Vec<Line>, broken: bool) -> Commit {
    let mut text = format!("# commit {number}\n");
    for (task, line) in lines.iter().enumerate().filter(|(_, line)| line.there) {
        write_task(&mut text, task, line);
    }
    if broken {
        text.push_str("task \"half\" {\n");
    }
    Commit { id: format!("{number:04x}{}", "c".repeat(36)), text, lines, broken }
}

fn write_task(text: &mut String, task: usize, line: &Line) {
    let labels = match line.role {
        Some(role) => format!("{{ role = \"{role}\" }}"),
        None => "{}".to_owned(),
    };
    let policy = line.policy.as_str();
    let _ = write!(
        text,
        "task \"t{task}\" {{\n  drift {{\n    policy = \"{policy}\"\n  }}\n  selector {{\n    \
         match_labels = {labels}\n  }}\n"
    );
    let on_failure = if line.carries_on { "continue" } else { "abort" };
    for step in 0..line.steps {
        let wanted = format!("t{task}/s{step} v{}", line.version);
        let _ = write!(
            text,
            "  shell \"s{step}\" {{\n    check = \"is {wanted}\"\n    command = \"set {wanted}\"\n    \
             on_failure = \"{on_failure}\"\n  }}\n"
        );
    }
    text.push_str("}\n");
}

/// Key and value of a step, from its command line.
pub fn wanted(spec: &ExecutorSpec) -> Option<(&str, &str)> {
    let ExecutorSpec::Shell(spec) = spec else { return None };
    spec.check.strip_prefix("is ")?.split_once(' ')
}

fn said(model: &Model) -> Said {
    let mut said = Said::default();
    for (name, task) in &model.tasks {
        said.policies.insert(name.to_string(), task.policy.unwrap_or_default());
        let steps = task.steps.iter().filter_map(|step| wanted(&step.spec));
        said.values.extend(steps.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
    said
}
