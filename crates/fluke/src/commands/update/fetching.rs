//! Where a new program comes from: a file, or an address.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use fluke_model::id::Hash256;
use reqwest::Url;

use super::swap::{Beside, Candidate};
use crate::failure::Failure;

/// The largest program.
const MOST: u64 = 512 * 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(10);
/// How long a sender may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// Where from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    File(String),
    Address(Url),
}

/// Writes what is at `from` beside the program, and sees that it is what was meant.
pub async fn fetch(
    from: &str,
    expected: Option<Hash256>,
    beside: &Beside,
) -> Result<(Candidate, Hash256), Failure> {
    let origin = origin(from, expected.is_some())?;
    let mut candidate =
        beside.candidate().map_err(|error| super::failed(beside.program(), &error))?;
    match origin {
        Origin::File(path) => copy(&path, &mut candidate)?,
        Origin::Address(url) => download(url, &mut candidate).await?,
    }
    let hash = candidate.finish().map_err(|error| super::failed(beside.program(), &error))?;
    match expected {
        Some(expected) if expected != hash => Err(Failure::new(format!(
            "{} is not what was meant: its SHA-256 is {hash}, not {expected}",
            shown(from)
        ))
        .help("nothing was changed; see whether the file or the sum is the wrong one")),
        _ => Ok((candidate, hash)),
    }
}

fn origin(from: &str, is_summed: bool) -> Result<Origin, Failure> {
    let url = match from.split_once("://") {
        None => return Ok(Origin::File(from.to_string())),
        Some(("file", path)) => return Ok(Origin::File(path.to_string())),
        Some(_) => Url::parse(from).map_err(|error| {
            Failure::new(format!("--from {} is no address", shown(from)))
                .because(&error)
                .usage(true)
        })?,
    };
    match url.scheme() {
        "https" => Ok(Origin::Address(url)),
        "http" if is_summed => Ok(Origin::Address(url)),
        "http" => Err(Failure::new("a program that comes over http could be anybody's")
            .help("use https, or say with --sha256 what it must be")
            .usage(true)),
        other => Err(Failure::new(format!("`{other}` is not spoken"))
            .help("--from takes a file, or an address with https")
            .usage(true)),
    }
}

fn copy(path: &str, candidate: &mut Candidate) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| {
        Failure::new(format!("could not take the program from {path}")).because(error)
    };
    let file = File::open(path).map_err(|error| failed(&error))?;
    let (mut file, mut part, mut all) = (file.take(MOST + 1), vec![0; 64 * 1024], 0);
    loop {
        let read = file.read(&mut part).map_err(|error| failed(&error))?;
        all += read as u64;
        match read {
            0 => return Ok(()),
            _ if all > MOST => return Err(too_large(path)),
            read => candidate.write(&part[..read]).map_err(|error| failed(&error))?,
        }
    }
}

async fn download(url: Url, candidate: &mut Candidate) -> Result<(), Failure> {
    // Whoever comes first sets it; there is one provider in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let from = shown(url.as_str());
    let failed = |error: &dyn std::error::Error| {
        Failure::new(format!("could not fetch the program from {from}")).because(error)
    };
    let is_https = url.scheme() == "https";
    let http = reqwest::Client::builder()
        .user_agent(concat!("fluke/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        // What began safely must not go on over http.
        .https_only(is_https);
    let http = if is_https { http } else { http.tls_certs_only([]) };
    let answer = http.build().map_err(|error| failed(&error))?.get(url).send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status);
    let mut answer = answer.map_err(|error| failed(&error.without_url()))?;
    let mut all = 0;
    while let Some(part) = answer.chunk().await.map_err(|error| failed(&error))? {
        all += part.len() as u64;
        if all > MOST {
            return Err(too_large(&from));
        }
        candidate.write(&part).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// An address without the name and password that may stand in it.
pub(super) fn shown(from: &str) -> String {
    let Some((scheme, rest)) = from.split_once("://") else { return from.to_string() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

fn too_large(from: &str) -> Failure {
    Failure::new(format!("{from} has over {} MiB: that is no fluke", MOST / 1024 / 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        for (from, told) in [
            ("https://bot:s3cret@example.com/a@b", "https://example.com/a@b"),
            ("https://example.com", "https://example.com"),
            ("/srv/fluke@2", "/srv/fluke@2"),
        ] {
            assert_eq!(shown(from), told);
        }
    }

    #[test]
    fn what_comes_over_http_must_be_summed() {
        for (from, is_summed, good) in [
            ("/tmp/fluke", false, true),
            ("./fluke", false, true),
            ("file:///tmp/fluke", false, true),
            ("https://example.com/fluke", false, true),
            ("http://example.com/fluke", false, false),
            ("http://example.com/fluke", true, true),
            ("ftp://example.com/fluke", true, false),
        ] {
            assert_eq!(origin(from, is_summed).is_ok(), good, "{from}");
        }
    }
}
