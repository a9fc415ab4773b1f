//! An agent that becomes another one in the same process: with a new program, a new config, or
//! both. Whoever watches the process, systemd for one, notices nothing.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fluke_model::id::Hash256;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::loading;
use crate::cli::AgentArgs;
use crate::config::variables::{Variables, was_in_file};
use crate::program::{Program, ProgramError, try_out};

/// How long processes that were killed may take to be gone.
const BURIAL: Duration = Duration::from_secs(1);

/// Which file a program is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    /// What is at `path` now.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// The program that runs here, and where its successor will be.
pub struct Myself {
    program: PathBuf,
    identity: Option<Identity>,
}

impl Myself {
    /// To be asked early: a file that was replaced has lost its name.
    pub fn now() -> Self {
        let running = Identity::of(Path::new("/proc/self/exe"));
        // As it was called, if that is it: what it is called may be a link that is moved on.
        let called = std::env::args_os().next().map(PathBuf::from).filter(|path| {
            path.is_absolute() && Identity::of(path) == running && running.is_some()
        });
        let program = called.or_else(|| std::env::current_exe().ok());
        Self { program: program.unwrap_or_else(|| "/proc/self/exe".into()), identity: running }
    }

    /// Where it was started from.
    pub fn program(&self) -> &Path {
        &self.program
    }

    fn is_replaced(&self) -> bool {
        Identity::of(&self.program) != self.identity
    }

    /// Runs the program in place of this one, with the same arguments. Returns only if that fails.
    pub fn succeed(&self, variables: &[(String, String)]) -> io::Error {
        bury_children();
        let was = hang_up_means_nothing();
        let failed = exec(&self.program, variables);
        restore(was);
        failed
    }
}

/// What the agent that runs was made from, besides its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footing {
    config: Option<Hash256>,
    variables: Variables,
}

impl Footing {
    /// A config file's content, and the variables it may refer to.
    pub fn new(config: Option<Hash256>, variables: Variables) -> Self {
        Self { config, variables }
    }
}

/// What is new on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct News {
    program: bool,
    settings: bool,
}

/// Whether there is something new on disk that can be used. What cannot is told, and changes
/// nothing.
pub async fn is_due(args: &AgentArgs, myself: &Myself, footing: &Footing) -> bool {
    let loaded = match loading::load(args) {
        Ok(loaded) => loaded,
        Err(error) => {
            let why = error.one_line();
            tracing::error!(why, "the config cannot be used; the agent goes on with the old one");
            return false;
        }
    };
    let news = News { program: myself.is_replaced(), settings: loaded.footing != *footing };
    if news.program
        && let Err(error) = rehearse(args, myself.program(), &loaded.footing.variables).await
    {
        let why = crate::failure::Failure::from_error(&error).text().trim().replace('\n', "; ");
        tracing::error!(program = %myself.program().display(), why,
            "the new program cannot be used; this one goes on");
        return false;
    }
    match news {
        News { program: false, settings: false } => {
            tracing::info!("told to reload, and nothing has changed");
        }
        News { program, settings } => tracing::info!(program, settings, "reloading"),
    }
    news.program || news.settings
}

/// Sees whether the new program runs here, and takes the config that there is.
async fn rehearse(
    args: &AgentArgs,
    program: &Path,
    variables: &Variables,
) -> Result<(), ProgramError> {
    let version = try_out(program).await?;
    if let Some(config) = &args.config {
        let config = config.to_string_lossy();
        let variables = variables.pairs().iter().map(|(name, value)| (&**name, &**value));
        Program::new(program, &["validate", &config]).with(variables).output().await?;
    }
    tracing::info!(version, program = %program.display(), "there is a new program");
    Ok(())
}

/// What was killed and not waited for would stay a zombie for as long as the successor lives.
fn bury_children() {
    let patience = Instant::now() + BURIAL;
    while Instant::now() < patience {
        match waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(5)),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Until the successor listens, a second hang-up would end it: that is what it means by default,
/// and handlers do not outlive an exec. What is ignored does.
fn hang_up_means_nothing() -> Option<SigAction> {
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    set(&ignore)
}

fn restore(was: Option<SigAction>) {
    was.map(|was| set(&was));
}

#[expect(unsafe_code, reason = "how a signal is taken can only be said to the kernel")]
fn set(action: &SigAction) -> Option<SigAction> {
    // SAFETY: the action is to ignore, or the one that was in place before: no handler of ours.
    unsafe { sigaction(Signal::SIGHUP, action) }.ok()
}

fn exec(program: &Path, variables: &[(String, String)]) -> io::Error {
    let prepared = || -> io::Result<_> {
        let program = c_string(program.as_os_str().to_owned())?;
        let arguments = std::env::args_os().map(c_string).collect::<io::Result<Vec<_>>>()?;
        let is_of_file = |name: &OsString| {
            name.to_str().is_some_and(was_in_file)
                || variables.iter().any(|(changed, _)| name == changed.as_str())
        };
        let kept = std::env::vars_os().filter(|(name, _)| !is_of_file(name));
        let changed = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let entry = |(mut name, value): (OsString, OsString)| {
            name.push("=");
            name.push(value);
            c_string(name)
        };
        let variables = kept.chain(changed).map(entry).collect::<io::Result<Vec<_>>>()?;
        Ok((program, arguments, variables))
    };
    match prepared() {
        Err(error) => error,
        Ok((program, arguments, variables)) => {
            // Everything this program opened closes by itself; so do its threads.
            match nix::unistd::execve(&program, &arguments, &variables) {
                Err(error) => error.into(),
                Ok(never) => match never {},
            }
        }
    }
}

fn c_string(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec()).map_err(io::Error::other)
}
