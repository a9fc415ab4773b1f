//! Pictures of pages, kept in `target/screenshots`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::page::Page;
use super::workspace;

impl Page {
    /// What is in the window now, as a PNG.
    pub async fn picture(&self) -> Vec<u8> {
        // Two frames later, everything that was changed is painted.
        self.evaluate::<bool>(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))",
        )
        .await;
        let taken = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        STANDARD.decode(taken["data"].as_str().unwrap_or_default()).expect("a picture")
    }

    /// Keeps a picture for people to look at.
    pub async fn screenshot(&self, name: &str) {
        let folder = workspace().join("target/screenshots");
        std::fs::create_dir_all(&folder).expect("a folder");
        let picture = self.picture().await;
        std::fs::write(folder.join(format!("{name}.png")), picture).expect("a picture is written");
    }
}
