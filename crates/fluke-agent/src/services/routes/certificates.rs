//! Certificates that are given: read, looked at, and kept in mind.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use fluke_model::time::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::config::Pair;
use super::settings::Certificate;
use super::validity::Validity;

/// No chain of certificates is longer.
const LONGEST: u64 = 256 << 10;
/// Who has one renewed does so before; else there is time to.
const NEAR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Certificates as they were when they were last good: whoever renews them may be in the middle of
/// it, and nobody is to be sent away for that.
#[derive(Debug, Default)]
pub struct Certificates {
    good: BTreeMap<std::path::PathBuf, Pair>,
}

impl Certificates {
    /// Those that can be served, and what is wrong: with the others, and with those that end.
    pub fn read(&mut self, given: &[Certificate], now: Timestamp) -> (Vec<Pair>, Vec<String>) {
        let mut problems = Vec::new();
        let mut pairs = Vec::new();
        for certificate in given {
            let path = &certificate.cert_file;
            match pair(certificate) {
                Ok(pair) => {
                    self.good.insert(path.clone(), pair.clone());
                    pairs.push(pair);
                }
                Err(why) => {
                    let instead = match self.good.get(path) {
                        Some(pair) => {
                            pairs.push(pair.clone());
                            "the one before it is served"
                        }
                        None => "it is not served",
                    };
                    problems.push(format!("certificate {}: {why}; {instead}", path.display()));
                }
            }
        }
        for (certificate, pair) in
            given.iter().filter_map(|it| Some((it, self.good.get(&it.cert_file)?)))
        {
            let validity = Validity::of_pem(pair.cert_file.as_bytes());
            if let Some(end) = validity.and_then(|it| it.end(NEAR, now)) {
                let path = certificate.cert_file.display();
                problems.push(format!("certificate {path} {end}: renew it"));
            }
        }
        (pairs, problems)
    }
}

fn pair(certificate: &Certificate) -> Result<Pair, String> {
    let pair =
        Pair { cert_file: text(&certificate.cert_file)?, key_file: text(&certificate.key_file)? };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pair.cert_file.as_bytes()).collect();
    let chain = chain.map_err(|error| format!("it is not PEM: {error}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(pair.key_file.as_bytes()).map_err(|error| {
        format!("there is no key in {}: {error}", certificate.key_file.display())
    })?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
        format!("it does not go with the key {}: {error}", certificate.key_file.display())
    })?;
    Ok(pair)
}

fn text(path: &Path) -> Result<String, String> {
    let unreadable = |error| format!("cannot read {}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    let length = file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    match length as u64 {
        ..=LONGEST => Ok(text),
        _ => Err(format!("{} is longer than {} KiB", path.display(), LONGEST >> 10)),
    }
}

#[cfg(test)]
mod tests;
