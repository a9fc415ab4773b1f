use std::collections::BTreeMap;

use tempfile::TempDir;
use tokio::sync::watch;

use super::super::tests::{LONG, host, reason as reason_of};
use super::*;

struct Rig {
    shell: Shell,
    home: TempDir,
    _switch: watch::Sender<bool>,
}

fn rig() -> Rig {
    let home = tempfile::tempdir().expect("a directory");
    let (switch, host) = host(home.path(), &[("API_KEY", "s3cr3t-value"), ("EMPTY", "")]);
    let shell = Shell::new("/bin/bash".into(), users::own_name(), host);
    Rig { shell, home, _switch: switch }
}

fn spec(check: &str, command: &str) -> ShellSpec {
    ShellSpec {
        check: check.into(),
        command: command.into(),
        working_dir: None,
        run_as: None,
        env: BTreeMap::new(),
    }
}

fn checking(check: &str) -> ShellSpec {
    spec(check, "true")
}

fn with_env(check: &str, key: &str, value: &str) -> ShellSpec {
    ShellSpec { env: BTreeMap::from([(key.into(), value.into())]), ..checking(check) }
}

fn drifted(reason: &str) -> Verdict {
    Verdict::Drifted(Drift::because(reason))
}

#[tokio::test]
async fn a_checks_end_is_its_verdict_and_its_last_lines_the_reason() {
    let rig = rig();
    for (check, verdict) in [
        ("true", Verdict::Satisfied),
        ("echo chatty; echo very >&2", Verdict::Satisfied),
        ("exit 1", drifted("check exited 1")),
        ("echo no such file; exit 1", drifted("check exited 1: no such file")),
        ("seq 1 9; echo; exit 2", drifted("check exited 2:\n7\n8\n9")),
        ("kill -KILL $$", drifted("check was killed by signal 9 (SIGKILL)")),
        (
            "no-such-command 2>/dev/null",
            drifted("check exited 127 (command not found: is it in the agent's PATH?)"),
        ),
        ("/etc/passwd 2>/dev/null", drifted("check exited 126 (found, but cannot be executed)")),
    ] {
        assert_eq!(rig.shell.check(&checking(check), LONG).await, verdict, "{check}");
    }
}

#[tokio::test]
async fn a_check_that_hangs_cannot_tell() {
    let rig = rig();
    let verdict = rig.shell.check(&checking("sleep 1000"), Duration::from_millis(200)).await;
    let expected = "check did not end within 200 ms and was killed with all it started";
    assert_eq!(verdict, Verdict::Error { reason: expected.into() });
}

#[tokio::test]
async fn an_apply_acts_and_the_check_sees_it() {
    let rig = rig();
    let spec = spec("test -f made", "echo making; touch made");
    let Verdict::Drifted(drift) = rig.shell.check(&spec, LONG).await else { panic!("drifted") };
    let applied = rig.shell.apply(&spec, &drift, LONG).await;
    assert_eq!(applied, Applied::Done(Output::from_text("making\n")));
    assert_eq!(rig.shell.check(&spec, LONG).await, Verdict::Satisfied);
    assert!(rig.home.path().join("made").exists(), "the agent user's home is where it runs");
}

#[tokio::test]
async fn a_failed_apply_keeps_its_output_and_says_how_it_ended() {
    let rig = rig();
    for (command, within, text) in [
        ("echo trying; exit 4", LONG, "trying\n[command exited 4]\n"),
        ("printf half; exit 4", LONG, "half\n[command exited 4]\n"),
        (
            "echo begun; sleep 1000",
            Duration::from_secs(3),
            "begun\n[command did not end within 3 s and was killed with all it started]\n",
        ),
    ] {
        let applied = rig.shell.apply(&spec("false", command), &Drift::because("x"), within).await;
        assert_eq!(applied, Applied::Failed(Output::from_text(text)), "{command}");
    }
}

#[tokio::test]
async fn values_from_the_hosts_environment_reach_the_command_and_are_masked_in_what_it_says() {
    let rig = rig();
    let verdict = rig
        .shell
        .check(&with_env("echo \"key=$KEY\"; test ${#KEY} = 1", "KEY", "<$API_KEY>"), LONG)
        .await;
    assert_eq!(verdict, drifted("check exited 1: key=<•••>"));
    let long = with_env("test \"$KEY\" = '<s3cr3t-value>'", "KEY", "<${API_KEY}>");
    assert_eq!(rig.shell.check(&long, LONG).await, Verdict::Satisfied);
    let dollar = with_env("test \"$KEY\" = '$API_KEY'", "KEY", "$$API_KEY");
    assert_eq!(rig.shell.check(&dollar, LONG).await, Verdict::Satisfied);
    let spec = ShellSpec { command: "echo $KEY".into(), ..with_env("x", "KEY", "$API_KEY") };
    let applied = rig.shell.apply(&spec, &Drift::because("x"), LONG).await;
    assert_eq!(applied, Applied::Done(Output::from_text("•••\n")));
}

#[tokio::test]
async fn what_is_missing_on_the_host_is_an_error_that_names_it() {
    let rig = rig();
    let nowhere = ShellSpec { working_dir: Some("/no/where".into()), ..checking("true") };
    let nobody = ShellSpec { run_as: Some("no-such-user".into()), ..checking("true") };
    for (spec, text) in [
        (nowhere, "the working directory /no/where does not exist; create it in an earlier step"),
        (nobody, "there is no user `no-such-user` on this host"),
        (with_env("true", "KEY", "$NOT_SET"), "env `KEY` refers to `$NOT_SET`, which is not set"),
    ] {
        let verdict = rig.shell.check(&spec, LONG).await;
        assert!(matches!(verdict, Verdict::Error { .. }), "{verdict:?}");
        assert!(reason_of(&verdict).starts_with(text), "{verdict:?}");
    }
    let (_switch, host) = host("/".as_ref(), &[]);
    let shell = Shell::new("/no/shell".into(), users::own_name(), host);
    let verdict = shell.check(&checking("true"), LONG).await;
    assert!(reason_of(&verdict).starts_with("could not run /no/shell: "), "{verdict:?}");
}

#[tokio::test]
async fn another_user_gets_his_own_home_and_name() {
    if !users::is_root() {
        return;
    }
    let rig = rig();
    let check = "echo $(id -un) $USER $LOGNAME $HOME; pwd; false";
    let spec = ShellSpec { run_as: Some("nobody".into()), ..checking(check) };
    let home = users::look_up("nobody").await.expect("every system has nobody").home;
    let verdict = rig.shell.check(&spec, LONG).await;
    let ours = rig.home.path().display();
    let expected = format!("check exited 1:\nnobody nobody nobody {}\n{ours}", home.display());
    assert_eq!(verdict, drifted(&expected), "in our home, which only we may enter");
}

/// Runs only where the tests' user is not root and may `sudo -n -u daemon`.
#[tokio::test]
async fn through_sudo_another_users_processes_are_found_and_killed_as_well() {
    let sudo = ["sudo", "-n", "-u", "daemon", "true"];
    let may = std::process::Command::new(sudo[0]).args(&sudo[1..]).output();
    if users::is_root() || !may.is_ok_and(|tried| tried.status.success()) {
        return;
    }
    let rig = rig();
    let as_daemon = |check: &str| ShellSpec {
        run_as: Some("daemon".into()),
        working_dir: Some("/".into()),
        ..with_env(check, "KEY", "<$API_KEY>")
    };
    let verdict = rig.shell.check(&as_daemon("id -un; echo $KEY; false"), LONG).await;
    assert_eq!(verdict, drifted("check exited 1:\ndaemon\n<•••>"));

    let mark = format!("3333.{}", std::process::id());
    let stubborn = as_daemon(&format!("trap '' TERM; sleep {mark} & sleep {mark}; true"));
    let verdict = rig.shell.check(&stubborn, Duration::from_millis(500)).await;
    assert!(reason_of(&verdict).contains("did not end within"), "{verdict:?}");
    let left = as_daemon(&format!("sleep {mark} & true"));
    assert_eq!(rig.shell.check(&left, LONG).await, Verdict::Satisfied);
    while running(&mark) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let refused = ShellSpec { run_as: Some("bin".into()), ..as_daemon("true") };
    let verdict = rig.shell.check(&refused, LONG).await;
    assert!(
        matches!(&verdict, Verdict::Error { reason } if reason.starts_with("sudo: ")),
        "{verdict:?}"
    );
}

fn running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("proc is mounted").flatten();
    let mut lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    lines.any(|line| line.split(|byte| *byte == 0).any(|arg| arg == mark.as_bytes()))
}
