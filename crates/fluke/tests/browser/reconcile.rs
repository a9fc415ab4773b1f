//! Putting things right by hand: asked for, confirmed, followed; an approval is of what was seen.

use fluke_bed::swarm::Trouble;
use fluke_model::event::EventKind;
use fluke_model::status::Status;
use fluke_model::verdict::Drift;

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn drift_that_waits_is_approved_after_its_reason_was_seen() {
    let stage = Stage::calm().await;
    stage.certificate_expires("web-01").await;
    stage.certificate_expires("web-02").await;
    let Some(page) = stage.operator("/drift").await else { return };
    page.finds("heading", "2 steps are drifted").await;
    page.screenshot("drift").await;
    page.clicks("button", "Approve certificates on web-02 …").await;
    let dialog = page.finds("dialog", "Approve certificates on web-02?").await;
    assert!(dialog.text().await.contains("the certificate is good for 2 more days"));
    page.screenshot("approve").await;
    page.is_accessible("an approval").await;
    stage.swarm.hold();
    page.clicks("button", "Approve").await;
    page.says("Applying").await;
    stage.has("web-02", Status::Applying).await;
    page.screenshot("progress").await;
    stage.swarm.release();
    page.says("put right").await;
    page.finds("dialog", "Done").await;
    page.clicks("button", "Close").await;
    page.finds("heading", "1 step is drifted").await;
    stage.has("web-02", Status::InSync).await;
    stage.has("web-01", Status::Drifted).await;
    let asked = stage.fleet.events(&[EventKind::ReconcileRequested]).await;
    assert!(asked[0].by.as_deref().is_some_and(|by| by.contains("Ada")), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_of_what_was_seen_and_of_nothing_else() {
    let stage = Stage::calm().await;
    stage.certificate_expires("web-02").await;
    let Some(page) = stage.operator("/agents/web-02").await else { return };
    page.clicks("button", "Approve …").await;
    page.finds("dialog", "Approve certificates on web-02?").await;
    let other = Trouble::Drifted(Drift::because("the key was replaced by somebody else's"));
    stage.suffers("web-02", "certificates/shell.renew", other).await;
    let reason = |fleet: &crate::stories::support::Fleet| {
        fleet.agent("web-02").reason("certificates/shell.renew")
    };
    stage.fleet.until("the server knows", |fleet| reason(fleet).contains("somebody else's")).await;
    page.clicks("button", "Approve").await;
    page.says("It was not begun").await;
    page.forgives(&["409"]);
    stage.has("web-02", Status::Drifted).await;
    assert!(stage.fleet.events(&[EventKind::ApplyStarted]).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_is_confirmed_and_followed_to_its_end() {
    let stage = Stage::calm().await;
    let Some(page) = stage.operator("/agents/web-01").await else { return };
    stage.certificate_expires("web-01").await;
    page.clicks("button", "Reconcile …").await;
    page.finds("dialog", "Reconcile web-01?").await;
    page.clicks("button", "Cancel").await;
    page.until("the dialog is closed", "!document.querySelector('dialog[open]')").await;
    assert_eq!(page.focused().await.1, "Reconcile …", "back where one was");
    stage.has("web-01", Status::Drifted).await;

    stage.swarm.hold();
    page.presses("r").await;
    page.finds("dialog", "Reconcile web-01?").await;
    let inside = page.evaluate::<usize>("document.querySelectorAll('dialog button').length").await;
    assert_eq!(inside, 2);
    page.tabs_to("button", "Reconcile").await;
    page.presses("Enter").await;
    page.finds("dialog", "Reconciling").await;
    page.clicks("button", "Let it run").await;
    page.clicks("button", "Reconciling").await;
    page.says("is being applied").await;
    stage.swarm.release();
    page.finds("dialog", "Done").await;
    page.says("put right").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialog_that_opens_as_another_closes_is_not_emptied() {
    let stage = Stage::calm().await;
    let Some(page) = stage.operator("/agents/web-01").await else { return };
    page.clicks("button", "Reconcile …").await;
    page.finds("dialog", "Reconcile web-01?").await;
    // The browser tells of the closing only when the second one is open.
    let at_once = "(() => {
        const named = (name) => [...document.querySelectorAll('button')].find((it) => it.textContent === name);
        const dialog = document.querySelector('dialog');
        dialog.addEventListener('close', () => { window.toldOfClosing = true; });
        named('Cancel').click();
        named('Reconcile …').click();
        return dialog.open;
    })()";
    assert!(page.evaluate::<bool>(at_once).await, "open again");
    page.until("the browser told of the closing", "window.toldOfClosing === true").await;
    page.finds("dialog", "Reconcile web-01?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_that_fails_shows_what_was_printed() {
    let stage = Stage::calm().await;
    stage.backup_fails("db-01").await;
    let Some(page) = stage.operator("/tasks/db/backup").await else { return };
    page.clicks("button", "Reconcile …").await;
    page.finds("dialog", "Reconcile db/backup?").await;
    page.clicks("button", "Reconcile").await;
    page.finds("dialog", "Something failed").await;
    page.says("No space left on device").await;
    page.is_accessible("a failed reconcile").await;
    page.screenshot("progress-failed").await;
}
