use fluke_model::id::CommitId;
use fluke_model::policy::Trigger;
use fluke_model::snapshot::Snapshot;

use super::*;
use crate::executor::Allow;
use crate::services::fixture;
use crate::services::lane::tests::asleep;
use crate::state::Held;

fn made(change: Change) -> Made {
    let commit = CommitId::new("c1");
    let held = Arc::new(Held { commit, snapshot: Arc::new(Snapshot::default()) });
    let cause = Cause { instruction: None, trigger: Trigger::Watch };
    let (container, account) = (change.object().map(str::to_owned), Account { cause, held });
    Made { change, container, began: Instant::now(), account }
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
    let held = Held { commit: CommitId::new("c1"), snapshot: Arc::new(Snapshot::default()) };
    let desired = Desired::new(Arc::new(held), &lane.host, &lane.environment);
    let there = fixture::container("old", &web, State::Exited);
    let seen = Seen { containers: vec![there], ..Seen::nothing() };
    lane.take_note(&desired, &seen, Instant::now());
    assert!(lane.misplaced.contains(&web.id), "it is there");
    lane.take_note(&desired, &Seen::nothing(), Instant::now());
    assert!(lane.misplaced.is_empty());
}
