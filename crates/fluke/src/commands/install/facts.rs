//! What is there already.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use fluke_agent::services::leaving::{Places, Remains};
use fluke_agent::services::routes::find_traefik;
use fluke_model::service::ServiceExecutor;
use nix::unistd::{Uid, User};

use super::needs::Needs;
use super::places::{FOLDER, PROGRAM, USER};
use super::plan::Facts;
use super::record::Record;
use crate::cli::Part;
use crate::commands::agent::Identity;
use crate::commands::update::{main_process, swap};
use crate::config::agent::AgentFile;
use crate::config::variables::Variables;
use crate::failure::Failure;
use crate::program::Program;

/// Whether this host can be changed, and by whom this is run.
pub fn may_change() -> Result<(), Failure> {
    if !Path::new("/run/systemd/system").is_dir() {
        return Err(Failure::new("this host does not run under systemd").help(
            "start `fluke server --config F` or `fluke agent --config F` with what starts services \
             here; `--dry-run` shows the config and the unit to go by",
        ));
    }
    match Uid::effective().is_root() {
        true => Ok(()),
        false => Err(Failure::new("only root can install services")
            .help("run it with sudo; `--dry-run` shows what would be done")),
    }
}

/// Looks around.
pub async fn look(part: Part) -> Result<Facts, Failure> {
    let running = std::env::current_exe()
        .map_err(|error| Failure::new("it is not known where this program is").because(&error))?;
    let unit = part.unit();
    let systemctl = |verb| Program::new("systemctl", &[verb, "--quiet", unit]).succeeds();
    let program = match super::places::is_packaged(&running) {
        true => running.as_path(),
        false => Path::new(PROGRAM),
    };
    let process = main_process(unit).await;
    let runs = process.and_then(|it| Identity::of(Path::new(&format!("/proc/{it}/exe"))));
    Ok(Facts {
        has_program: program.exists(),
        is_same_program: is_same(&running, program),
        has_user: User::from_name(USER).is_ok_and(|user| user.is_some()),
        has_folder: Path::new(FOLDER).is_dir(),
        has_state: part.state().exists(),
        has_config: part.config().exists(),
        has_variables: part.variables().exists(),
        unit: read(&part.unit_file())?,
        is_enabled: systemctl("is-enabled").await,
        is_active: systemctl("is-active").await,
        runs_old_program: runs.is_some() && runs != Identity::of(program),
        record: record(part)?,
        other: record(part.other())?,
        services: None,
        needs: needs(&agent_file()),
        running,
    })
}

/// Looks for what services have on this host.
pub async fn services(part: Part) -> Option<(Remains, Places)> {
    if part != Part::Agent {
        return None;
    }
    let places = places(part);
    Some((Remains::look(&places).await, places))
}

/// The agent's config; one that cannot be read is not in the way.
fn agent_file() -> AgentFile {
    let part = Part::Agent;
    let variables = Variables::load(Some(&part.variables())).ok();
    let variable = |name: &str| variables.as_ref().and_then(|known| known.get(name));
    let text = crate::config::load(&part.config()).ok();
    let file = text.and_then(|text| crate::config::read_agent("agent.hcl", &text, &variable).ok());
    file.unwrap_or_default()
}

/// Where systemd lets services look for programs, unless they say otherwise.
const UNIT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What services need here, as the agent's config says.
fn needs(file: &AgentFile) -> Needs {
    let is_allowed = |it: ServiceExecutor| {
        let listed = file.allow.executors.as_ref();
        listed.is_none_or(|listed| listed.iter().any(|kind| kind == it.as_str()))
    };
    let socket = &file.containers.socket;
    let program = file.proxy.as_ref().and_then(|proxy| proxy.program.as_deref());
    // Where the unit will look, which may be elsewhere than where this shell does.
    let path = Some(OsStr::new(UNIT_PATH));
    Needs {
        socket: is_allowed(ServiceExecutor::Container).then(|| socket.clone()),
        has_socket: socket.exists(),
        is_proxy: file.proxy.is_some() && is_allowed(ServiceExecutor::Routes),
        has_traefik: find_traefik(program, path).is_some(),
    }
}

/// Where the agent has what, as its config says.
fn places(part: Part) -> Places {
    let file = agent_file();
    Places {
        state_dir: file.state_dir.unwrap_or_else(|| part.state()),
        socket: file.containers.socket,
    }
}

fn is_same(running: &Path, program: &Path) -> bool {
    let hashes = (swap::hash_of(running), swap::hash_of(program));
    matches!(hashes, (Ok(running), Ok(program)) if running == program)
}

fn record(part: Part) -> Result<Record, Failure> {
    let path = part.record();
    let Some(text) = read(&path)? else { return Ok(Record::default()) };
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(format!("{} is damaged", path.display())).because(&error).help(
            "it tells what was installed; restore it, or remove it and what is installed by hand",
        )
    })
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(Failure::new(format!("could not read {}", path.display())).because(&error))
        }
    }
}
