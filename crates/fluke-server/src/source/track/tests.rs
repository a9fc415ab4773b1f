use super::*;

const POLL: Duration = Duration::from_secs(60);

fn track() -> Track {
    Track::new("/srv/infra".into(), Some("main".into()), POLL)
}

fn id(name: &str) -> CommitId {
    CommitId::new(name)
}

fn told(event: Option<Event>) -> Option<&'static str> {
    event.map(|event| event.kind.as_str())
}

#[test]
fn an_outage_is_told_once_and_so_is_its_end() {
    let mut track = track();
    assert_eq!(told(track.answered(Timestamp(1))), None);
    assert_eq!(told(track.failed("gone".into(), Timestamp(2))), Some("source_unreachable"));
    assert_eq!(told(track.failed("still gone".into(), Timestamp(3))), None);
    assert_eq!(track.status().error.as_deref(), Some("still gone"));
    assert_eq!(track.status().last_poll, Some(Timestamp(1)));
    assert_eq!(told(track.answered(Timestamp(4))), Some("source_recovered"));
    assert_eq!((&track.status().error, track.status().last_poll), (&None, Some(Timestamp(4))));
    assert_eq!(told(track.answered(Timestamp(5))), None);
}

#[test]
fn pauses_grow_with_failures_up_to_the_poll_interval() {
    let mut track = track();
    assert_eq!(track.pause(Timestamp(0), false), POLL);
    let pauses: Vec<u64> = (0..8)
        .map(|_| {
            track.failed("gone".into(), Timestamp(0));
            track.pause(Timestamp(0), false).as_secs()
        })
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    track.answered(Timestamp(0));
    assert_eq!(track.pause(Timestamp(0), false), POLL);
    assert_eq!(track.status().next_poll, Some(Timestamp(60_000)));
    track.pause(Timestamp(0), true);
    assert_eq!(track.status().next_poll, None, "a watched source has no next poll");
}

#[test]
fn a_rejected_commit_leaves_the_good_one_in_force_until_the_next() {
    let mut track = track();
    assert!(!track.has_seen_any());
    track.accepted(&id("a"), &[], Vec::new(), Timestamp(1));
    let event = track.rejected(&id("b"), Vec::new(), Timestamp(2));
    assert_eq!(event.output.as_deref(), Some("a stays in force"));
    assert_eq!(track.status().commit, Some(id("a")));
    assert_eq!(track.status().commit_since, Some(Timestamp(1)));
    assert!(track.status().rejected && track.knows(&id("b")) && !track.knows(&id("a")));
    track.accepted(&id("c"), &[], Vec::new(), Timestamp(3));
    assert!(!track.status().rejected && track.knows(&id("c")));
}

#[test]
fn an_accepted_commit_names_the_one_that_it_replaces() {
    let mut track = track();
    let mut accept = |commit: &str, parents: &[&str]| {
        let parents: Vec<_> = parents.iter().map(|parent| id(parent)).collect();
        track.accepted(&id(commit), &parents, Vec::new(), Timestamp(1)).output
    };
    assert_eq!(accept("a", &[]), None);
    assert_eq!(accept("b", &["a"]).as_deref(), Some("b follows a"));
    let jump = accept("d", &["c"]).expect("a word");
    assert_eq!(jump, "d replaces b: several commits at once, or a force-push");
    let back = accept("a", &[]).expect("a word");
    assert_eq!(back, "the branch was set back from d to a, which was in force before");
    assert_eq!(accept("a", &[]), None);
}

#[test]
fn what_a_folder_held_before_is_no_history() {
    let mut track = Track::new("/srv/infra".into(), None, POLL);
    for content in ["a", "b", "a"] {
        assert_eq!(track.accepted(&id(content), &[], Vec::new(), Timestamp(1)).output, None);
    }
}

#[test]
fn an_announced_commit_is_looked_for_until_it_is_there_or_hope_is_lost() {
    let mut track = track();
    track.accepted(&id("a"), &[], Vec::new(), Timestamp(0));
    track.announced(id("b"));
    let pauses: Vec<u64> = (0..7).map(|_| track.pause(Timestamp(0), false).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 60, 60]);
    track.announced(id("c"));
    assert_eq!(track.pause(Timestamp(0), false).as_secs(), 1);
    track.accepted(&id("c"), &[], Vec::new(), Timestamp(0));
    assert_eq!(track.pause(Timestamp(0), false), POLL);
}
