//! Stories of a lane with a real Podman, on a machine of its own as far as Podman can tell.

mod asking;
mod environment;
mod forgetting;
mod images;
mod keeping;
mod limits;
mod network;
mod refusing;
mod replacing;
mod stage;
mod waiting;

use std::net::Ipv4Addr;
use std::sync::Mutex;

use fluke_model::directory::{NameKey, Names, Subnet};
use fluke_model::id::{CommitId, InstructionId, ServiceName, VolumeName};
use fluke_model::message::{DirectoryEdit, Fact, SectionReport};
use fluke_model::policy::{Policy, Trigger};
use fluke_model::service::{ContainerSpec, Health, HealthSpec, Phase, Replica, SnapshotService};
use fluke_model::snapshot::Snapshot;
use fluke_model::verdict::{Outcome, Verdict};
use fluke_model::volume::{Volume, Volumes};

use super::*;
use crate::executor::Allow;
use crate::services::inbox::Settle;
use crate::services::podman::Listed;
use crate::services::podman::create::{Spot, container_name, create_body};
use crate::services::{bridge, fixture};
use crate::state::Held;
use saying::FromLane;
use stage::{RUNS, Stage, few, ip, tell};
pub(super) use stage::{service, spec};

fn with_health(command: &str) -> ContainerSpec {
    let health = HealthSpec {
        command: "test -e /tmp/well".into(),
        interval_ms: 60_000,
        timeout_ms: 5_000,
        retries: 3,
        start_period_ms: 0,
    };
    ContainerSpec { health: Some(health), ..spec(command) }
}

fn with_volume(mut spec: ContainerSpec) -> ContainerSpec {
    spec.volumes.insert(VolumeName::new("data").expect("a name"), "/data".into());
    spec
}

/// Comes up, and is well from the beginning.
const WELL: &str = "mkdir -p /tmp; touch /tmp/well; trap 'exit 0' TERM; sleep 1000 & wait";

/// One that looks at nothing by itself, and says nothing to anybody.
pub(super) fn asleep(dir: &std::path::Path, allow: &Allow) -> Lane {
    let (out, _said) = tokio::sync::mpsc::channel(1);
    let socket = dir.join("podman.sock");
    let podman = Podman::at(&socket).expect("a client");
    Lane::new(Start {
        host: AgentName::new(fixture::HOST).expect("a name"),
        node_type: NodeType::Worker,
        config: ServicesConfig { socket, ..ServicesConfig::default() },
        ceiling: Ceiling::of(allow),
        environment: Environment::from_pairs([("", "")]),
        clock: Arc::new(|| std::time::SystemTime::now().into()),
        folder: Folder::within(dir),
        inbox: Arc::default(),
        scribe: Scribe(out),
        podman,
    })
}

/// What a lane has on record from now on.
pub(super) fn overheard(lane: &mut Lane) -> Arc<Mutex<Vec<Fact>>> {
    let (out, mut said) = tokio::sync::mpsc::channel(1);
    let facts = Arc::new(Mutex::new(Vec::new()));
    let heard = facts.clone();
    lane.scribe = Scribe(out);
    tokio::spawn(async move {
        while let Some(said) = said.recv().await {
            if let FromLane::Record(note, written) = said {
                heard.lock().expect("nobody panicked").push(note.fact);
                let _ = written.send(());
            }
        }
    });
    facts
}

/// What a snapshot with one service means for a lane.
pub(super) fn wanting(lane: &Lane, service: SnapshotService) -> Desired {
    let snapshot = Arc::new(Snapshot::default().with_services(vec![Arc::new(service)]));
    let held = Held { commit: CommitId::new("c1"), snapshot };
    Desired::new(Arc::new(held), &lane.host, &lane.environment)
}
