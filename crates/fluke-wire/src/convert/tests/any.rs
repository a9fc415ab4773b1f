//! Any message that keeps to the bounds.

mod services;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::{
    AgentName, CommitId, Hash256, InstanceId, InstructionId, LabelKey, LabelValue, SessionId,
    StepAddress, TaskName,
};
use fluke_model::label::Labels;
use fluke_model::message::{
    Checked, Fact, Hello, Holdings, NodeType, Record, RecordId, Scope, StepReport, Subject,
    ToAgent, ToServer, Welcome,
};
use fluke_model::policy::{Policy, Trigger};
use fluke_model::snapshot::{Snapshot, SnapshotTask, StepIndex};
use fluke_model::task::{
    ExecutorSpec, GitCheckout, MiseSpec, OnFailure, ShellSpec, Step, SystemdSpec, UnitState,
};
use fluke_model::time::Timestamp;
use fluke_model::verdict::{Drift, Outcome, Output, Verdict};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9._/-]{1,128}"
}

/// Of an agent or a task.
fn path() -> impl Strategy<Value = String> {
    "[a-z0-9_-][a-zA-Z0-9._-]{0,40}(/[.]?[a-zA-Z0-9_-]{1,20}){0,4}"
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,40}", "(.|\n){0,200}"]
}

fn word() -> impl Strategy<Value = String> {
    "[a-zé0-9 ]{0,64}"
}

fn millis() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_millis)
}

fn interval() -> impl Strategy<Value = Duration> {
    (1..=u64::MAX).prop_map(Duration::from_millis)
}

fn hash() -> impl Strategy<Value = Hash256> {
    any::<[u8; 32]>().prop_map(Hash256::from_bytes)
}

fn instruction() -> impl Strategy<Value = InstructionId> {
    any::<(u64, u64)>()
        .prop_map(|(session, number)| InstructionId { session: SessionId(session), number })
}

fn steps() -> impl Strategy<Value = Vec<StepIndex>> {
    vec(any::<u32>().prop_map(StepIndex), 0..20)
}

fn trigger() -> impl Strategy<Value = Trigger> {
    prop_oneof![
        Just(Trigger::Commit),
        Just(Trigger::Placement),
        Just(Trigger::Poll),
        Just(Trigger::Connect),
        Just(Trigger::Watch),
        Just(Trigger::Retry),
        Just(Trigger::Offline),
        word().prop_map(|by| Trigger::Manual { by }),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Success),
        Just(Outcome::Failure),
        Just(Outcome::AppliedButDrifted),
        Just(Outcome::Healed),
        Just(Outcome::Skipped),
        Just(Outcome::Interrupted),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Satisfied),
        (text(), option::of(text()))
            .prop_map(|(reason, diff)| Verdict::Drifted(Drift { reason, diff })),
        text().prop_map(|reason| Verdict::Error { reason }),
    ]
}

pub(crate) fn hello() -> impl Strategy<Value = Hello> {
    let labels = btree_map(
        name().prop_map(|key| LabelKey::new(key).expect("a name")),
        name().prop_map(|value| LabelValue::new(value).expect("a name")),
        0..8,
    );
    let fields = (
        path(),
        labels,
        word(),
        vec(name(), 0..8),
        option::of(hash()),
        any::<(bool, u64, Option<u64>)>(),
        [option::of(hash()), option::of(hash()), option::of(hash()), option::of(hash())],
    );
    fields.prop_map(|(name, labels, version, executors, snapshot, others, tables)| {
        let ((proxy, instance, previous), [names, routes, peers, placements]) = (others, tables);
        Hello {
            name: AgentName::new(name).expect("a name"),
            labels: Labels(labels),
            version,
            executors,
            node_type: if proxy { NodeType::Proxy } else { NodeType::Worker },
            snapshot,
            instance: InstanceId(instance),
            previous: previous.map(SessionId),
            tables: Holdings { names, routes, peers, placements },
        }
    })
}

fn fact() -> impl Strategy<Value = Fact> {
    let output = (vec(any::<u8>(), 0..300), any::<u64>())
        .prop_map(|(tail, dropped)| Output { tail, dropped });
    prop_oneof![
        text().prop_map(|reason| Fact::Began { reason }),
        (outcome(), any::<u64>(), output).prop_map(|(outcome, duration_ms, output)| Fact::Ended {
            outcome,
            duration_ms,
            output
        }),
        (outcome(), text()).prop_map(|(outcome, reason)| Fact::PassedOver { outcome, reason }),
    ]
}

fn subject() -> impl Strategy<Value = Subject> {
    let address = ("[a-z_]{1,20}", name())
        .prop_map(|(kind, name)| StepAddress::new(&kind, &name).expect("a name"));
    let address = address.boxed();
    prop_oneof![
        (path(), address.clone(), any::<u32>()).prop_map(|(task, step, index)| Subject::Step {
            task: TaskName::new(task).expect("a name"),
            step,
            index: StepIndex(index),
        }),
        (option::of(services::service()), address)
            .prop_map(|(service, part)| Subject::Service { service, part }),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let fields = (any::<(u64, u64)>(), option::of(instruction()), hash(), word(), subject());
    (fields, trigger(), fact()).prop_map(|(fields, trigger, fact)| {
        let ((id, at), instruction, snapshot, commit, subject) = fields;
        Record {
            id: RecordId(id),
            at: Timestamp(at),
            instruction,
            snapshot,
            commit: CommitId::new(commit),
            subject,
            trigger,
            fact,
        }
    })
}

pub(crate) fn to_server() -> impl Strategy<Value = ToServer> {
    let report = (any::<u32>(), verdict())
        .prop_map(|(step, verdict)| StepReport { step: StepIndex(step), verdict });
    let checked = (instruction(), hash(), vec(report, 0..10), any::<u32>()).prop_map(
        |(instruction, snapshot, changes, checked)| Checked {
            instruction,
            snapshot,
            changes,
            checked,
        },
    );
    prop_oneof![
        hello().prop_map(ToServer::Hello),
        Just(ToServer::Heartbeat),
        checked.prop_map(ToServer::Checked),
        record().prop_map(ToServer::Record),
        instruction().prop_map(|instruction| ToServer::Finished { instruction }),
        (hash(), steps()).prop_map(|(snapshot, steps)| ToServer::LookAgain { snapshot, steps }),
        any::<u64>().prop_map(|records| ToServer::Lost { records }),
        services::any_to_server(),
    ]
}

fn spec() -> impl Strategy<Value = ExecutorSpec> {
    let env = btree_map("[A-Z_]{1,10}", text(), 0..4);
    let shell = (text(), text(), option::of(text()), option::of(word()), env).prop_map(
        |(check, command, working_dir, run_as, env)| ShellSpec {
            check,
            command,
            working_dir,
            run_as,
            env,
        },
    );
    let git = (text(), word()).prop_map(|(url, branch)| GitCheckout { url, branch });
    let mise = (word(), word(), word(), option::of(git)).prop_map(
        |(working_dir, check_task, apply_task, git)| MiseSpec {
            working_dir,
            check_task,
            apply_task,
            git,
        },
    );
    let systemd = (word(), any::<(bool, bool)>()).prop_map(|(unit, (running, enabled))| {
        let state = if running { UnitState::Running } else { UnitState::Stopped };
        SystemdSpec { unit, state, enabled }
    });
    prop_oneof![
        shell.prop_map(ExecutorSpec::Shell),
        mise.prop_map(ExecutorSpec::Mise),
        systemd.prop_map(ExecutorSpec::Systemd),
    ]
}

fn kind(spec: &ExecutorSpec) -> &'static str {
    match spec {
        ExecutorSpec::Shell(_) => "shell",
        ExecutorSpec::Mise(_) => "mise",
        ExecutorSpec::Systemd(_) => "systemd",
        ExecutorSpec::Unknown => "novel",
    }
}

fn task_steps() -> impl Strategy<Value = Vec<Step>> {
    let body = (any::<bool>(), option::of(millis()), spec());
    btree_map(name(), body, 1..5).prop_map(|bodies| {
        let step = |(name, (abort, timeout, spec)): (String, (bool, _, ExecutorSpec))| Step {
            address: StepAddress::new(kind(&spec), &name).expect("a name"),
            on_failure: if abort { OnFailure::Abort } else { OnFailure::Continue },
            timeout,
            spec,
        };
        bodies.into_iter().map(step).collect()
    })
}

pub(crate) fn snapshot() -> impl Strategy<Value = Snapshot> {
    let policy = proptest::sample::select(&Policy::ALL[..]);
    let tasks =
        btree_map(path(), (policy, task_steps()), 0..5).prop_map(|tasks: BTreeMap<_, _>| {
            let task = |(name, (policy, steps)): (String, (_, Vec<Step>))| {
                let name = TaskName::new(name).expect("a name");
                Arc::new(SnapshotTask { name, policy, steps: steps.into() })
            };
            Snapshot::new(tasks.into_iter().map(task).collect())
        });
    (tasks, services::snapshot_services())
        .prop_map(|(snapshot, services)| snapshot.with_services(services))
}

/// All but the welcome, which only an envelope completes.
pub(crate) fn to_agent() -> impl Strategy<Value = ToAgent> {
    let scope = prop_oneof![Just(Scope::All), steps().prop_map(Scope::Steps)];
    prop_oneof![
        Just(ToAgent::Heartbeat),
        (word(), snapshot(), any::<bool>()).prop_map(|(commit, snapshot, is_moved)| {
            let (commit, snapshot) = (CommitId::new(commit), Arc::new(snapshot));
            ToAgent::Snapshot { commit, snapshot, is_moved }
        }),
        (instruction(), hash(), scope).prop_map(|(instruction, snapshot, steps)| ToAgent::Check {
            instruction,
            snapshot,
            steps,
        }),
        (instruction(), hash(), steps(), trigger()).prop_map(
            |(instruction, snapshot, steps, trigger)| ToAgent::Apply {
                instruction,
                snapshot,
                steps,
                trigger,
            }
        ),
        any::<u64>().prop_map(|record| ToAgent::Ack { record: RecordId(record) }),
        services::any_to_agent(),
    ]
}

pub(crate) fn welcome() -> impl Strategy<Value = Welcome> {
    (any::<u64>(), interval(), interval(), word()).prop_map(
        |(session, heartbeat, poll_interval, version)| Welcome {
            session: SessionId(session),
            heartbeat,
            poll_interval,
            version,
        },
    )
}
