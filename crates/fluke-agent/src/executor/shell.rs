//! Two command lines: one that tells, one that acts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use fluke_model::task::ShellSpec;
use fluke_model::verdict::{Drift, Output, Verdict};

use super::Executor;
use crate::host::output::{Secrets, last_lines};
use crate::host::process::{Command, End, Finished, Leftovers};
use crate::host::{Host, users};
use crate::state::processing::Applied;

/// How many lines of a check's output a reason shows.
const SHOWN_LINES: usize = 3;

/// Runs command lines under a shell.
#[derive(Debug)]
pub(super) struct Shell {
    program: String,
    own_user: String,
    pub(super) users: users::Known,
    host: Host,
}

/// A command line, ready to run.
struct Prepared {
    command: Command,
    secrets: Secrets,
    through_sudo: bool,
}

impl Shell {
    pub(super) fn new(program: String, own_user: String, host: Host) -> Self {
        Self { program, own_user, users: users::Known::default(), host }
    }

    /// Runs one command line of `spec`; what it printed comes back masked.
    async fn run(
        &self,
        spec: &ShellSpec,
        line: &str,
        within: Duration,
        leftovers: Leftovers,
    ) -> Result<Finished, String> {
        // Looking up a user can take as long as somebody's directory service.
        let prepared = tokio::time::timeout(within, self.prepare(spec, line)).await;
        let prepared = prepared.map_err(|_| "looking up the user took too long".to_owned())??;
        let ran = self.host.run(prepared.command, within, leftovers).await;
        let ran = ran.map_err(|error| explain(spec, error.to_string()))?;
        let finished = Finished { end: ran.end, output: prepared.secrets.mask(ran.output) };
        match refused_by_sudo(prepared.through_sudo, &finished) {
            Some(refusal) => Err(refusal),
            None => Ok(finished),
        }
    }

    async fn prepare(&self, spec: &ShellSpec, line: &str) -> Result<Prepared, String> {
        let mut own = Vec::with_capacity(spec.env.len());
        let mut taken = Vec::new();
        for (key, value) in &spec.env {
            let expanded =
                self.host.environment.expand(key, value).map_err(|error| error.to_string())?;
            taken.extend(expanded.taken);
            own.push((OsString::from(key), expanded.value));
        }
        let secrets = Secrets::new(taken.iter().map(|value| value.as_bytes()));
        let other = spec.run_as.as_deref().filter(|user| *user != self.own_user);
        let (command, through_sudo) = match other {
            None => (self.shell(spec, line), false),
            Some(user) if users::is_root() => (self.shell_as(user, spec, line).await?, false),
            Some(user) => (self.shell_through_sudo(user, spec, line).await?, true),
        };
        Ok(Prepared { command: command.envs(own), secrets, through_sudo })
    }

    fn shell(&self, spec: &ShellSpec, line: &str) -> Command {
        self.host.command(&self.program, self.dir(spec)).args(["-c", line])
    }

    async fn shell_as(&self, user: &str, spec: &ShellSpec, line: &str) -> Result<Command, String> {
        let identity = self.users.look_up(user).await.map_err(|error| error.to_string())?;
        let known = [
            ("HOME", identity.home.clone().into_os_string()),
            ("SHELL", identity.shell.clone().into_os_string()),
            ("USER", OsString::from(&identity.name)),
            ("LOGNAME", OsString::from(&identity.name)),
        ];
        Ok(self.shell(spec, line).envs(known).identity(identity))
    }

    async fn shell_through_sudo(
        &self,
        user: &str,
        spec: &ShellSpec,
        line: &str,
    ) -> Result<Command, String> {
        self.users.look_up(user).await.map_err(|error| error.to_string())?;
        let sudo = self.host.find_program("sudo", &[]).ok_or_else(|| {
            format!(
                "cannot run as `{user}`: this agent runs as `{}`, not as root, and there is no \
                 sudo in its PATH",
                self.own_user
            )
        })?;
        let deputy = ["-n", "-u", user, "--"].map(OsString::from);
        let deputy = std::iter::once(sudo.clone().into()).chain(deputy).collect();
        let mut args = ["-n", "-H", "-u", user].map(str::to_owned).to_vec();
        if !spec.env.is_empty() {
            // By name only: values on a command line could be read by anybody.
            let names: Vec<&str> = spec.env.keys().map(String::as_str).collect();
            args.push(format!("--preserve-env={}", names.join(",")));
        }
        args.extend(["--", &self.program, "-c", line].map(str::to_owned));
        Ok(self.host.command(sudo, self.dir(spec)).args(args).deputy(deputy))
    }

    fn dir(&self, spec: &ShellSpec) -> std::path::PathBuf {
        spec.working_dir.as_ref().map_or_else(|| self.host.home.clone(), Into::into)
    }
}

impl Executor for Shell {
    type Spec = ShellSpec;

    async fn check(&self, spec: &ShellSpec, within: Duration) -> Verdict {
        match self.run(spec, &spec.check, within, Leftovers::Kill).await {
            Ok(finished) => judge("check", &finished, within),
            Err(reason) => Verdict::Error { reason },
        }
    }

    async fn apply(&self, spec: &ShellSpec, _: &Drift, within: Duration) -> Applied {
        match self.run(spec, &spec.command, within, Leftovers::Leave).await {
            Ok(finished) => conclude("command", finished, within),
            Err(reason) => Applied::Failed(Output::from_text(reason)),
        }
    }
}

/// Reads a verdict from how a check ended: exit 0 is yes, any other end by itself is no.
pub(super) fn judge(what: &str, finished: &Finished, within: Duration) -> Verdict {
    match finished.end {
        End::Exited(0) => Verdict::Satisfied,
        End::Exited(_) | End::Signalled(_) => {
            Verdict::Drifted(Drift::because(reason(what, finished, within)))
        }
        End::TimedOut | End::Stopped => Verdict::Error { reason: reason(what, finished, within) },
    }
}

/// Reads how an apply went from how its command ended; a failure is told behind the output.
pub(super) fn conclude(what: &str, finished: Finished, within: Duration) -> Applied {
    let ending = ending(what, finished.end, within);
    let mut output = finished.output;
    if finished.end != End::Exited(0) {
        if output.tail.last().is_some_and(|last| *last != b'\n') {
            output.tail.push(b'\n');
        }
        output.tail.extend_from_slice(format!("[{ending}]\n").as_bytes());
        output.trim();
    }
    match finished.end {
        End::Exited(0) => Applied::Done(output),
        End::Stopped => Applied::Interrupted(output),
        End::Exited(_) | End::Signalled(_) | End::TimedOut => Applied::Failed(output),
    }
}

/// How something ended, and the last it said.
pub(super) fn reason(what: &str, finished: &Finished, within: Duration) -> String {
    let ending = ending(what, finished.end, within);
    let said = last_lines(&finished.output, SHOWN_LINES);
    match said.lines().count() {
        0 => ending,
        1 => format!("{ending}: {said}"),
        _ => format!("{ending}:\n{said}"),
    }
}

fn ending(what: &str, end: End, within: Duration) -> String {
    match end {
        End::Exited(126) => format!("{what} exited 126 (found, but cannot be executed)"),
        End::Exited(127) => {
            format!("{what} exited 127 (command not found: is it in the agent's PATH?)")
        }
        End::Exited(code) => format!("{what} exited {code}"),
        End::Signalled(number) => match nix::sys::signal::Signal::try_from(number) {
            Ok(signal) => format!("{what} was killed by signal {number} ({signal})"),
            Err(_) => format!("{what} was killed by signal {number}"),
        },
        End::TimedOut => format!(
            "{what} did not end within {} and was killed with all it started",
            seconds(within)
        ),
        End::Stopped => format!("{what} was stopped, because the agent stops"),
    }
}

fn seconds(duration: Duration) -> String {
    match (duration.as_secs(), duration.subsec_millis()) {
        (0, millis) => format!("{millis} ms"),
        (seconds, 0) => format!("{seconds} s"),
        (seconds, millis) => format!("{seconds}.{millis:03} s"),
    }
}

/// What sudo says when it does not let us, which is no answer to the question.
fn refused_by_sudo(through_sudo: bool, finished: &Finished) -> Option<String> {
    // The text of what was printed is made only where somebody may have refused.
    if !through_sudo || finished.end != End::Exited(1) {
        return None;
    }
    let said = last_lines(&finished.output, 1);
    let refused = said.starts_with("sudo: ");
    refused.then(|| format!("{said}; let the agent's user run this with `sudo -n`"))
}

fn explain(spec: &ShellSpec, error: String) -> String {
    match &spec.working_dir {
        Some(dir) if error.contains(dir.as_str()) => {
            format!("{error}; create it in an earlier step, or correct `working_dir`")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
