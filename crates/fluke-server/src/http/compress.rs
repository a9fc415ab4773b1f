//! Large JSON is compressed for those who ask for it: ten thousand agents are 4 MB otherwise.

use std::io::{self, Write};

use axum::body::{Body, HttpBody, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderValue};
use http::{HeaderMap, StatusCode};

/// Less is not worth the work.
const WORTH_IT: u64 = 8 << 10;
/// More than this is left as it is.
const MOST: u64 = 256 << 20;
/// What is larger is not done between other requests.
const QUICK: usize = 256 << 10;

/// Whether a request says that it takes gzip.
pub fn is_asked_for(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|it| it.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

/// The same answer, smaller if it is large JSON that is there as a whole.
pub async fn compressed(response: Response) -> Response {
    let size = response.body().size_hint().exact().unwrap_or_default();
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind == "application/json");
    if !is_json || response.status() != StatusCode::OK || !(WORTH_IT..=MOST).contains(&size) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // It is in memory: this cannot fail.
    let Ok(plain) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let squeezed = match plain.len() {
        ..QUICK => gzip(&plain).ok(),
        _ => {
            let plain = plain.clone();
            tokio::task::spawn_blocking(move || gzip(&plain).ok()).await.ok().flatten()
        }
    };
    let Some(squeezed) = squeezed else { return Response::from_parts(parts, plain.into()) };
    let headers = &mut parts.headers;
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Response::from_parts(parts, squeezed.into())
}

fn gzip(plain: &[u8]) -> io::Result<Bytes> {
    // The quickest level: the others save little of JSON that repeats itself.
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
    encoder.write_all(plain)?;
    encoder.finish().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_done_for_those_who_ask() {
        for (value, asked) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("br", false),
            ("", false),
            ("x-gzip", false),
        ] {
            let value = HeaderValue::from_static(value);
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.clone())]);
            assert_eq!(is_asked_for(&headers), asked, "{value:?}");
        }
    }
}
