//! Whether everybody can use a page: axe-core's rules for WCAG 2.1 AA, in the page itself.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::chromium::skip;
use super::page::Page;
use super::workspace;

/// One rule that a page breaks.
#[derive(Debug, Deserialize)]
pub struct Violation {
    pub id: String,
    pub help: String,
    pub nodes: Vec<Node>,
}

/// Where.
#[derive(Debug, Deserialize)]
pub struct Node {
    pub html: String,
    #[serde(rename = "failureSummary")]
    pub summary: Option<String>,
}

const RUN: &str = "axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'],
    resultTypes: ['violations'],
}).then((found) => found.violations.map(({ id, help, nodes }) => ({
    id, help, nodes: nodes.slice(0, 5).map(({ html, failureSummary }) => ({ html, failureSummary })),
})))";

/// The script; none where it is not installed.
fn axe() -> Option<String> {
    let path: PathBuf = workspace().join("target/test-tools/lib/node_modules/axe-core/axe.min.js");
    let script = std::fs::read_to_string(path).ok();
    if script.is_none() {
        skip("there is no axe-core: run scripts/test-tools");
    }
    script
}

impl Page {
    /// The rules that the page breaks as it is now; none where axe is not installed.
    pub async fn violations(&self) -> Vec<Violation> {
        if !self.evaluate::<bool>("'axe' in window").await {
            let Some(axe) = axe() else { return Vec::new() };
            // Given by the driver, not by the page: its content policy has no say.
            self.evaluate::<Value>(&format!("{axe};null")).await;
        }
        self.evaluate(RUN).await
    }

    /// Nothing keeps anybody from using the page as it is now.
    pub async fn is_accessible(&self, what: &str) {
        let violations = self.violations().await;
        let told: Vec<_> = violations
            .iter()
            .flat_map(|rule| rule.nodes.iter().map(move |node| (rule, node)))
            .map(|(rule, node)| {
                let summary = node.summary.as_deref().unwrap_or_default();
                format!("{}: {}\n  {}\n  {summary}", rule.id, rule.help, node.html)
            })
            .collect();
        assert!(told.is_empty(), "{what} keeps some people out:\n{}", told.join("\n"));
    }
}
