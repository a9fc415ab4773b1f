//! What a request says of the page that it came from, and of the name it was sent to.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};

/// Whose page made a request, as the browser says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// One of this server's own.
    Own,
    /// Somebody else's.
    Foreign,
    /// None: a person typed the address.
    Typed,
    /// It does not say; programs do not.
    Unsaid,
}

/// Reads `Sec-Fetch-Site` and `Origin`; what either of them denies, the other cannot prove.
pub fn origin(headers: &HeaderMap, uri: &Uri) -> Origin {
    let site = match single(headers, "sec-fetch-site") {
        Header::Absent => Origin::Unsaid,
        Header::Is("same-origin") => Origin::Own,
        Header::Is("none") => Origin::Typed,
        Header::Is(_) | Header::Unclear => Origin::Foreign,
    };
    let page = match single(headers, "origin") {
        Header::Absent => Origin::Unsaid,
        Header::Is(page) if authority(page).is_some_and(|it| is_own(it, headers, uri)) => {
            Origin::Own
        }
        Header::Is(_) | Header::Unclear => Origin::Foreign,
    };
    match (site, page) {
        (Origin::Foreign, _) | (_, Origin::Foreign) => Origin::Foreign,
        (Origin::Typed, _) => Origin::Typed,
        (Origin::Own, _) | (_, Origin::Own) => Origin::Own,
        _ => Origin::Unsaid,
    }
}

fn authority(origin: &str) -> Option<&str> {
    origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"))
}

fn is_own(authority: &str, headers: &HeaderMap, uri: &Uri) -> bool {
    sent_to(headers, uri).is_some_and(|host| host.eq_ignore_ascii_case(authority))
}

/// Host and port that a request was sent to. Over HTTP/2 they are part of the address.
pub fn sent_to<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    match (uri.authority(), single(headers, header::HOST.as_str())) {
        (Some(authority), _) => Some(authority.as_str()),
        (None, Header::Is(host)) => Some(host),
        (None, _) => None,
    }
}

enum Header<'a> {
    Absent,
    Is(&'a str),
    /// Given twice, or no text.
    Unclear,
}

fn single<'a>(headers: &'a HeaderMap, name: &str) -> Header<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (None, _) => Header::Absent,
        (Some(Ok(text)), None) => Header::Is(text),
        _ => Header::Unclear,
    }
}

/// Whether a page over plain http is on this very machine, where browsers keep secure cookies.
pub fn is_loopback(authority: &str) -> bool {
    let name = name(authority);
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    is_localhost || address(&name).is_some_and(|address| address.is_loopback())
}

/// Domains that nobody on the internet can have, so that no page of theirs can be in one.
const NOT_ON_THE_INTERNET: [&str; 10] = [
    "localhost",
    "local",
    "internal",
    "home.arpa",
    "lan",
    "corp",
    "home",
    "svc",
    "test",
    "example",
];

/// Whether a strange web page cannot have had this host's name point here: an address, a name
/// without a domain or in a private one, or one of the server's `own`.
///
/// Everything else may be DNS rebinding: a page of `evil.com` whose name is made to lead to this
/// server, so that to the browser both are one origin.
pub fn is_safe_name(authority: &str, own: &[String]) -> bool {
    let name = name(authority);
    if name.is_empty() {
        return false;
    }
    let private = |domain: &&str| {
        let rest = name.strip_suffix(*domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !name.contains('.')
        || address(&name).is_some()
        || NOT_ON_THE_INTERNET.iter().any(private)
        || own.iter().any(|own| own.eq_ignore_ascii_case(&name))
}

/// Without the port, in lower case, without the dot that a name may end with.
fn name(authority: &str) -> String {
    let port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match authority.rsplit_once(':') {
        Some((name, end)) if port(end) => name,
        _ => authority,
    };
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn address(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).parse().ok()
}

#[cfg(test)]
mod tests;
