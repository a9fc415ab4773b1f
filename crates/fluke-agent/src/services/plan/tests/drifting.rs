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
    host.setbacks.insert(web.id, Setback { why: "it does not stay up".into(), until });
    assert_eq!(host.phases(), [(Phase::Running, true)], "it serves all the same");
    assert_eq!(host.drift().len(), 1);
    host.setbacks.clear();
    assert_eq!(host.drift(), [""; 0]);
}
