use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::VolumeName;
use fluke_model::policy::Trigger;
use fluke_model::service::ContainerSpec;
use fluke_model::verdict::Output;

use super::*;
use crate::executor::Allow;
use crate::services::fixture;
use crate::services::lane::desired::Desired;
use crate::services::lane::look::Seen;
use crate::services::lane::state::Cause;
use crate::services::lane::tests::{asleep, overheard, service, spec, wanting};
use crate::services::plan::{Container, State};

fn db(line: &str) -> ContainerSpec {
    let name = VolumeName::new("data").expect("a name");
    ContainerSpec { volumes: [(name, "/data".into())].into(), ..spec(line) }
}

/// A lane that wants a new version of something with a volume, and has no Podman to ask.
fn lane(dir: &tempfile::TempDir) -> (Lane, Arc<Desired>) {
    let mut lane = asleep(dir.path(), &Allow::default());
    let desired = Arc::new(wanting(&lane, service("db", db("new"))));
    lane.desired = Some(desired.clone());
    (lane, desired)
}

fn account(desired: &Desired) -> Account {
    let cause = Cause { instruction: None, trigger: Trigger::Watch };
    Account { cause, held: desired.held.clone() }
}

/// Has a container told to end by a Podman that does not answer.
async fn in_vain(lane: &mut Lane, it: &Container, why: Why, desired: &Desired) {
    let (container, origin) = (it.id.clone(), it.origin.clone());
    lane.stop(&Change::Stop { container, origin, why }, &account(desired));
    let done = lane.jobs.next().await;
    assert!(lane.ended(done), "it is worth a look");
}

#[tokio::test]
async fn a_container_that_cannot_be_stopped_is_told_of_once_and_tried_after_pauses_that_grow() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut lane, desired) = lane(&dir);
    let facts = overheard(&mut lane);
    let old = fixture::deployment("db", db("old"));
    let old = fixture::container("old", &old, State::Running);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        in_vain(&mut lane, &old, Why::MakesWay, &desired).await;
        lane.tell_of_stops().await;
        pauses.push(lane.containers.marks()["old"].until - Instant::now());
    }
    assert!(pauses.is_sorted() && pauses[2] > Duration::from_secs(2), "{pauses:?}");
    let facts = facts.lock().expect("nobody panicked").clone();
    let [Fact::Began { reason }, Fact::Ended { outcome, output, .. }] = facts.as_slice() else {
        panic!("{facts:?}");
    };
    assert!(reason.ends_with("makes way for its successor"), "{reason}");
    assert_eq!(*outcome, Outcome::Failure);
    let why = &lane.containers.marks()["old"].why;
    assert!(why.starts_with("Podman does not answer"), "{why}");
    assert_eq!(*output, Output::from_text(why.clone()));
}

#[tokio::test]
async fn what_is_not_well_goes_also_where_nobody_answered_whether_it_was_stopped() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut lane, desired) = lane(&dir);
    let now = Instant::now();
    let old = fixture::deployment("db", db("old"));
    let mut old = fixture::container("old", &old, State::Exited);
    old.started = Some(now);
    let mut new = fixture::container("new", &desired.wanted[0], State::Running);
    (new.started, new.process) = (Some(now), Some(7));
    let seen = |lane: &Lane, new: &Container| {
        let containers = [&old, new].map(|it| lane.known(it, now)).into();
        Seen { containers, ..Seen::nothing() }
    };
    let now_seen = seen(&lane, &new);
    lane.take_note(&desired, &now_seen, now);
    in_vain(&mut lane, &new, Why::Unwell("it is ill".into()), &desired).await;
    assert!(lane.deployments.marks()[&desired.wanted[0].id].is_final);
    assert!(!lane.containers.is_due(&"new".to_owned(), now), "it is left alone while it runs");

    // Podman has stopped it after all.
    new.state = State::Exited;
    let now_seen = seen(&lane, &new);
    lane.take_note(&desired, &now_seen, now);
    let goes = Change::Remove {
        container: "new".into(),
        origin: new.origin.clone(),
        why: Why::Unwell("it is ill".into()),
    };
    assert_eq!(lane.plan(&desired, &now_seen, &[].into()).changes, [goes]);

    // Or it has not: then it may have become well.
    new.state = State::Running;
    let now_seen = seen(&lane, &new);
    lane.take_note(&desired, &now_seen, now);
    assert!(lane.told_to_end.is_empty());
}
