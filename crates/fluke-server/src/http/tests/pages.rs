//! What browsers are served.

use super::*;
use crate::http::auth::Access;

fn pages() -> impl Iterator<Item = String> {
    let pages = ROUTES.iter().filter(|route| route.access == Access::Page);
    pages.map(|route| route.path.replace("{*name}", "dc1/web-01"))
}

/// Where the page's script is served.
fn script(page: &Answer) -> String {
    let from = page.text.find("src=\"").expect("a script") + 5;
    page.text[from..].split('"').next().unwrap_or_default().to_string()
}

#[tokio::test]
async fn every_page_is_the_shell_and_its_assets_are_kept_for_ever() {
    let server = Server::start(Setup::default()).await;
    for path in pages() {
        let page = server.get(&path).await;
        assert_eq!(
            (page.status, &page.headers["cache-control"]),
            (200, &"no-store".parse().expect("header"))
        );
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        let policy = page.headers["content-security-policy"].to_str().expect("text");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.headers["x-frame-options"], "DENY");
        let asset = server.get(&script(&page)).await;
        assert_eq!(asset.status, 200);
        assert_eq!(asset.headers["content-type"], "text/javascript; charset=utf-8");
        assert_eq!(asset.headers["cache-control"], "public, max-age=31536000, immutable");
    }
    let head = Answer::of(server.client.head(server.at("/"))).await;
    assert_eq!((head.status, &*head.text), (200, ""));
    assert_eq!(head.headers["content-type"], "text/html; charset=utf-8");
}

#[tokio::test]
async fn assets_of_another_version_and_pages_among_them_are_not_served() {
    let server = Server::start(Setup::default()).await;
    let script = script(&server.get("/").await);
    let folder = script.rsplit_once('/').expect("a folder").0;
    let other = script.replace("/assets/", "/assets/0");
    for path in [&*other, &format!("{folder}/index.html"), &format!("{folder}/nothing.js")] {
        assert_eq!(server.get(path).await.problem().0, 404, "{path}");
    }
}

#[tokio::test]
async fn the_icon_is_where_browsers_look_for_it() {
    let server = Server::start(Setup { tokens: &["right"], ..Setup::default() }).await;
    let icon = server.get("/favicon.ico").await;
    assert_eq!((icon.status, &icon.text[..4]), (200, "<svg"));
    assert_eq!(icon.headers["content-type"], "image/svg+xml; charset=utf-8");
}

#[tokio::test]
async fn a_wrong_turn_is_a_page_for_people_and_a_problem_for_programs() {
    let server = Server::start(Setup::default()).await;
    let browser = |path: &str| server.client.get(server.at(path)).header("accept", "text/html,*/*");
    let page = Answer::of(browser("/nowhere<script>")).await;
    assert_eq!(page.status, 404);
    assert!(page.text.contains("Nothing is here") && !page.text.contains("<script"));
    assert_eq!(server.get("/nowhere").await.problem().0, 404);
    assert_eq!(Answer::of(browser("/api/v1/nowhere")).await.problem().0, 404);
}

#[tokio::test]
async fn pages_lead_to_the_door_and_remember_where_to() {
    let server = Server::start(Setup { tokens: &["right"], ..Setup::default() }).await;
    for path in pages() {
        let answer = server.get(&format!("{path}?a=b&c=%2F")).await;
        assert_eq!(answer.status, 303, "{path}");
        let next = path.replace('/', "%2F");
        let door = format!("/sign-in?next={next}%3Fa%3Db%26c%3D%252F");
        assert_eq!(answer.headers["location"], door);
        let door = server.get(&door).await;
        assert_eq!(door.status, 200);
        assert!(door.text.contains("Sign in"), "{}", door.text);
    }
}
