use std::sync::Arc;

use fluke_model::service::{ContainerSpec, HealthSpec, Replica};

use super::*;
use crate::services::fixture;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 2);

fn deployment(listens: &[u16], health: Option<HealthSpec>) -> Deployment {
    let web = fixture::deployment("web", ContainerSpec { health, ..fixture::spec("web:1") });
    Deployment { listens: listens.to_vec(), ..web }
}

fn container(of: &Deployment, process: i32) -> Container {
    let container = fixture::container("c", of, State::Running);
    Container { address: Some(ADDRESS), process: Some(process), ..container }
}

#[test]
fn a_container_is_tried_at_once_often_while_it_is_waited_for_and_then_less_and_less_often() {
    let (web, start) = (deployment(&[80], None), Instant::now());
    let (mut doors, mut now, mut pauses) = (Doors::default(), start, Vec::new());
    doors.see(&[container(&web, 1)], std::slice::from_ref(&web), now);
    for _ in 0..80 {
        let knock = doors.due(now).remove(0);
        assert_eq!(doors.next(), None, "one try at a time");
        assert!(!doors.answered(&knock, Some(80), now));
        let next = doors.next().expect("it goes on");
        pauses.push((next - now).as_millis());
        now = next;
    }
    assert_eq!(pauses[..6], [10, 20, 40, 80, 160, 200]);
    let early = pauses.iter().take_while(|pause| **pause <= 200);
    let waited: u128 = early.sum();
    assert!((10_000..11_000).contains(&waited), "nobody waits for our pauses: {waited}");
    assert_eq!(pauses[77..], [60_000, 60_000, 60_000]);
    let knock = doors.due(now).remove(0);
    assert!(doors.answered(&knock, None, now), "that is worth a look");
    assert_eq!((doors.silent_at("c"), doors.next()), (None, None), "it is not tried any more");
}

#[test]
fn all_ports_are_tried_until_each_was_found_open_once() {
    let (web, now) = (deployment(&[80, 81, 82], None), Instant::now());
    let mut doors = Doors::default();
    doors.see(&[container(&web, 1)], std::slice::from_ref(&web), now);
    let knock = doors.due(now).remove(0);
    assert_eq!((knock.address, knock.ports.as_slice()), (ADDRESS, &[80, 81, 82][..]));
    assert!(!doors.answered(&knock, Some(81), now));
    assert_eq!(doors.silent_at("c"), Some(81));
    let knock = doors.due(now + SOONEST).remove(0);
    assert_eq!(knock.ports, [81, 82]);
    assert!(doors.answered(&knock, None, now + SOONEST));
    assert_eq!(doors.silent_at("c"), None);
}

#[test]
fn another_life_is_tried_anew_and_an_answer_from_the_last_one_does_not_count() {
    let (web, now) = (deployment(&[80], None), Instant::now());
    let mut doors = Doors::default();
    doors.see(&[container(&web, 1)], std::slice::from_ref(&web), now);
    let late = doors.due(now).remove(0);
    doors.see(&[container(&web, 2)], std::slice::from_ref(&web), now);
    assert!(!doors.answered(&late, None, now));
    assert_eq!(doors.silent_at("c"), Some(80));
    assert_eq!(doors.due(now).remove(0).process, 2);
}

#[test]
fn one_that_is_not_wanted_any_more_is_tried_on_as_long_as_it_runs() {
    let (web, now) = (deployment(&[80], None), Instant::now());
    let mut doors = Doors::default();
    doors.see(&[container(&web, 1)], std::slice::from_ref(&web), now);
    doors.see(&[container(&web, 1)], &[], now);
    assert_eq!(doors.due(now).len(), 1);
    let ended = Container { state: State::Exited, process: None, ..container(&web, 1) };
    doors.see(&[ended], &[], now);
    assert_eq!((doors.silent_at("c"), doors.next()), (None, None));
}

#[test]
fn one_that_is_started_again_in_place_of_its_successor_is_tried_where_that_one_is_to_listen() {
    let now = Instant::now();
    let (old, new) = (deployment(&[80], None), deployment(&[81], None));
    let spec = Arc::new(fixture::spec("web:2"));
    let new = Deployment { id: fixture::deployment("web", fixture::spec("web:2")).id, spec, ..new };
    let mut doors = Doors::default();
    doors.see(&[container(&old, 1)], std::slice::from_ref(&old), now);
    doors.see(&[container(&old, 1)], std::slice::from_ref(&new), now);
    assert_eq!(doors.silent_at("c"), Some(80), "in this life it is known better");
    doors.see(&[container(&old, 2)], std::slice::from_ref(&new), now);
    assert_eq!(doors.due(now).remove(0).ports, [81]);
    // Of another service, or of another replica.
    let api = fixture::deployment("api", fixture::spec("web:2"));
    let second = fixture::replica("web", Replica::Number(2), fixture::spec("web:2"));
    for other in [api, second].map(|it| Deployment { listens: vec![81], ..it }) {
        doors.see(&[container(&old, 3)], &[other], now);
        assert_eq!(doors.silent_at("c"), None);
    }
}

#[test]
fn the_same_container_with_another_port_is_tried_there() {
    let (web, now) = (deployment(&[80], None), Instant::now());
    let mut doors = Doors::default();
    doors.see(&[container(&web, 1)], std::slice::from_ref(&web), now);
    let knock = doors.due(now).remove(0);
    doors.answered(&knock, None, now);
    let other = deployment(&[80, 443], None);
    doors.see(&[container(&other, 1)], std::slice::from_ref(&other), now);
    assert_eq!(doors.due(now).remove(0).ports, [443]);
    doors.see(&[container(&web, 1)], std::slice::from_ref(&web), now);
    assert_eq!(doors.silent_at("c"), None);
}

#[test]
fn who_says_how_it_is_or_listens_nowhere_is_not_tried() {
    let health = HealthSpec {
        command: "true".into(),
        interval_ms: 1,
        timeout_ms: 1,
        retries: 1,
        start_period_ms: 1,
    };
    let (now, web) = (Instant::now(), deployment(&[80], None));
    let asked = deployment(&[80], Some(health));
    let nowhere = deployment(&[], None);
    for (it, wanted) in [(&asked, asked.clone()), (&asked, web), (&nowhere, nowhere.clone())] {
        let mut doors = Doors::default();
        doors.see(&[container(it, 1)], &[wanted], now);
        assert_eq!((doors.due(now), doors.next(), doors.silent_at("c")), (vec![], None, None));
    }
}
