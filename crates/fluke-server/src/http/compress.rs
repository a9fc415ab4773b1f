//! Large JSON is compressed for those who ask for it: ten thousand agents are 4 MB otherwise.

use std::io::{self, Write};

use axum::body::{Body, HttpBody, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};

/// The kind of what is compressed.
pub const JSON: &str = "application/json";
/// What is said of it.
pub const CODING: [(HeaderName, &str); 2] =
    [(header::CONTENT_ENCODING, "gzip"), (header::VARY, "accept-encoding")];

/// Less is not worth the work.
const WORTH_IT: usize = 8 << 10;
/// More than this is left as it is.
const MOST: usize = 256 << 20;
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

/// The same, smaller, if it is large JSON.
pub fn if_worth_it(kind: &str, body: &[u8]) -> Option<Bytes> {
    let is_worth_it = kind == JSON && (WORTH_IT..=MOST).contains(&body.len());
    is_worth_it.then(|| gzip(body).ok()).flatten()
}

/// The same answer, smaller if it is large JSON that is there as a whole.
pub async fn compressed(response: Response) -> Response {
    let size = response.body().size_hint().exact().unwrap_or_default() as usize;
    let headers = response.headers();
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == JSON);
    let is_plain = is_json && !headers.contains_key(header::CONTENT_ENCODING);
    if !is_plain || response.status() != StatusCode::OK || !(WORTH_IT..=MOST).contains(&size) {
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
    headers.extend(CODING.map(|(name, value)| (name, HeaderValue::from_static(value))));
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
