//! What snapshots cost on the wire: `cargo test --release -p fluke-wire -- --ignored --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::id::{CommitId, StepAddress, TaskName};
use fluke_model::message::ToAgent;
use fluke_model::policy::Policy;
use fluke_model::snapshot::{Snapshot, SnapshotTask};
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec, Step};
use prost::Message;

use crate::convert::{to_agent_from_proto, to_agent_to_proto};
use crate::proto::ServerMessage;

fn step(n: usize) -> Step {
    Step {
        address: StepAddress::new("shell", &format!("step-{n}")).expect("a name"),
        on_failure: OnFailure::Abort,
        timeout: Some(Duration::from_secs(60)),
        spec: ExecutorSpec::Shell(ShellSpec {
            check: format!("test -f /etc/app/config-{n}.toml"),
            command: format!("install -m 0644 /srv/config-{n}.toml /etc/app/config-{n}.toml"),
            working_dir: Some("/srv".into()),
            run_as: Some("app".into()),
            env: [("LANG".to_owned(), "C".to_owned())].into(),
        }),
    }
}

fn snapshot(steps: usize) -> Arc<Snapshot> {
    let task = |n| {
        let name = TaskName::new(format!("task-{n:05}")).expect("a name");
        let steps = (0..5).map(step).collect();
        Arc::new(SnapshotTask { name, policy: Policy::Remediate, steps })
    };
    Arc::new(Snapshot::new((0..steps / 5).map(task).collect()))
}

fn fastest<T>(rounds: usize, mut work: impl FnMut() -> T) -> (Duration, T) {
    let mut best: Option<(Duration, T)> = None;
    for _ in 0..rounds {
        let start = Instant::now();
        let made = work();
        let took = start.elapsed();
        if best.as_ref().is_none_or(|(least, _)| took < *least) {
            best = Some((took, made));
        }
    }
    best.expect("at least one round")
}

#[test]
#[ignore = "a measurement, not a test"]
#[expect(clippy::print_stdout, reason = "it is there to be read")]
fn snapshots_are_small_and_quick() {
    for (steps, rounds) in [(20, 200), (10_000, 20)] {
        let snapshot = snapshot(steps);
        let commit = CommitId::new("c0ffee");
        let (encode, bytes) = fastest(rounds, || {
            let message = ToAgent::Snapshot { commit: commit.clone(), snapshot: snapshot.clone() };
            let body = Some(to_agent_to_proto(message));
            ServerMessage { session: 1, sequence: 1, body }.encode_to_vec()
        });
        let (decode, message) = fastest(rounds, || {
            let message = ServerMessage::decode(&bytes[..]).expect("decodes");
            to_agent_from_proto(message.body).expect("valid").expect("known")
        });
        assert_eq!(message, ToAgent::Snapshot { commit, snapshot });
        println!("{steps} steps: {} bytes, encode {encode:?}, decode {decode:?}", bytes.len());
    }
}
