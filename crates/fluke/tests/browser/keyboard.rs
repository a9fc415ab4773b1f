//! All of it without a mouse.

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_drift_is_found_and_approved_without_a_mouse() {
    let stage = Stage::troubled().await;
    let Some(page) = stage.operator("/").await else { return };
    page.presses("Tab").await;
    assert_eq!(page.focused().await.1, "Skip to content");
    page.presses("/").await;
    assert_eq!(page.focused().await.1, "Filter by name or label");
    for letter in ["w", "e", "b"] {
        page.presses(letter).await;
    }
    page.until("four are listed", "document.querySelectorAll('main ul .row').length === 4").await;
    page.presses("Escape").await;
    page.presses("j").await;
    page.presses("Enter").await;
    page.is_at("agent").await;
    assert_eq!(page.address().await, "/agents/web-02", "the drifted one is first");
    page.tabs_to("button", "Approve …").await;
    page.presses("Enter").await;
    page.finds("dialog", "Approve certificates on web-02?").await;
    page.tabs_to("button", "Approve").await;
    page.presses("Space").await;
    page.finds("dialog", "Done").await;
    page.presses("Escape").await;
    page.until("the dialog is closed", "!document.querySelector('dialog[open]')").await;

    for (key, at) in
        [("d", "drift"), ("t", "tasks"), ("e", "events"), ("s", "source"), ("f", "fleet")]
    {
        page.presses("g").await;
        page.presses(key).await;
        page.is_at(at).await;
    }
    page.presses("?").await;
    page.finds("dialog", "Keyboard").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn focus_and_what_is_typed_stay_when_something_changes() {
    let stage = Stage::calm().await;
    let Some(page) = stage.operator("/").await else { return };
    page.is_live(true).await;
    page.writes("searchbox", "Filter by name or label", "web").await;
    stage.certificate_expires("web-03").await;
    page.says("the certificate is good for 2 more days").await;
    assert_eq!(page.focused().await.1, "Filter by name or label");
    let written: String = page.evaluate("document.activeElement.value").await;
    assert_eq!(written, "web");
}
