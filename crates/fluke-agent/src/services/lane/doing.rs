//! Does one change, as it was decided.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use fluke_model::directory::Subnet;
use fluke_model::id::StepAddress;
use fluke_model::message::Subject;
use fluke_model::service::Replica;
use nix::sys::resource::{Resource, getrlimit};

use super::desired::Desired;
use crate::services::bridge;
use crate::services::plan::{Change, Deployment, Origin, Replaces, State, Why};
use crate::services::podman::create::{Limit, Spot, container_name, create_body, volume};
use crate::services::podman::{Podman, PodmanError};

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Podman would not.
    #[error(transparent)]
    Podman(#[from] PodmanError),
    /// Podman has something of this name that it does not list, as after a power cut.
    #[error("Podman would not create {name}, as that name is in use; another one is tried")]
    NameTaken {
        /// Which.
        name: String,
    },
    /// Its environment cannot be made.
    #[error("its environment cannot be made: {0}")]
    Environment(String),
    /// What Podman forgot does not end.
    #[error(
        "its processes cannot be ended: {0}; see `systemd-cgls`, and reboot the host if they stay"
    )]
    Forgotten(std::io::Error),
    /// What Podman forgot has ended, and others would not get its place in the network.
    #[error(
        "its processes have ended, and interface {link}, their end of the network, cannot be taken \
         away: {error}; see `ip link`"
    )]
    Uncut {
        /// The number of the interface.
        link: u32,
        /// Why not.
        error: std::io::Error,
    },
    /// All addresses are taken.
    #[error(
        "no address is free in {0}/24: 253 containers are the most that one host has; let others \
         take some of them"
    )]
    NoAddress(Ipv4Addr),
}

impl ChangeError {
    /// Whether what was to be changed is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Podman(error) if error.is_not_found())
    }

    /// Whether it says anything of what was to be changed. Podman may still do what it was asked for
    /// where it has not answered.
    pub fn is_an_answer(&self) -> bool {
        !matches!(self, Self::Podman(error) if !error.is_an_answer())
    }

    /// Whether the address that a container was to have is taken, in Podman's words.
    pub fn is_address_taken(&self) -> bool {
        matches!(self, Self::Podman(PodmanError::Refused { why, .. })
            if why.contains("already allocated"))
    }

    /// The name that a container was to have and that is taken.
    pub fn taken_name(&self) -> Option<&str> {
        match self {
            Self::NameTaken { name } => Some(name),
            _ => None,
        }
    }
}

/// Where one that is made goes.
#[derive(Debug)]
pub struct Room {
    /// This host's.
    pub subnet: Subnet,
    /// The last byte of its address, if there is one for it.
    pub address: Option<u8>,
    /// Names that others have.
    pub names: BTreeSet<String>,
}

/// Does `change`; says which container it was done to.
pub async fn change(
    podman: Podman,
    change: &Change,
    desired: &Desired,
    room: Room,
) -> Result<Option<String>, ChangeError> {
    match change {
        Change::MakeNetwork { replaces } => {
            if *replaces {
                podman.remove_network(bridge::NETWORK).await?;
            }
            podman.create_network(&bridge::wanted(room.subnet)).await?;
            Ok(None)
        }
        Change::Remove { container, .. } => {
            podman.remove(container).await?;
            Ok(Some(container.clone()))
        }
        // It has its time to end, which is a job beside this.
        Change::Stop { .. } => Ok(None),
        Change::Start { container, .. } => {
            podman.start(container).await?;
            Ok(Some(container.clone()))
        }
        Change::Deploy { deployment, ahead, .. } => {
            let id = make(&podman, deployment, desired, &room).await?;
            if !ahead {
                podman.start(&id).await?;
            }
            Ok(Some(id))
        }
    }
}

async fn make(
    podman: &Podman,
    deployment: &Deployment,
    desired: &Desired,
    room: &Room,
) -> Result<String, ChangeError> {
    let subnet = room.subnet;
    let address = room.address.ok_or(ChangeError::NoAddress(subnet.network()))?;
    let env = desired.env(deployment.id);
    let env = env.map_err(|why| ChangeError::Environment(why.to_owned()))?.clone();
    for name in deployment.spec.volumes.keys() {
        podman.create_volume(&volume(deployment, name)).await?;
    }
    let (address, gateway) = (subnet.address(address), subnet.gateway());
    let spot = Spot { network: bridge::NETWORK, address, gateway };
    let name = free_name(container_name(deployment), &room.names);
    let body = create_body(deployment, env, spot, limits()).named(name.clone());
    podman.create(&body).await.map_err(|error| match error {
        PodmanError::Refused { why, .. } if why.contains("name is already in use") => {
            ChangeError::NameTaken { name }
        }
        error => error.into(),
    })
}

/// A name that nobody has: one that was made with other values of this host has the same.
fn free_name(name: String, taken: &BTreeSet<String>) -> String {
    let more = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(more);
    names.find(|name| !taken.contains(name)).unwrap_or(name)
}

/// What the agent itself may have: Podman's own defaults may be more than there is to give.
fn limits() -> Vec<Limit> {
    // Podman limits itself to these, and cannot give more than it has.
    const FILES: u64 = 1 << 20;
    const PROCESSES: u64 = 1 << 15;
    let of = |kind, resource, most: u64| {
        let (_, hard) = getrlimit(resource).ok()?;
        let hard = hard.min(most);
        Some(Limit { kind, soft: hard, hard })
    };
    let files = of("nofile", Resource::RLIMIT_NOFILE, FILES);
    files.into_iter().chain(of("nproc", Resource::RLIMIT_NPROC, PROCESSES)).collect()
}

/// What a change is about, for the record.
pub fn subject(change: &Change) -> Option<Subject> {
    match change {
        Change::MakeNetwork { .. } => {
            let part = StepAddress::new("network", bridge::NETWORK).ok()?;
            Some(Subject::Service { service: None, part })
        }
        Change::Remove { container, origin, .. }
        | Change::Stop { container, origin, .. }
        | Change::Start { container, origin, .. } => part(origin, container),
        Change::Deploy { deployment, .. } => {
            let service = Some(deployment.service.clone());
            let part = deployment.replica.part(&deployment.service);
            Some(Subject::Service { service, part })
        }
    }
}

/// What is said of a container, by whose it is.
fn part(origin: &Origin, container: &str) -> Option<Subject> {
    let part = match &origin.service {
        Some(service) => origin.replica.unwrap_or(Replica::Own).part(service),
        // Nobody knows whose it is.
        None => {
            let short: String = container.chars().take(12).collect();
            StepAddress::new("container", &short).ok()?
        }
    };
    Some(Subject::Service { service: origin.service.clone(), part })
}

/// Why a change is made, for people.
pub fn reason(change: &Change) -> String {
    let named = |origin: &Origin| match &origin.deployment {
        Some(id) => format!("container {}", id.short()),
        None => "a container".to_owned(),
    };
    match change {
        Change::MakeNetwork { replaces: false } => "the network of containers is missing".into(),
        Change::MakeNetwork { replaces: true } => "the network of containers is another".into(),
        Change::Remove { origin, why, .. } | Change::Stop { origin, why, .. } => {
            let why = match why {
                Why::Orphan => "is not wanted here any more",
                Why::Double => "is one too many",
                Why::Succeeded => "has a successor that serves",
                Why::MakesWay => "makes way for its successor",
                Why::Unwell(why) | Why::Restarted(why) => {
                    return format!("{}: {why}", named(origin));
                }
                Why::Tampered(how) => return format!("{} was changed: {how}", named(origin)),
                Why::Stuck => "is in a state that nothing can be made of",
            };
            format!("{} {why}", named(origin))
        }
        Change::Start { origin, unwell: Some(why), .. } => {
            format!("{}: {why}; it was stopped and is started again", named(origin))
        }
        Change::Start { origin, state: State::Created, .. } => {
            format!("{} is made, and not started yet", named(origin))
        }
        Change::Start { origin, .. } => format!("{} does not run", named(origin)),
        Change::Deploy { deployment, replaces, .. } => {
            let why = match replaces {
                Replaces::Nothing => "its container is missing",
                Replaces::Version => "another version is wanted",
                Replaces::Values(how) => how,
            };
            format!("{why}: {}", deployment.spec.image)
        }
    }
}
