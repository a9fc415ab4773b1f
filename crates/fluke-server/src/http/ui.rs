//! The web UI's files: part of the binary, the same for everybody, without any data in them.
//!
//! Assets are served under a path that names their content, so that browsers may keep them for
//! ever; pages are never kept and name the assets of this binary.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fluke_model::gather::Gather;
use http::header::{self, HeaderName};
use http::{HeaderMap, StatusCode, Uri};
use sha2::{Digest, Sha256};

use super::problem::Problem;
use super::template;

/// Every file of `ui/` with its name.
const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/ui_files.rs"));

/// Stands in HTML for the folder that assets are served from.
const ASSETS: &str = "{assets}";

/// Pages load what this server serves and nothing else, and nobody frames them.
const PAGE_HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    // Without a referrer at all, browsers send forms with `Origin: null`.
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// All files, ready to be sent.
struct Files {
    /// Names the content of all of them together.
    version: String,
    by_name: BTreeMap<String, Bytes>,
}

impl Files {
    fn new(files: impl IntoIterator<Item = (String, Bytes)>) -> Self {
        let mut by_name: BTreeMap<String, Bytes> = files.into_iter().gather();
        let version = version(&by_name);
        let folder = format!("/assets/{version}");
        for (name, bytes) in &mut by_name {
            if is_page(name) {
                let page = String::from_utf8_lossy(bytes).replace(ASSETS, &folder);
                *bytes = page.into_bytes().into();
            }
        }
        Self { version, by_name }
    }

    /// Those of this binary.
    fn embedded() -> Arc<Self> {
        static FILES: LazyLock<Arc<Files>> = LazyLock::new(|| {
            let own = |&(name, bytes): &(&str, _)| (String::from(name), Bytes::from_static(bytes));
            Arc::new(Files::new(EMBEDDED.iter().map(own)))
        });
        FILES.clone()
    }

    /// Those of this binary; while the UI is worked on, those of the folder `FLUKE_UI_DIR`.
    #[cfg(debug_assertions)]
    fn current() -> Arc<Self> {
        let Some(folder) = std::env::var_os("FLUKE_UI_DIR") else { return Self::embedded() };
        let read = |entry: std::fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            std::fs::read(entry.path()).ok().map(|bytes| (name, Bytes::from(bytes)))
        };
        match std::fs::read_dir(&folder) {
            Ok(entries) => Arc::new(Self::new(entries.flatten().filter_map(read))),
            Err(error) => {
                tracing::error!(?folder, %error, "could not read the folder of FLUKE_UI_DIR");
                Self::embedded()
            }
        }
    }

    #[cfg(not(debug_assertions))]
    fn current() -> Arc<Self> {
        Self::embedded()
    }

    fn page(&self, name: &str) -> Bytes {
        self.by_name.get(name).cloned().unwrap_or_default()
    }

    fn asset(&self, name: &str) -> Option<Response> {
        let bytes = self.by_name.get(name).filter(|_| !is_page(name))?;
        Some(([(header::CONTENT_TYPE, content_type(name))], bytes.clone()).into_response())
    }
}

fn version(files: &BTreeMap<String, Bytes>) -> String {
    let mut hash = Sha256::new();
    for (name, bytes) in files {
        hash.update(format!("{name} {}\n", bytes.len()));
        hash.update(bytes);
    }
    let digest = hash.finalize();
    digest[..8].iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn is_page(name: &str) -> bool {
    name.ends_with(".html")
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml; charset=utf-8",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// The shell of every page; what is in it, the browser asks the API for.
pub(super) async fn shell() -> Response {
    (PAGE_HEADERS, Files::current().page("index.html")).into_response()
}

/// A page that is put together for whoever looks, see [`template::render`].
pub(super) fn page(
    status: StatusCode,
    name: &str,
    sections: &[(&str, bool)],
    blanks: &[(&str, &str)],
) -> Response {
    let page = Files::current().page(name);
    let page = template::render(&String::from_utf8_lossy(&page), sections, blanks);
    (status, PAGE_HEADERS, page).into_response()
}

pub(super) async fn asset(
    Path((version, name)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let files = Files::current();
    let found = files.asset(&name).filter(|_| version == files.version);
    let asset = found.ok_or_else(|| Problem::no_such_path(uri.path(), []))?;
    let forever = (header::CACHE_CONTROL, "public, max-age=31536000, immutable");
    Ok(([forever], asset).into_response())
}

/// Where browsers look that are told nothing.
pub(super) async fn favicon(uri: Uri) -> Result<Response, Problem> {
    let asset = Files::current().asset("favicon.svg");
    let asset = asset.ok_or_else(|| Problem::no_such_path(uri.path(), []))?;
    Ok(([(header::CACHE_CONTROL, "public, max-age=3600")], asset).into_response())
}

/// Whether a person in front of a browser gets to see the answer.
pub(super) fn is_for_people(headers: &HeaderMap, uri: &Uri) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepts.is_some_and(|kinds| kinds.contains("text/html")) && !uri.path().starts_with("/api/")
}

/// For people who took a wrong turn.
pub(super) fn not_found() -> Response {
    let version = &Files::current().version;
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Not found · fluke</title>\n\
         <link rel=\"icon\" href=\"/assets/{version}/favicon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"/assets/{version}/style.css\">\n</head>\n<body>\n<main>\n\
         <h1>Nothing is here</h1>\n<p>No page of fluke has this address. \
         <a href=\"/\">See the fleet</a></p>\n</main>\n</body>\n</html>\n"
    );
    (StatusCode::NOT_FOUND, PAGE_HEADERS, page).into_response()
}

#[cfg(test)]
mod tests;
