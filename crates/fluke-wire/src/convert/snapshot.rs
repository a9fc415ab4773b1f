//! Snapshots: the one message whose content is named by a hash.
//!
//! The server names each task by a hash of its own making. Where an agent makes out another hash,
//! the server is newer and says something that this agent does not understand; then nothing of
//! that task is run, and the rest of the snapshot goes its way.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::{CommitId, Hash256, StepAddress, TaskName};
use fluke_model::policy::Policy;
use fluke_model::service::SnapshotService;
use fluke_model::snapshot::{Snapshot, SnapshotTask};
use fluke_model::task::{
    ExecutorSpec, GitCheckout, MiseSpec, OnFailure, ShellSpec, Step, SystemdSpec,
};

use super::parts::{
    commit, commit_to_proto, hash, hash_to_proto, millis_to_proto, named, on_failure,
    on_failure_to_proto, policy, policy_to_proto, unit_state, unit_state_to_proto,
};
use super::services::{service_from_proto, service_to_proto};
use super::{MAX_REPLICAS, MAX_STEPS};
use crate::error::WireError;
use crate::proto;
use crate::proto::step::Spec;

pub(super) fn snapshot_to_proto(commit: &CommitId, snapshot: &Snapshot) -> proto::Snapshot {
    let hashed = snapshot.tasks().iter().zip(snapshot.task_hashes());
    let services = snapshot.services().iter().zip(snapshot.service_hashes());
    proto::Snapshot {
        hash: hash_to_proto(snapshot.hash()),
        commit: commit_to_proto(commit),
        tasks: hashed.map(|(task, hash)| task_to_proto(task, *hash)).collect(),
        services: services.map(|(service, hash)| service_to_proto(service, *hash)).collect(),
        moved: false,
    }
}

fn task_to_proto(task: &SnapshotTask, hash: Hash256) -> proto::Task {
    proto::Task {
        name: task.name.to_string(),
        hash: hash_to_proto(hash),
        policy: policy_to_proto(task.policy),
        steps: task.steps.iter().map(step_to_proto).collect(),
    }
}

fn step_to_proto(step: &Step) -> proto::Step {
    proto::Step {
        kind: step.address.kind().to_owned(),
        name: step.address.name().to_owned(),
        on_failure: on_failure_to_proto(step.on_failure),
        timeout_ms: step.timeout.map(millis_to_proto),
        spec: spec_to_proto(&step.spec),
    }
}

fn spec_to_proto(spec: &ExecutorSpec) -> Option<Spec> {
    match spec {
        ExecutorSpec::Shell(shell) => Some(Spec::Shell(proto::ShellSpec {
            check: shell.check.clone(),
            command: shell.command.clone(),
            working_dir: shell.working_dir.clone(),
            run_as: shell.run_as.clone(),
            env: shell.env.clone(),
        })),
        ExecutorSpec::Mise(mise) => Some(Spec::Mise(proto::MiseSpec {
            working_dir: mise.working_dir.clone(),
            check_task: mise.check_task.clone(),
            apply_task: mise.apply_task.clone(),
            git: mise
                .git
                .as_ref()
                .map(|git| proto::GitCheckout { url: git.url.clone(), branch: git.branch.clone() }),
        })),
        ExecutorSpec::Systemd(systemd) => Some(Spec::Systemd(proto::SystemdSpec {
            unit: systemd.unit.clone(),
            state: unit_state_to_proto(systemd.state),
            enabled: systemd.enabled,
        })),
        ExecutorSpec::Unknown => None,
    }
}

pub(super) fn snapshot_from_proto(
    wire: proto::Snapshot,
) -> Result<(CommitId, Arc<Snapshot>), WireError> {
    let announced = hash("hash", &wire.hash)?;
    let commit = commit("commit", wire.commit)?;
    let steps: usize = wire.tasks.iter().map(|task| task.steps.len()).sum();
    if steps > MAX_STEPS {
        let reason = format!("have {steps} steps; at most {MAX_STEPS} are accepted");
        return Err(WireError::invalid("tasks", reason));
    }
    let mut names = HashSet::with_capacity(wire.tasks.len());
    let mut tasks = Vec::with_capacity(wire.tasks.len());
    for (n, task) in wire.tasks.into_iter().enumerate() {
        let place = format_args!("tasks[{n}]").to_string();
        let (hash, task) = task_from_proto(task).map_err(|error| error.within(&place))?;
        if !names.insert(task.name.clone()) {
            return Err(WireError::invalid(place, format!("repeats the name `{}`", task.name)));
        }
        tasks.push((hash, Arc::new(task)));
    }
    let services = services_from_proto(wire.services)?;
    let snapshot = Snapshot::from_hashed(tasks).with_hashed_services(services);
    if snapshot.hash() != announced {
        let reason = format!("is {announced}, but the content makes {}", snapshot.hash());
        return Err(WireError::invalid("hash", reason));
    }
    Ok((commit, Arc::new(snapshot)))
}

fn services_from_proto(
    wire: Vec<proto::Service>,
) -> Result<Vec<(Hash256, Arc<SnapshotService>)>, WireError> {
    let replicas: usize = wire.iter().map(|service| service.replicas.len()).sum();
    if replicas > MAX_REPLICAS {
        let reason = format!("have {replicas} replicas; at most {MAX_REPLICAS} are accepted");
        return Err(WireError::invalid("services", reason));
    }
    let mut names = HashSet::with_capacity(wire.len());
    let mut services = Vec::with_capacity(wire.len());
    for (n, service) in wire.into_iter().enumerate() {
        let place = format!("services[{n}]");
        let (hash, service) = service_from_proto(service).map_err(|error| error.within(&place))?;
        if !names.insert(service.name.clone()) {
            return Err(WireError::invalid(place, format!("repeats the name `{}`", service.name)));
        }
        services.push((hash, Arc::new(service)));
    }
    Ok(services)
}

/// The task under the hash that the server gave it.
fn task_from_proto(wire: proto::Task) -> Result<(Hash256, SnapshotTask), WireError> {
    let announced = hash("hash", &wire.hash)?;
    let policy = policy(wire.policy());
    let name = named("name", TaskName::new(&wire.name))?;
    if wire.steps.is_empty() {
        return Err(WireError::invalid("steps", "are missing; a task has at least one"));
    }
    let mut understood = policy.is_some();
    let mut addresses = HashSet::with_capacity(wire.steps.len());
    let mut steps = Vec::with_capacity(wire.steps.len());
    for (n, step) in wire.steps.into_iter().enumerate() {
        let (whole, step) =
            step_from_proto(step).map_err(|error| error.within(format_args!("steps[{n}]")))?;
        if !addresses.insert(step.address.clone()) {
            let reason = format!("repeats the address `{}`", step.address);
            return Err(WireError::invalid(format!("steps[{n}]"), reason));
        }
        understood &= whole;
        steps.push(step);
    }
    let policy = policy.unwrap_or(Policy::AlertOnly);
    let mut task = SnapshotTask { name, policy, steps: steps.into() };
    if understood && task.hash() != announced {
        let unknown = |step: &Step| Step { spec: ExecutorSpec::Unknown, ..step.clone() };
        task.steps = task.steps.iter().map(unknown).collect();
    }
    Ok((announced, task))
}

/// The step, and whether all of it was understood.
fn step_from_proto(wire: proto::Step) -> Result<(bool, Step), WireError> {
    let on_failure = on_failure(wire.on_failure());
    let spec = spec_from_proto(wire.spec);
    let step = Step {
        address: named("name", StepAddress::new(&wire.kind, &wire.name))?,
        on_failure: on_failure.unwrap_or(OnFailure::Abort),
        timeout: wire.timeout_ms.map(Duration::from_millis),
        spec: spec.unwrap_or(ExecutorSpec::Unknown),
    };
    let whole = on_failure.is_some() && step.spec != ExecutorSpec::Unknown;
    Ok((whole, step))
}

/// None for one that is not known.
fn spec_from_proto(wire: Option<Spec>) -> Option<ExecutorSpec> {
    Some(match wire? {
        Spec::Shell(shell) => ExecutorSpec::Shell(ShellSpec {
            check: shell.check,
            command: shell.command,
            working_dir: shell.working_dir,
            run_as: shell.run_as,
            env: shell.env,
        }),
        Spec::Mise(mise) => ExecutorSpec::Mise(MiseSpec {
            working_dir: mise.working_dir,
            check_task: mise.check_task,
            apply_task: mise.apply_task,
            git: mise.git.map(|git| GitCheckout { url: git.url, branch: git.branch }),
        }),
        Spec::Systemd(systemd) => {
            let state = unit_state(systemd.state())?;
            let enabled = systemd.enabled;
            ExecutorSpec::Systemd(SystemdSpec { unit: systemd.unit, state, enabled })
        }
    })
}
