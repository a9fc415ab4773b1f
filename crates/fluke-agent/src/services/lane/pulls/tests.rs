use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::executor::Allow;
use crate::services::fixture;
use crate::services::lane::state::Cause;
use crate::services::lane::tests::{asleep, overheard, service, spec, wanting};
use crate::services::plan::State;
use fluke_model::policy::Trigger;

const IMAGE: &str = "localhost/box:1";

fn came(desired: &Desired) -> Pulled {
    let cause = Cause { instruction: None, trigger: Trigger::Watch };
    let account = Account { cause, held: desired.held.clone() };
    let (image, result) = (IMAGE.to_owned(), Ok("one".to_owned()));
    Pulled { image, result, took: Duration::from_secs(60), account }
}

#[tokio::test]
async fn an_image_that_comes_and_is_not_found_is_fetched_after_pauses_that_grow_and_told_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let facts = overheard(&mut lane);
    let desired = Arc::new(wanting(&lane, service("web", spec("true"))));
    let mut pauses = Vec::new();
    for _ in 0..3 {
        lane.pulled(came(&desired));
        lane.tell_of_images(&desired, &Seen::nothing()).await;
        lane.take_note(&desired, &Seen::nothing(), Instant::now());
        let found = lane.images(&desired, &Seen::nothing()).remove(IMAGE);
        let Some(Image::Failed(why, until)) = found else { panic!("it is not here: {found:?}") };
        assert_eq!(why, "localhost/box:1 was fetched, and Podman does not find it");
        pauses.push(until - Instant::now());
    }
    assert!(pauses.is_sorted() && pauses[2] > Duration::from_secs(2), "{pauses:?}");
    let told = facts.lock().expect("nobody panicked").len();
    assert_eq!(told, 2, "that it began, and how it ended");

    let seen = Seen { present: BTreeSet::from([IMAGE.into()]), ..Seen::nothing() };
    lane.take_note(&desired, &seen, Instant::now());
    assert_eq!(lane.images(&desired, &seen)[IMAGE], Image::Present);
    assert_eq!(lane.images(&desired, &Seen::nothing())[IMAGE], Image::Absent, "it begins anew");
}

#[tokio::test]
async fn an_image_that_comes_and_is_found_is_no_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let facts = overheard(&mut lane);
    let desired = wanting(&lane, service("web", spec("true")));
    lane.pulled(came(&desired));
    let seen = Seen { present: BTreeSet::from([IMAGE.into()]), ..Seen::nothing() };
    lane.tell_of_images(&desired, &seen).await;
    assert!(facts.lock().expect("nobody panicked").is_empty());
}

#[tokio::test]
async fn an_image_that_nothing_lacks_any_more_has_failed_no_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let desired = wanting(&lane, service("web", spec("true")));
    lane.pulled(came(&desired));
    // Somebody brought it, and it was deployed from that: nobody looks for it any more.
    let there = fixture::container("c", &desired.wanted[0], State::Running);
    let seen = Seen { containers: vec![there], ..Seen::nothing() };
    lane.take_note(&desired, &seen, Instant::now());
    assert!(lane.images.marks().is_empty());
}
