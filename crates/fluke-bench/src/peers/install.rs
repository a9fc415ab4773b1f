//! Where others are installed: below `target/`, and nowhere else on this machine. Python's are in a
//! venv; Debian's are packages that a host of the bed installs, whose own they are then.

use std::path::{Path, PathBuf};
use std::process::Command;

use fluke_bed::{Bed, Host};

use crate::command::ran;
use crate::row::Trouble;

/// What is had from PyPI.
const PYTHON: [&str; 2] = ["ansible-core", "salt"];
/// What is had from Debian, for the host's own release.
const DEBIAN: [&str; 3] = ["puppet-agent", "cfengine3", "python3"];
/// Debian's Python: hosts of the bed have this machine's release.
const INTERPRETER: &str = "/usr/bin/python3";

/// What is installed, or is to be.
pub(super) struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Below `target/`, whether anything is there or not.
    pub(super) fn here() -> Result<Self, Trouble> {
        let failed = |error| Trouble::failed("find the repository", error);
        let root = crate::root().canonicalize().map_err(failed)?;
        Ok(Self { folder: root.join("target/peers") })
    }

    /// Python's: the same path on a host as here, because it is in every file of it.
    pub(super) fn venv(&self) -> PathBuf {
        self.folder.join("venv")
    }

    fn packages(&self) -> PathBuf {
        self.folder.join("apt/archives")
    }

    /// Whether all of it is there.
    pub(super) fn is_complete(&self) -> bool {
        self.venv().join("bin/salt-call").exists() && has_package(&self.packages(), DEBIAN[0])
    }

    /// Downloads what is missing; `host` says which packages it lacks.
    pub(super) fn complete(&self, host: &Host) -> Result<(), Trouble> {
        let venv = self.venv();
        if !venv.join("bin/salt-call").exists() {
            ran(Command::new(INTERPRETER).args(["-m", "venv"]).arg(&venv))?;
            // Which versions go with each other takes pip half an hour to find out, and uv seconds.
            ran(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "uv"]))?;
            let mut install = Command::new(venv.join("bin/uv"));
            install.args(["pip", "install", "--quiet", "--native-tls", "--compile-bytecode"]);
            ran(install.arg("--python").arg(venv.join("bin/python3")).args(PYTHON))?;
        }
        match has_package(&self.packages(), DEBIAN[0]) {
            true => Ok(()),
            false => self.download(host),
        }
    }

    /// Has apt download what the host would have to, as if this machine were the host.
    fn download(&self, host: &Host) -> Result<(), Trouble> {
        let apt = self.folder.join("apt");
        let failed = |error| Trouble::failed("make a place for packages", error);
        for place in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(apt.join(place)).map_err(failed)?;
        }
        let (status, sources) = (apt.join("status"), apt.join("sources.list"));
        std::fs::write(&status, host.read("/var/lib/dpkg/status")).map_err(failed)?;
        std::fs::write(&sources, host.read("/etc/apt/sources.list")).map_err(failed)?;
        let options = [
            format!("Dir::State::status={}", status.display()),
            format!("Dir::State::lists={}", apt.join("lists").display()),
            format!("Dir::Cache={}", apt.display()),
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=-".into(),
            "APT::Sandbox::User=root".into(),
        ];
        let get = |words: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(options.iter().flat_map(|option| ["--option", option]));
            ran(command.args(["--quiet=2", "--yes", "--no-install-recommends"]).args(words))
        };
        get(&["update"])?;
        get(&[&["install", "--download-only"][..], &DEBIAN].concat())
    }

    /// Puts all of it on a host.
    pub(super) fn bring(&self, bed: &Bed, host: &Host) -> Result<(), Trouble> {
        // Hosts see this folder as /opt/fluke.
        let shared = bed.folder().join("bin/peers");
        let failed = |error| Trouble::failed("make a place for the others", error);
        std::fs::create_dir_all(&shared).map_err(failed)?;
        for from in [self.venv(), self.packages()] {
            ran(Command::new("cp").arg("--archive").arg(from).arg(&shared))?;
        }
        let folder = self.folder.display();
        let told = host.try_run(&format!(
            "set -e; export DEBIAN_FRONTEND=noninteractive; \
             printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d; \
             chmod +x /usr/sbin/policy-rc.d; \
             apt-get --quiet=2 --yes --no-install-recommends install /opt/fluke/peers/archives/*.deb; \
             mkdir -p {folder}; ln -s /opt/fluke/peers/venv {folder}/venv"
        ));
        match told.ok() {
            true => Ok(()),
            false => Err(Trouble::failed("install the others on a host", told.stderr)),
        }
    }
}

fn has_package(folder: &Path, name: &str) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let start = format!("{name}_");
    files.map(|file| file.file_name()).any(|file| file.to_string_lossy().starts_with(&start))
}
