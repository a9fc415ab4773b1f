//! The browser's stories would fail if a page did what it must not: a guard that cannot bark is none.

use axum::Router;
use axum::response::Html;
use axum::routing::get;

use super::driver::visitor;

/// A page that does everything wrong.
async fn rogue() -> Option<std::net::SocketAddr> {
    const ASKS: &str = "<img src='http://localhost:9/pixel.png'>";
    const COMPLAINS: &str = "<script>console.error('a complaint'); throw Error('a throw')</script>";
    const BREAKS: &str = "<script>document.title = 'ran'</script>";
    let strict = [("content-security-policy", "script-src 'self'")];
    let pages = Router::new()
        .route("/asks", get(async || Html(ASKS)))
        .route("/complains", get(async || Html(COMPLAINS)))
        .route("/breaks", get(async move || (strict, Html(BREAKS))));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.ok()?;
    let address = listener.local_addr().ok()?;
    tokio::spawn(async move { axum::serve(listener, pages).await });
    Some(address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_does_not_behave_is_found_out() {
    let address = rogue().await.expect("a port");
    let Some(page) = visitor(address).await else { return };
    for (path, wrongs) in [
        ("/asks", &["it asked for http://localhost:9/pixel.png"][..]),
        ("/complains", &["a complaint", "a throw"][..]),
        ("/breaks", &["violates the following Content Security Policy"][..]),
    ] {
        page.load(path).await;
        let misconduct = page.misconduct();
        for wrong in wrongs {
            let is_found = misconduct.iter().any(|found| found.contains(wrong));
            assert!(is_found, "{path}: {misconduct:#?}");
        }
        page.forgives(&[
            "localhost:9",
            "ERR_CONNECTION",
            "a complaint",
            "a throw",
            "Policy",
            "favicon",
        ]);
    }
}
