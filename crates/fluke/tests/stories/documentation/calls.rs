//! What the pages say of the API is what a server answers.

use fluke_model::api;
use serde_json::Value;

use super::book::{Block, pages};
use crate::stories::support::Fleet;

fn blocks(tag: &str) -> Vec<Block> {
    let blocks = pages().into_iter().flat_map(|page| page.blocks());
    let found: Vec<Block> = blocks.filter(|block| block.tag.starts_with(tag)).collect();
    assert!(!found.is_empty(), "no page has a block of {tag}");
    found
}

#[test]
fn values_of_the_api_are_what_they_are_called() {
    fn reads<T: serde::de::DeserializeOwned>(block: &Block) {
        if let Err(error) = serde_json::from_str::<T>(&block.text) {
            panic!("{}: not a {}: {error}", block.place, block.tag);
        }
    }
    for block in blocks("json,") {
        match block.tag.trim_start_matches("json,") {
            "Agent" => reads::<api::Agent>(&block),
            "DriftEntry" => reads::<api::DriftEntry>(&block),
            "ServiceView" => reads::<api::ServiceView>(&block),
            "ReconcileRequest" => reads::<api::ReconcileRequest>(&block),
            other => panic!("{}: what is a {other}?", block.place),
        }
    }
}

/// One line of a block: what is asked, and what comes of it.
struct Ask<'a> {
    method: &'a str,
    path: &'a str,
    body: Option<Value>,
    status: u16,
}

impl<'a> Ask<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (asked, status) = line.split_once("# =>")?;
        let (method, rest) = asked.trim().split_once(' ')?;
        let (path, body) = match rest.trim().split_once(' ') {
            Some((path, body)) => (path, Some(serde_json::from_str(body).ok()?)),
            None => (rest.trim(), None),
        };
        Some(Self { method, path, body, status: status.trim().parse().ok()? })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_as_the_pages_say() {
    let fleet = Fleet::start().await;
    let _host = fleet.join("web-01", "role=web,env=test").await;
    let manifest = r#"
task "certs" {
  drift {
    policy = "alert_only"
  }
  selector {
    match_labels = { role = "web" }
  }
  shell "renew" {
    check   = "false"
    command = "true"
  }
}
"#;
    fleet.commit("certificates", manifest).await;
    fleet.settles().await;
    fleet.commit_service("shop", &["web-01"]).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().unix_socket(fleet.socket()).build().expect("a client");
    for block in blocks("http") {
        for line in block.text.lines() {
            let ask = Ask::read(line).unwrap_or_else(|| {
                panic!("{}: not `METHOD /path # => status`: {line}", block.place)
            });
            let url = format!("http://fluke{}", ask.path);
            let mut request = client.request(ask.method.parse().expect("a method"), url);
            if let Some(body) = &ask.body {
                request = request.json(body);
            }
            let answer = request.send().await.expect("an answer");
            let status = answer.status().as_u16();
            let text = answer.text().await.expect("a body");
            assert_eq!(status, ask.status, "{}: {line}\n{text}", block.place);
        }
    }
}
