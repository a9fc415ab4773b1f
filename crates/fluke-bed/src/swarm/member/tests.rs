use std::time::Duration;

use fluke_model::id::{SessionId, StepAddress, TaskName};
use fluke_model::service::{DeploymentId, Health, Phase, Replica};
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec};

use super::*;

const NOW: Timestamp = Timestamp(1_000);

fn task(name: &str, policy: Policy) -> Arc<SnapshotTask> {
    let step = Step {
        address: StepAddress::new("shell", "it").expect("a name"),
        on_failure: OnFailure::Abort,
        timeout: Some(Duration::from_secs(60)),
        spec: ExecutorSpec::Shell(ShellSpec {
            check: "test -f it".into(),
            command: "touch it".into(),
            working_dir: None,
            run_as: None,
            env: BTreeMap::new(),
        }),
    };
    let name = TaskName::new(name).expect("a name");
    Arc::new(SnapshotTask { name, policy, steps: [step].into() })
}

fn instruction(number: u64) -> InstructionId {
    InstructionId { session: SessionId(1), number }
}

/// A member that holds two tasks, and their snapshot.
fn member(fate: Fate) -> (Member, Arc<Snapshot>) {
    let tasks = vec![task("certs", Policy::AlertOnly), task("app", Policy::Remediate)];
    let snapshot = Arc::new(Snapshot::new(tasks));
    let mut member = Member::new(fate, Services::default());
    let commit = CommitId::new("c0ffee");
    let message = ToAgent::Snapshot { commit, snapshot: snapshot.clone(), is_moved: false };
    assert_eq!(member.hears(message, NOW), []);
    (member, snapshot)
}

fn check(member: &mut Member, snapshot: &Snapshot) -> Vec<StepReport> {
    let message = ToAgent::Check {
        instruction: instruction(1),
        snapshot: snapshot.hash(),
        steps: Scope::All,
    };
    match &member.hears(message, NOW)[..] {
        [ToServer::Checked(checked)] => {
            assert_eq!(checked.checked, 2);
            checked.changes.clone()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn it_says_what_changed_and_in_a_new_session_everything() {
    let (mut member, snapshot) = member(Fate::Well);
    let all = check(&mut member, &snapshot);
    assert!(all.len() == 2 && all.iter().all(|report| report.verdict == Verdict::Satisfied));
    assert_eq!(check(&mut member, &snapshot), []);
    let again = member.suffers("app/shell.it", Trouble::Drifted(Drift::because("gone")));
    let steps = vec![StepIndex(0)];
    assert_eq!(again, Some(ToServer::LookAgain { snapshot: snapshot.hash(), steps }));
    assert_eq!(check(&mut member, &snapshot).len(), 1);
    assert_eq!(member.reconnects(), Some(snapshot.hash()));
    assert_eq!(check(&mut member, &snapshot).len(), 2);
}

#[test]
fn a_fate_is_met_where_nobody_puts_it_right_unasked() {
    for (fate, drifted) in [(Fate::Drifted, true), (Fate::Failed, false)] {
        let (mut member, snapshot) = member(fate);
        let certs = &check(&mut member, &snapshot)[1];
        assert_eq!(certs.step, StepIndex(1));
        assert_eq!(matches!(certs.verdict, Verdict::Drifted(_)), drifted);
        assert_ne!(certs.verdict, Verdict::Satisfied);
    }
}

#[test]
fn an_apply_is_told_from_its_beginning_to_its_end() {
    let stuck = Trouble::Stuck { drift: Drift::because("gone"), output: "no space".into() };
    for (trouble, outcome, left) in [
        (Trouble::Drifted(Drift::because("gone")), Outcome::Success, 0),
        (stuck, Outcome::Failure, 1),
    ] {
        let (mut member, snapshot) = member(Fate::Well);
        member.suffers("app/shell.it", trouble);
        let message = ToAgent::Apply {
            instruction: instruction(2),
            snapshot: snapshot.hash(),
            steps: vec![StepIndex(0)],
            trigger: Trigger::Poll,
        };
        let told = member.hears(message, NOW);
        let [ToServer::Record(began), ToServer::Record(ended), ToServer::Finished { .. }] =
            &told[..]
        else {
            panic!("{told:?}");
        };
        assert_eq!(began.fact, Fact::Began { reason: "gone".into() });
        assert!(matches!(ended.fact, Fact::Ended { outcome: how, .. } if how == outcome));
        assert_eq!((began.id, ended.id), (RecordId(1), RecordId(2)));
        assert_eq!(member.troubles.len(), left);

        assert_eq!(member.repeats().count(), 2, "nothing is acknowledged yet");
        member.hears(ToAgent::Ack { record: RecordId(1) }, NOW);
        assert_eq!(member.repeats().collect::<Vec<_>>(), [ToServer::Record(ended.clone())]);
    }
}

#[test]
fn what_is_about_another_snapshot_is_not_answered() {
    let (mut member, _) = member(Fate::Well);
    let message = ToAgent::Check {
        instruction: instruction(1),
        snapshot: Hash256::of(b"another"),
        steps: Scope::All,
    };
    assert_eq!(member.hears(message, NOW), []);
}

#[test]
fn it_drifts_where_the_server_puts_it_right_and_only_once_at_a_place() {
    for where_to in [0, 1, 7] {
        let (mut member, snapshot) = member(Fate::Well);
        let steps = vec![StepIndex(0)];
        let again = Some(ToServer::LookAgain { snapshot: snapshot.hash(), steps });
        assert_eq!(member.drifts(where_to), again, "app is put right, certs waits for people");
        assert_eq!(member.drifts(where_to), None);
    }
    let mut new = Member::new(Fate::Well, Services::default());
    assert_eq!(new.drifts(0), None, "it should be nothing yet");
}

#[test]
fn of_services_it_makes_right_what_somebody_asks_for_and_no_other() {
    let (mut member, _) = member(Fate::Well);
    let missing = |name: &str| {
        let drift = Drift::because("its container is missing");
        DeploymentReport {
            id: DeploymentId(Hash256::of(name.as_bytes())),
            service: ServiceName::new(name).expect("a name"),
            replica: Replica::Own,
            verdict: Verdict::Drifted(drift),
            phase: Phase::Missing,
            health: Health::None,
            image: "web:1".into(),
            digest: None,
            container: None,
            address: None,
            serves: false,
            note: None,
        }
    };
    member.runs(vec![missing("db"), missing("web")]);
    assert_eq!(member.says_of_services(NOW).len(), 1);
    let mut settle = |number, name: &str| {
        let service = Some(ServiceName::new(name).expect("a name"));
        let trigger = Trigger::Manual { by: "ann".into() };
        let message = ToAgent::Settle { instruction: instruction(number), service, trigger };
        member.hears(message, NOW)
    };
    let told = settle(1, "web");
    let [ToServer::Record(_), ToServer::Record(_), ToServer::Services(report), settled] = &told[..]
    else {
        panic!("{told:?}");
    };
    let serves: Vec<bool> = report.deployments.iter().map(|it| it.serves).collect();
    assert_eq!(serves, [true], "what is new");
    assert_eq!(*settled, ToServer::Settled { instruction: instruction(1), problem: None });
    assert_eq!(settle(2, "web").len(), 1, "nothing is left to be done");
}
