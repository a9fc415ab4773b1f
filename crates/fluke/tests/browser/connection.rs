//! The server goes away and comes back: a page says so, and catches up.

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_that_the_connection_is_lost_and_catches_up() {
    let mut stage = Stage::calm().await;
    let Some(page) = stage.operator("/").await else { return };
    page.is_live(true).await;
    stage.fleet.stop_server().await;
    page.is_live(false).await;
    page.says("The connection to the server is lost").await;
    page.screenshot("connection-lost").await;
    stage.fleet.start_server().await;
    page.is_live(true).await;
    page.stops_saying("The connection to the server is lost").await;
    stage.certificate_expires("web-01").await;
    page.finds("heading", "1 host of 8 is not as Git says").await;
    page.forgives(&["net::ERR_", "EventSource"]);
}
