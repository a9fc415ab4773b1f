use fluke_model::task::GitCheckout;
use tempfile::TempDir;
use tokio::sync::watch;

use super::super::tests::{LONG, host, reason as reason_of};
use super::*;

struct Rig {
    mise: Mise,
    root: TempDir,
    _switch: watch::Sender<bool>,
}

/// A host with mise, or nothing where there is none and nobody insists.
fn rig(config: &str) -> Option<Rig> {
    let root = tempfile::tempdir().expect("a directory");
    let (switch, host) = host(root.path(), &[]);
    if host.find_program("mise", &[]).is_none() {
        assert!(std::env::var_os("CI").is_none(), "no mise: run scripts/test-tools");
        #[expect(clippy::print_stderr, reason = "a test that did not run must not look as if")]
        {
            eprintln!("SKIPPED, because there is no mise: run scripts/test-tools");
        }
        return None;
    }
    let dir = root.path().join("project");
    std::fs::create_dir(&dir).expect("room");
    std::fs::write(dir.join(".mise.toml"), config).expect("room");
    Some(Rig { mise: Mise::new(host), root, _switch: switch })
}

impl Rig {
    fn spec(&self) -> MiseSpec {
        MiseSpec {
            working_dir: self.root.path().join("project").to_str().expect("plain").to_owned(),
            check_task: "check".into(),
            apply_task: "apply".into(),
            git: None,
        }
    }
}

const MARKER: &str = r#"
[tasks.check]
run = "echo looking; test -f done"
[tasks.apply]
alias = "put-right"
run = "echo working; touch done"
"#;

#[tokio::test]
async fn mise_is_asked_and_mise_acts() {
    let Some(rig) = rig(MARKER) else { return };
    let spec = rig.spec();
    let verdict = rig.mise.check(&spec, LONG).await;
    let expected = Drift::because("mise task `check` exited 1: looking");
    assert_eq!(verdict, Verdict::Drifted(expected.clone()));
    let applied = rig.mise.apply(&spec, &expected, LONG).await;
    let Applied::Done(output) = applied else { panic!("{applied:?}") };
    assert!(output.text().contains("working\n"), "{}", output.text());
    assert_eq!(rig.mise.check(&spec, LONG).await, Verdict::Satisfied);
}

#[tokio::test]
async fn a_task_that_does_not_exist_is_named() {
    let Some(rig) = rig(MARKER) else { return };
    let dir = rig.spec().working_dir;
    let task = |check: &str, apply: &str| MiseSpec {
        check_task: check.into(),
        apply_task: apply.into(),
        ..rig.spec()
    };
    for (spec, text) in [
        (
            task("chekc", "apply"),
            format!("mise knows no task `chekc` in {dir}; did you mean `check`?"),
        ),
        (
            task("check", "install"),
            format!(
                "mise knows no task `install` in {dir}; it knows `apply`, `put-right`, `check`"
            ),
        ),
        (task("-v", "apply"), "`-v` cannot be the name of a mise task".to_owned()),
    ] {
        let verdict = rig.mise.check(&spec, LONG).await;
        assert_eq!(verdict, Verdict::Error { reason: text });
    }
    let alias = rig.mise.check(&task("check", "put-right"), LONG).await;
    assert!(matches!(alias, Verdict::Drifted(_)), "{alias:?}");
}

#[tokio::test]
async fn a_failing_apply_shows_what_was_printed() {
    let Some(rig) = rig("[tasks.apply]\nrun = 'echo trouble >&2; exit 3'") else { return };
    let applied = rig.mise.apply(&rig.spec(), &Drift::because("x"), LONG).await;
    let Applied::Failed(output) = applied else { panic!("{applied:?}") };
    let text = output.text();
    assert!(text.contains("trouble\n"), "{text}");
    assert!(text.ends_with("[mise task `apply` exited 3]\n"), "{text}");
}

#[tokio::test]
async fn a_config_that_does_not_parse_is_an_error() {
    let Some(rig) = rig("[tasks.check\n") else { return };
    let verdict = rig.mise.check(&rig.spec(), LONG).await;
    assert!(matches!(verdict, Verdict::Error { .. }), "{verdict:?}");
    assert!(reason_of(&verdict).contains("`mise tasks ls` exited 1"), "{verdict:?}");
}

#[tokio::test]
async fn configs_above_the_directory_are_not_trusted_along() {
    let Some(rig) = rig(MARKER) else { return };
    let canary = rig.root.path().join("pwned");
    let above = format!("[env]\nX = \"{{{{ exec(command='touch {}') }}}}\"\n", canary.display());
    std::fs::write(rig.root.path().join("mise.toml"), above).expect("room");
    let verdict = rig.mise.check(&rig.spec(), LONG).await;
    assert!(matches!(verdict, Verdict::Error { .. }), "{verdict:?}");
    assert!(reason_of(&verdict).contains("not trusted"), "{verdict:?}");
    let applied = rig.mise.apply(&rig.spec(), &Drift::because("x"), LONG).await;
    assert!(matches!(applied, Applied::Failed(_)), "{applied:?}");
    assert!(!canary.exists(), "nothing of it was run");
}

#[tokio::test]
async fn a_check_installs_no_tools() {
    let config = "[tools]\nnode = '0.0.1'\n[tasks.check]\nrun = 'echo ran; false'\n[tasks.apply]\nrun = 'true'";
    let Some(rig) = rig(config) else { return };
    let verdict = rig.mise.check(&rig.spec(), LONG).await;
    assert!(reason_of(&verdict).contains("exited 1"), "{verdict:?}");
    assert!(reason_of(&verdict).contains("ran"), "{verdict:?}");
}

#[tokio::test]
async fn a_task_that_hangs_is_stopped() {
    let Some(rig) = rig("[tasks.check]\nrun = 'sleep 1000'\n") else { return };
    let verdict = rig.mise.check(&rig.spec(), Duration::from_secs(2)).await;
    assert!(matches!(verdict, Verdict::Error { .. }), "{verdict:?}");
    assert!(reason_of(&verdict).contains("did not end within 2 s"), "{verdict:?}");
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_an_error() {
    let Some(rig) = rig(MARKER) else { return };
    let spec = MiseSpec { working_dir: "/no/where".into(), ..rig.spec() };
    let verdict = rig.mise.check(&spec, LONG).await;
    assert!(reason_of(&verdict).starts_with("the working directory /no/where does not exist"));
}

#[tokio::test]
async fn a_host_without_mise_says_how_to_get_it() {
    let root = tempfile::tempdir().expect("a directory");
    let (_switch, mut host) = host(root.path(), &[]);
    host.environment = crate::host::environment::Environment::from_pairs([("PATH", "/nowhere")]);
    if host.find_program("mise", &["/usr/local/bin".into(), "/usr/bin".into()]).is_some() {
        return;
    }
    let spec = MiseSpec {
        working_dir: "/".into(),
        check_task: "check".into(),
        apply_task: "apply".into(),
        git: None,
    };
    let verdict = Mise::new(host).check(&spec, LONG).await;
    assert!(reason_of(&verdict).starts_with("there is no mise on this host"), "{verdict:?}");
    assert!(reason_of(&verdict).contains("install it"), "{verdict:?}");
}

#[tokio::test]
async fn a_clone_is_kept_up_to_date_before_every_check_also_by_two_steps_at_once() {
    let Some(rig) = rig(MARKER) else { return };
    let upstream = rig.root.path().join("project");
    let git = |args: &[&str]| {
        let git = std::process::Command::new("git")
            .current_dir(&upstream)
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(args)
            .status();
        assert!(git.expect("git runs").success(), "{args:?}");
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "one"]);
    let spec = MiseSpec {
        working_dir: rig.root.path().join("clone").to_str().expect("plain").to_owned(),
        git: Some(GitCheckout {
            url: upstream.to_str().expect("plain").to_owned(),
            branch: "main".into(),
        }),
        ..rig.spec()
    };
    let both = tokio::join!(rig.mise.check(&spec, LONG), rig.mise.check(&spec, LONG));
    assert!(matches!(both, (Verdict::Drifted(_), Verdict::Drifted(_))), "{both:?}");
    std::fs::write(upstream.join("done"), "").expect("room");
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "two"]);
    assert_eq!(rig.mise.check(&spec, LONG).await, Verdict::Satisfied);
}

#[test]
fn task_names_are_found_among_warnings() {
    let printed = "[WARN] something\nmore\n[\n {\"name\": \"a\", \"aliases\": [\"b\"]},\n {\"name\": \"c\"}\n]\n[note]\n";
    assert_eq!(names(&Output::from_text(printed)), ["a", "b", "c"]);
    assert!(names(&Output::from_text("nothing")).is_empty());
}
