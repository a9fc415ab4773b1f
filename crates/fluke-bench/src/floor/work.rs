//! Work of a given size, in a process of its own, so that its instructions can be counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluke_manifest::tree::MemoryTree;
use fluke_model::event::{Event, EventId, EventKind};
use fluke_model::id::{AgentName, Hash256, ServiceName, TaskName};
use fluke_model::label::Labels;
use fluke_model::placement::{Candidate, Hold, Wanted, place};
use fluke_model::policy::Policy;
use fluke_model::service::RESCHEDULE_AFTER;
use fluke_model::snapshot::Compiler;
use fluke_model::time::Timestamp;
use fluke_server::events::EventStore;
use fluke_server::events::memory::{MemoryBounds, MemoryStore};

use crate::estate::{Estate, loader};
use crate::row::Trouble;

/// What there is more or less of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Tasks of one step, each in a file of its own.
    Task,
    /// Steps of ten tasks.
    Step,
    /// Hosts that snapshots are made for, of a hundred tasks.
    Agent,
    /// Events that are recorded.
    Event,
    /// Replicas of a service that find their places, and as many hosts.
    Replica,
    /// Tasks of ten steps for a thousand hosts, as a large repository has them.
    Estate,
    /// The files of as many such tasks, hashed: the least that can be done with every byte.
    Hash,
}

impl Kind {
    /// What one more of costs the same as the one before.
    pub const GROWING: [Self; 5] =
        [Self::Agent, Self::Task, Self::Step, Self::Event, Self::Replica];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Step => "step",
            Self::Agent => "agent",
            Self::Event => "event",
            Self::Replica => "replica",
            Self::Estate => "estate",
            Self::Hash => "hash",
        }
    }

    /// How many make a measurement that takes seconds under callgrind.
    pub fn usual(self) -> usize {
        match self {
            Self::Task | Self::Step => 1000,
            Self::Agent | Self::Replica => 2000,
            Self::Event => 20_000,
            Self::Estate | Self::Hash => 1000,
        }
    }

    /// Does it.
    pub fn run(self, count: usize) -> Result<(), Trouble> {
        match self {
            Self::Task => compile(count, 1).map(drop),
            // A task has a step at least.
            Self::Step => compile(10, 1 + count / 10).map(drop),
            Self::Agent => snapshots(count),
            Self::Event => record(count),
            Self::Replica => replicas(count),
            Self::Estate => compiled(&MemoryTree::new(Estate::new(count).files())).map(drop),
            Self::Hash => {
                std::hint::black_box(hashes(&Estate::new(count).files()));
                Ok(())
            }
        }
    }
}

fn compile(tasks: usize, steps: usize) -> Result<Compiler, Trouble> {
    let file = |task: usize| {
        let step = |step: usize| {
            format!(
                "  shell \"s{step}\" {{\n    check   = \"test -f /{task}/{step}\"\n    command = \"touch /{task}/{step}\"\n  }}\n"
            )
        };
        let steps: String = (0..steps).map(step).collect();
        let text = format!(
            "task \"t{task}\" {{\n  selector {{\n    match_labels = {{ n = \"{}\" }}\n  }}\n{steps}}}\n",
            task % 10
        );
        (format!("t{task}.fluke.hcl"), text)
    };
    compiled(&MemoryTree::new((0..tasks).map(file)))
}

fn compiled(tree: &MemoryTree) -> Result<Compiler, Trouble> {
    let loaded = loader()?.load(tree);
    let model = loaded.model.ok_or_else(|| Trouble::failed("compile", "it is not valid"))?;
    Ok(Compiler::new(&model, Policy::Remediate))
}

/// The SHA-256 of every file.
pub fn hashes(files: &[(String, String)]) -> Vec<Hash256> {
    files.iter().map(|(_, text)| Hash256::of(text.as_bytes())).collect()
}

fn snapshots(hosts: usize) -> Result<(), Trouble> {
    let compiler = compile(100, 10)?;
    for host in 0..hosts {
        let pairs = [format!("n={}", host % 10), format!("host=h{host}")];
        let pairs: Result<_, _> = pairs.iter().map(|pair| Labels::parse_pair(pair)).collect();
        let labels = Labels(pairs.map_err(|error| Trouble::failed("make labels", error))?);
        std::hint::black_box(compiler.snapshot(&labels));
    }
    Ok(())
}

/// Half of the hosts have everything, and make room for the others.
fn replicas(count: usize) -> Result<(), Trouble> {
    let failed = |error: &dyn std::fmt::Display| Trouble::failed("place replicas", error);
    let service = ServiceName::new("web").map_err(|error| failed(&error))?;
    let replicas = count as u32;
    let wanted = Wanted {
        service: &service,
        replicas,
        is_stateful: false,
        reschedule_after: RESCHEDULE_AFTER,
    };
    let host = |number: usize| -> Result<Candidate, Trouble> {
        let host = AgentName::new(format!("web-{number}")).map_err(|error| failed(&error))?;
        let (holds, given, volumes) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Ok(Candidate { host, matches: true, away: None, holds, given, volumes })
    };
    let mut hosts = (0..count).map(host).collect::<Result<Vec<_>, _>>()?;
    let half = &mut hosts[..count / 2];
    half.sort_by(|one, other| one.host.cmp(&other.host));
    for (number, at) in place(wanted, half) {
        if let Ok(at) = half.binary_search_by(|host| host.host.cmp(&at)) {
            half[at].holds.insert(number, Hold::Given);
            half[at].given.insert(number);
        }
    }
    std::hint::black_box(place(wanted, &hosts));
    Ok(())
}

fn record(events: usize) -> Result<(), Trouble> {
    let failed = |error: &dyn std::fmt::Display| Trouble::failed("record events", error);
    let store = MemoryStore::new(MemoryBounds::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let ids: Vec<u64> = (1..=events as u64).collect();
    for batch in ids.chunks(100) {
        let batch: Result<Vec<_>, _> = batch.iter().map(|id| event(*id)).collect();
        let batch = batch?;
        runtime.block_on(store.append(&batch)).map_err(|error| failed(&error))?;
    }
    Ok(())
}

/// An event as a busy server has them, of one of a hundred agents.
pub fn event(id: u64) -> Result<Arc<Event>, Trouble> {
    let failed = |error: &dyn std::fmt::Display| Trouble::failed("make an event", error);
    let mut event = Event::new(EventKind::ApplyFinished, Timestamp(id));
    event.id = EventId(1_763_000_000_000_000 + id);
    let agent = AgentName::new(format!("web-{}", id % 100)).map_err(|error| failed(&error))?;
    event.agent = Some(agent);
    event.task = Some(TaskName::new("certs").map_err(|error| failed(&error))?);
    event.output = Some("renewed certificate for www.example.com; reloading the proxy\n".into());
    Ok(Arc::new(event))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_kind_of_work_can_be_named_and_done() {
        for kind in Kind::value_variants().iter().copied() {
            assert_eq!(Kind::from_str(kind.name(), false), Ok(kind));
            kind.run(0).expect("nothing");
            kind.run(20).expect("some");
        }
    }
}
