//! One agent: what is wrong with it, why, and what happened.

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_tells_its_reason_what_differs_and_its_timeline() {
    let stage = Stage::troubled().await;
    let Some(page) = stage.operator("/").await else { return };
    page.clicks_on("link", "web-02").await;
    page.is_at("agent").await;
    assert_eq!(page.address().await, "/agents/web-02");
    page.says("the certificate is good for 2 more days, and should be for 7").await;
    let diff = page.finds("group", "What differs").await.text().await;
    assert!(diff.contains("+notAfter 2 days from now"), "{diff}");
    page.says("it waits for approval").await;
    let timeline = page.finds("region", "Timeline").await.text().await;
    for told in ["Drift found", "Connected"] {
        assert!(timeline.contains(told), "{timeline}");
    }
    page.screenshot("agent").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_apply_shows_what_it_printed() {
    let stage = Stage::troubled().await;
    let Some(page) = stage.operator("/agents/db-02").await else { return };
    page.says("No space left on device").await;
    page.says("the next try is").await;
    page.finds("heading", "db-02").await;
    page.screenshot("agent-failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_nobody_knows_leads_back() {
    let stage = Stage::calm().await;
    let Some(page) = stage.operator("/agents/nobody").await else { return };
    page.says("No host is called nobody").await;
    page.clicks("link", "Back to the fleet").await;
    page.is_at("fleet").await;
    page.load("/no/such/page").await;
    page.says("No page of fluke has this address").await;
    page.forgives(&["404"]);
}
