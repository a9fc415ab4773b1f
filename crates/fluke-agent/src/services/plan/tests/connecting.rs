//! The network that containers are in: it is another, or cannot be made.

use super::*;

fn note(host: &Host) -> String {
    host.plan().reports.remove(0).note.unwrap_or_default()
}

/// A host where `web` serves in a network that is another than it should be.
fn moving() -> Host {
    let web = deployment("web", spec("web:1"));
    // As it is found to be where the subnet is another.
    let tampered = Some("its address is not of this host's subnet".into());
    let it = Container { tampered, ..container("web", &web, State::Running) };
    let network = Network::Other("its subnet is another".into());
    Host { network, ..Host::wanting(web).having(it) }
}

/// The same with a neighbour of this policy.
fn moving_beside(policy: Policy) -> Host {
    let db = Deployment { policy, ..deployment("db", spec("db:1")) };
    let mut host = moving().having(container("neighbour", &db, State::Running));
    host.wanted.push(db);
    host
}

#[test]
fn what_serves_is_not_taken_away_for_a_network_that_cannot_be_made_anew() {
    let theirs = Container { in_network: true, ..somebody_elses("neighbour") };
    let db = deployment("db", spec("db:1"));
    let mut unknown = moving().having(container("neighbour", &db, State::Running));
    unknown.not_understood.insert(db.service);
    let policy = Policy::RemediateAndAlert;
    let alone = Host { alone: true, ..moving_beside(policy) };
    for (host, why) in [
        (moving().having(theirs), "neighbour, which is not fluke's, is in it: take it out"),
        (moving_beside(Policy::AlertOnly), "neighbour is in it, of db, whose policy is alert_only"),
        (alone, "whose policy is remediate_and_alert"),
        (unknown, "neighbour is in it, of db, which this agent is too old for"),
    ] {
        assert_eq!(host.changes(), [""; 0], "{why}");
        let plan = host.plan();
        let web = plan.reports.iter().find(|it| it.service.as_str() == "web").expect("it is said");
        assert_eq!((web.phase, web.serves), (Phase::Running, true), "{why}");
        let said = web.note.as_deref().unwrap_or_default();
        assert!(said.contains("its subnet is another") && said.contains(why), "{said}");
        assert!(matches!(&web.verdict, Verdict::Drifted(drift) if drift.reason == said));
        assert_eq!(plan.network_problem.as_deref(), Some(said));
    }
}

#[test]
fn a_network_is_emptied_once_all_that_is_in_it_may_go() {
    let all = ["stop neighbour: tampered", "stop web: tampered"];
    assert_eq!(moving_beside(Policy::Remediate).changes(), all);
    let asked = Asked::ForAll;
    assert_eq!(Host { asked, ..moving_beside(Policy::AlertOnly) }.changes(), all);
    // What nobody wants any more is in nobody's way.
    let db = deployment("db", spec("db:1"));
    let host = moving().having(container("neighbour", &db, State::Running));
    assert_eq!(host.changes(), all);
    // Where the host is ours, strangers go.
    let theirs = Container { in_network: true, ..somebody_elses("neighbour") };
    let host = Host { exclusive: true, ..moving().having(theirs) };
    assert_eq!(host.changes(), ["stop neighbour: orphan", "stop web: tampered"]);
}

#[test]
fn what_ends_in_a_network_that_has_to_stay_is_started_again_in_it() {
    let mut host = moving_beside(Policy::AlertOnly);
    host.containers[0].state = State::Exited;
    assert_eq!(host.changes(), ["start web"]);
    let (id, until) = (host.wanted[0].id, host.now + DRAIN);
    host.setbacks.insert(id, setback("it does not stay up", until));
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.plan().look_at, Some(until));
}

#[test]
fn one_that_is_not_well_in_a_network_that_has_to_stay_is_started_again_in_it() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", with_health("web:2")));
    let mut host = moving_beside(Policy::AlertOnly);
    host.wanted[0] = new.clone();
    host.containers[0] = container("new", &new, State::Running);
    host.containers[0].health = Health::Unhealthy;
    for has_another in [false, true] {
        assert_eq!(host.changes(), ["stop new: to be started again"], "{has_another}");
        let said =
            host.plan().reports.into_iter().find_map(|it| it.note.filter(|_| it.id == new.id));
        let said = said.expect("it is said");
        assert!(said.contains("it is not well") && said.contains("cannot be made anew"), "{said}");
        host.containers.push(container("old", &old, State::Exited));
    }
    host.containers[0].told_to_end = Some(Ending::Returns("it is not well".into()));
    host.containers[0].state = State::Exited;
    assert_eq!(host.changes(), ["start new"]);
}

#[test]
fn one_that_somebody_took_out_of_a_network_that_has_to_stay_is_left_where_it_is() {
    let mut host = moving_beside(Policy::AlertOnly);
    host.containers[0].in_network = false;
    assert_eq!(host.changes(), [""; 0], "it could not come back");
}

#[test]
fn a_network_of_which_nothing_is_told_is_left_alone() {
    let mut host = moving_beside(Policy::Remediate);
    host.containers[0].tampered = None;
    host.network = Network::Untold;
    assert_eq!((host.changes(), host.plan().network_problem), (vec![], None));
}

#[test]
fn what_is_missing_waits_for_a_network_that_has_to_stay_and_says_so() {
    let mut host = moving_beside(Policy::AlertOnly);
    host.containers.remove(0);
    assert_eq!(host.changes(), [""; 0]);
    assert!(host.phases().contains(&(Phase::Failed, false)), "nobody waits for it to pass");
    let reports = host.plan().reports;
    let said = reports.iter().filter_map(|it| it.note.as_deref());
    assert_eq!(said.filter(|it| it.contains("cannot be made anew")).count(), 2);
}

#[test]
fn why_a_network_cannot_be_made_is_said_of_all_that_wait_for_it() {
    let web = deployment("web", spec("web:1"));
    for found in [None, Some(container("web", &web, State::Exited))] {
        let phase = if found.is_some() { Phase::Stopped } else { Phase::Missing };
        let mut host = Host { network: Network::Missing, ..Host::wanting(web.clone()) };
        host.containers.extend(found);
        assert_eq!(note(&host), "its network is not there yet");
        assert_eq!(host.phases(), [(phase, false)]);
        let until = host.now + DRAIN;
        host.held_up.insert(THE_NETWORK.into(), setback("its subnet is in use", until));
        assert_eq!(note(&host), "its network cannot be made: its subnet is in use");
        assert_eq!(host.phases(), [(Phase::Failed, false)]);
        assert_eq!((host.changes(), host.plan().look_at), (vec![], Some(until)));
        host.now = until;
        assert_eq!(host.changes(), ["make the network, replacing: false"]);
        assert_eq!(host.phases(), [(phase, false)]);
    }
}
