use std::collections::BTreeMap;

use fluke_model::id::AgentName;

use super::*;

/// More than anybody takes.
const PLENTY: f64 = 1e12;

fn agent(number: usize) -> Topic {
    Topic::Agent(AgentName::new(format!("a{number}")).expect("a name"))
}

/// Changes at these times of one topic; when it is told.
fn told_at(changes: &[u64], bytes: usize) -> Vec<u64> {
    let start = Instant::now();
    let mut pace = Pace::new(PLENTY);
    let mut told = Vec::new();
    for millis in 0..2000 {
        let now = start + Duration::from_millis(millis);
        if changes.contains(&millis) {
            pace.changed(agent(0));
        }
        while let Some(topic) = pace.turn(now) {
            told.push(millis);
            pace.told(topic, bytes, now);
        }
    }
    assert!(pace.next(start).is_none(), "it comes to rest");
    told
}

#[test]
fn the_first_change_is_told_at_once_and_the_last_one_always() {
    for (changes, told) in [
        (&[][..], &[][..]),
        (&[5][..], &[5][..]),
        (&[5, 6, 7, 50][..], &[5, 105][..]),
        (&[5, 105][..], &[5, 105][..]),
        (&[5, 106][..], &[5, 106][..]),
        (&[5, 6, 110, 120, 204][..], &[5, 105, 205][..]),
    ] {
        assert_eq!(told_at(changes, 100), told, "{changes:?}");
    }
    let busy: Vec<u64> = (0..500).collect();
    assert_eq!(told_at(&busy, 100), [0, 100, 200, 300, 400, 500]);
}

#[test]
fn what_is_large_is_told_less_often() {
    assert_eq!(told_at(&[0, 10, 20], BYTES_A_SECOND / 2), [0, 500]);
}

#[test]
fn while_all_change_again_and_again_each_has_its_turn_and_no_more_goes_out_than_may() {
    let start = Instant::now();
    // Of a hundred bytes each, as many as there are take two seconds.
    let mut pace = Pace::new(100.0 * 100.0 / 2.0);
    let mut told: BTreeMap<Topic, u32> = BTreeMap::new();
    for tens in 0..600 {
        let now = start + Duration::from_millis(10 * tens);
        (0..100).for_each(|number| pace.changed(agent(number)));
        let together: Vec<_> = std::iter::from_fn(|| pace.turn(now)).take(10).collect();
        pace.spent(100 * together.len(), now);
        for topic in together {
            pace.told(topic.clone(), 100, now);
            *told.entry(topic).or_default() += 1;
        }
    }
    let times: Vec<u32> = told.into_values().collect();
    assert_eq!(times, [3; 100], "in six seconds");
}

#[test]
fn what_there_are_few_of_waits_for_none_of_the_many() {
    let now = Instant::now();
    let mut pace = Pace::new(PLENTY);
    (0..100).for_each(|number| pace.changed(agent(number)));
    pace.changed(Topic::Source);
    assert_eq!(pace.turn(now), Some(Topic::Source));
    assert_eq!(pace.turn(now), Some(agent(0)));
}

#[test]
fn however_much_goes_out_something_is_told_every_second() {
    let now = Instant::now();
    let mut pace = Pace::new(1.0);
    (0..2).for_each(|number| pace.changed(agent(number)));
    assert_eq!(pace.turn(now), Some(agent(0)));
    (0..10).for_each(|_| pace.spent(1 << 30, now));
    assert_eq!(pace.turn(now), None);
    let next = pace.next(now).expect("something waits");
    assert_eq!((next, pace.turn(next)), (now + LONGEST, Some(agent(1))));
}

#[test]
fn what_nobody_was_told_is_known() {
    let now = Instant::now();
    let mut pace = Pace::new(PLENTY);
    for number in 0..3 {
        pace.changed(agent(number));
        let topic = pace.turn(now).expect("its turn");
        pace.told(topic, 100, now);
    }
    [0, 3].into_iter().for_each(|number| pace.changed(agent(number)));
    let mut untold = pace.clear();
    untold.sort();
    assert_eq!((untold, pace.next(now)), (vec![agent(0), agent(3)], None));
}
