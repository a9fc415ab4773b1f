//! What this machine must have before it can be a bed, and how it gets it.

use crate::command::{self, CommandError};
use crate::places::{self, FileError, Lock};

/// Debian's packages, and a file of each that tells whether it is there.
const PACKAGES: &[(&str, &str)] = &[
    ("podman", "/usr/bin/podman"),
    ("runc", "/usr/sbin/runc"),
    ("conmon", "/usr/bin/conmon"),
    ("netavark", "/usr/lib/podman/netavark"),
    ("debootstrap", "/usr/sbin/debootstrap"),
    ("nftables", "/usr/sbin/nft"),
    ("iproute2", "/bin/ip"),
    ("util-linux", "/usr/bin/nsenter"),
    ("tar", "/bin/tar"),
    ("git", "/usr/bin/git"),
    ("faketime", "/usr/bin/faketime"),
];

/// Set to `never` to have nothing installed and no image built: what is there must do.
const INSTALL: &str = "FLUKE_BED_INSTALL";

/// Why there can be no bed here.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Containers with systemd, bridges and nftables are root's.
    #[error("a bed needs root: run it with sudo, or in a privileged container")]
    NotRoot,
    /// Programs are missing, and must stay so.
    #[error("{0} missing; run `cargo bed image` as root")]
    Missing(String),
    /// Programs are missing and cannot be had.
    #[error("could not install {packages}")]
    Install {
        /// Which packages.
        packages: String,
        /// What apt said.
        #[source]
        source: CommandError,
    },
    /// Files cannot be had.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Whether anything may be installed or built.
pub fn may_install() -> bool {
    std::env::var_os(INSTALL).is_none_or(|value| value != "never")
}

/// Installs what is missing.
pub fn prepare() -> Result<(), MachineError> {
    if !is_root() {
        return Err(MachineError::NotRoot);
    }
    if missing().is_empty() {
        return Ok(());
    }
    if !may_install() {
        return Err(MachineError::Missing(format!("{} are", missing().join(", "))));
    }
    let _alone = Lock::wait(&places::cache().join("machine.lock"))?;
    // Whoever had the lock may have done it all.
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    let install = |packages: &[&str]| {
        command::run("apt-get", &["update", "-qq"])?;
        let options = ["DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-qq", "-y"];
        command::run("env", &[&options[..], &["--no-install-recommends"], packages].concat())
    };
    let failed = |source| MachineError::Install { packages: packages.join(" "), source };
    install(&packages).map(drop).map_err(failed)
}

fn missing() -> Vec<&'static str> {
    let missing = PACKAGES.iter().filter(|(_, file)| !std::path::Path::new(file).exists());
    missing.map(|(package, _)| *package).collect()
}

fn is_root() -> bool {
    // The owner of a process's folder is its effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// How many files a process may open here; hosts get as many.
pub(crate) fn most_files() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    hard.unwrap_or(4096)
}
