//! Who gets a seat, and what becomes of orders when it changes hands.

use fluke_model::id::InstanceId;
use fluke_model::label::Labels;
use fluke_model::message::NodeType;

use super::*;
use crate::clock::Clock;
use crate::reconcile::{Progress, What};

const POLL: Duration = Duration::from_secs(60);

fn hello(instance: u64) -> Hello {
    Hello {
        name: AgentName::new("web-1").expect("name"),
        labels: Labels::default(),
        version: "0.1.0".into(),
        executors: vec![],
        node_type: NodeType::Worker,
        snapshot: None,
        instance: InstanceId(instance),
        previous: None,
        tables: fluke_model::message::Holdings::default(),
    }
}

/// Claims a seat and connects.
fn connect(registry: &Registry, session: u64) -> (Arc<Seat>, mpsc::Receiver<()>, Vec<Effect>) {
    let returning = Hello { previous: Some(SessionId(session - 1)), ..hello(1) };
    let session = SessionId(session);
    let (seat, nudged) = registry
        .claim(&returning, session, None, |_| true, POLL, Clock::default().read())
        .expect("a free name");
    let connected = Input::Connected { hello: hello(1), session, wanted: None };
    let (effects, _) =
        seat.step(session, connected, None, Clock::default().read()).expect("seated");
    (seat, nudged, effects)
}

fn claim(
    registry: &Registry,
    instance: u64,
    session: u64,
) -> Result<(Arc<Seat>, mpsc::Receiver<()>), ClaimError> {
    registry.claim(
        &hello(instance),
        SessionId(session),
        None,
        |_| true,
        POLL,
        Clock::default().read(),
    )
}

fn request(id: &str) -> Request {
    Request { id: id.into(), by: "eve".into(), what: What::Host }
}

fn ended(effects: &[Effect]) -> Vec<&str> {
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::Progress { id, progress: Progress::Ended { .. } } => Some(id.as_str()),
        _ => None,
    });
    ended.collect()
}

#[test]
fn an_order_that_the_session_never_got_to_ends_with_it() {
    let registry = Registry::default();
    let (seat, _nudged, _) = connect(&registry, 1);
    registry.order("web-1", request("r1")).expect("connected");
    let gone = Input::Disconnected { why: "test".into() };
    let (effects, _) =
        seat.step(SessionId(1), gone, None, Clock::default().read()).expect("seated");
    assert_eq!(ended(&effects), ["r1"]);
    assert_eq!(registry.order("web-1", request("r2")), Err(OrderError::Offline));
}

#[test]
fn an_order_to_a_session_that_is_replaced_ends_and_its_late_end_changes_nothing() {
    let registry = Registry::default();
    let (old, mut nudged, _) = connect(&registry, 1);
    registry.order("web-1", request("r1")).expect("connected");
    let (_seat, _nudged, effects) = connect(&registry, 2);
    assert_eq!(ended(&effects), ["r1"]);
    nudged.try_recv().expect("the order's");
    assert!(nudged.try_recv().is_err(), "closed: the old session knows that it is replaced");
    let gone = Input::Disconnected { why: "late".into() };
    assert!(old.step(SessionId(1), gone, None, Clock::default().read()).is_none());
    registry.order("web-1", request("r2")).expect("still connected");
}

#[test]
fn another_agent_does_not_get_a_name_that_is_taken() {
    let registry = Registry::default();
    let (_seat, _nudged, _) = connect(&registry, 1);
    let taken = ClaimError::Taken(AgentName::new("web-1").expect("name"));
    assert_eq!(claim(&registry, 2, 2).expect_err("taken"), taken);
}

#[test]
fn a_copy_of_an_agent_does_not_get_its_name_while_it_speaks() {
    let registry = Registry::default();
    let (seat, _nudged, _) = connect(&registry, 1);
    let by = SessionId(1);
    let contested = ClaimError::Contested { name: AgentName::new("web-1").expect("name"), by };
    assert_eq!(claim(&registry, 1, 2).expect_err("it cannot name the session"), contested);

    let mut heard = registry.hears_of("web-1", by).expect("it lives");
    let heartbeat = Input::Message(fluke_model::message::ToServer::Heartbeat);
    seat.step(by, heartbeat, None, Clock::default().read()).expect("seated");
    assert!(heard.has_changed().expect("it lives"), "whoever waits hears that it speaks");
    heard.borrow_and_update();
    registry.give_up("web-1", SessionId(7));
    assert!(heard.has_changed().is_ok(), "another session's silence is not its own");

    registry.give_up("web-1", by);
    assert!(heard.has_changed().is_err() && registry.hears_of("web-1", by).is_none());
    claim(&registry, 1, 2).expect("the seat is free");
    let late = Input::Disconnected { why: "late".into() };
    assert!(seat.step(by, late, None, Clock::default().read()).is_none(), "its seat is another's");
}

#[test]
fn another_token_does_not_get_anybody_out_of_a_seat() {
    let registry = Registry::default();
    let (seat, _nudged, _) = connect(&registry, 1);
    let claim = |is_valid: bool| {
        let valid = move |_: Option<&str>| is_valid;
        let now = Clock::default().read();
        registry.claim(&hello(1), SessionId(2), Some("other"), valid, POLL, now)
    };
    let name = AgentName::new("web-1").expect("name");
    let error = claim(true).expect_err("the token of the name is good");
    assert_eq!(error, ClaimError::OtherToken(name.clone()), "nobody has to be listened for");
    let heartbeat = Input::Message(fluke_model::message::ToServer::Heartbeat);
    let step = seat.step(SessionId(1), heartbeat, None, Clock::default().read());
    assert!(step.is_some(), "it is still seated");
    registry.order("web-1", request("r1")).expect("still connected");

    // A token that is no longer good is no reason; the connection is one.
    let contested = ClaimError::Contested { name: name.clone(), by: SessionId(1) };
    assert_eq!(claim(false).expect_err("it lives"), contested);
    let error = claim(true).expect_err("the name is still known under the first token");
    assert_eq!(error, ClaimError::OtherToken(name));
}

#[test]
fn a_token_that_is_good_for_any_name_does_not_fill_the_memory() {
    let registry = Registry::default();
    let now = Clock::default().read();
    let claim = |n: usize, now| {
        let hello = Hello { name: AgentName::new(format!("a{n}")).expect("name"), ..hello(1) };
        registry.claim(&hello, SessionId(1), None, |_| true, POLL, now)
    };
    for n in 0..MOST {
        let (seat, _) = claim(n, now).expect("there is room");
        seat.step(SessionId(1), Input::Disconnected { why: "test".into() }, None, now);
    }
    assert_eq!(claim(MOST, now).expect_err("full"), ClaimError::TooMany);
    let later = Now { instant: now.instant + REMEMBERED, wall: now.wall.after(REMEMBERED) };
    claim(MOST, later).expect("those that went away are forgotten");
    assert_eq!(registry.names().len(), 1);
}

#[test]
fn pages_of_any_size_come_to_the_same_as_all_at_once() {
    let registry = Registry::default();
    for number in 0..300 {
        let hello =
            Hello { name: AgentName::new(format!("a{number:03}")).expect("name"), ..hello(1) };
        let now = Clock::default().read();
        registry.claim(&hello, SessionId(1), None, |_| true, POLL, now).expect("a free name");
    }
    let all: Vec<AgentName> = registry.agents().into_iter().map(|agent| agent.name).collect();
    assert_eq!(all, registry.names());
    for limit in [1, 99, 128, 129, 300, 1000] {
        let mut filter = AgentFilter { limit: Some(limit), ..AgentFilter::default() };
        let mut listed = Vec::new();
        loop {
            let page = registry.list(&filter);
            listed.extend(page.agents.into_iter().map(|agent| agent.name));
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        assert_eq!(listed, all, "{limit} at a time");
    }
}
