//! Pictures of pages: for people to look at, in `target/screenshots`, and for the book.
//!
//! A picture in the book has what the page said recorded beside this code. A page that says
//! something else now has an old picture: the story fails until `FLUKE_BLESS=1` makes it anew.
//! Pixels are not compared; they differ with every version of a font.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::page::Page;
use super::workspace;

/// No picture in the book may be larger.
const LARGEST: usize = 150 * 1024;

/// Two frames later, everything that was changed is painted.
const PAINTED: &str = "new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";

/// What is in front: behind a dialog, anything may go on.
const SAYS: &str = "(document.querySelector('dialog[open]') ?? document.body).innerText";

/// Stops the page from drawing, and puts something that is always the same in place of what is
/// different every time: moments, spans, commits, the repository's folder.
const FREEZE: &str = r#"(() => {
    const frame = requestAnimationFrame;
    const asked = [];
    window.requestAnimationFrame = (draw) => asked.push(draw);
    window.thaw = () => {
        window.requestAnimationFrame = frame;
        asked.forEach((draw) => frame(draw));
        dispatchEvent(new Event("resize"));
    };
    const commits = ["4c1f09a2e", "b7d03e51c", "90ae6f4d2"];
    const known = new Map();
    const commit = (found) => {
        if (!known.has(found)) known.set(found, commits[known.size % commits.length]);
        return known.get(found);
    };
    document.querySelectorAll("time").forEach((time, index) => {
        const span = `${index + 2} min`;
        const text = time.innerText;
        time.innerText = text.startsWith("for") ? `for ${span}` : text.startsWith("in") ? `in ${span}` : `${span} ago`;
    });
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (words.nextNode()) {
        const node = words.currentNode;
        const text = node.data
            .replace(/\b(?=\w*\d)[0-9a-f]{9}\b/g, commit)
            .replace(/\btook [\d.]+ m?s\b/g, "took 40 ms")
            .replace(/\/\S*\/repository\b/g, "git@git.example.org:infra.git");
        if (text !== node.data) node.data = text;
    }
})()"#;

impl Page {
    /// Keeps a picture for people to look at.
    pub async fn screenshot(&self, name: &str) {
        let (picture, _) = self.frozen(true).await;
        write(&workspace().join("target/screenshots").join(format!("{name}.png")), &picture);
    }

    /// A picture for the book, which must show what the page says now.
    pub async fn picture(&self, name: &str) {
        let (picture, says) = self.frozen(false).await;
        let lines: Vec<_> = says.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        is_recorded(&format!("{name}.txt"), &(lines.join("\n") + "\n"));
        write(&workspace().join("target/screenshots/book").join(format!("{name}.png")), &picture);
        let in_book = workspace().join("docs/src/images").join(format!("{name}.png"));
        if is_blessing() {
            write(&in_book, &picture);
        }
        let size = std::fs::metadata(&in_book).map(|file| file.len()).unwrap_or_default();
        let is_small = (1..LARGEST as u64).contains(&size);
        assert!(is_small, "{} has {size} bytes", in_book.display());
    }

    /// A picture of the page without what is different every time, and what it says then.
    async fn frozen(&self, quickly: bool) -> (Vec<u8>, String) {
        self.evaluate::<bool>(PAINTED).await;
        self.evaluate::<Value>(FREEZE).await;
        let says = self.evaluate(SAYS).await;
        // Quickly, the file is larger.
        let params = json!({ "format": "png", "optimizeForSpeed": quickly });
        let taken = self.call("Page.captureScreenshot", params).await;
        self.evaluate::<Value>("thaw()").await;
        let picture = STANDARD.decode(taken["data"].as_str().unwrap_or_default());
        (picture.expect("a picture"), says)
    }
}

/// Pictures are of the style that pages have now.
pub fn style_is_recorded() {
    let style = workspace().join("crates/fluke-server/ui/style.css");
    let hash = Sha256::digest(std::fs::read(style).expect("a style"));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    is_recorded("style.sha256", &(hash + "\n"));
}

/// Compares with what was recorded when the pictures were made, or records it.
fn is_recorded(name: &str, now: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/browser/pictures").join(name);
    if is_blessing() {
        return write(&path, now.as_bytes());
    }
    let then = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        then == now,
        "the book's pictures are not of this page any more; look at target/screenshots/book, then \
         make them anew:\n  FLUKE_BLESS=1 cargo test -p fluke --test browser pictures\n{}",
        first_difference(&then, now)
    );
}

fn first_difference(then: &str, now: &str) -> String {
    let at = then.lines().zip(now.lines()).take_while(|(then, now)| then == now).count();
    let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
    format!("line {}\n  then: {}\n  now:  {}", at + 1, line(then), line(now))
}

fn is_blessing() -> bool {
    std::env::var_os("FLUKE_BLESS").is_some_and(|value| value == "1")
}

fn write(path: &Path, content: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    std::fs::write(path, content).expect("a file is written");
}
