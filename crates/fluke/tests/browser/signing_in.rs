//! Who is let in, and who may only look.

use super::stage::{API_TOKEN, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_a_token_gets_to_the_page_they_wanted() {
    let stage = Stage::calm().await;
    let Some(page) = stage.visitor().await else { return };
    page.load("/tasks?name=nginx").await;
    page.finds("heading", "Sign in").await;
    assert_eq!(page.focused().await, ("textbox".into(), "API token".into()));

    page.writes("textbox", "API token", "a guess").await;
    page.presses("Enter").await;
    page.says("This is not one of the API tokens of this server.").await;
    page.forgives(&["401"]);

    page.writes("textbox", "API token", API_TOKEN).await;
    page.writes("textbox", "Your name, for the history (optional)", "Ada").await;
    page.presses("Enter").await;
    page.is_at("tasks").await;
    assert_eq!(page.address().await, "/tasks?name=nginx");
    page.says("Ada").await;
    assert_eq!(page.evaluate::<String>("document.cookie").await, "", "no script can read it");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_signs_out_is_out() {
    let stage = Stage::calm().await;
    let Some(page) = stage.operator("/").await else { return };
    page.clicks("button", "Sign out").await;
    page.finds("heading", "Sign in").await;
    page.load("/drift").await;
    page.finds("heading", "Sign in").await;
    let status: u16 = page.evaluate("fetch('/api/v1/agents').then((it) => it.status)").await;
    assert_eq!(status, 401);
    page.forgives(&["401"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tokens_can_be_looked_at_and_says_how_to_change_things() {
    let stage = Stage::read_only().await;
    stage.certificate_expires("web-02").await;
    let Some(page) = stage.visitor().await else { return };
    page.goes_to("/agents/web-02").await;
    page.says("Read-only").await;
    assert!(!page.has("button", "Sign out").await);
    page.clicks("button", "Approve …").await;
    page.finds("dialog", "Read-only here").await;
    page.says("fluke reconcile task certificates --agent web-02").await;
    assert!(!page.has("button", "Approve").await, "nothing here changes anything");
    page.is_accessible("what a server without tokens says").await;
    page.screenshot("read-only").await;
}
