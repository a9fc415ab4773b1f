//! The server's own CA. Only the CA is kept; the server's certificate is made anew on every start
//! and lives in memory, so that its names are always those of today.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fluke_model::id::Hash256;
use fluke_model::time::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use super::x509::Validity;
use super::{TlsError, TlsFiles, load, now};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const CA_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
const CA_LATE: Duration = Duration::from_secs(180 * 24 * 60 * 60);
const LIFE: Duration = Duration::from_secs(90 * 24 * 60 * 60);
const RENEW: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The CA's certificate, in its directory.
pub(super) const CERTIFICATE: &str = "ca.pem";
/// The most names that a certificate gets.
const MAX_NAMES: usize = 64;

/// A CA in a directory of its own.
pub(super) struct OwnCa {
    file: PathBuf,
    certificate: CertificateDer<'static>,
    validity: Validity,
    issuer: Issuer<'static, KeyPair>,
    names: Vec<String>,
}

impl std::fmt::Debug for OwnCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnCa").field("file", &self.file).finish_non_exhaustive()
    }
}

impl OwnCa {
    /// Opens the CA in `directory`, or makes one.
    pub(super) fn open(directory: &Path, names: Vec<String>) -> Result<Self, TlsError> {
        let cert_file = directory.join(CERTIFICATE);
        let key_file = directory.join("ca.key");
        // The certificate is written last: a key alone is a first start that was cut short.
        match (cert_file.exists(), key_file.exists()) {
            (true, false) => return Err(TlsError::LostKey { file: cert_file }),
            (true, true) => {}
            (false, _) => make(&cert_file, &key_file)
                .map_err(|reason| TlsError::OwnCa { directory: directory.to_path_buf(), reason })?,
        }
        let files = TlsFiles { cert_file: cert_file.clone(), key_file: key_file.clone() };
        // Reads and checks them as any operator's files.
        let (ca, validity) = load(&files)?;
        if validity.left(now()) < CA_LATE {
            tracing::warn!(until = %validity.until, file = %cert_file.display(),
                "the server's CA expires soon; delete it to make a new one, and give that to every agent");
        }
        let key = PrivateKeyDer::from_pem_file(&key_file).map_err(|error| error.to_string());
        let key = key.and_then(|key| KeyPair::try_from(&key).map_err(|error| error.to_string()));
        let key =
            key.map_err(|reason| TlsError::NotPem { what: "private key", file: key_file, reason })?;
        let issuer = Issuer::new(ca_params(), key);
        Ok(Self { file: cert_file, certificate: ca.cert[0].clone(), validity, issuer, names })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn fingerprint(&self) -> Hash256 {
        Hash256::of(&self.certificate)
    }

    /// Whether a certificate with this validity is to be replaced: its time is nearly over, or has
    /// not come, because the clock was ahead when it was made. A clock that is behind the CA's own
    /// beginning is wrong, and no reason for anything.
    pub(super) fn is_due(&self, validity: &Validity, now: Timestamp) -> bool {
        now >= self.validity.from && (validity.left(now) < RENEW || validity.from > now)
    }

    /// Makes a certificate for the server.
    pub(super) fn issue(&self) -> Result<(Arc<CertifiedKey>, Validity), TlsError> {
        let failed = |reason: String| TlsError::OwnCa { directory: self.file.clone(), reason };
        let made = self.sign().map_err(|error| failed(error.to_string()))?;
        let (leaf, key) = made;
        let validity = Validity::of(&leaf).ok_or_else(|| failed("it has no validity".into()))?;
        let provider = rustls::crypto::ring::default_provider();
        // With its CA behind it, so that a client can show the fingerprint of what it met.
        let chain = vec![leaf, self.certificate.clone()];
        let certified = CertifiedKey::from_der(chain, key, &provider);
        Ok((Arc::new(certified.map_err(|error| failed(error.to_string()))?), validity))
    }

    fn sign(&self) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(self.names.clone())?;
        params.distinguished_name = named("fluke server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        // A clock that is behind the CA's beginning is wrong: it is later than that.
        let now = SystemTime::now().max(self.validity.from.to_system_time());
        // Clocks differ.
        params.not_before = (now - DAY).into();
        params.not_after = (now + LIFE).into();
        let leaf = params.signed_by(&key, &self.issuer)?.der().clone();
        Ok((leaf, PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// What every CA of ours has in common: enough to sign with its key.
fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("fluke CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn make(cert_file: &Path, key_file: &Path) -> Result<(), String> {
    let text = |error: rcgen::Error| error.to_string();
    let key = KeyPair::generate().map_err(text)?;
    let mut params = ca_params();
    let now = SystemTime::now();
    params.not_before = (now - DAY).into();
    params.not_after = (now + CA_LIFE).into();
    let certificate = params.self_signed(&key).map_err(text)?;
    let directory = cert_file.parent().unwrap_or(Path::new("."));
    let written = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| write_atomically(key_file, key.serialize_pem().as_bytes(), 0o600))
        // Made to be handed out.
        .and_then(|()| write_atomically(cert_file, certificate.pem().as_bytes(), 0o644));
    written.map_err(|error| error.to_string())
}

/// After this either the whole file is there, even after power loss, or the old one.
fn write_atomically(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let new = file.with_extension("new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    written.write_all(content)?;
    written.sync_all()?;
    std::fs::rename(&new, file)?;
    match file.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Everything that an agent may call this server by: its host name, loopback, and the addresses
/// that it listens on, where all of them are meant every one that the machine has.
pub fn own_names(listening: &[SocketAddr]) -> Vec<String> {
    let everywhere = listening.iter().any(|address| address.ip().is_unspecified());
    let machine = if everywhere { machine_addresses() } else { Vec::new() };
    let mut names = vec!["localhost".to_string(), "127.0.0.1".to_string(), "::1".to_string()];
    names.extend(own_host());
    let listening = listening.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
    names.extend(listening.chain(machine).map(|ip| ip.to_string()));
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names.truncate(MAX_NAMES);
    names
}

/// This machine's name.
pub fn own_host() -> Option<String> {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    host.filter(|name| name.is_ascii() && !name.is_empty())
}

fn machine_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let addresses = interfaces.filter_map(|interface| interface.address).filter_map(|address| {
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    // Link-local addresses need a zone, which no certificate can name.
    let named = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    addresses.filter(named).collect()
}
