//! Where everything is.

use std::path::{Path, PathBuf};

use crate::cli::Part;

/// Where the program is put.
pub const PROGRAM: &str = "/usr/local/bin/fluke";
/// Configs, variables, and what was installed.
pub const FOLDER: &str = "/etc/fluke";
/// Who the server is.
pub const USER: &str = "fluke";

impl Part {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Agent => "agent",
        }
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Server => Self::Agent,
            Self::Agent => Self::Server,
        }
    }

    /// Its systemd unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Server => super::SERVER_UNIT,
            Self::Agent => super::AGENT_UNIT,
        }
    }

    /// The unit's file.
    pub fn unit_file(self) -> PathBuf {
        Path::new("/etc/systemd/system").join(self.unit())
    }

    /// The config.
    pub fn config(self) -> PathBuf {
        self.within("hcl")
    }

    /// The variables: tokens and other secrets.
    pub fn variables(self) -> PathBuf {
        self.within("env")
    }

    /// What was installed.
    pub fn record(self) -> PathBuf {
        Path::new(FOLDER).join(format!("installed-{}.json", self.name()))
    }

    /// What it keeps, made by systemd when the unit starts.
    pub fn state(self) -> PathBuf {
        match self {
            Self::Server => "/var/cache/fluke".into(),
            Self::Agent => crate::config::agent::STATE_DIR.into(),
        }
    }

    fn within(self, kind: &str) -> PathBuf {
        Path::new(FOLDER).join(format!("{}.{kind}", self.name()))
    }
}

/// Whether a package manager looks after the program at `path`: then it stays there.
pub fn is_packaged(path: &Path) -> bool {
    let places =
        ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/lib", "/usr/libexec", "/nix", "/snap"];
    places.iter().any(|place| path.starts_with(place))
}
