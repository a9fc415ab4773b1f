//! Pages of Markdown, as far as the checks have to understand them.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Every page that people read: those at the root, the book, the examples.
pub fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    collect(&root(), 1, &mut paths);
    collect(&root().join("docs/src"), 9, &mut paths);
    collect(&root().join("examples"), 9, &mut paths);
    assert!(paths.len() > 30, "only {} pages found", paths.len());
    paths.iter().map(|path| Page::read(path)).collect()
}

fn collect(folder: &Path, depth: u32, into: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && depth > 1 {
            collect(&path, depth - 1, into);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            into.push(path);
        }
    }
}

/// One file of Markdown.
pub struct Page {
    /// Where it is.
    pub path: PathBuf,
    text: String,
}

/// What stands between two fences.
pub struct Block {
    /// What stands behind the opening fence.
    pub tag: String,
    /// With includes replaced by what they include.
    pub text: String,
    /// `file:line` of the opening fence.
    pub place: String,
}

impl Page {
    /// Reads the page at `path`.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        Self { path: path.to_path_buf(), text }
    }

    /// Its path within the repository.
    pub fn name(&self) -> String {
        self.path.strip_prefix(root()).unwrap_or(&self.path).display().to_string()
    }

    /// Its lines, each with its number and, within fences, the tag of the opening one.
    fn lines(&self) -> impl Iterator<Item = (usize, Option<&str>, &str)> {
        let mut fence: Option<&str> = None;
        self.text.lines().enumerate().map(move |(at, line)| match line.trim_start() {
            mark if mark.starts_with("```") && fence.is_none() => {
                fence = Some(mark.trim_start_matches('`').trim());
                (at + 1, None, line)
            }
            "```" => (at + 1, std::mem::take(&mut fence).and(None), line),
            _ => (at + 1, fence, line),
        })
    }

    /// Every fenced block.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut inside = false;
        for (number, tag, line) in self.lines() {
            if let Some(tag) = tag {
                if !inside {
                    let place = format!("{}:{}", self.name(), number - 1);
                    blocks.push(Block { tag: tag.into(), text: String::new(), place });
                }
                let block = blocks.last_mut().expect("just made");
                block.text.push_str(&self.included(line).unwrap_or_else(|| format!("{line}\n")));
            }
            inside = tag.is_some();
        }
        blocks
    }

    /// What a line `{{#include path}}` stands for; with `path:5:`, from the fifth line on.
    fn included(&self, line: &str) -> Option<String> {
        let path = line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")?;
        let (path, first) = match path.strip_suffix(':').and_then(|path| path.rsplit_once(':')) {
            Some((path, first)) => (path, first.parse::<usize>().expect("the number of a line")),
            None => (path, 1),
        };
        let text = Self::read(&self.path.parent()?.join(path)).text;
        Some(text.split_inclusive('\n').skip(first - 1).collect())
    }

    /// The targets of all links, those in code aside.
    pub fn links(&self) -> impl Iterator<Item = String> {
        let prose = self.lines().filter(|(_, tag, _)| tag.is_none()).map(|(_, _, line)| line);
        prose.flat_map(|line| {
            let line = without_code(line);
            let ends = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            ends.map(|(target, _)| target.to_string()).collect::<Vec<_>>()
        })
    }

    /// The anchors of all headings, as the book and forges make them.
    pub fn anchors(&self) -> impl Iterator<Item = String> {
        let prose = self.lines().filter(|(_, tag, _)| tag.is_none()).map(|(_, _, line)| line);
        let headings = prose.filter(|line| line.starts_with('#'));
        headings.map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            title.chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
        })
    }
}

/// A line without what stands between backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}
