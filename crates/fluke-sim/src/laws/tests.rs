//! Each law notices what it is there for: records of nights that must not be.

use std::collections::BTreeMap;

use fluke_model::id::{AgentName, CommitId, StepAddress, TaskName};
use fluke_model::label::Labels;
use fluke_server::alert::{Alert, Owner, RemediationStatus};

use super::*;
use crate::trace::{Ended, Entry, Said, Standing};

const KEY: &str = "t0/s0";
const COMMIT: &str = "good";

/// A night in which one drift of one host is put right, told to server 1.
fn good_night() -> Vec<What> {
    vec![
        What::ServerBegan(1),
        What::AgentBegan(0),
        What::InForce(1, COMMIT.to_owned()),
        checked(Found::Drifted(1)),
        checked(Found::Drifted(2)),
        began(2),
        started(1, 2, "poll"),
        ended(2),
        checked(Found::Satisfied),
        finished(1, 2, Outcome::Success),
        What::Final(Box::new(standing())),
    ]
}

fn standing() -> Standing {
    Standing { agents: 1, connections: 1, ..Standing::default() }
}

fn checked(found: Found) -> What {
    What::Checked { host: 0, key: KEY.to_owned(), found }
}

fn began(drift: u64) -> What {
    What::ApplyBegan { host: 0, key: KEY.to_owned(), value: "v0".to_owned(), drift }
}

fn ended(drift: u64) -> What {
    What::ApplyEnded { host: 0, key: KEY.to_owned(), drift, how: Ended::Done }
}

fn event(life: ServerLife, kind: EventKind, time: u64, output: String) -> Event {
    let _ = life;
    Event {
        agent: Some(AgentName::new("host-0").expect("a name")),
        task: Some(TaskName::new("t0").expect("a name")),
        step: Some(StepAddress::new("shell", "s0").expect("a name")),
        commit: Some(CommitId::new(COMMIT)),
        output: Some(output),
        ..Event::new(kind, Timestamp(time))
    }
}

fn started(life: ServerLife, drift: u64, trigger: &str) -> What {
    let mut event = event(life, EventKind::ApplyStarted, drift, format!("#{drift}: it is not"));
    event.trigger = Some(trigger.to_owned());
    What::Event(life, Box::new(event))
}

fn finished(life: ServerLife, drift: u64, outcome: Outcome) -> What {
    let mut event = event(life, EventKind::ApplyFinished, drift, format!("for #{drift}"));
    event.outcome = Some(outcome);
    What::Event(life, Box::new(event))
}

fn alert(life: ServerLife, news: News) -> What {
    What::Alert(
        life,
        Box::new(Alert {
            at: Timestamp(0),
            agent: AgentName::new("host-0").expect("a name"),
            labels: Labels::default(),
            of: Owner::Task(TaskName::new("t0").expect("a name")),
            commit: None,
            reason: None,
            news,
        }),
    )
}

fn drifted() -> News {
    let remediation_status = RemediationStatus::InProgress;
    News::DriftDetected { policy: Policy::RemediateAndAlert, remediation_status }
}

fn broken(policy: Policy, happened: Vec<What>) -> Vec<Law> {
    let said = Said {
        values: BTreeMap::from([(KEY.to_owned(), "v0".to_owned())]),
        policies: BTreeMap::from([("t0".to_owned(), policy)]),
    };
    let entry =
        |(second, what): (usize, What)| Entry { at: Duration::from_secs(second as u64), what };
    let record = Record {
        entries: happened.into_iter().enumerate().map(entry).collect(),
        commits: BTreeMap::from([(COMMIT.to_owned(), said)]),
        names: vec!["host-0".to_owned()],
    };
    let mut laws: Vec<Law> = judge(&record).into_iter().map(|breach| breach.law).collect();
    laws.dedup();
    laws
}

#[test]
fn a_good_night_breaks_no_law() {
    assert_eq!(broken(Policy::Remediate, good_night()), []);
}

/// Changes the good night in one place, and names the law that must notice.
#[test]
fn every_law_notices_what_it_is_there_for() {
    use Law::*;
    type Twist = fn(&mut Vec<What>);
    let twists: [(&str, Law, Twist); 17] = [
        ("no check at all", CheckBeforeApply, |night| drop(night.drain(3..5))),
        ("a check that said yes", CheckBeforeApply, |night| night[4] = checked(Found::Satisfied)),
        ("a check that could not tell", CheckBeforeApply, |night| night[4] = checked(Found::Error)),
        ("an older check's drift", CheckBeforeApply, |night| night[5] = began(1)),
        ("one check, two applies", CheckBeforeApply, |night| night.insert(8, began(2))),
        ("two applies at once", OneApplyAtATime, |night| {
            night.splice(7..7, [checked(Found::Drifted(3)), began(3), ended(3)]);
        }),
        ("a value of another commit", OneCommit, |night| {
            night[5] =
                What::ApplyBegan { host: 0, key: KEY.to_owned(), value: "v1".to_owned(), drift: 2 };
        }),
        ("an apply that nobody told of", EveryApplyIsTold, |night| {
            night.remove(9);
            night.remove(6);
        }),
        ("an end that was lost", EveryApplyIsTold, |night| drop(night.remove(9))),
        ("a beginning told twice", NothingIsToldTwice, |night| {
            night.insert(6, started(1, 2, "poll"));
        }),
        ("an end told twice", NothingIsToldTwice, |night| {
            night.insert(9, finished(1, 2, Outcome::Success));
        }),
        ("a drift told twice", OneAlertPerDrift, |night| {
            let end = News::DriftRemediated { success: true };
            night.splice(5..5, [alert(1, drifted()), alert(1, drifted()), alert(1, end)]);
        }),
        ("a drift whose end is not told", OneAlertPerDrift, |night| {
            night.insert(5, alert(1, drifted()));
        }),
        ("a failure that is tried again at once", FailuresRest, |night| {
            night[8] = checked(Found::Drifted(9));
            night[9] = finished(1, 2, Outcome::Failure);
            let again = [
                checked(Found::Drifted(3)),
                began(3),
                started(1, 3, "poll"),
                ended(3),
                finished(1, 3, Outcome::Success),
            ];
            night.splice(10..10, again);
        }),
        ("a host that is not as it should be", Convergence, |night| {
            let wrong = vec!["it is not".to_owned()];
            night[10] = What::Final(Box::new(Standing { wrong, ..standing() }));
        }),
        ("a connection that nobody ends", NothingHangs, |night| {
            night[10] = What::Final(Box::new(Standing { connections: 2, ..standing() }));
        }),
        ("a command that never ends", NothingHangs, |night| drop(night.remove(7))),
    ];
    for (case, law, twist) in twists {
        let mut night = good_night();
        twist(&mut night);
        let laws = broken(Policy::Remediate, night);
        assert!(laws.contains(&law), "{case}: {law:?} is not among {laws:?}");
    }
}

#[test]
fn what_is_left_to_humans_is_applied_when_one_asks_and_only_then() {
    assert_eq!(broken(Policy::AlertOnly, good_night()), [Law::HumansDecide]);
    let mut asked = good_night();
    asked[6] = started(1, 2, "manual");
    assert_eq!(broken(Policy::AlertOnly, asked), []);
}

#[test]
fn a_server_that_restarts_may_hear_again_what_the_one_before_did_not_acknowledge() {
    let mut night = good_night();
    let again = [What::ServerBegan(2), started(2, 2, "poll"), finished(2, 2, Outcome::Success)];
    night.splice(10..10, again);
    assert_eq!(broken(Policy::Remediate, night), []);
    let mut half = good_night();
    half.splice(9..10, [What::ServerBegan(2), finished(2, 2, Outcome::Success)]);
    assert_eq!(broken(Policy::Remediate, half), []);
}

#[test]
fn what_was_not_handed_over_is_lost_with_the_disk_and_nothing_else_is() {
    let mut lost = good_night();
    lost.remove(9);
    lost[6] = What::JournalLost(0);
    assert_eq!(broken(Policy::Remediate, lost.clone()), []);
    lost.swap(3, 6);
    assert_eq!(broken(Policy::Remediate, lost), [Law::EveryApplyIsTold]);
}
