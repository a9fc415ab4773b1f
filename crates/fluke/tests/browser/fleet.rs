//! The fleet: what is wrong first, live, and narrowed by what the address says.

use fluke_model::status::Status;

use super::driver::Page;
use super::stage::Stage;

/// The names of the agents that are listed, in order.
async fn listed(page: &Page) -> Vec<String> {
    page.evaluate("[...document.querySelectorAll('main ul .row-name')].map((it) => it.innerText)")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_comes_first_with_its_reason() {
    let stage = Stage::troubled().await;
    let Some(page) = stage.operator("/").await else { return };
    page.is_at("fleet").await;
    page.finds("heading", "2 hosts of 8 are not as Git says").await;
    page.says("the certificate is good for 2 more days, and should be for 7").await;
    page.says("waits for approval").await;
    let listed = listed(&page).await;
    assert_eq!(listed[..3], ["db-02", "web-02", "web-04"], "failed, drifted, away, then the rest");
    assert_eq!(listed.len(), 8);
    assert!(page.evaluate::<String>("document.title").await.starts_with("(2) "));
    page.screenshot("fleet").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_shows_without_a_reload() {
    let stage = Stage::calm().await;
    let Some(page) = stage.operator("/").await else { return };
    page.is_live(true).await;
    page.finds("heading", "All 8 hosts are as Git says").await;
    page.evaluate::<bool>("window.isTheSameDocument = true").await;

    stage.certificate_expires("web-03").await;
    page.finds("heading", "1 host of 8 is not as Git says").await;
    page.says("the certificate is good for 2 more days").await;
    assert_eq!(listed(&page).await[0], "web-03");

    let healed = stage.swarm.recover("web-03", "certificates/shell.renew").await;
    healed.expect("the host is there");
    page.finds("heading", "All 8 hosts are as Git says").await;
    stage.swarm.leave("db-01").await.expect("the host is there");
    page.finds("heading", "1 host of 8 is offline").await;
    stage.swarm.come_back("db-01").await.expect("the host is there");
    page.finds("heading", "All 8 hosts are as Git says").await;
    assert!(page.evaluate::<bool>("window.isTheSameDocument").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_live_in_the_address() {
    let stage = Stage::troubled().await;
    let Some(page) = stage.operator("/?status=drifted&label=role=web").await else { return };
    page.until("one is listed", "document.querySelectorAll('main ul .row').length === 1").await;
    assert_eq!(listed(&page).await, ["web-02"]);
    page.says("1 host of 8").await;

    page.clicks("button", "Clear all filters").await;
    page.address_becomes("/").await;
    page.clicks("button", "Offline 1").await;
    page.address_becomes("/?status=offline").await;
    page.until("one is listed", "document.querySelectorAll('main ul .row').length === 1").await;
    assert_eq!(listed(&page).await, ["web-04"]);

    page.goes_back().await;
    page.address_becomes("/").await;
    page.until("all are listed", "document.querySelectorAll('main ul .row').length === 8").await;

    page.writes("searchbox", "Filter by name or label", "db-").await;
    page.until("two are listed", "document.querySelectorAll('main ul .row').length === 2").await;
    let address = page.address().await;
    page.reload().await;
    page.is_ready().await;
    assert_eq!(page.address().await, address);
    assert_eq!(listed(&page).await, ["db-02", "db-01"]);

    page.writes("searchbox", "Filter by name or label", "role=d").await;
    page.until("two are listed", "document.querySelectorAll('main ul .row').length === 2").await;
    assert_eq!(listed(&page).await, ["db-02", "db-01"], "a label, and the beginning of its value");

    page.writes("searchbox", "Filter by name or label", "nobody").await;
    page.says("No host matches these filters").await;
    assert_eq!(listed(&page).await, Vec::<String>::new());
    page.screenshot("fleet-nothing-found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tiles_show_many_at_a_glance() {
    let stage = Stage::troubled().await;
    let Some(page) = stage.operator("/").await else { return };
    page.clicks("button", "As tiles").await;
    page.address_becomes("/?view=tiles").await;
    page.until("all are there", "document.querySelectorAll('main ul .tile').length === 8").await;
    page.screenshot("fleet-tiles").await;
    page.clicks("link", "web-02 Drifted").await;
    page.is_at("agent").await;
    assert_eq!(page.address().await, "/agents/web-02");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_fleet_teaches_the_next_step() {
    let stage = Stage::empty().await;
    let Some(page) = stage.operator("/").await else { return };
    page.finds("heading", "No host has joined yet").await;
    page.says("fluke join-line").await;
    page.screenshot("empty-fleet").await;

    let mut stage = stage;
    stage.swarm.join(1).await.expect("it joins");
    page.finds("heading", "The one host is as Git says").await;
    stage.has("web-eu-00000", Status::InSync).await;
    page.goes_to("/tasks").await;
    page.says("The repository has no task yet").await;
    page.goes_to("/drift").await;
    page.says("Nothing is drifted").await;
}
