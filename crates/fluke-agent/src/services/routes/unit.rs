//! What keeps Traefik running: a unit, and the one who takes care of units.

use std::path::{Path, PathBuf};

use super::compile::Generation;
use super::files;

/// The beginning of the names of all units of proxies.
const PREFIX: &str = "fluke-proxy-";
/// Their end.
const SUFFIX: &str = ".service";

/// One process of Traefik that is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// What it is started with.
    pub generation: Generation,
    /// Traefik.
    pub program: PathBuf,
    /// All that it may write to.
    pub folder: PathBuf,
}

impl Unit {
    /// Its name for systemd.
    pub fn name(&self) -> String {
        name(&self.generation)
    }

    /// What Traefik is called with.
    pub fn arguments(&self) -> Vec<String> {
        let config = files::fixed_path(&self.folder, &self.generation);
        vec![format!("--configFile={}", config.display())]
    }
}

/// The name of the unit of a generation.
pub fn name(generation: &Generation) -> String {
    format!("{PREFIX}{}{SUFFIX}", generation.as_str())
}

/// The generation that a unit is of.
pub fn generation(name: &str) -> Option<Generation> {
    Generation::parse(name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?)
}

/// What all units of proxies are called, for systemd.
pub fn pattern() -> String {
    format!("{PREFIX}*{SUFFIX}")
}

/// A process of Traefik that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Of which generation.
    pub generation: Generation,
    /// Whether its process is there; else it is about to be started again.
    pub is_up: bool,
}

/// What a process can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Read the dynamic configuration, whether or not it changed.
    Reload,
    /// Write to a new log.
    Reopen,
    /// Take nothing new, and end when all that is under way is over.
    End,
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// There is no systemd.
    #[error(
        "Traefik is kept running by systemd, and this host has none (/run/systemd/system is not \
         there); take `proxy` out of the agent's config, or choose another host"
    )]
    NoSystemd,
    /// It would not.
    #[error("{0}")]
    Failed(String),
}

/// Somebody who keeps processes of Traefik running, also while the agent does not.
pub trait Supervisor: Send {
    /// Those that there are; not those that are about to end.
    fn running(&mut self) -> impl Future<Output = Result<Vec<Running>, SupervisorError>> + Send;

    /// Those that are about to end: they have their ports until they have.
    fn ending(&mut self) -> impl Future<Output = Result<Vec<Generation>, SupervisorError>> + Send;

    /// Starts one that is not there.
    fn start(&mut self, unit: &Unit) -> impl Future<Output = Result<(), SupervisorError>> + Send;

    /// Has one end, within seconds; one that is not there is fine.
    fn stop(
        &mut self,
        generation: &Generation,
    ) -> impl Future<Output = Result<(), SupervisorError>> + Send;

    /// Has one that runs end at once and start again.
    fn restart(
        &mut self,
        generation: &Generation,
    ) -> impl Future<Output = Result<(), SupervisorError>> + Send;

    /// Tells one something.
    fn signal(
        &mut self,
        generation: &Generation,
        signal: Signal,
    ) -> impl Future<Output = Result<(), SupervisorError>> + Send;

    /// The process that one is now, if there is any.
    fn process(
        &mut self,
        generation: &Generation,
    ) -> impl Future<Output = Result<Option<u32>, SupervisorError>> + Send;

    /// From now on, it is this one whose changes are told of.
    fn follow(&mut self, generation: &Generation);

    /// Returns when the followed one came or went by itself. Cancel-safe.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;
}

/// Where a program is: at the path that is given, or in `PATH`.
pub fn find(given: Option<&Path>, path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    match given {
        Some(given) => is_program(given).then(|| given.to_owned()),
        None => {
            let usual = ["/usr/local/bin", "/usr/bin"].map(PathBuf::from);
            let folders = path.into_iter().flat_map(std::env::split_paths).chain(usual);
            let mut programs = folders.map(|folder| folder.join("traefik"));
            programs.find(|program| program.is_absolute() && is_program(program))
        }
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
