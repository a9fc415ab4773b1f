//! The repository: what is in force, and why the newest commit is not.

use super::stage::{MANIFEST, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_commit_is_shown_with_the_line_that_is_wrong() {
    let stage = Stage::calm().await;
    let Some(page) = stage.operator("/source").await else { return };
    page.finds("heading", "The newest commit is in force").await;

    let broken = MANIFEST.replace("command = \"/usr/local", "comand  = \"/usr/local");
    stage.fleet.commit_files("Renew by hand", &[("site.fluke.hcl", &broken)]).await;
    page.finds("heading", "The newest commit is not in force").await;
    page.says("unknown attribute `comand`").await;
    let frame = page.finds("group", "site.fluke.hcl, line 28").await.text().await;
    assert!(frame.contains("comand") && frame.contains("^^^^^^"), "{frame}");
    page.screenshot("source-rejected").await;
    page.clicks("link", "Fleet").await;
    page.says("was rejected").await;
    page.clicks("link", "See what is wrong with it").await;
    page.is_at("source").await;

    stage.fleet.commit_files("Renew by machine", &[("site.fluke.hcl", MANIFEST)]).await;
    page.finds("heading", "The newest commit is in force").await;
    page.stops_saying("unknown attribute").await;
}
