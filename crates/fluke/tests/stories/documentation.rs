//! The documentation says what is so: links lead somewhere, examples work.
//!
//! CONTRIBUTING.md tells how code blocks are tagged, and what is checked of each.

mod book;
mod calls;
mod examples;

use book::{Page, pages, root};

/// The tags that a block of HCL may have.
const TAGS: [&str; 5] = ["hcl", "hcl,config", "hcl,fragment", "hcl,broken", "hcl,eval"];

#[test]
fn every_relative_link_leads_somewhere() {
    let pages = pages();
    let links = pages.iter().flat_map(|page| page.links().map(move |link| (page, link)));
    let broken: Vec<String> = links.filter_map(broken).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Says so if `link` of `page` is a dead end.
fn broken((page, link): (&Page, String)) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
    let target = match path {
        "" => page.path.clone(),
        path => page.path.parent()?.join(path),
    };
    let told = |what: &str| Some(format!("{}: `{link}` {what}", page.name()));
    if !target.exists() {
        return told("leads nowhere");
    }
    if anchor.is_empty() || Page::read(&target).anchors().any(|there| there == anchor) {
        return None;
    }
    told("has no such heading")
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let summary = root().join("docs/src/SUMMARY.md");
    let listed: Vec<_> =
        Page::read(&summary).links().map(|link| root().join("docs/src").join(link)).collect();
    for page in pages().iter().filter(|page| page.path.starts_with(root().join("docs/src"))) {
        assert!(page.path == summary || listed.contains(&page.path), "{}", page.name());
    }
}

#[test]
fn every_block_of_hcl_says_what_it_is() {
    for page in pages() {
        for block in page.blocks() {
            let known = !block.tag.starts_with("hcl") || TAGS.contains(&block.tag.as_str());
            assert!(known, "{}: `{}` is none of {TAGS:?}", block.place, block.tag);
        }
    }
}
