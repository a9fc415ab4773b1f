//! How a command becomes a process: without a copy of the agent, or of what it inherits.

use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;

use nix::fcntl::OFlag;
use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::Mode;
use rustix::process::Pid;

use super::Command;
use crate::host::environment::{change, name_and_value};
use crate::host::users::Identity;

/// Has a command begin as the leader of a group of its own: with nothing to read, printing to
/// `output`, no signal blocked, and a broken pipe deadly as everywhere.
///
/// Nothing else that is open here is open there: all of it is closed on exec.
pub(super) fn spawn(command: &Command, output: OwnedFd) -> io::Result<Pid> {
    let variables = variables(command)?;
    match &command.identity {
        None => as_ourselves(command, &variables, &output),
        Some(identity) => as_somebody(identity.clone(), command, &variables, output),
    }
}

/// What the command finds in its environment: what it inherits, but for what is changed for it.
fn variables(command: &Command) -> io::Result<Vec<Cow<'_, CStr>>> {
    let mut variables = command.inherited.entries();
    // What the shell would otherwise have to find out.
    change(&mut variables, "PWD".as_ref(), Some(command.dir.as_os_str()))?;
    for (name, value) in &command.changes {
        change(&mut variables, name, value.as_deref())?;
    }
    Ok(variables)
}

/// Starts it as who the agent is. Memory is shared with the agent until the program is executed.
fn as_ourselves(
    command: &Command,
    variables: &[Cow<'_, CStr>],
    output: &OwnedFd,
) -> io::Result<Pid> {
    let words = std::iter::once(command.program.as_os_str());
    let words = words.chain(command.args.iter().map(|arg| arg.as_os_str()));
    let words: Vec<_> = words.map(c_string).collect::<io::Result<_>>()?;
    let files = files(command, output)?;
    let pid = posix_spawnp(&words[0], &files, &attributes()?, &words, variables)?;
    Ok(Pid::from_raw(pid.as_raw()).ok_or(io::ErrorKind::NotFound)?)
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}

fn attributes() -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
    )?;
    attributes.set_pgroup(nix::unistd::Pid::from_raw(0))?;
    // The agent ignores broken pipes, as every program in Rust, and that would be inherited.
    attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
    attributes.set_sigmask(&SigSet::empty())?;
    Ok(attributes)
}

fn files(command: &Command, output: &OwnedFd) -> io::Result<PosixSpawnFileActions> {
    let mut files = PosixSpawnFileActions::init()?;
    files.add_open(libc::STDIN_FILENO, c"/dev/null", OFlag::O_RDONLY, Mode::empty())?;
    files.add_dup2(output.as_raw_fd(), libc::STDOUT_FILENO)?;
    files.add_dup2(output.as_raw_fd(), libc::STDERR_FILENO)?;
    enter(&mut files, &c_string(command.dir.as_os_str())?)?;
    Ok(files)
}

/// Adds that the child enters `dir`.
#[expect(unsafe_code, reason = "nix has every action but this one")]
fn enter(files: &mut PosixSpawnFileActions, dir: &CStr) -> io::Result<()> {
    let files: *mut PosixSpawnFileActions = files;
    // SAFETY: nix's type is the C type and nothing else (`repr(transparent)`); it was initialised,
    // and is borrowed for us alone. The path is copied.
    let error = unsafe { libc::posix_spawn_file_actions_addchdir_np(files.cast(), dir.as_ptr()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Starts it as somebody else, which only a copy of the agent can become before it executes the
/// program: a fork.
fn as_somebody(
    identity: Arc<Identity>,
    command: &Command,
    variables: &[Cow<'_, CStr>],
    output: OwnedFd,
) -> io::Result<Pid> {
    let mut prepared = std::process::Command::new(&command.program);
    prepared
        .args(&command.args)
        .current_dir(&command.dir)
        .env_clear()
        .envs(variables.iter().map(|entry| name_and_value(entry)))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0);
    drop_privileges(&mut prepared, identity);
    // Whoever has its number reaps it.
    Ok(Pid::from_child(&prepared.spawn()?))
}

/// Makes the child drop to `identity` just before it executes the program.
///
/// After the working directory was entered, so that one which only the agent can enter will do.
#[expect(unsafe_code, reason = "std can set a user, but not his supplementary groups")]
fn drop_privileges(command: &mut std::process::Command, identity: Arc<Identity>) {
    let become_somebody = move || {
        // What is blocked here would otherwise be blocked there: std resets only a broken pipe.
        SigSet::empty().thread_set_mask()?;
        nix::unistd::setgroups(&identity.groups)?;
        nix::unistd::setgid(identity.gid)?;
        nix::unistd::setuid(identity.uid)?;
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe things may happen. The closure makes
    // four system calls over values that it holds; it neither allocates nor locks nor panics.
    unsafe { command.pre_exec(become_somebody) };
}

#[cfg(test)]
mod tests;
