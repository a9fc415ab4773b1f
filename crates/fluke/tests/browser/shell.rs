//! What holds for every page.

use super::driver::visitor;
use crate::stories::support::Fleet;

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_sees_what_the_server_says() {
    let fleet = Fleet::start().await;
    let Some(page) = visitor(fleet.server().http).await else { return };
    page.load("/healthz").await;
    page.says("ok").await;
    page.screenshot("healthz").await;
}
