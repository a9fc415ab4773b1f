//! The loop: a commit becomes true on every matching host, and stays true.

use std::time::Duration;

use fluke_model::event::EventKind;
use fluke_model::status::{Status, StepStatus};

use super::support::{Fleet, Options};

/// A task that keeps `file` there, for hosts with `labels`.
fn keeps(task: &str, labels: &str, root: &str, file: &str) -> String {
    format!(
        r#"
task "{task}" {{
  selector {{
    match_labels = {{ {labels} }}
  }}
  shell "file" {{
    check   = "test -f {root}/{file}"
    command = "echo {task} > {root}/{file}"
  }}
}}
"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_becomes_true_on_every_matching_host() {
    let fleet = Fleet::start().await;
    let web = fleet.join("web-1", "role=web").await;
    let db = fleet.join("db-1", "role=db").await;
    fleet
        .commit("the web tier", &keeps("web", "role = \"web\"", &fleet.root("web-1"), "page"))
        .await;
    fleet.settles().await;
    assert_eq!(web.read("page"), "web\n");
    assert_eq!(fleet.agent("web-1").status(), Status::InSync);
    assert_eq!(fleet.agent("db-1").tasks(), Vec::<String>::new());
    assert!(!db.has("page"));
    let finished = fleet.events(&[EventKind::ApplyFinished]).await;
    assert_eq!(finished.len(), 1);
    assert_eq!(finished[0].trigger.as_deref(), Some("commit"));
    assert_eq!(finished[0].commit, Some(fleet.repository.head()));
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_repaired_without_anybody_asking() {
    let options = Options { poll_interval: Duration::from_millis(300), ..Options::default() };
    let fleet = Fleet::with(options).await;
    let host = fleet.join("web-1", "").await;
    fleet.commit("a file", &keeps("page", "", &fleet.root("web-1"), "page")).await;
    fleet.settles().await;
    host.remove("page");
    fleet.until("the file is back", |_| host.has("page")).await;
    fleet.settles().await;
    let applied = fleet.events(&[EventKind::ApplyFinished]).await;
    assert_eq!(applied.len(), 2, "{}", fleet.told().await);
    assert_eq!(applied[1].trigger.as_deref(), Some("poll"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_nobody_announces_is_found_by_polling() {
    let options = Options { poll_interval: Duration::from_millis(300), ..Options::default() };
    let fleet = Fleet::with(options).await;
    let host = fleet.join("web-1", "").await;
    let manifest = keeps("page", "", &fleet.root("web-1"), "page");
    fleet.repository.commit("quietly", &[("a.fluke.hcl", &manifest)]);
    fleet.settles().await;
    assert!(host.has("page"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_commit_changes_nothing_and_says_why() {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "").await;
    let good = fleet.commit("good", &keeps("page", "", &fleet.root("web-1"), "page")).await;
    fleet.settles().await;
    let bad = keeps("page", "", &fleet.root("web-1"), "other").replace("command", "comand");
    fleet.commit("bad", &bad).await;
    fleet.settles().await;
    let source = fleet.source();
    assert!(source.rejected);
    assert_eq!(source.commit, Some(good), "the last good commit stays in force");
    assert!(!host.has("other"));
    let rejected = fleet.events(&[EventKind::CommitRejected]).await;
    let told: Vec<_> = rejected[0].diagnostics.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|line| line.contains("did you mean `command`?")), "{told:?}");

    fleet.commit("mended", &keeps("page", "", &fleet.root("web-1"), "other")).await;
    fleet.settles().await;
    assert!(host.has("other") && !fleet.source().rejected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_concerns_others_starts_nothing_here() {
    let fleet = Fleet::start().await;
    let _web = fleet.join("web-1", "role=web").await;
    let _db = fleet.join("db-1", "role=db").await;
    let web = keeps("web", "role = \"web\"", &fleet.root("web-1"), "page");
    fleet.commit_files("web", &[("web.fluke.hcl", &web)]).await;
    fleet.settles().await;
    let before = fleet.server().registry.agent("web-1").expect("known").task_details;
    let db = keeps("db", "role = \"db\"", &fleet.root("db-1"), "data");
    let commit = fleet.commit_files("db", &[("db.fluke.hcl", &db)]).await;
    fleet.settles().await;
    let after = fleet.server().registry.agent("web-1").expect("known");
    assert_eq!(after.agent.commit, Some(commit), "the commit is noted");
    assert_eq!(after.task_details, before, "not even a check ran");
    assert_eq!(fleet.applies("web-1").await, 1);
    assert_eq!(fleet.applies("db-1").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_stops_matching_is_left_alone_from_then_on() {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "role=web").await;
    let manifest = keeps("page", "role = \"web\"", &fleet.root("web-1"), "page");
    fleet.commit("for web", &manifest).await;
    fleet.settles().await;
    fleet.commit("for db", &manifest.replace("role = \"web\"", "role = \"db\"")).await;
    fleet.settles().await;
    host.remove("page");
    assert_eq!(fleet.agent("web-1").tasks(), Vec::<String>::new());
    assert_eq!(fleet.fluke(&["reconcile", "all"]).await.code, 0);
    assert!(!host.has("page"), "nobody keeps it any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_other_labels_gets_other_tasks_when_it_reconnects() {
    let fleet = Fleet::start().await;
    let mut host = fleet.join("box-1", "role=web").await;
    let root = fleet.root("box-1");
    let web = keeps("web", "role = \"web\"", &root, "page");
    let db = keeps("db", "role = \"db\"", &root, "data");
    fleet.commit("two roles", &(web + &db)).await;
    fleet.settles().await;
    assert!(host.has("page") && !host.has("data"));
    host.relabel("role=db").await;
    fleet
        .until("the labels are the new ones", |fleet| fleet.agent("box-1").labels() == "role=db")
        .await;
    fleet.settles().await;
    assert_eq!(fleet.agent("box-1").tasks(), ["db"]);
    assert!(host.has("data"));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_tasks_on_one_host() {
    let fleet = Fleet::start().await;
    let host = fleet.join("big-1", "").await;
    let root = fleet.root("big-1");
    let all: String =
        (0..200).map(|n| keeps(&format!("t{n:03}"), "", &root, &format!("f{n}"))).collect();
    fleet.commit("many", &all).await;
    fleet.settles().await;
    assert!((0..200).all(|n| host.has(&format!("f{n}"))));
    assert_eq!(fleet.agent("big-1").status(), Status::InSync);
    assert_eq!(fleet.applies("big-1").await, 200);
    let again = all.replacen("echo t007", "echo T007", 1);
    fleet.commit("one of them changed", &again).await;
    fleet.settles().await;
    assert_eq!(fleet.applies("big-1").await, 200, "its check still agrees");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_this_host_cannot_run_is_an_error_of_this_host() {
    let fleet = Fleet::start().await;
    let _host = fleet.join("web-1", "").await;
    let unit = "task \"unit\" {\n  selector {\n    match_labels = {}\n  }\n  systemd \"app\" {\n    unit = \"app.service\"\n  }\n}\n";
    fleet.commit("a unit", unit).await;
    fleet.settles().await;
    let agent = fleet.agent("web-1");
    assert_eq!(agent.step("unit/systemd.app"), StepStatus::Failed);
    assert!(
        agent.reason("unit/systemd.app").contains("systemd"),
        "{}",
        agent.reason("unit/systemd.app")
    );
}
