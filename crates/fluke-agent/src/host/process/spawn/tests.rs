//! What a command finds when it begins, whether it was spawned or, for another user, forked.

use super::super::tests::{limits, nobody};
use super::super::{Stop, run};
use super::*;
use crate::host::environment::Environment;
use crate::host::users;

fn command(program: &str, inherited: &[(&str, &str)]) -> Command {
    Command::new(program, "/tmp", &Environment::from_pairs(inherited.iter().copied()))
}

/// What it prints, run as we are and, where we may, as somebody else: of whom nothing is said.
async fn both_ways(command: impl Fn() -> Command) -> Vec<String> {
    let mut commands = vec![command()];
    if users::is_root() {
        commands.push(command().identity(nobody().await));
    }
    let mut printed = Vec::new();
    for command in commands {
        let (_switch, stop) = Stop::new();
        let finished = run(command, limits(), stop).await.expect("it starts");
        printed.push(finished.output.text());
    }
    printed
}

#[tokio::test]
async fn only_the_given_environment_is_passed_on() {
    let inherited = [("A", "0"), ("B", "0"), ("BE", "=e"), ("C", "0")];
    let env = || {
        let env = command("/usr/bin/env", &inherited);
        env.envs([("A", "1"), ("A", "2"), ("D", "")]).without(&["B", "NOT_SET"])
    };
    for printed in both_ways(env).await {
        let mut lines: Vec<_> = printed.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["A=2", "BE==e", "C=0", "D=", "PWD=/tmp"]);
    }
}

#[tokio::test]
async fn a_directory_that_is_inherited_gives_way_to_the_one_entered_and_that_to_what_is_asked_for()
{
    let pwd = || command("/usr/bin/env", &[("PWD", "/before")]);
    assert_eq!(both_ways(pwd).await[0], "PWD=/tmp\n");
    let asked = || pwd().envs([("PWD", "/asked")]);
    assert_eq!(both_ways(asked).await[0], "PWD=/asked\n");
    assert_eq!(both_ways(|| pwd().without(&["PWD"])).await[0], "");
    let entered = || command("/bin/readlink", &[]).args(["/proc/self/cwd"]);
    for printed in both_ways(entered).await {
        assert_eq!(printed, "/tmp\n");
    }
}

#[tokio::test]
async fn no_signal_is_blocked_and_a_broken_pipe_is_not_ignored() {
    let status = || command("/bin/cat", &[]).args(["/proc/self/status"]);
    let mask = |printed: &str, name: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        u64::from_str_radix(line.trim(), 16).expect("a mask")
    };
    let broken_pipe = 1 << (Signal::SIGPIPE as u64 - 1);
    let ours = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    assert_eq!(mask(&ours, "SigIgn:") & broken_pipe, broken_pipe, "we do");
    let blocked = SigSet::from(Signal::SIGUSR1);
    blocked.thread_block().expect("a signal of this thread");
    let printed = both_ways(status).await;
    blocked.thread_unblock().expect("a signal of this thread");
    for printed in printed {
        assert_eq!(mask(&printed, "SigBlk:"), 0, "{printed}");
        assert_eq!(mask(&printed, "SigIgn:") & broken_pipe, 0, "{printed}");
    }
}

#[tokio::test]
async fn nothing_that_is_open_here_is_open_there() {
    let ours = tempfile::NamedTempFile::new().expect("a file that is open");
    let script = "cd /proc/$$/fd && readlink 0 1 2 && readlink *";
    let path = std::env::var("PATH").unwrap_or_default();
    let bash = || command("/bin/bash", &[("PATH", &path)]).args(["-c", script]);
    for printed in both_ways(bash).await {
        let files: Vec<_> = printed.lines().collect();
        let [input, output, errors, all @ ..] = &files[..] else { panic!("{printed}") };
        assert_eq!((*input, output), ("/dev/null", errors), "{printed}");
        assert!(output.starts_with("pipe:"), "{printed}");
        assert_eq!(all.iter().filter(|file| *file == output).count(), 2, "{printed}");
        assert!(!printed.contains(&*ours.path().to_string_lossy()), "{printed}");
    }
}

#[tokio::test]
async fn it_leads_a_group_of_its_own_in_the_session_that_it_was_started_in() {
    let stat = || command("/bin/cat", &[]).args(["/proc/self/stat"]);
    let session = nix::unistd::getsid(None).expect("ours").to_string();
    for printed in both_ways(stat).await {
        // number (name) state parent group session …
        let fields: Vec<_> = printed.split_whitespace().collect();
        assert_eq!((fields[4], fields[5]), (fields[0], &*session), "{printed}");
    }
}

#[tokio::test]
async fn a_program_without_a_path_is_found_in_ours() {
    for printed in both_ways(|| command("printf", &[]).args(["found"])).await {
        assert_eq!(printed, "found");
    }
}

#[tokio::test]
async fn what_cannot_be_said_to_a_program_is_an_error() {
    for wrong in
        [command("/bin/true", &[]).args(["a\0b"]), command("/bin/true", &[]).envs([("A", "a\0b")])]
    {
        let (_switch, stop) = Stop::new();
        let error = run(wrong, limits(), stop).await.expect_err("no program can take it");
        assert!(error.to_string().contains("nul byte"), "{error}");
    }
}
