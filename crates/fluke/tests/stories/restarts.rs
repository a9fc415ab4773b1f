//! Server and agents come and go; what Git says stays true.

use fluke_agent::AgentStatus;
use fluke_model::event::EventKind;
use fluke_model::status::Status;
use fluke_server::trust::Grant;

use super::support::{Fleet, Host, Options, TOKEN};

fn keeps(root: &str) -> String {
    format!(
        "task \"page\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  shell \"file\" {{\n    check   = \"test -f {root}/page\"\n    command = \"echo x >> {root}/page\"\n  }}\n}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_restarts_carries_on_and_applies_nothing_twice() {
    let fleet = Fleet::start().await;
    let mut host = fleet.join("web-1", "").await;
    fleet.commit("a page", &keeps(&fleet.root("web-1"))).await;
    fleet.settles().await;
    for _ in 0..2 {
        host.kill_agent().await;
        fleet.until("it is known to be away", |fleet| !fleet.agent("web-1").connected).await;
        assert_eq!(fleet.agent("web-1").status(), Status::Offline);
        host.start_agent();
        fleet.until("it is back", |fleet| fleet.agent("web-1").connected).await;
        fleet.settles().await;
    }
    host.stop_agent().await;
    host.remove("page");
    host.start_agent();
    fleet
        .until("it is back, and so is the page", |fleet| {
            fleet.agent("web-1").status() == Status::InSync && host.has("page")
        })
        .await;
    assert_eq!(fleet.applies("web-1").await, 2, "{}", fleet.told().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_knows_everything_again_and_applies_nothing() {
    let mut fleet = Fleet::start().await;
    let host = fleet.join("web-1", "role=web").await;
    fleet.commit("a page", &keeps(&fleet.root("web-1"))).await;
    fleet.settles().await;
    fleet.stop_server().await;
    fleet.start_server().await;
    fleet.until("the agent is back", |fleet| fleet.agent("web-1").connected).await;
    fleet.settles().await;
    assert_eq!(fleet.agent("web-1").status(), Status::InSync);
    assert_eq!(fleet.agent("web-1").tasks(), ["page"]);
    assert_eq!(fleet.applies("web-1").await, 0, "{}", fleet.told().await);
    assert_eq!(host.read("page"), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_applied_while_the_server_restarts_is_told_afterwards() {
    let mut fleet = Fleet::start().await;
    let host = fleet.join("web-1", "").await;
    let root = fleet.root("web-1");
    let waits = format!(
        "touch {root}/began; until test -f {root}/go; do sleep 0.02; done; echo x >> {root}/page"
    );
    let manifest = keeps(&root).replace(&format!("echo x >> {root}/page"), &waits);
    fleet.commit("slowly", &manifest).await;
    fleet.until("the apply has begun", |_| host.has("began")).await;
    fleet.stop_server().await;
    host.write("go", "");
    fleet.start_server().await;
    fleet.until("the page is there", |_| host.has("page")).await;
    fleet.until("the agent is back", |fleet| fleet.agent("web-1").connected).await;
    fleet.settles().await;
    assert_eq!(host.read("page"), "x\n", "applied once");
    let ended = fleet.events(&[EventKind::ApplyFinished]).await;
    assert_eq!(ended.len(), 1, "{}", fleet.told().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newer_of_two_agents_with_one_name_is_refused_while_the_older_lives() {
    let fleet = Fleet::start().await;
    let mut first = fleet.join("web-1", "role=web").await;
    let folder = tempfile::tempdir().expect("a folder");
    let grpc = fleet.server().grpc;
    let second = Host::start("web-1", "role=db", TOKEN, grpc, folder.path().to_path_buf());
    let refused = |host: &Host| {
        host.statuses().iter().any(|status| matches!(status, AgentStatus::Refused { reason, .. } if reason.contains("another agent is connected as `web-1`")))
    };
    fleet.until("the second is refused", |_| refused(&second)).await;
    assert_eq!(fleet.agent("web-1").labels(), "role=web");
    assert!(!fleet.events(&[EventKind::AgentRefused]).await.is_empty());
    first.kill_agent().await;
    fleet
        .until("the second has taken over", |fleet| fleet.agent("web-1").labels() == "role=db")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_gets_nothing_and_is_on_record() {
    let fleet = Fleet::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let grpc = fleet.server().grpc;
    let stranger = Host::start("web-1", "", "not-the-token", grpc, folder.path().to_path_buf());
    let refused = |host: &Host| {
        host.statuses().iter().any(|status| matches!(status, AgentStatus::Refused { reason, .. } if reason.contains("token")))
    };
    fleet.until("it is refused", |_| refused(&stranger)).await;
    assert!(fleet.agents().is_empty());
    let told = fleet.events(&[EventKind::AgentRefused]).await;
    let text = told[0].output.clone().unwrap_or_default();
    assert!(text.contains("a wrong token") && !text.contains("not-the-token"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_token_is_for_its_own_names_and_labels() {
    let labels = fluke_model::label::Labels::parse_pair("role=web").expect("a label");
    let bound =
        Grant::bound("web", TOKEN, &["web-*".into()], fluke_model::label::Labels([labels].into()));
    let fleet =
        Fleet::with(Options { grants: vec![bound.expect("globs")], ..Options::default() }).await;
    let _web = fleet.join("web-1", "role=web").await;
    let impostor = fleet.host("db-1", "role=web");
    let climber = fleet.host("web-2", "role=db");
    for host in [&impostor, &climber] {
        let refused = || {
            host.statuses().iter().any(|status| matches!(status, AgentStatus::Refused { reason, .. } if reason.contains("the token `web` is not for")))
        };
        fleet.until("it is refused", |_| refused()).await;
        assert!(
            host.statuses().iter().all(|status| !matches!(status, AgentStatus::Connected { .. }))
        );
    }
    assert_eq!(fleet.agents().len(), 1);
    let told: Vec<_> = fleet.events(&[EventKind::AgentRefused]).await;
    let told: String = told.iter().filter_map(|event| event.output.clone()).collect();
    assert!(told.contains("as `db-1`") && told.contains("role=db"), "on record: {told}");
}
