//! Tasks that the user keeps in `.mise.toml`: mise is asked, and mise runs them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fluke_model::task::MiseSpec;
use fluke_model::verdict::{Drift, Output, Verdict};
use serde::Deserialize;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use super::Executor;
use super::shell::{conclude, judge, reason};
use crate::host::Host;
use crate::host::output::last_lines;
use crate::host::process::{Command, End, Finished, Leftovers, problem_with};
use crate::state::processing::Applied;

mod checkout;

/// How to get what is missing.
const NO_MISE: &str = "there is no mise on this host: looked in the agent's PATH, ~/.local/bin, \
    /usr/local/bin and /usr/bin; install it (https://mise.jdx.dev/installing-mise.html) in an \
    earlier task";

/// Runs mise.
#[derive(Debug)]
pub(super) struct Mise {
    host: Host,
    /// One user at a time for each directory that is kept as a clone.
    clones: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
}

/// What a command of mise is run for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To know something of mise itself.
    Ask,
    /// To run a check, which must change nothing.
    Check,
    /// To change things.
    Apply,
}

/// One step's dealings with mise.
struct Visit<'a> {
    host: &'a Host,
    mise: PathBuf,
    spec: &'a MiseSpec,
    deadline: Instant,
    within: Duration,
}

/// A task as `mise tasks ls --json` shows it.
#[derive(Deserialize)]
struct Listed {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
}

impl Mise {
    pub(super) fn new(host: Host) -> Self {
        Self { host, clones: Mutex::default() }
    }

    fn visit<'a>(&'a self, spec: &'a MiseSpec, within: Duration) -> Result<Visit<'a>, String> {
        let more = [self.host.home.join(".local/bin"), "/usr/local/bin".into(), "/usr/bin".into()];
        let mise = self.host.find_program("mise", &more).ok_or(NO_MISE)?;
        Ok(Visit { host: &self.host, mise, spec, deadline: Instant::now() + within, within })
    }

    /// Keeps others out of a directory that is kept as a clone.
    async fn enter(&self, spec: &MiseSpec) -> Option<OwnedMutexGuard<()>> {
        spec.git.as_ref()?;
        let lock = {
            // A map of locks is sound whatever happened to the thread that held it.
            let mut clones = self.clones.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody uses are of directories that may be gone from the snapshot.
            clones.retain(|_, lock| Arc::strong_count(lock) > 1);
            clones.entry(PathBuf::from(&spec.working_dir)).or_default().clone()
        };
        Some(lock.lock_owned().await)
    }

    async fn try_check(&self, spec: &MiseSpec, within: Duration) -> Result<Verdict, String> {
        let visit = self.visit(spec, within)?;
        if let Some(git) = &spec.git {
            checkout::update(&self.host, Path::new(&spec.working_dir), git, visit.deadline).await?;
        }
        visit.expect_directory()?;
        visit.expect_task(&spec.check_task).await?;
        let finished = visit.run_task(Purpose::Check, &spec.check_task).await?;
        let what = format!("mise task `{}`", spec.check_task);
        let verdict = judge(&what, &without_noise(finished), within);
        if let Verdict::Drifted(_) = verdict {
            // Better known now than when it is needed.
            visit.expect_task(&spec.apply_task).await?;
        }
        Ok(verdict)
    }

    async fn try_apply(&self, spec: &MiseSpec, within: Duration) -> Result<Applied, String> {
        let visit = self.visit(spec, within)?;
        visit.expect_directory()?;
        visit.expect_task(&spec.apply_task).await?;
        let finished = visit.run_task(Purpose::Apply, &spec.apply_task).await?;
        Ok(conclude(&format!("mise task `{}`", spec.apply_task), finished, within))
    }
}

impl Executor for Mise {
    type Spec = MiseSpec;

    async fn check(&self, spec: &MiseSpec, within: Duration) -> Verdict {
        let _alone = self.enter(spec).await;
        self.try_check(spec, within).await.unwrap_or_else(|reason| Verdict::Error { reason })
    }

    async fn apply(&self, spec: &MiseSpec, _: &Drift, within: Duration) -> Applied {
        let _alone = self.enter(spec).await;
        let applied = self.try_apply(spec, within).await;
        applied.unwrap_or_else(|reason| Applied::Failed(Output::from_text(reason)))
    }
}

impl Visit<'_> {
    fn expect_directory(&self) -> Result<(), String> {
        let dir = &self.spec.working_dir;
        match problem_with(Path::new(dir)) {
            Some(problem) => Err(format!(
                "the working directory {dir} {problem}; create it in an earlier step, or correct \
                 `working_dir`"
            )),
            None => Ok(()),
        }
    }

    /// Asks mise whether there is such a task.
    async fn expect_task(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || name.starts_with('-') {
            return Err(format!("`{name}` cannot be the name of a mise task"));
        }
        let asked = self.run(Purpose::Ask, &["tasks", "info", "--json", name]).await?;
        if asked.end == End::Exited(0) {
            return Ok(());
        }
        let listed = self.run(Purpose::Ask, &["tasks", "ls", "--json", "--hidden"]).await?;
        if listed.end != End::Exited(0) {
            // Not about this task: a config that does not parse, or that nobody trusts.
            let failed = reason("`mise tasks ls`", &without_noise(listed), self.within);
            return Err(format!("{failed} (in {})", self.spec.working_dir));
        }
        let names = names(&listed.output);
        if names.iter().any(|known| known == name) {
            return Ok(());
        }
        Err(self.unknown_task(name, &names))
    }

    fn unknown_task(&self, name: &str, names: &[String]) -> String {
        let dir = &self.spec.working_dir;
        let mut text = format!("mise knows no task `{name}` in {dir}");
        let near = names.iter().map(|known| (strsim::jaro_winkler(name, known), known));
        let nearest = near.filter(|(likeness, _)| *likeness > 0.8);
        match nearest.max_by(|(a, _), (b, _)| a.total_cmp(b)) {
            Some((_, known)) => text.push_str(&format!("; did you mean `{known}`?")),
            None if names.is_empty() => text.push_str("; it knows none there"),
            None => text.push_str(&format!("; it knows {}", shown(names))),
        }
        text
    }

    async fn run_task(&self, purpose: Purpose, name: &str) -> Result<Finished, String> {
        match purpose {
            // What a check prints becomes a reason, so mise itself should be quiet.
            Purpose::Check => self.run(purpose, &["run", "--quiet", name]).await,
            _ => self.run(purpose, &["run", name]).await,
        }
    }

    async fn run(&self, purpose: Purpose, args: &[&str]) -> Result<Finished, String> {
        let command = self.host.command(&self.mise, &self.spec.working_dir).args(args);
        let command = self.environment(command, purpose);
        let left = self.deadline.saturating_duration_since(Instant::now());
        let leftovers = match purpose {
            Purpose::Apply => Leftovers::Leave,
            Purpose::Ask | Purpose::Check => Leftovers::Kill,
        };
        self.host.run(command, left, leftovers).await.map_err(|error| error.to_string())
    }

    /// Trusts exactly this directory, and asks nobody anything.
    fn environment(&self, command: Command, purpose: Purpose) -> Command {
        let flag = |on: bool| OsString::from(if on { "1" } else { "0" });
        let command = command.envs([
            ("MISE_TRUSTED_CONFIG_PATHS", self.trusted()),
            // While asking, a yes would trust the configs of directories above as well.
            ("MISE_YES", flag(purpose != Purpose::Ask)),
        ]);
        if purpose == Purpose::Apply {
            return command;
        }
        command
            .envs([("MISE_AUTO_INSTALL", flag(false)), ("MISE_TASK_RUN_AUTO_INSTALL", flag(false))])
    }

    fn trusted(&self) -> OsString {
        let dir = PathBuf::from(&self.spec.working_dir);
        let mut paths = vec![dir.clone()];
        // mise compares what links lead to.
        paths.extend(std::fs::canonicalize(&dir).ok().filter(|real| *real != dir));
        if let Some(set) = self.host.environment.get("MISE_TRUSTED_CONFIG_PATHS") {
            paths.extend(std::env::split_paths(set));
        }
        std::env::join_paths(paths).unwrap_or_else(|_| dir.into_os_string())
    }
}

/// Task names and aliases from what `mise tasks ls --json` printed, warnings and all.
fn names(output: &Output) -> Vec<String> {
    let text = output.text();
    let starts = text.match_indices('[').map(|(at, _)| at);
    let starts = starts.filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n');
    let lists = starts.filter_map(|at| {
        let values = serde_json::Deserializer::from_str(&text[at..]);
        values.into_iter::<Vec<Listed>>().next()?.ok()
    });
    let tasks = lists.max_by_key(Vec::len).unwrap_or_default();
    tasks.into_iter().flat_map(|task| std::iter::once(task.name).chain(task.aliases)).collect()
}

fn shown(names: &[String]) -> String {
    const MOST: usize = 8;
    let quoted: Vec<String> = names.iter().take(MOST).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(MOST);
    if more == 0 { quoted.join(", ") } else { format!("{} and {more} more", quoted.join(", ")) }
}

/// Takes off what mise adds behind a failure, so that a reason shows what the task said.
fn without_noise(finished: Finished) -> Finished {
    const NOISE: [&str; 3] =
        ["ERROR task failed", "mise ERROR Version: ", "mise ERROR Run with --verbose"];
    let mut output = finished.output;
    while let last = last_lines(&output, 1)
        && NOISE.iter().any(|noise| last.contains(noise))
    {
        let end = output.tail.trim_ascii_end().len();
        let line = output.tail[..end].iter().rposition(|byte| *byte == b'\n');
        output.tail.truncate(line.map_or(0, |at| at + 1));
    }
    Finished { end: finished.end, output }
}

#[cfg(test)]
mod tests;
