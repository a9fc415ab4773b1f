//! Tasks: what they are, where they are written, how they stand.

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_tells_where_it_is_written_and_how_it_stands_on_each_host() {
    let stage = Stage::troubled().await;
    let Some(page) = stage.operator("/tasks").await else { return };
    page.is_at("tasks").await;
    page.finds("heading", "4 tasks").await;
    page.screenshot("tasks").await;
    page.clicks("link", "certificates").await;
    page.is_at("task").await;
    assert_eq!(page.address().await, "/tasks/certificates");
    page.says("site.fluke.hcl:15").await;
    page.says("openssl x509 -checkend 604800").await;
    page.finds("heading", "4 hosts").await;
    page.says("1 drifted, 1 offline, 2 in sync").await;
    page.screenshot("task").await;

    stage.certificate_expires("web-01").await;
    page.says("2 drifted, 1 offline, 1 in sync").await;
    page.goes_to("/tasks/web/nginx").await;
    page.says("nginx.service").await;
}
