//! Names of images: `[registry/]path[:tag][@digest]`.

use fluke_model::bounds::{self, MAX_IMAGE};

use crate::hcl::decode::Mistake;

const EXAMPLE: &str = "for example \"registry.example/shop/web:1.4.2\"";

/// Accepts what a registry could understand.
pub(super) fn check(image: String) -> Result<String, Mistake> {
    match problem(&image) {
        None => match bounds::long("it", &image, MAX_IMAGE) {
            Ok(()) => Ok(image),
            Err(excess) => Err(Mistake::value(excess.to_string()).help(EXAMPLE)),
        },
        Some(what) => {
            Err(Mistake::value(format!("\"{image}\" is not an image: {what}")).help(EXAMPLE))
        }
    }
}

fn problem(image: &str) -> Option<&'static str> {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let (registry, rest) = match named.split_once('/') {
        Some((first, rest)) if is_registry(first) => (Some(first), rest),
        _ => (None, named),
    };
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    match () {
        () if !digest.is_none_or(is_digest) => Some("its digest is not `sha256:` and 64 digits"),
        () if !registry.is_none_or(is_host) => Some("its registry is not a host name"),
        () if !tag.is_none_or(is_tag) => Some("its tag has characters that tags do not have"),
        () if !path.split('/').all(is_part) => {
            Some("its path is made of lower-case letters, digits, `.`, `_` and `-`")
        }
        () => None,
    }
}

/// Only a host has a dot or a port, or is this one.
fn is_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':'])
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let allowed = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'-');
    !host.is_empty()
        && host.bytes().all(allowed)
        && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

fn is_part(part: &str) -> bool {
    let inner = |letter: u8| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || b"._-".contains(&letter)
    };
    let outer = |letter: Option<u8>| letter.is_some_and(|letter| !b"._-".contains(&letter));
    part.bytes().all(inner) && outer(part.bytes().next()) && outer(part.bytes().next_back())
}

fn is_tag(tag: &str) -> bool {
    let allowed = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
    (1..=128).contains(&tag.len()) && tag.bytes().all(allowed) && !tag.starts_with(['.', '-'])
}

fn is_digest(digest: &str) -> bool {
    let is_digit = |letter: u8| letter.is_ascii_digit() || (b'a'..=b'f').contains(&letter);
    let digits = digest.strip_prefix("sha256:");
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_as_registries_name_them() {
        let digest = format!("r.example/web@sha256:{}", "0a".repeat(32));
        for good in [
            "web",
            "web:1.4",
            "shop/web",
            "registry.example/shop/web:1.4.2",
            "localhost/web",
            "localhost:5000/web:latest",
            "10.0.0.1:5000/a_b/c-d:V_1",
            &digest,
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for bad in [
            "",
            "Web",
            "web:",
            "web:a b",
            "web@sha256:12",
            "r.example:port/web",
            "-web",
            "a//b",
            "web:1:2",
            "https://r.example/web",
            "$IMAGE",
        ] {
            assert!(problem(bad).is_some(), "{bad}");
        }
    }
}
