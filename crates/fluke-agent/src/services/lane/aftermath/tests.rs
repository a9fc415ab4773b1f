use std::collections::BTreeMap;
use std::sync::Arc;

use fluke_model::id::{CommitId, SessionId};
use fluke_model::policy::Trigger;
use fluke_model::service::{ContainerSpec, HealthSpec};
use fluke_model::snapshot::Snapshot;

use super::*;
use crate::executor::Allow;
use crate::services::fixture;
use crate::services::lane::desired::Desired;
use crate::services::lane::since::LONGEST_CHANGE;
use crate::services::lane::state::Cause;
use crate::services::lane::tests::asleep;
use crate::state::Held;

fn made(change: Change) -> Made {
    let commit = CommitId::new("c1");
    let held = Arc::new(Held { commit, snapshot: Arc::new(Snapshot::default()) });
    let cause = Cause { instruction: None, trigger: Trigger::Watch };
    let (container, account) = (change.object().map(str::to_owned), Account { cause, held });
    Made { change, container, began: Instant::now(), account }
}

fn nothing_wanted(lane: &Lane) -> Desired {
    let held = Held { commit: CommitId::new("c1"), snapshot: Arc::new(Snapshot::default()) };
    Desired::new(Arc::new(held), &lane.host, &lane.environment)
}

#[tokio::test]
async fn what_was_done_and_is_not_so_is_left_alone_for_a_while() {
    let web = fixture::deployment("web", fixture::spec("web:1"));
    let old = fixture::container("old", &web, State::Exited);
    let (container, origin) = (old.id.clone(), old.origin.clone());
    let changes = [
        Change::MakeNetwork { replaces: true },
        Change::Remove { container, origin, why: Why::Succeeded },
    ];
    let as_before =
        || Seen { containers: vec![old.clone()], network: Network::Missing, ..Seen::nothing() };
    for (seen, is_so) in [(as_before(), false), (Seen::nothing(), true)] {
        for change in &changes {
            let dir = tempfile::tempdir().expect("a directory");
            let mut lane = asleep(dir.path(), &Allow::default());
            let object = change.object().expect("it has one").to_owned();
            lane.verify(Some(made(change.clone())), Ok(&seen)).await;
            assert_eq!(lane.containers.is_due(&object, Instant::now()), is_so, "{change:?}");
        }
    }
}

#[test]
fn a_network_is_judged_by_what_is_found_of_it() {
    let made = Change::MakeNetwork { replaces: false };
    for (network, outcome, text) in [
        (Network::Ready, Outcome::Success, ""),
        (Network::Missing, Outcome::AppliedButDrifted, "it was made, and is not there"),
        (
            Network::Other("so".into()),
            Outcome::AppliedButDrifted,
            "it was made, and is another: so",
        ),
        (
            Network::Untold,
            Outcome::Failure,
            "whether it was done could not be told: Podman does not say what it is",
        ),
    ] {
        assert_eq!(judge(&made, Ok((None, &network))), (outcome, text.to_owned()));
    }
}

#[tokio::test]
async fn what_nobody_wants_any_more_is_remembered_no_longer_for_its_address() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let web = fixture::deployment("web", fixture::spec("web:1"));
    lane.misplaced.insert(web.id);
    let desired = nothing_wanted(&lane);
    let there = fixture::container("old", &web, State::Exited);
    let seen = Seen { containers: vec![there], ..Seen::nothing() };
    lane.take_note(&desired, &seen, Instant::now());
    assert!(lane.misplaced.contains(&web.id), "it is there");
    lane.take_note(&desired, &Seen::nothing(), Instant::now());
    assert!(lane.misplaced.is_empty());
}

/// A lane's plan for one that nobody wants, in a state that somebody left it in.
fn plan_for(lane: &Lane, found: &Container, now: Instant) -> Vec<Change> {
    let seen = Seen { containers: vec![lane.known(found, now)], ..Seen::nothing() };
    lane.plan(&nothing_wanted(lane), &seen, &BTreeMap::new()).changes
}

#[tokio::test]
async fn what_podman_began_to_remove_and_did_not_is_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let web = fixture::deployment("web", fixture::spec("web:1"));
    let (found, now) = (fixture::container("old", &web, State::Changing), Instant::now());
    lane.since.see(std::slice::from_ref(&found), |_| false, now);
    assert_eq!(plan_for(&lane, &found, now), [], "somebody does it");
    let (container, origin) = (found.id.clone(), found.origin.clone());
    let removed = Change::Remove { container, origin, why: Why::Orphan };
    assert_eq!(plan_for(&lane, &found, now + LONGEST_CHANGE), [removed]);
}

#[tokio::test]
async fn a_start_that_podman_does_not_answer_says_nothing_against_what_is_started() {
    let what = || "start it".to_owned();
    let late = || PodmanError::TimedOut { what: what(), limit: LONGEST_CHANGE };
    let no = || PodmanError::Refused { what: what(), why: "no such program".into(), status: 500 };
    for (error, is_unheard) in [(late(), true), (no(), false)] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut lane = asleep(dir.path(), &Allow::default());
        let web = fixture::deployment("web", fixture::spec("web:1"));
        let Container { id: container, origin, state, .. } =
            fixture::container("new", &web, State::Created);
        let change = Change::Start { container, origin, state, unwell: None };
        let Made { change, began, account, .. } = made(change);
        lane.failed(&change, &error.into(), began, &account).await;
        assert_eq!(lane.deployments.marks()[&web.id].is_unheard, is_unheard);
    }
}

#[tokio::test]
async fn what_takes_long_to_be_refused_is_tried_after_pauses_that_grow_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let web = fixture::deployment("web", fixture::spec("web:1"));
    let a_minute_ago = Instant::now().checked_sub(std::time::Duration::from_secs(60));
    let a_minute_ago = a_minute_ago.expect("it was");
    for _ in 0..2 {
        lane.deployments.gave_up(web.id, "refused".into(), a_minute_ago);
    }
    let Container { id: container, origin, state, .. } =
        fixture::container("new", &web, State::Created);
    let no = PodmanError::Refused { what: "start it".into(), why: "no".into(), status: 500 };
    let Made { change, began, account, .. } =
        made(Change::Start { container, origin, state, unwell: None });
    lane.failed(&change, &no.into(), began, &account).await;
    let third = began + std::time::Duration::from_secs(3);
    assert!(!lane.deployments.is_due(&web.id, third), "not as if it were the first time");
}

#[tokio::test]
async fn what_is_done_after_a_session_began_or_ended_is_done_for_that() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let Made { mut account, .. } = made(Change::MakeNetwork { replaces: false });
    let mut session = lane.session;
    let mut triggers = Vec::new();
    for now in [None, Some(SessionId(1)), Some(SessionId(1)), None] {
        lane.inbox.session(now);
        lane.hear_of_session().await;
        lane.renew(&mut account, &mut session);
        triggers.push(account.cause.trigger.clone());
    }
    let (as_begun, connected) = (Trigger::Watch, Trigger::Connect);
    assert_eq!(triggers, [as_begun, connected.clone(), connected, Trigger::Offline]);
}

#[tokio::test]
async fn what_is_not_well_and_was_removed_without_an_answer_is_not_made_anew_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let web = fixture::deployment("web", fixture::spec("web:1"));
    let Container { id: container, origin, .. } = fixture::container("new", &web, State::Exited);
    let why = Why::Unwell("it is ill".into());
    let Made { change, began, account, .. } = made(Change::Remove { container, origin, why });
    let late = PodmanError::TimedOut { what: "remove it".into(), limit: LONGEST_CHANGE };
    lane.failed(&change, &late.into(), began, &account).await;
    assert!(!lane.deployments.is_due(&web.id, began));
    assert_eq!(lane.deployments.marks()[&web.id].why, "it is ill");
}

#[tokio::test]
async fn a_look_that_fails_has_nobody_asked_twice() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let health = HealthSpec {
        command: "true".into(),
        interval_ms: 10_000,
        timeout_ms: 2_000,
        retries: 2,
        start_period_ms: 0,
    };
    let spec = ContainerSpec { health: Some(health), ..fixture::spec("web:1") };
    let web = fixture::deployment("web", spec);
    let found = Container { process: Some(7), ..fixture::container("c", &web, State::Running) };
    let (desired, now) = (nothing_wanted(&lane), Instant::now());
    let asked = |lane: &mut Lane| {
        lane.rounds.see([&found].into_iter(), now);
        lane.rounds.due(now).len()
    };
    assert_eq!(asked(&mut lane), 1);
    let late = PodmanError::TimedOut { what: "list".into(), limit: LONGEST_CHANGE };
    lane.in_the_dark(&desired, &late);
    assert_eq!(asked(&mut lane), 0, "its answer is still to come");
}

#[tokio::test]
async fn a_clock_that_is_put_forward_takes_no_time_from_what_has_just_started() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let web = fixture::deployment("web", fixture::spec("web:1"));
    let hour = std::time::Duration::from_secs(3600);
    let now = Instant::now() + hour;
    let mut found = fixture::container("new", &web, State::Running);
    (found.process, found.started) = (Some(7), Some(now));
    lane.since.see(std::slice::from_ref(&found), |_| false, now);
    found.started = Some(now - hour);
    assert_eq!(lane.known(&found, now).started, Some(now));
}
