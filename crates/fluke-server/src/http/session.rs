//! A browser's session: a signed cookie, and nothing on the server, so that it survives a restart.
//!
//! The cookie reads `expiry.begin.nonce.name.signature`: both in seconds since 1970, 32 hexadecimal
//! digits, the name in base64url (it may be empty), and the HMAC-SHA256 of what stands before it.
//! The key comes from the API token that was shown: a token that is taken out ends its sessions.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use fluke_model::secret::SecretDigest;
use fluke_model::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, header};
use sha2::Sha256;

/// How long a session lasts after it was used last.
pub const LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// How long it lasts however much it is used: then the token is to be shown again.
pub const WHOLE_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How old a cookie gets before its next use renews it.
const RENEWED_AFTER: Duration = Duration::from_secs(10 * 60);
/// Characters of a person's name.
const MAX_NAME: usize = 64;
/// By this prefix, browsers take it from this very host alone, and not from one beside it that
/// shares its domain: nobody can slip theirs under somebody else.
pub const COOKIE: &str = "__Host-fluke_session";
const PURPOSE: &str = "fluke browser session";
/// What is longer was not made here.
const LONGEST: usize = 1024;

/// Tells one session from all others.
pub type Nonce = [u8; 16];

/// Who is signed in, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// As the person says.
    pub name: Option<String>,
    /// Which one it is.
    pub nonce: Nonce,
    /// When the token was shown, in seconds since 1970.
    begun: u64,
    /// Likewise.
    expires: u64,
}

impl Session {
    /// Begins now.
    pub fn begin(name: &str, nonce: Nonce, now: Timestamp) -> Self {
        let visible: String = name.chars().filter(|c| is_visible(*c)).collect();
        let name: String = visible.trim().chars().take(MAX_NAME).collect();
        let name = Some(name).filter(|name| !name.is_empty());
        let begun = seconds(now);
        Self { name, nonce, begun, expires: begun + LIFE.as_secs() }
    }

    /// The same with its full life ahead, or what is left of its whole life, once that is due.
    pub fn renewed(&self, now: Timestamp) -> Option<Self> {
        let end = self.begun.saturating_add(WHOLE_LIFE.as_secs());
        let expires = (seconds(now) + LIFE.as_secs()).min(end);
        let is_due = expires.saturating_sub(self.expires) >= RENEWED_AFTER.as_secs();
        is_due.then(|| Self { expires, ..self.clone() })
    }

    /// The header that has a browser keep this session.
    pub fn cookie(&self, token: &SecretDigest) -> String {
        let (value, life) = (self.sign(token), LIFE.as_secs());
        format!("{COOKIE}={value}; Max-Age={life}; Path=/; Secure; HttpOnly; SameSite=Strict")
    }

    fn sign(&self, token: &SecretDigest) -> String {
        let nonce: String = self.nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = BASE64.encode(self.name.as_deref().unwrap_or_default());
        let content = format!("{}.{}.{nonce}.{name}", self.expires, self.begun);
        let signature = BASE64.encode(mac(token, &content).finalize().into_bytes());
        format!("{content}.{signature}")
    }

    /// The session that a cookie's value is proof of, and the place of its token among `valid`.
    pub fn read(value: &str, valid: &[SecretDigest], now: Timestamp) -> Option<(Self, usize)> {
        if value.len() > LONGEST {
            return None;
        }
        let (content, signature) = value.rsplit_once('.')?;
        let signature = BASE64.decode(signature).ok()?;
        // Nothing of it is read before it is known to be ours.
        let genuine = |token: &SecretDigest| mac(token, content).verify_slice(&signature).is_ok();
        let at = valid.iter().position(genuine)?;
        let session = Self::parse(content)?;
        session.lasts(now).then_some((session, at))
    }

    /// Whether its time is not up.
    pub fn lasts(&self, now: Timestamp) -> bool {
        seconds(now) < self.expires
    }

    fn parse(content: &str) -> Option<Self> {
        let mut parts = content.split('.');
        let (expires, begun) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (nonce, name) = (parts.next()?, parts.next()?);
        let name = String::from_utf8(BASE64.decode(name).ok()?).ok()?;
        let name = Some(name).filter(|name| !name.is_empty());
        let nonce = u128::from_str_radix(nonce, 16).ok()?.to_be_bytes();
        Some(Self { name, nonce, begun, expires })
    }
}

/// Whether a character may stand in a name that others read: it has a look or a width of its own,
/// and does not turn or hide what stands beside it.
pub fn is_visible(c: char) -> bool {
    let is_format = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !is_format
}

/// Has a browser forget its session.
pub fn forgotten() -> String {
    format!("{COOKIE}=; Max-Age=0; Path=/; Secure; HttpOnly; SameSite=Strict")
}

/// The session's cookie among all that were sent. Two of them are none: only one is ours.
pub fn shown(headers: &HeaderMap) -> Option<&str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
    let mut ours = pairs.filter(|(name, _)| name.trim() == COOKIE).map(|(_, value)| value.trim());
    let first = ours.next()?;
    ours.next().is_none().then_some(first)
}

fn mac(token: &SecretDigest, content: &str) -> Hmac<Sha256> {
    // Padded as HMAC pads, to the length at which a key cannot be wrong.
    let mut key = [0; 64];
    key[..32].copy_from_slice(&token.key(PURPOSE));
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&key.into());
    mac.update(content.as_bytes());
    mac
}

fn seconds(at: Timestamp) -> u64 {
    at.since(Timestamp(0)).as_secs()
}

/// Sessions that were signed out before their time.
#[derive(Debug, Default)]
pub struct Ended(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    nonces: HashSet<Nonce>,
    /// Until when each matters: in the order in which they were ended.
    until: VecDeque<(u64, Nonce)>,
}

impl Ended {
    const REMEMBERED: usize = 10_000;

    /// From now on the session is none, whichever of its cookies is shown.
    pub fn add(&self, nonce: Nonce, now: Timestamp) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Table { nonces, until } = &mut *table;
        let is_over = |(until, _): &(u64, Nonce)| *until <= seconds(now);
        while until.len() >= Self::REMEMBERED || until.front().is_some_and(is_over) {
            let Some((_, oldest)) = until.pop_front() else { break };
            nonces.remove(&oldest);
        }
        if nonces.insert(nonce) {
            // No cookie of it, however often renewed, is good for longer.
            until.push_back((seconds(now) + LIFE.as_secs(), nonce));
        }
    }

    /// Whether the session was signed out.
    pub fn has(&self, nonce: &Nonce) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).nonces.contains(nonce)
    }
}

#[cfg(test)]
mod tests;
