//! The pictures of the book, made by a story: they show what is there, or the story fails.

use fluke_bed::swarm::Trouble;
use fluke_model::status::Status;

use super::driver::{Scheme, style_is_recorded};
use super::stage::{MANIFEST, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn the_book_shows_pages_as_they_are() {
    let stage = Stage::calm().await;
    let Some(page) = stage.visitor().await else { return };
    page.load("/").await;
    page.finds("heading", "Sign in").await;
    page.picture("sign-in").await;
    drop(page);

    stage.certificate_expires("web-02").await;
    let unclear = Trouble::Unclear { reason: "find: '/srv/backup': Stale file handle".into() };
    stage.suffers("db-02", "db/backup/shell.last-night", unclear).await;
    stage.has("db-02", Status::Failed).await;
    stage.swarm.leave("web-04").await.expect("it leaves");
    stage.has("web-04", Status::Offline).await;

    let Some(page) = stage.operator("/").await else { return };
    page.is_live(true).await;
    page.says("the certificate is good for 2 more days").await;
    page.finds("link", "Drift 2 drifted").await;
    page.picture("fleet").await;
    page.on_a_phone().await;
    page.prefers(Scheme::Dark).await;
    page.picture("fleet-phone").await;
    page.at_a_desk().await;
    page.prefers(Scheme::Light).await;

    page.goes_to("/agents/web-02").await;
    page.is_live(true).await;
    page.says("Drift found").await;
    page.finds("link", "Drift 2 drifted").await;
    page.finds("button", "Approve …").await;
    page.picture("agent").await;
    page.clicks("button", "Approve …").await;
    page.finds("dialog", "Approve certificates on web-02?").await;
    page.picture("approve").await;
    stage.swarm.hold();
    page.clicks("button", "Approve").await;
    page.says("is being applied").await;
    page.says("It is being put right now.").await;
    page.picture("progress").await;
    stage.swarm.release();
    page.finds("dialog", "Done").await;

    let broken = MANIFEST.replace("command = \"/usr/local", "comand  = \"/usr/local");
    stage.fleet.commit_files("Renew by hand", &[("site.fluke.hcl", &broken)]).await;
    stage.fleet.until("it was rejected", |fleet| fleet.source().rejected).await;
    page.goes_to("/source").await;
    page.is_live(true).await;
    page.says("unknown attribute").await;
    page.finds("link", "Drift 1 drifted").await;
    page.finds("link", "Source ! problem").await;
    page.picture("source").await;
    style_is_recorded();
}
