//! TLS for the server's two ports: certificates, and the listener that uses them.
//!
//! A certificate comes from files, which are read again when they change, or from a CA of the
//! server's own, which is made on first start. TLS 1.2 and 1.3 only.

mod complaint;
mod listener;
mod own;
mod x509;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fluke_model::id::Hash256;
use fluke_model::time::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, ServerConfig};

use own::OwnCa;
use x509::Validity;

pub use listener::{Connection, Listener};
pub use own::{own_host, own_names};

/// How often files are looked at, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often they are looked at while nobody connects.
const LOOK_ANYWAY: Duration = Duration::from_secs(30);
/// How long before its end a certificate that nobody renewed is warned of, and how often.
const LATE: Duration = Duration::from_secs(14 * 24 * 60 * 60);
const WARN_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);
/// The largest file that is taken for a certificate or a key.
const MAX_PEM: u64 = 1024 * 1024;

/// A certificate and its key, as the operator gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with the chain behind it, in PEM.
    pub cert_file: PathBuf,
    /// Its private key, in PEM.
    pub key_file: PathBuf,
}

/// Why TLS cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be opened.
    #[error("could not read the {what} {}: {reason}; check the path and who may read it", .file.display())]
    Unreadable {
        /// Certificate or key.
        what: &'static str,
        /// Which file.
        file: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A file holds something else.
    #[error("{} does not hold a {what} in PEM: {reason}", .file.display())]
    NotPem {
        /// Certificate or key.
        what: &'static str,
        /// Which file.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A key that asks for a passphrase.
    #[error(
        "the private key in {} is encrypted, and nobody is here to type its passphrase; write it \
         without one (`openssl pkey -in KEY -out KEY.plain`) and let its mode protect it", .file.display()
    )]
    Encrypted {
        /// Which file.
        file: PathBuf,
    },
    /// A certificate that TLS libraries refuse.
    #[error(
        "the certificate in {} cannot be used: {reason}; it must be an X.509 v3 certificate with \
         a subjectAltName", .file.display()
    )]
    Unusable {
        /// Which file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A key of another certificate.
    #[error("the key in {} does not belong to the certificate in {}", .key.display(), .cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Past its time.
    #[error("the certificate in {} expired on {until}; replace it, or set this machine's clock", .file.display())]
    Expired {
        /// Which file.
        file: PathBuf,
        /// When.
        until: Timestamp,
    },
    /// The server's own CA cannot be made or kept.
    #[error("could not make a CA in {}: {reason}; give `cert_file` and `key_file` instead", .directory.display())]
    OwnCa {
        /// Where.
        directory: PathBuf,
        /// Why.
        reason: String,
    },
    /// Half of the server's own CA is gone.
    #[error(
        "the CA certificate {} is there and its key is not; restore ca.key from a backup, or \
         delete both to begin with a new CA, which every agent must then be given", .file.display()
    )]
    LostKey {
        /// The certificate's file.
        file: PathBuf,
    },
}

/// The fingerprint of the CA that a server has made in `directory`; none before its first start.
pub fn own_ca_fingerprint(directory: &Path) -> Result<Option<Hash256>, TlsError> {
    let file = directory.join(own::CERTIFICATE);
    if let Ok(false) = file.try_exists() {
        return Ok(None);
    }
    let pem = read_pem("certificate", &file)?;
    let certificate = CertificateDer::from_pem_slice(&pem)
        .map_err(|error| not_pem("certificate", &file, error))?;
    Ok(Some(Hash256::of(&certificate)))
}

/// What is spoken above TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/2 alone, as gRPC does.
    Grpc,
    /// HTTP/2 or HTTP/1.1.
    Http,
}

/// The certificate in use; a newer one takes its place for the connections that come after.
#[derive(Debug)]
pub struct Certificates {
    origin: Origin,
    current: Mutex<Current>,
}

#[derive(Debug)]
enum Origin {
    Files(TlsFiles),
    Own(Box<OwnCa>),
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    validity: Validity,
    /// What the files looked like when they were read.
    stamp: Option<Stamp>,
    looked: Instant,
}

/// What tells a file from the one that was there before, also behind a link that now leads
/// elsewhere: device, number, times of content and of everything else, size.
type FileStamp = (u64, u64, [i64; 4], u64);
/// Both files.
type Stamp = [FileStamp; 2];

impl Certificates {
    /// Takes certificate and key from files.
    pub fn from_files(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        // Before the files are read: a change in between is then seen as one.
        let stamp = stamp(&files);
        let (key, validity) = load(&files)?;
        let current = Mutex::new(Current { key, validity, stamp, looked: Instant::now() });
        Ok(Arc::new(Self { origin: Origin::Files(files), current }))
    }

    /// Takes a certificate for `names` from the CA in `directory`, which is made if need be.
    pub fn own(directory: &Path, names: Vec<String>) -> Result<Arc<Self>, TlsError> {
        let ca = OwnCa::open(directory, names)?;
        let (key, validity) = ca.issue()?;
        let current = Mutex::new(Current { key, validity, stamp: None, looked: Instant::now() });
        Ok(Arc::new(Self { origin: Origin::Own(Box::new(ca)), current }))
    }

    /// The server's own CA: where its certificate is, and its SHA-256.
    pub fn own_ca(&self) -> Option<(&Path, Hash256)> {
        match &self.origin {
            Origin::Files(_) => None,
            Origin::Own(ca) => Some((ca.file(), ca.fingerprint())),
        }
    }

    /// Until when the certificate in use is good.
    pub fn valid_until(&self) -> Timestamp {
        self.current().validity.until
    }

    /// The settings of a port.
    pub fn server_config(self: &Arc<Self>, speaks: Speaks) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| self.unusable(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = match speaks {
            Speaks::Grpc => vec![b"h2".to_vec()],
            Speaks::Http => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        if speaks == Speaks::Grpc {
            // Agents keep their connection, and take no tickets for the next one.
            config.send_tls13_tickets = 0;
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Ok(Arc::new(config))
    }

    /// Whether it was a while ago that somebody looked for a newer certificate.
    pub fn may_be_old(&self) -> bool {
        self.current().looked.elapsed() >= LOOK_AGAIN
    }

    /// Sees whether there is a newer certificate, at most once a second. A bad one is logged and
    /// the one in use stays. Blocking, for a moment.
    pub fn refresh(&self) {
        {
            let mut current = self.current();
            if current.looked.elapsed() < LOOK_AGAIN {
                return;
            }
            current.looked = Instant::now();
        }
        match self.newer() {
            Ok(Some((key, validity))) => {
                tracing::info!(until = %validity.until, "using a new TLS certificate");
                let mut current = self.current();
                (current.key, current.validity) = (key, validity);
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "the TLS certificate in use stays in use"),
        }
    }

    /// Looks for a newer certificate now and then, also when nobody connects, and warns while the
    /// one in use is about to expire.
    pub async fn keep_fresh(self: Arc<Self>) {
        let mut warned: Option<Instant> = None;
        loop {
            tokio::time::sleep(LOOK_ANYWAY).await;
            let certificates = self.clone();
            // A panic in there is told by the runtime, and the next look may go better.
            let _ = tokio::task::spawn_blocking(move || certificates.refresh()).await;
            let (until, left) = (self.valid_until(), self.current().validity.left(now()));
            if left < LATE && warned.is_none_or(|at| at.elapsed() >= WARN_AGAIN) {
                warned = Some(Instant::now());
                tracing::warn!(%until, "the TLS certificate expires soon; agents and people will be refused");
            }
        }
    }

    fn newer(&self) -> Result<Option<(Arc<CertifiedKey>, Validity)>, TlsError> {
        match &self.origin {
            Origin::Own(ca) if ca.is_due(&self.current().validity, now()) => ca.issue().map(Some),
            Origin::Own(_) => Ok(None),
            Origin::Files(files) => {
                let stamp = stamp(files);
                // Files that are gone for a moment are being replaced.
                if stamp.is_none() || stamp == self.current().stamp {
                    return Ok(None);
                }
                // Remembered even if they are bad: one complaint for each change.
                self.current().stamp = stamp;
                load(files).map(Some)
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Every field is replaced whole.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unusable(&self, reason: String) -> TlsError {
        let file = match &self.origin {
            Origin::Files(files) => &files.cert_file,
            Origin::Own(ca) => ca.file(),
        };
        TlsError::Unusable { file: file.to_path_buf(), reason }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key.clone())
    }
}

fn stamp(files: &TlsFiles) -> Option<Stamp> {
    let look = |file: &Path| {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata(file).ok()?;
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        Some((found.dev(), found.ino(), times, found.len()))
    };
    Some([look(&files.cert_file)?, look(&files.key_file)?])
}

/// Reads both files and makes sure that clients will take what is in them.
fn load(files: &TlsFiles) -> Result<(Arc<CertifiedKey>, Validity), TlsError> {
    let chain = read_pem("certificate", &files.cert_file)?;
    let chain = CertificateDer::pem_slice_iter(&chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| not_pem("certificate", &files.cert_file, error))?;
    if chain.is_empty() {
        let nothing = rustls::pki_types::pem::Error::NoItemsFound;
        return Err(not_pem("certificate", &files.cert_file, nothing));
    }
    let key = read_pem("private key", &files.key_file)?;
    if is_encrypted(&key) {
        return Err(TlsError::Encrypted { file: files.key_file.clone() });
    }
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| not_pem("private key", &files.key_file, error))?;
    let unusable = |reason| TlsError::Unusable { file: files.cert_file.clone(), reason };
    let validity = Validity::of(&chain[0])
        .ok_or_else(|| unusable("it is not an X.509 certificate".to_string()))?;
    let provider = rustls::crypto::ring::default_provider();
    let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsError::Mismatch { cert: files.cert_file.clone(), key: files.key_file.clone() }
        }
        rustls::Error::InvalidCertificate(_) => unusable(explain(&error)),
        error => TlsError::NotPem {
            what: "private key",
            file: files.key_file.clone(),
            reason: error.to_string(),
        },
    })?;
    if validity.until < now() {
        return Err(TlsError::Expired { file: files.cert_file.clone(), until: validity.until });
    }
    if validity.from > now() {
        tracing::warn!(from = %validity.from, file = %files.cert_file.display(),
            "the TLS certificate is not valid yet; check the clock");
    }
    Ok((Arc::new(certified), validity))
}

/// `ENCRYPTED PRIVATE KEY`, or a header of an older kind of key that says so.
fn is_encrypted(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || text.lines().any(|line| line.starts_with("Proc-Type:") && line.contains("ENCRYPTED"))
}

/// The one mistake that many an `openssl req` recipe leads to deserves plain words.
fn explain(error: &rustls::Error) -> String {
    let text = error.to_string();
    match text.contains("UnsupportedCertVersion") {
        true => "it is an X.509 v1 certificate".to_string(),
        false => text,
    }
}

fn read_pem(what: &'static str, file: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error: io::Error| TlsError::Unreadable {
        what,
        file: file.to_path_buf(),
        reason: error.to_string(),
    };
    let size = std::fs::metadata(file).map_err(unreadable)?.len();
    if size > MAX_PEM {
        return Err(unreadable(io::Error::other(format!("it has {size} bytes"))));
    }
    std::fs::read(file).map_err(unreadable)
}

fn not_pem(what: &'static str, file: &Path, error: rustls::pki_types::pem::Error) -> TlsError {
    let reason = match error {
        rustls::pki_types::pem::Error::NoItemsFound => format!("there is no {what} in it"),
        error => error.to_string(),
    };
    TlsError::NotPem { what, file: file.to_path_buf(), reason }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests;
