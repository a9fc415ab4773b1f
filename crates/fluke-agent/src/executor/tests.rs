use std::path::PathBuf;

use fluke_model::id::StepAddress;
use fluke_model::task::{OnFailure, ShellSpec};
use tokio::sync::watch;

use super::*;
use crate::host::environment::Environment;
use crate::host::process::Stop;

pub(super) const LONG: Duration = Duration::from_secs(60);

/// This machine, with these variables beside PATH. The switch must be kept.
pub(super) fn host(home: &std::path::Path, more: &[(&str, &str)]) -> (watch::Sender<bool>, Host) {
    let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::env::split_paths(&path).chain([tools]));
    let mut pairs = vec![
        ("PATH".to_owned(), path.expect("no colons in paths")),
        ("HOME".to_owned(), home.into()),
    ];
    pairs.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.into())));
    let (switch, stop) = Stop::new();
    let environment = Environment::from_pairs(pairs);
    (switch, Host { environment, home: home.to_owned(), stop })
}

pub(super) fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Satisfied => "",
        Verdict::Drifted(drift) => &drift.reason,
        Verdict::Error { reason } => reason,
    }
}

fn step(kind: &str, spec: ExecutorSpec) -> Step {
    let address = StepAddress::new(kind, "s").expect("a name");
    Step { address, on_failure: OnFailure::Abort, timeout: None, spec }
}

fn shell(run_as: Option<&str>) -> Step {
    let spec = ShellSpec {
        check: "true".into(),
        command: "true".into(),
        working_dir: Some("/".into()),
        run_as: run_as.map(str::to_owned),
        env: Default::default(),
    };
    step("shell", ExecutorSpec::Shell(spec))
}

fn executors(allow: Allow) -> (watch::Sender<bool>, Executors) {
    let (switch, host) = host("/".as_ref(), &[]);
    let settings = Settings {
        version: "1.2.3".into(),
        default_shell: "/bin/bash".into(),
        command_timeout: LONG,
        allow,
    };
    (switch, Executors::new(settings, host))
}

#[tokio::test]
async fn a_kind_that_this_agent_has_not_is_an_error_and_nothing_runs() {
    let (_switch, executors) = executors(Allow::default());
    let verdict = executors.check(&step("quantum", ExecutorSpec::Unknown)).await;
    let expected = "this agent (version 1.2.3) has no `quantum` executor; give";
    assert!(matches!(&verdict, Verdict::Error { .. }), "{verdict:?}");
    assert!(reason(&verdict).starts_with(expected), "{verdict:?}");
}

#[tokio::test]
async fn the_hosts_own_ceiling_cannot_be_lifted() {
    let own = users::own_name();
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    for (case, executors_allowed, run_as_allowed, run_as, refusal) in [
        ("no ceiling", None, None, None, None),
        ("kind allowed", list(&["shell"]), None, None, None),
        ("kind not allowed", list(&["mise"]), None, None, Some("`shell` is not among")),
        ("nothing allowed", list(&[]), None, None, Some("`shell` is not among")),
        ("user not allowed", None, list(&[&own]), Some("daemon"), Some("as `daemon`, who is not")),
        ("own user allowed", None, list(&[&own]), None, None),
        ("own user not allowed", None, list(&["daemon"]), None, Some("who is not among")),
    ] {
        let allow = Allow { executors: executors_allowed, run_as: run_as_allowed, stated: None };
        let (_switch, executors) = executors(allow);
        let verdict = executors.check(&shell(run_as)).await;
        let applied = executors.apply(&shell(run_as), &Drift::because("a test")).await;
        match refusal {
            None => assert_eq!(verdict, Verdict::Satisfied, "{case}"),
            Some(text) => {
                let said = reason(&verdict);
                assert!(said.starts_with("refused by this host's own config: "), "{case}: {said}");
                assert!(said.contains(text), "{case}: {said}");
                assert!(matches!(applied, Applied::Failed(_)), "{case}: {applied:?}");
            }
        }
    }
}

#[tokio::test]
async fn who_a_user_is_is_asked_anew_once_something_was_applied() {
    let (_switch, executors) = executors(Allow::default());
    let ask = async || executors.shell.users.look_up("nobody").await.expect("everybody has him");
    let before = ask().await;
    let applied = executors.apply(&shell(None), &Drift::because("a test")).await;
    assert!(matches!(applied, Applied::Done(_)), "{applied:?}");
    assert!(!std::sync::Arc::ptr_eq(&before, &ask().await), "it may have changed his groups");
}
