//! What applying steps comes to: order, failure, timeouts, and checks that lie.

use fluke_model::event::EventKind;
use fluke_model::status::StepStatus;
use fluke_model::verdict::Outcome;

use super::support::Fleet;

fn steps(body: &str) -> String {
    format!("task \"t\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n{body}}}\n")
}

fn step(name: &str, check: &str, command: &str, more: &str) -> String {
    format!(
        "  shell \"{name}\" {{\n    check   = <<-E\n      {check}\n    E\n    command = <<-E\n      {command}\n    E\n{more}  }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_step_ends_its_task_and_no_other() {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "").await;
    let root = fleet.root("web-1");
    let first = step("first", "false", "echo broken disk; exit 3", "");
    let second =
        step("second", &format!("test -f {root}/second"), &format!("touch {root}/second"), "");
    let other =
        steps(&step("s", &format!("test -f {root}/other"), &format!("touch {root}/other"), ""));
    fleet
        .commit("fails", &(steps(&(first + &second)) + &other.replace("\"t\"", "\"other\"")))
        .await;
    fleet.settles().await;
    let agent = fleet.agent("web-1");
    assert_eq!(agent.step("t/shell.first"), StepStatus::Failed);
    assert!(
        agent.reason("t/shell.first").contains("broken disk"),
        "{}",
        agent.reason("t/shell.first")
    );
    assert!(!host.has("second"), "abort is the default");
    assert!(host.has("other"), "another task is another matter");
    let skipped = fleet.events(&[EventKind::ApplySkipped]).await;
    assert_eq!(skipped[0].outcome, Some(Outcome::Skipped));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_may_fail_does_not_hold_up_the_next() {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "").await;
    let root = fleet.root("web-1");
    let first = step("first", "false", "exit 3", "    on_failure = \"continue\"\n");
    let second =
        step("second", &format!("test -f {root}/second"), &format!("touch {root}/second"), "");
    fleet.commit("goes on", &steps(&(first + &second))).await;
    fleet.settles().await;
    assert!(host.has("second"));
    assert_eq!(fleet.agent("web-1").step("t/shell.first"), StepStatus::Failed);
    assert_eq!(fleet.agent("web-1").step("t/shell.second"), StepStatus::InSync);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_applied_and_still_drifted_is_said_plainly() {
    let fleet = Fleet::start().await;
    let _host = fleet.join("web-1", "").await;
    fleet.commit("lies", &steps(&step("s", "false", "true", ""))).await;
    fleet.settles().await;
    let agent = fleet.agent("web-1");
    assert_eq!(agent.step("t/shell.s"), StepStatus::AppliedButDrifted);
    let finished = fleet.events(&[EventKind::ApplyFinished]).await;
    assert_eq!(finished.len(), 1, "no hot loop: {}", fleet.told().await);
    assert_eq!(finished[0].outcome, Some(Outcome::AppliedButDrifted));
}

#[tokio::test(flavor = "multi_thread")]
async fn past_its_timeout_a_command_is_killed_with_all_its_children() {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "").await;
    let root = fleet.root("web-1");
    let hangs = format!("sleep 600 & echo $! > {root}/child; trap '' TERM; sleep 601");
    fleet.commit("hangs", &steps(&step("s", "false", &hangs, "    timeout = \"1s\"\n"))).await;
    fleet.settles().await;
    assert_eq!(fleet.agent("web-1").step("t/shell.s"), StepStatus::Failed);
    let child = host.read("child").trim().to_string();
    assert!(!child.is_empty(), "the command had begun");
    fleet.until("the child is gone", |_| is_gone(&child)).await;
}

/// Gone, or dead and not yet collected by whoever adopted it.
fn is_gone(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.is_empty() || stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_hangs_holds_up_nothing_else() {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "").await;
    let root = fleet.root("web-1");
    let hangs = steps(&step("s", "sleep 600", "true", "    timeout = \"1s\"\n"));
    let other =
        steps(&step("s", &format!("test -f {root}/other"), &format!("touch {root}/other"), ""));
    fleet.commit("hangs", &(hangs + &other.replace("\"t\"", "\"other\""))).await;
    fleet.settles().await;
    assert!(host.has("other"));
    assert_eq!(fleet.agent("web-1").step("t/shell.s"), StepStatus::Failed);
    assert_eq!(fleet.applies("web-1").await, 1, "a check that cannot tell applies nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_kept_whatever_its_bytes() {
    let fleet = Fleet::start().await;
    let _host = fleet.join("web-1", "").await;
    let noisy =
        "printf '\\377\\376'; head -c 200000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1";
    fleet.commit("noise", &steps(&step("s", "false", noisy, ""))).await;
    fleet.settles().await;
    let finished = fleet.events(&[EventKind::ApplyFinished]).await;
    let output = finished[0].output.clone().unwrap_or_default();
    assert!(output.contains("the end\n") && output.len() < 70_000, "{}", output.len());
    assert!(output.contains("earlier bytes not kept"), "what was cut is said");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_step_that_depends_on_an_earlier_one_follows_at_once() {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "").await;
    let root = fleet.root("web-1");
    host.write("config", "old");
    host.write("built-from", "old");
    let config = step(
        "config",
        &format!("grep -q new {root}/config"),
        &format!("echo new > {root}/config"),
        "",
    );
    let build = step(
        "build",
        &format!("cmp -s {root}/config {root}/built-from"),
        &format!("cp {root}/config {root}/built-from"),
        "",
    );
    fleet.commit("config and build", &steps(&(config + &build))).await;
    fleet.settles().await;
    assert_eq!(host.read("built-from"), "new\n", "one cycle is enough");
    assert_eq!(fleet.agent("web-1").step("t/shell.build"), StepStatus::InSync);
}
