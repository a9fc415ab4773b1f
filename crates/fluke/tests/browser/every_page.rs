//! What holds for every page, light and dark, at a desk and on a phone.

use super::driver::{Page, Scheme};
use super::stage::{MANIFEST, Stage};

/// Every page, by the name of its picture.
const PAGES: [(&str, &str); 13] = [
    ("fleet", "/"),
    ("tiles", "/?view=tiles"),
    ("agent", "/agents/web-02"),
    ("agent-failed", "/agents/db-02"),
    ("agent-services", "/agents/app-02"),
    ("tasks", "/tasks"),
    ("task", "/tasks/certificates"),
    ("services", "/services"),
    ("service", "/services/web"),
    ("service-nowhere", "/services/search"),
    ("drift", "/drift"),
    ("events", "/events"),
    ("source", "/source"),
];

/// The weight of all pages together, in bytes.
const HEAVIEST: u64 = 150 * 1024;

/// How far the page is wider than its window, and what sticks out of it.
const STICKS_OUT: &str = "(() => {
    const wide = document.documentElement.scrollWidth - innerWidth;
    if (wide <= 0) return '';
    const out = [...document.querySelectorAll('body *')]
        .filter((it) => it.getBoundingClientRect().right > innerWidth + 1)
        .map((it) => it.outerHTML.slice(0, 100));
    return `${wide} px: ${out.slice(-3).join(' … ')}`;
})()";

async fn fits_its_window(page: &Page, what: &str) {
    let out: String = page.evaluate(STICKS_OUT).await;
    assert_eq!(out, "", "{what} scrolls sideways");
}

/// A page as everybody gets to see it.
async fn is_fit_for_everybody(page: &Page, name: &str) {
    for scheme in [Scheme::Light, Scheme::Dark] {
        page.prefers(scheme).await;
        let look = scheme.as_str();
        page.at_a_desk().await;
        fits_its_window(page, name).await;
        page.is_accessible(&format!("{name}, {look}")).await;
        page.screenshot(&format!("{name}-{look}")).await;
        page.on_a_phone().await;
        fits_its_window(page, &format!("{name} on a phone")).await;
        page.is_accessible(&format!("{name} on a phone, {look}")).await;
        page.screenshot(&format!("{name}-{look}-phone")).await;
    }
    page.at_a_desk().await;
    page.prefers(Scheme::Light).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_for_everybody() {
    let stage = Stage::serving().await;
    let broken = MANIFEST.replace("selector", "selectr");
    stage.fleet.commit_files("A slip", &[("site.fluke.hcl", &broken)]).await;
    stage.fleet.until("it was rejected", |fleet| fleet.source().rejected).await;
    let Some(page) = stage.operator("/").await else { return };
    for (name, path) in PAGES {
        page.goes_to(path).await;
        is_fit_for_everybody(&page, name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_door_and_empty_pages_are_for_everybody() {
    let stage = Stage::empty().await;
    let Some(page) = stage.visitor().await else { return };
    page.load("/sign-in").await;
    is_fit_for_everybody(&page, "sign-in").await;
    drop(page);
    let Some(page) = stage.operator("/").await else { return };
    for (name, path) in PAGES.into_iter().filter(|(_, path)| path.matches('/').count() == 1) {
        page.goes_to(path).await;
        is_fit_for_everybody(&page, &format!("{name}-empty")).await;
    }
    page.presses("?").await;
    page.finds("dialog", "Keyboard").await;
    is_fit_for_everybody(&page, "keyboard").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_together_weigh_little() {
    let stage = Stage::serving().await;
    let Some(page) = stage.visitor().await else { return };
    page.load("/sign-in").await;
    drop(page);
    let Some(page) = stage.operator("/").await else { return };
    for (_, path) in PAGES {
        page.goes_to(path).await;
    }
    let requests = page.requests();
    let is_page = |url: &str| url.contains("/assets/") || !url.contains("/api/");
    let mut weights: std::collections::BTreeMap<_, _> = std::collections::BTreeMap::new();
    for request in requests.iter().filter(|request| is_page(&request.url)) {
        // Every path but the door's gets the same document.
        let is_document = !request.url.contains("/assets/") && !request.url.contains("/sign-in");
        let what = if is_document { "the document" } else { request.url.as_str() };
        let heaviest: &mut u64 = weights.entry(what.to_owned()).or_default();
        *heaviest = request.bytes.max(*heaviest);
    }
    let whole: u64 = weights.values().sum();
    assert!(weights.len() > 10 && whole > 10_000, "{weights:#?}");
    assert!(whole < HEAVIEST, "the pages weigh {whole} bytes: {weights:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_theme_stays() {
    let stage = Stage::calm().await;
    let Some(page) = stage.operator("/").await else { return };
    let paper = "getComputedStyle(document.body).backgroundColor";
    let light: String = page.evaluate(paper).await;
    page.clicks("button", "Theme: system").await;
    page.clicks("button", "Theme: light").await;
    page.finds("button", "Theme: dark").await;
    let dark: String = page.evaluate(paper).await;
    assert_ne!(light, dark);
    page.reload().await;
    page.is_ready().await;
    assert_eq!(page.evaluate::<String>(paper).await, dark);
}
