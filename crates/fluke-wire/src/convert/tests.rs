pub(crate) mod any;

use std::sync::Arc;

use fluke_model::bounds::MAX_DEPLOYMENTS;
use fluke_model::id::{CommitId, Hash256, InstructionId, SessionId, StepAddress, TaskName};
use fluke_model::message::{Checked, Fact, StepReport, ToAgent, ToServer};
use fluke_model::policy::{Policy, Trigger};
use fluke_model::snapshot::{Snapshot, SnapshotTask, StepIndex};
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec, Step};
use fluke_model::verdict::{Drift, MAX_OUTPUT, Outcome, Output, Verdict};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::error::WireError;
use crate::proto::{self, AgentMessage, ServerMessage, agent_message, server_message};

fn agent_bytes(message: ToServer) -> Vec<u8> {
    let body = Some(to_server_to_proto(message));
    AgentMessage { session: 1, sequence: 2, body }.encode_to_vec()
}

fn server_bytes(message: ToAgent) -> Vec<u8> {
    let body = Some(to_agent_to_proto(message));
    ServerMessage { session: 1, sequence: 2, body }.encode_to_vec()
}

fn read_agent(bytes: &[u8]) -> Result<Option<ToServer>, WireError> {
    let message = AgentMessage::decode(bytes)
        .map_err(|error| WireError::Broken { reason: error.to_string() })?;
    to_server_from_proto(message.body)
}

fn read_server(bytes: &[u8]) -> Result<Option<ToAgent>, WireError> {
    let message = ServerMessage::decode(bytes)
        .map_err(|error| WireError::Broken { reason: error.to_string() })?;
    to_agent_from_proto(message.body)
}

proptest! {
    #[test]
    fn what_an_agent_says_arrives_as_it_was(message in any::to_server()) {
        prop_assert_eq!(read_agent(&agent_bytes(message.clone())), Ok(Some(message)));
    }

    #[test]
    fn what_a_server_says_arrives_as_it_was(message in any::to_agent()) {
        prop_assert_eq!(read_server(&server_bytes(message.clone())), Ok(Some(message)));
    }

    #[test]
    fn a_welcome_arrives_as_it_was(welcome in any::welcome()) {
        let bytes = welcome_to_proto(welcome.clone()).encode_to_vec();
        let wire = proto::Welcome::decode(&bytes[..]).expect("decodes");
        prop_assert_eq!(welcome_from_proto(welcome.session.0, wire), Ok(welcome));
    }

    #[test]
    fn garbage_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _ = read_agent(&bytes);
        let _ = read_server(&bytes);
    }

    #[test]
    fn a_damaged_message_is_refused_without_a_panic(
        to_server in any::to_server(),
        to_agent in any::to_agent(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        for mut bytes in [agent_bytes(to_server), server_bytes(to_agent)] {
            for (at, value) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            let _ = read_agent(&bytes);
            let _ = read_server(&bytes);
        }
    }
}

fn instruction() -> InstructionId {
    InstructionId { session: SessionId(1), number: 1 }
}

fn shell(name: &str, command: &str) -> Step {
    Step {
        address: StepAddress::new("shell", name).expect("a name"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Shell(ShellSpec {
            check: "false".into(),
            command: command.into(),
            working_dir: None,
            run_as: None,
            env: Default::default(),
        }),
    }
}

fn task(name: &str, steps: Vec<Step>) -> Arc<SnapshotTask> {
    let name = TaskName::new(name).expect("a name");
    Arc::new(SnapshotTask { name, policy: Policy::Remediate, steps: steps.into() })
}

/// Two tasks, of two steps and of one.
fn snapshot() -> Snapshot {
    Snapshot::new(vec![
        task("base", vec![shell("a", "echo a"), shell("b", "echo b")]),
        task("web", vec![shell("c", "echo c")]),
    ])
}

fn snapshot_message(snapshot: Snapshot) -> proto::Snapshot {
    let commit = CommitId::new("c0ffee");
    let snapshot = Arc::new(snapshot);
    let message = ToAgent::Snapshot { commit, snapshot, is_moved: false };
    match to_agent_to_proto(message) {
        server_message::Body::Snapshot(snapshot) => snapshot,
        other => panic!("not a snapshot: {other:?}"),
    }
}

fn receive(message: proto::Snapshot) -> Result<Arc<Snapshot>, WireError> {
    match to_agent_from_proto(Some(server_message::Body::Snapshot(message)))? {
        Some(ToAgent::Snapshot { snapshot, .. }) => Ok(snapshot),
        other => panic!("not a snapshot: {other:?}"),
    }
}

fn is_unknown(snapshot: &Snapshot) -> Vec<bool> {
    snapshot.steps().map(|(_, _, step)| step.spec == ExecutorSpec::Unknown).collect()
}

#[test]
fn a_step_of_a_newer_kind_is_kept_as_unknown_under_the_servers_hash() {
    let sent = snapshot();
    let mut message = snapshot_message(sent.clone());
    message.tasks[0].steps[1].kind = "package".into();
    message.tasks[0].steps[1].spec = None;
    let received = receive(message).expect("a newer server is tolerated");
    assert_eq!(received.hash(), sent.hash());
    assert_eq!(is_unknown(&received), [false, true, false]);
    let (_, step) = received.step(StepIndex(1)).expect("in place");
    assert_eq!(step.address.to_string(), "package.b");
}

#[test]
fn a_task_that_says_more_than_is_understood_is_not_run() {
    // A newer server's hash covers fields that this version drops.
    let newer = Hash256::of(b"with fields from the future");
    let tasks = snapshot().tasks().to_vec();
    let sent =
        Snapshot::from_hashed(vec![(newer, tasks[0].clone()), (tasks[1].hash(), tasks[1].clone())]);
    let received = receive(snapshot_message(sent.clone())).expect("a newer server is tolerated");
    assert_eq!(received.hash(), sent.hash());
    assert_eq!(is_unknown(&received), [true, true, false]);
}

#[test]
fn a_snapshot_that_was_not_understood_is_asked_for_again_after_a_restart() {
    let sent = snapshot();
    let mut message = snapshot_message(sent.clone());
    message.tasks[1].steps[0].spec = None;
    let held = receive(message).expect("tolerated");
    let json = serde_json::to_string(&*held).expect("plain data");
    let restored: Snapshot = serde_json::from_str(&json).expect("reads back");
    assert_eq!(restored.tasks(), held.tasks());
    assert_ne!(restored.hash(), sent.hash(), "the server sees another hash, and sends it anew");
}

#[test]
fn unknown_values_mean_the_harmless_ones() {
    let mut message = snapshot_message(snapshot());
    message.tasks[0].policy = 99;
    message.tasks[1].steps[0].on_failure = 99;
    let received = receive(message).expect("tolerated");
    assert_eq!(received.tasks()[0].policy, Policy::AlertOnly);
    assert_eq!(received.tasks()[1].steps[0].on_failure, OnFailure::Abort);

    let record = |outcome, trigger| {
        let ended = proto::Ended { outcome, ..Default::default() };
        let body = agent_message::Body::Record(proto::Record {
            snapshot: vec![0; 32],
            task: "t".into(),
            step_kind: "shell".into(),
            step_name: "s".into(),
            trigger: Some(trigger),
            fact: Some(proto::record::Fact::Ended(ended)),
            ..Default::default()
        });
        match to_server_from_proto(Some(body)) {
            Ok(Some(ToServer::Record(record))) => record,
            other => panic!("not a record: {other:?}"),
        }
    };
    let by_nobody = record(99, proto::Trigger { kind: 99, by: String::new() });
    assert!(matches!(by_nobody.fact, Fact::Ended { outcome: Outcome::Failure, .. }));
    assert_eq!(by_nobody.trigger, Trigger::Poll);
    let by_ann = record(1, proto::Trigger { kind: 99, by: "ann".into() });
    assert_eq!(by_ann.trigger, Trigger::Manual { by: "ann".into() });
}

#[test]
fn unknown_bodies_facts_and_verdicts_are_no_errors() {
    // Field 99 of a newer version: tag (99 << 3 | 2), length 1.
    let newer = [0x9a, 0x06, 0x01, 0x00];
    assert_eq!(read_agent(&newer), Ok(None));
    assert_eq!(read_server(&newer), Ok(None));
    let record = agent_message::Body::Record(proto::Record::default());
    assert_eq!(to_server_from_proto(Some(record)), Ok(None));
    let checked = agent_message::Body::Checked(proto::Checked {
        instruction: Some(Default::default()),
        snapshot: vec![0; 32],
        changes: vec![proto::StepReport { step: 3, verdict: None }],
        checked: 1,
    });
    match to_server_from_proto(Some(checked)) {
        Ok(Some(ToServer::Checked(checked))) => {
            assert!(matches!(&checked.changes[0].verdict, Verdict::Error { reason }
                if reason.contains("upgrade the server")));
        }
        other => panic!("not an answer: {other:?}"),
    }
}

#[test]
fn a_snapshot_that_contradicts_itself_is_refused() {
    type Damage = fn(&mut proto::Snapshot);
    let cases: [(&str, Damage, &str); 9] = [
        ("another hash", |s| s.hash[0] ^= 1, "snapshot.hash"),
        ("a short hash", |s| s.hash.truncate(31), "snapshot.hash"),
        ("no hash", |s| s.tasks[0].hash.clear(), "snapshot.tasks[0].hash"),
        ("a bad name", |s| s.tasks[1].name = "a b".into(), "snapshot.tasks[1].name"),
        ("a repeated name", |s| s.tasks[1].name = "base".into(), "snapshot.tasks[1]"),
        ("no steps", |s| s.tasks[0].steps.clear(), "snapshot.tasks[0].steps"),
        ("a bad step", |s| s.tasks[0].steps[1].name.clear(), "snapshot.tasks[0].steps[1].name"),
        (
            "a repeated step",
            |s| s.tasks[0].steps[1].name = "a".into(),
            "snapshot.tasks[0].steps[1]",
        ),
        ("a long commit", |s| s.commit = "c".repeat(129), "snapshot.commit"),
    ];
    for (case, damage, place) in cases {
        let mut message = snapshot_message(snapshot());
        damage(&mut message);
        match receive(message) {
            Err(WireError::Invalid { field, .. }) => assert_eq!(field, place, "{case}"),
            other => panic!("{case}: {other:?}"),
        }
    }
}

#[test]
fn a_hello_beyond_the_grammar_is_refused() {
    type Damage = fn(&mut proto::Hello);
    let many = |n: usize| (0..n).map(|n| format!("k{n}"));
    let cases: [(&str, Damage, &str); 11] = [
        ("no name", |h| h.name.clear(), "hello.name"),
        ("a path", |h| h.name = "../\0".into(), "hello.name"),
        ("a long name", |h| h.name = "n".repeat(129), "hello.name"),
        ("colours", |h| h.name = "a\x1b[31m".into(), "hello.name"),
        ("markup", |h| h.name = "<script>".into(), "hello.name"),
        ("a label's key", |h| _ = h.labels.insert("".into(), "v".into()), "hello.labels"),
        ("a label's value", |h| _ = h.labels.insert("k".into(), "v v".into()), "hello.labels"),
        ("a long version", |h| h.version = "v".repeat(129), "hello.version"),
        ("lines in a version", |h| h.version = "1\n2".into(), "hello.version"),
        ("an executor", |h| h.executors = vec!["she ll".into()], "hello.executors"),
        ("a snapshot", |h| h.snapshot = Some(vec![0; 31]), "hello.snapshot"),
    ];
    let valid = || proto::Hello { name: "web-1".into(), ..Default::default() };
    assert!(hello_from_proto(valid()).is_ok());
    for (case, damage, place) in cases {
        let mut hello = valid();
        damage(&mut hello);
        match hello_from_proto(hello) {
            Err(WireError::Invalid { field, .. }) => assert_eq!(field, place, "{case}"),
            other => panic!("{case}: {other:?}"),
        }
    }
    for (n, accepted) in [(64, true), (65, false)] {
        let labels = many(n).map(|key| (key, "v".into())).collect();
        assert_eq!(hello_from_proto(proto::Hello { labels, ..valid() }).is_ok(), accepted);
        let executors = many(n).collect();
        assert_eq!(hello_from_proto(proto::Hello { executors, ..valid() }).is_ok(), accepted);
    }
}

#[test]
fn long_texts_are_cut_by_senders_and_refused_by_receivers() {
    let reason = "r".repeat(MAX_REASON + 1);
    let diff = Some("d".repeat(MAX_DIFF + 1));
    let drift = Drift { reason: reason.clone(), diff };
    let report = |verdict| StepReport { step: StepIndex(0), verdict };
    let answer = |changes| {
        ToServer::Checked(Checked {
            instruction: instruction(),
            snapshot: Hash256::of(b""),
            changes,
            checked: 1,
        })
    };
    let bytes = agent_bytes(answer(vec![report(Verdict::Drifted(drift))]));
    match read_agent(&bytes) {
        Ok(Some(ToServer::Checked(checked))) => match &checked.changes[0].verdict {
            Verdict::Drifted(Drift { reason, diff: Some(diff) }) => {
                assert!(reason.ends_with("bytes not sent]") && diff.ends_with("bytes not sent]"));
            }
            other => panic!("not a drift: {other:?}"),
        },
        other => panic!("not an answer: {other:?}"),
    }

    let undecided = proto::Undecided { reason };
    let verdict = Some(proto::step_report::Verdict::Undecided(undecided));
    let refused = to_server_from_proto(Some(agent_message::Body::Checked(proto::Checked {
        instruction: Some(Default::default()),
        snapshot: vec![0; 32],
        changes: vec![proto::StepReport { step: 0, verdict }],
        checked: 1,
    })));
    let field = "checked.changes[0].reason".to_owned();
    let reason = "has 4097 bytes; at most 4096 are accepted".to_owned();
    assert_eq!(refused, Err(WireError::Invalid { field, reason }));
}

#[test]
fn as_many_deployments_are_taken_as_a_host_may_speak_of_and_no_more() {
    let ids = |count| vec![vec![7; 32]; count];
    let report = |count| {
        let gone = ids(count);
        let deployment = proto::Deployment {
            id: vec![7; 32],
            service: "web".into(),
            replica: Some(Default::default()),
            verdict: Some(proto::deployment::Verdict::Satisfied(Default::default())),
            ..Default::default()
        };
        let deployments = vec![deployment; count];
        proto::ServicesReport { whole: true, deployments, gone, volumes: None, unseen: false }
    };
    let said = |report| to_server_from_proto(Some(agent_message::Body::Services(report)));
    let told = |count| {
        let released = proto::Released { deployments: ids(count) };
        to_agent_from_proto(Some(server_message::Body::Released(released)))
    };
    match said(report(MAX_DEPLOYMENTS)) {
        Ok(Some(ToServer::Services(report))) => {
            assert_eq!((report.deployments.len(), report.gone.len()), (20_000, 20_000));
        }
        other => panic!("not a report: {other:?}"),
    }
    assert!(told(MAX_DEPLOYMENTS).is_ok());
    let reason = "has 20001 entries; at most 20000 are accepted".to_owned();
    let refusal = |field: &str| WireError::Invalid { field: field.into(), reason: reason.clone() };
    let all = || report(MAX_DEPLOYMENTS + 1);
    assert_eq!(said(all()), Err(refusal("services.deployments")));
    let gone = proto::ServicesReport { deployments: vec![], ..all() };
    assert_eq!(said(gone), Err(refusal("services.gone")));
    assert_eq!(told(MAX_DEPLOYMENTS + 1), Err(refusal("released.deployments")));
}

#[test]
fn output_keeps_its_tail() {
    let mut tail = vec![b'a'; 10];
    tail.extend(vec![b'z'; MAX_OUTPUT]);
    let ended = Fact::Ended {
        outcome: Outcome::Success,
        duration_ms: 1,
        output: Output { tail, dropped: 5 },
    };
    let wire = match to_server_to_proto(ToServer::Record(record(ended))) {
        agent_message::Body::Record(record) => record,
        other => panic!("not a record: {other:?}"),
    };
    match wire.fact {
        Some(proto::record::Fact::Ended(ended)) => {
            assert_eq!((ended.output.len(), ended.dropped), (MAX_OUTPUT, 15));
            assert!(ended.output.iter().all(|byte| *byte == b'z'));
        }
        other => panic!("not an end: {other:?}"),
    }
}

fn record(fact: Fact) -> fluke_model::message::Record {
    fluke_model::message::Record {
        id: fluke_model::message::RecordId(1),
        at: fluke_model::time::Timestamp(0),
        instruction: None,
        snapshot: Hash256::of(b""),
        commit: CommitId::new("c0ffee"),
        subject: fluke_model::message::Subject::Step {
            task: TaskName::new("t").expect("a name"),
            step: StepAddress::new("shell", "s").expect("a name"),
            index: StepIndex(0),
        },
        trigger: Trigger::Offline,
        fact,
    }
}

#[test]
fn an_answer_about_a_whole_fleet_of_drift_fits_into_a_message() {
    let change = |n| StepReport {
        step: StepIndex(n),
        verdict: Verdict::Drifted(Drift { reason: "r".repeat(600), diff: Some("d".repeat(600)) }),
    };
    let checked = Checked {
        instruction: instruction(),
        snapshot: Hash256::of(b""),
        changes: (0..20_000).map(change).collect(),
        checked: 20_000,
    };
    let bytes = agent_bytes(ToServer::Checked(checked));
    assert!(bytes.len() < crate::MAX_TO_SERVER, "{} bytes", bytes.len());
    match read_agent(&bytes) {
        Ok(Some(ToServer::Checked(checked))) => assert_eq!(checked.changes.len(), 20_000),
        other => panic!("not an answer: {other:?}"),
    }
}

#[test]
fn a_pause_of_nothing_is_refused() {
    let welcome = proto::Welcome { heartbeat_ms: 0, poll_interval_ms: 1, version: "1".into() };
    assert!(welcome_from_proto(1, welcome).is_err());
}
