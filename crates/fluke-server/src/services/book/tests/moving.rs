//! A replica that was on one host and is given to another is told of, once, with its reason; what a
//! server merely learns is not.

use fluke_model::event::{Event, EventKind};
use fluke_model::id::{LabelKey, LabelValue};
use fluke_model::label::Selector;
use fluke_model::service::RESCHEDULE_AFTER;
use fluke_model::volume::Volume;

use super::*;

/// Replica 0 of `web` on `a`, which serves it.
fn on_a() -> Lab {
    let mut lab = Lab::settled(Some(1));
    lab.joins("a", vec![zero()]);
    assert_eq!(lab.told(), Vec::<String>::new(), "it has never been elsewhere");
    lab
}

/// Hosts that chance prefers to `e`.
const PREFERRED: [&str; 4] = ["b", "d", "f", "g"];

fn zero() -> DeploymentReport {
    deployment("0", Replica::Number(0), at(4))
}

fn app() -> Labels {
    let (key, value) = (LabelKey::new("role"), LabelValue::new("app"));
    Labels([(key.expect("a label"), value.expect("a label"))].into())
}

impl Lab {
    /// What has been told of moves since this was last asked.
    fn told(&mut self) -> Vec<String> {
        let events = std::mem::take(&mut self.moves).into_iter().map(|it| it.event(Timestamp(1)));
        events.filter_map(|event| event.output).collect()
    }
}

#[test]
fn a_replica_whose_host_stays_away_is_told_of_once() {
    let mut lab = on_a();
    lab.joins("b", vec![]);
    lab.says("a", Word::Silent);
    assert_eq!(lab.told(), Vec::<String>::new());
    lab.passes(RESCHEDULE_AFTER);
    let [moved] = &lab.moves[..] else { panic!("one: {:?}", lab.moves) };
    let expected = Event {
        agent: Some(name("b")),
        service: Some(web()),
        step: Some(Replica::Number(0).part(&web())),
        trigger: Some("placement".into()),
        output: Some("replica 0 goes from a to b: a was away for 5m".into()),
        ..Event::new(EventKind::ReplicaMoved, Timestamp(7))
    };
    assert_eq!(moved.clone().event(Timestamp(7)), expected);
    lab.told();
    lab.passes(Duration::from_secs(3600));
    lab.reports("b", vec![zero()]);
    lab.joins("a", vec![]);
    lab.wants(Service { description: Some("other words".into()), ..service(Some(1)) });
    assert_eq!(lab.told(), Vec::<String>::new(), "it stays where it went");
}

#[test]
fn what_makes_it_move_is_said() {
    let mut lab = on_a();
    lab.joins("b", vec![]);
    lab.says("a", Word::Departs);
    assert_eq!(lab.told(), ["replica 0 goes from a to b: a left for good"]);

    // Also where it has to wait for somebody who takes it, and where people say so.
    let mut lab = on_a();
    lab.says("a", Word::Left);
    lab.says("a", Word::Forgotten);
    assert_eq!(lab.told(), Vec::<String>::new(), "there is nobody else");
    lab.joins("b", vec![]);
    assert_eq!(lab.told(), ["replica 0 goes from a to b: a left for good"]);

    let mut lab = on_a();
    lab.comes_as("b", came(app(), NodeType::Worker));
    lab.reports("b", vec![]);
    let selector = Selector { match_labels: app().0, ..Selector::default() };
    lab.wants(Service { selector, ..service(Some(1)) });
    assert_eq!(lab.told(), ["replica 0 goes from a to b: the selector does not match a any more"]);

    let mut lab = on_a();
    lab.joins("b", vec![]);
    let Word::Came(mut refusing) = came(Labels::default(), NodeType::Worker) else { panic!() };
    refusing.executors.clear();
    lab.comes_as("a", Word::Came(refusing));
    assert_eq!(lab.told(), ["replica 0 goes from a to b: a takes no replicas any more"]);

    let mut lab = on_a();
    lab.wants(service(Some(2)));
    lab.joins("b", vec![]);
    assert_eq!(lab.told(), ["replica 1 goes from a to b: b has fewer of the service"]);
}

#[test]
fn a_replica_that_goes_to_its_volume_or_back_to_where_it_runs_is_told_of_too() {
    let mut lab = on_a();
    lab.joins("b", vec![]);
    let mut wanted = service(Some(1));
    let data = fluke_model::id::VolumeName::new("data").expect("a name");
    wanted.container.volumes.insert(data.clone(), "/data".into());
    lab.wants(wanted);
    lab.reports("a", vec![]);
    let volume = Volume { service: web(), replica: Replica::Number(0), name: data };
    let volumes = Some([volume].into());
    let report = ServicesReport { whole: true, volumes, ..ServicesReport::default() };
    lab.says("b", Word::Services(report));
    assert_eq!(lab.told(), ["replica 0 goes from a to b: its volume is on b"]);

    let mut lab = Lab::settled(Some(1));
    lab.joins("b", vec![]);
    lab.joins("a", vec![zero()]);
    assert_eq!(lab.told(), ["replica 0 goes from b to a: it runs on a already"]);
}

#[test]
fn a_server_that_starts_anew_learns_where_replicas_are_and_moves_none() {
    let mut lab = Lab::new(Some(2));
    let stale = Whereabouts {
        replicas: [(0, name("gone")), (1, name("gone"))].into(),
        ..Whereabouts::default()
    };
    lab.comes("c", NodeType::Worker);
    lab.says("c", Word::Placements(Table::from(vec![(web(), stale)])));
    lab.reports("c", vec![]);
    lab.joins("a", vec![zero()]);
    lab.passes(SETTLING);
    assert_eq!(lab.placed(), [(0, name("a")), (1, name("gone"))].into());
    lab.joins("b", vec![deployment("1", Replica::Number(1), at(5))]);
    assert_eq!(lab.placed(), [(0, name("a")), (1, name("b"))].into());
    assert_eq!(lab.told(), Vec::<String>::new(), "they have been there all along");
}

#[test]
fn a_host_that_is_not_back_after_a_restart_loses_its_replicas_on_record() {
    let mut lab = Lab::new(Some(1));
    lab.comes("b", NodeType::Worker);
    lab.says("b", Word::Placements(Table::from(vec![(web(), on(0, "a"))])));
    lab.reports("b", vec![]);
    lab.passes(SETTLING);
    assert_eq!(lab.told(), Vec::<String>::new());
    lab.passes(RESCHEDULE_AFTER);
    assert_eq!(lab.told(), ["replica 0 goes from a to b: a was away for 5m"]);
}

#[test]
fn a_replica_on_its_way_does_not_turn_round_for_whoever_comes_meanwhile() {
    for late in PREFERRED {
        let mut lab = Lab::settled(Some(2));
        let one = deployment("1", Replica::Number(1), at(5));
        lab.joins("a", vec![zero(), one.clone()]);
        lab.joins("e", vec![]);
        assert_eq!(lab.told(), ["replica 1 goes from a to e: e has fewer of the service"]);
        // a has not heard of it, and goes on serving.
        lab.reports("a", vec![zero(), one]);
        lab.joins(late, vec![]);
        lab.wants(Service { description: Some("other words".into()), ..service(Some(2)) });
        assert_eq!(lab.placed()[&1], name("e"), "{late} has as few as e");
        assert_eq!(lab.told(), Vec::<String>::new());
    }
}

#[test]
fn what_still_runs_where_it_may_not_be_keeps_nobody_from_having_it() {
    for late in PREFERRED {
        let mut lab = on_a();
        lab.joins("e", vec![]);
        lab.says("a", Word::Silent);
        lab.passes(RESCHEDULE_AFTER);
        assert_eq!(lab.told(), ["replica 0 goes from a to e: a was away for 5m"]);
        lab.joins(late, vec![]);
        lab.wants(Service { description: Some("other words".into()), ..service(Some(1)) });
        assert_eq!(lab.placed()[&0], name("e"), "e is about to start it");
        assert_eq!(lab.told(), Vec::<String>::new());
    }
}

#[test]
fn a_host_that_comes_back_with_a_replica_that_serves_elsewhere_by_now_does_not_get_it() {
    for back in PREFERRED {
        let mut lab = Lab::settled(Some(1));
        lab.joins(back, vec![zero()]);
        lab.joins("e", vec![]);
        lab.says(back, Word::Silent);
        lab.passes(RESCHEDULE_AFTER);
        lab.reports("e", vec![zero()]);
        lab.told();
        lab.joins(back, vec![zero()]);
        assert_eq!(lab.told(), Vec::<String>::new(), "that was decided");
        // Nor from a server that cannot know of that.
        let mut lab = Lab::settled(Some(1));
        lab.joins("e", vec![zero()]);
        lab.joins(back, vec![zero()]);
        assert_eq!(lab.placed()[&0], name("e"), "{back} is as good, and nobody expects it there");
        assert_eq!(lab.told(), Vec::<String>::new());
    }
}

#[test]
fn a_forgotten_host_that_comes_back_serving_gets_nothing_that_went_elsewhere() {
    for back in PREFERRED {
        let mut lab = Lab::settled(Some(1));
        lab.joins(back, vec![zero()]);
        lab.joins("e", vec![]);
        lab.says(back, Word::Left);
        lab.says(back, Word::Forgotten);
        assert_eq!(lab.told(), [format!("replica 0 goes from {back} to e: {back} left for good")]);
        lab.joins(back, vec![zero()]);
        assert_eq!(lab.placed()[&0], name("e"), "e is about to start it");
        lab.says("e", Word::Departs);
        assert_eq!(lab.placed()[&0], name(back), "nobody else has it any more");
    }
}

#[test]
fn a_replica_that_is_updated_does_not_go_to_where_an_old_one_still_serves() {
    for back in PREFERRED {
        let mut lab = Lab::settled(Some(1));
        let old = DeploymentReport { phase: Phase::Retiring, ..zero() };
        let new = deployment("new", Replica::Number(0), at(5));
        let new = DeploymentReport { phase: Phase::Pulling, serves: false, ..new };
        lab.joins("e", vec![old, new]);
        lab.joins(back, vec![zero()]);
        assert_eq!(lab.placed()[&0], name("e"));
        assert_eq!(lab.told(), Vec::<String>::new());
    }
}

#[test]
fn what_was_taken_from_a_host_that_is_away_again_does_not_go_back_to_it() {
    for is_back in [false, true] {
        let mut lab = on_a();
        lab.joins("e", vec![]);
        lab.says("a", Word::Silent);
        lab.passes(RESCHEDULE_AFTER);
        lab.joins("a", vec![zero()]);
        lab.joins("f", vec![]);
        lab.told();
        lab.says("e", Word::Silent);
        lab.passes(RESCHEDULE_AFTER - Duration::from_secs(1));
        if !is_back {
            lab.says("a", Word::Left);
        }
        lab.passes(Duration::from_secs(1));
        let to = if is_back { "a" } else { "f" };
        assert_eq!(lab.told(), [format!("replica 0 goes from e to {to}: e was away for 5m")]);
    }
}

#[test]
fn a_replica_that_found_another_place_stays_there_whatever_its_host_says_or_does_not_when_it_is_back()
 {
    let moved = |gone: Word| {
        let mut lab = on_a();
        lab.joins("e", vec![]);
        lab.says("a", gone);
        lab.passes(RESCHEDULE_AFTER);
        assert_eq!(lab.told(), ["replica 0 goes from a to e: a was away for 5m"]);
        lab
    };
    for gone in [Word::Silent, Word::GoesDown, Word::Left] {
        let mut lab = moved(gone);
        // It has no luck with its agent.
        for _ in 0..3 {
            lab.comes("a", NodeType::Worker);
            lab.says("a", Word::Left);
        }
        lab.joins("a", vec![zero()]);
        assert_eq!(lab.placed()[&0], name("e"));
        assert_eq!(lab.addresses(), ["10.200.1.4"], "a serves for as long as e does not");
        lab.comes("a", NodeType::Worker);
        lab.reports("a", vec![zero()]);
        assert_eq!(lab.told(), Vec::<String>::new());
    }
}

#[test]
fn an_old_word_of_where_a_replica_was_does_not_take_it_from_where_it_is() {
    for ghost in PREFERRED {
        let mut lab = Lab::settled(Some(1));
        lab.joins("e", vec![]);
        lab.says("e", Word::Left);
        lab.comes("z", NodeType::Worker);
        lab.says("z", Word::Placements(Table::from(vec![(web(), on(0, ghost))])));
        lab.joins("e", vec![]);
        assert_eq!(lab.placed()[&0], name("e"));
        assert_eq!(lab.told(), Vec::<String>::new());
    }
}
