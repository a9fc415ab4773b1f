//! Certificates that an ACME server has still to give, at first or again. Pure, but for the file they
//! are kept in.
//!
//! Traefik asks when a route comes, and when any route changes; who was refused because a domain did
//! not lead here yet would wait for that. Servers refuse those who ask too often, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fluke_model::gather::Gather;
use fluke_model::time::Timestamp;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use serde_json::Value;
use tokio::time::Instant;

use super::compile::RESOLVER;
use super::config::{Dynamic, Pair};
use super::loaded::quoted;
use super::validity::Validity;
use crate::host::files;

/// It takes seconds to get one.
const PATIENCE: Duration = Duration::from_secs(120);
/// Before Traefik is made to ask again.
const FIRST: Duration = Duration::from_secs(300);
/// However often it asked.
const LONGEST: Duration = Duration::from_secs(3600);
/// Traefik has them renewed thirty days before their end, and tries once a day.
const NEAR: Duration = Duration::from_secs(20 * 24 * 60 * 60);
/// How many domains are named.
const NAMED: usize = 3;

/// Domains that have none yet, or one that ends.
#[derive(Debug, Default)]
pub struct Awaited {
    /// Since when each is known to have none.
    since: BTreeMap<String, Instant>,
    /// Those that have one.
    certified: BTreeSet<String>,
    /// For how long those are good that came by ACME.
    good: BTreeMap<String, Validity>,
    /// What the file was like when it was last read, and which certificates were given then.
    seen: (Option<(SystemTime, u64)>, Vec<String>),
    /// When Traefik asks again, and how long it waited for that.
    again: Option<(Instant, Duration)>,
}

impl Awaited {
    /// Looks which of the domains that should have one by ACME have none, in what Traefik keeps in
    /// `store` and among those that are given. Whether it is time to ask again.
    pub fn look(&mut self, wanted: &Dynamic, store: &Path, now: Instant) -> bool {
        let domains = domains(wanted);
        self.certified.retain(|domain| domains.contains(domain));
        self.good.retain(|domain, _| domains.contains(domain));
        let file = std::fs::metadata(store).and_then(|it| Ok((it.modified()?, it.len()))).ok();
        let given = wanted.tls.certificates.iter().map(|pair| pair.cert_file.clone());
        let seen = (file, given.collect());
        if seen != self.seen || domains.iter().any(|domain| !self.certified.contains(domain)) {
            // What cannot be read, Traefik cannot read either, and gets all of them anew.
            let kept = files::read(store).ok().flatten().unwrap_or_default();
            let (mut kept, given) = (kept_in(&kept), &wanted.tls.certificates);
            // Of those that are given, how long they are good is told beside.
            kept.retain(|domain, _| domains.contains(domain) && !is_given(domain, given));
            let has_one = |it: &&String| kept.contains_key(*it) || is_given(it, given);
            self.certified = domains.iter().filter(has_one).cloned().gather();
            self.good = kept.into_iter().filter_map(|(domain, it)| Some((domain, it?))).gather();
            self.seen = seen;
        }
        self.see(domains.difference(&self.certified).cloned().gather(), now)
    }

    fn see(&mut self, missing: BTreeSet<String>, now: Instant) -> bool {
        self.since.retain(|domain, _| missing.contains(domain));
        let known = self.since.len();
        for domain in missing {
            self.since.entry(domain).or_insert(now);
        }
        let is_news = self.since.len() > known;
        match self.again {
            _ if self.since.is_empty() => self.again = None,
            Some((at, pause)) if !is_news && at <= now => {
                let pause = (pause * 2).min(LONGEST);
                self.again = Some((now + pause, pause));
                return true;
            }
            Some(_) if !is_news => {}
            // Traefik has just asked, for it and for all others.
            _ => self.again = Some((now + FIRST, FIRST)),
        }
        false
    }

    /// What is said of those that should have one by now, or another one.
    pub fn words(&self, now: Instant, today: Timestamp) -> Option<String> {
        let late = self.since.iter().filter(|(_, since)| now.duration_since(**since) >= PATIENCE);
        let late: Vec<String> = late.map(|(domain, _)| domain.clone()).collect();
        let ending = |(domain, it): (&String, &Validity)| {
            it.end(NEAR, today).map(|end| format!("{domain}, which {end}"))
        };
        let ending: Vec<String> = self.good.iter().filter_map(ending).collect();
        let mut missing = Vec::new();
        if !late.is_empty() {
            missing.push(format!("there is no certificate for {} yet", named(&late, ", ")));
        }
        if !ending.is_empty() {
            missing
                .push(format!("nobody renewed the certificate for {}", named(&ending, ", for ")));
        }
        let words = || {
            format!(
                "{}: it must lead here, with port 80 open to the world; `journalctl -u \
                 'fluke-proxy-*'` says why it was refused",
                missing.join(", and ")
            )
        };
        (!missing.is_empty()).then(words)
    }
}

/// The first few of them, and how many more there are.
fn named(all: &[String], between: &str) -> String {
    let first = all.get(..NAMED).unwrap_or(all).join(between);
    match all.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The domains that should have a certificate by ACME.
fn domains(wanted: &Dynamic) -> BTreeSet<String> {
    let by_acme = wanted
        .http
        .routers
        .values()
        .filter(|router| router.tls.as_ref().is_some_and(|tls| tls.cert_resolver.is_some()));
    let domain = |rule: &String| quoted(rule, "Host").map(str::to_owned);
    by_acme.filter_map(|router| router.rule.as_ref().and_then(domain)).gather()
}

/// The domains of the certificates that Traefik keeps, and for how long these are good.
fn kept_in(store: &[u8]) -> BTreeMap<String, Option<Validity>> {
    let store: Value = serde_json::from_slice(store).unwrap_or_default();
    let kept = store[RESOLVER]["Certificates"].as_array().into_iter().flatten();
    let validity = |it: &Value| {
        let pem = BASE64_STANDARD.decode(it["certificate"].as_str()?).ok()?;
        Validity::of_pem(&pem)
    };
    kept.filter_map(|it| Some((it["domain"]["main"].as_str()?.to_owned(), validity(it)))).gather()
}

/// Whether one of those that are given is for a domain.
fn is_given(domain: &str, given: &[Pair]) -> bool {
    let Ok(name) = ServerName::try_from(domain) else { return false };
    given.iter().any(|pair| {
        let first = CertificateDer::pem_slice_iter(pair.cert_file.as_bytes()).next();
        let Some(Ok(certificate)) = first else { return false };
        let parsed = ParsedCertificate::try_from(&certificate);
        parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok())
    })
}

#[cfg(test)]
mod tests;
