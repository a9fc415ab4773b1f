use fluke_model::task::UnitState;

use super::*;
use crate::executor::tests::{LONG, host, reason};

fn spec(unit: &str) -> SystemdSpec {
    SystemdSpec { unit: unit.to_owned(), state: UnitState::Running, enabled: true }
}

/// What is found on hosts with systemd, the stories on real hosts tell.
fn has_systemd() -> bool {
    Path::new(BOOTED).is_dir()
}

#[tokio::test]
async fn a_host_without_systemd_says_so() {
    if has_systemd() {
        return;
    }
    let (_switch, host) = host("/".as_ref(), &[]);
    let systemd = Systemd::new(host);
    let verdict = systemd.check(&spec("nginx.service"), LONG).await;
    assert!(reason(&verdict).starts_with("this host does not run systemd"), "{verdict:?}");
    let applied = systemd.apply(&spec("nginx.service"), &Drift::because("a test"), LONG).await;
    assert!(matches!(applied, Applied::Failed(_)), "{applied:?}");
    assert!(systemd.watch(&spec("nginx.service")).is_none());
}

#[tokio::test]
async fn a_name_that_cannot_be_is_an_error_of_its_own_step_alone() {
    if has_systemd() {
        return;
    }
    let (_switch, host) = host("/".as_ref(), &[]);
    let systemd = Systemd::new(host);
    let verdicts = systemd.check_all(&[&spec("foo@.service")], LONG).await;
    assert!(reason(&verdicts[0]).contains("is a template"), "{verdicts:?}");
}
