//! Everything that happened, newest first, as it happens.

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn events_come_by_themselves_and_are_narrowed_by_the_address() {
    let stage = Stage::troubled().await;
    let Some(page) = stage.operator("/events").await else { return };
    page.is_at("events").await;
    page.is_live(true).await;
    page.says("Apply failed").await;
    page.screenshot("events").await;

    page.writes("searchbox", "Agent", "web-02").await;
    page.presses("Enter").await;
    page.address_becomes("/events?agent=web-02").await;
    page.stops_saying("Apply failed").await;
    page.says("Drift found").await;
    let healed = stage.swarm.recover("web-02", "certificates/shell.renew").await;
    healed.expect("the host is there");
    page.says("Drift went away by itself").await;

    page.goes_back().await;
    page.address_becomes("/events").await;
    page.says("Apply failed").await;
    page.goes_to("/events?kind=commit_accepted").await;
    page.says("Commit in force").await;
    let told: Vec<String> = page
        .evaluate(
            "[...document.querySelectorAll('main .timeline strong')].map((it) => it.innerText)",
        )
        .await;
    assert!(told.iter().all(|told| told == "Commit in force"), "{told:?}");
}
