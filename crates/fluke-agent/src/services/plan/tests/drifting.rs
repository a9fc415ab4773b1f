//! What is said to differ: whatever the policy is, and whatever is done about it.

use super::*;

const POLICIES: [Policy; 3] = Policy::ALL;

/// A host that wants `web:2` of this policy and has these containers of it and of its predecessor.
fn host(policy: Policy, current: Option<Container>, before: Option<Container>) -> Host {
    let wanted = Deployment { policy, ..deployment("web", with_health("web:2")) };
    let mut host = Host::wanting(wanted);
    host.containers.extend(current.into_iter().chain(before));
    host
}

fn it(state: State, health: Health) -> Container {
    let web = deployment("web", with_health("web:2"));
    Container { health, started: None, ..container("new", &web, state) }
}

fn before(state: State) -> Container {
    container("old", &deployment("web", with_health("web:1")), state)
}

#[test]
fn drift_is_told_in_every_state_and_under_every_policy() {
    use Health::{Healthy, None as Unasked, Starting, Unhealthy};
    let tampered = Some("its image is another".to_owned());
    for (current, predecessor, said) in [
        (None, None, "its container is missing"),
        (None, Some(before(State::Exited)), "its container is missing"),
        (None, Some(before(State::Running)), "a container of an earlier version runs"),
        (Some(it(State::Exited, Unasked)), None, "its container does not run"),
        (Some(it(State::Created, Unasked)), None, "its container does not run"),
        (Some(it(State::Stuck, Unasked)), None, "its container does not run"),
        (Some(it(State::Changing, Unasked)), None, "somebody is changing it"),
        (Some(it(State::Running, Starting)), None, "it runs, and is not well yet"),
        (Some(it(State::Running, Unhealthy)), None, "it is not well"),
        (
            Some(Container { tampered, ..it(State::Running, Healthy) }),
            None,
            "its container was changed: its image is another",
        ),
    ] {
        for policy in POLICIES {
            let host = host(policy, current.clone(), predecessor.clone());
            assert_eq!(host.drift(), [said], "{policy:?}");
        }
    }
}

#[test]
fn what_a_container_complains_of_is_told_and_is_no_other_drift() {
    let note = |host: &Host| host.plan().reports.remove(0).note.unwrap_or_default();
    let complaint = Some("its health command ended with exit code 1: no".to_owned());
    for (health, how) in [
        (Health::Unhealthy, "it is not well"),
        (Health::Starting, "it did not become well in time"),
    ] {
        for predecessor in [None, Some(before(State::Running))] {
            for policy in POLICIES {
                let (complaint, now) = (complaint.clone(), Instant::now());
                let ill = Container { complaint, ..it(State::Running, health) };
                let mut host = host(policy, Some(ill), predecessor.clone());
                host.containers[0].asked_since = Some(now);
                host.now = now + Duration::from_secs(60);
                assert_eq!(host.drift(), [how], "{policy:?}");
                assert!(note(&host).contains("ended with exit code 1: no"), "{}", note(&host));
            }
        }
    }
}

#[test]
fn how_one_ended_that_does_not_stay_up_is_told() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::wanting(web.clone()).having(container("c", &web, State::Exited));
    let note = |host: &Host| host.plan().reports.remove(0).note.unwrap_or_default();
    let until = host.now + DRAIN;
    let often = Setback { is_restless: true, ..setback("it does not stay up", until) };
    host.setbacks.insert(web.id, often);
    for (code, out_of_memory, said) in [
        (3, false, "it does not stay up; its program ended with exit code 3; see `podman logs"),
        (137, true, "ended with exit code 137, for want of memory; see"),
    ] {
        host.containers[0].exit = Some(Exit { code, out_of_memory });
        assert!(note(&host).contains(said), "{}", note(&host));
    }
    host.setbacks.insert(web.id, setback("Podman would not start it", until));
    assert_eq!(note(&host), "Podman would not start it", "how it ended before says nothing");
}

#[test]
fn what_is_as_it_should_be_has_not_drifted_though_its_predecessor_still_drains() {
    for policy in POLICIES {
        let well = it(State::Running, Health::Healthy);
        let host = host(policy, Some(well), Some(before(State::Running)));
        assert_eq!(host.drift(), [""; 0], "{policy:?}");
    }
}

#[test]
fn what_did_not_stay_up_is_well_again_once_it_has_stayed_up_for_a_while() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::wanting(web.clone()).having(container("c", &web, State::Running));
    let until = host.now;
    host.setbacks.insert(web.id, setback("it does not stay up", until));
    assert_eq!(host.phases(), [(Phase::Running, true)], "it serves all the same");
    assert_eq!(host.drift().len(), 1);
    host.setbacks.clear();
    assert_eq!(host.drift(), [""; 0]);
}
