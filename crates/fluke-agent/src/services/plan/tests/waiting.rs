//! What a policy leaves to a human, or to when somebody can be told.

use super::*;

#[test]
fn one_that_is_not_well_waits_for_a_human_where_a_policy_says_so() {
    let web = Deployment { policy: Policy::AlertOnly, ..deployment("web", with_health("web:1")) };
    let mut host = Host::wanting(web.clone()).having(container("c", &web, State::Running));
    host.containers[0].health = Health::Unhealthy;
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.drift(), ["it is not well"]);
    host.asked = Asked::ForAll;
    assert_eq!(host.changes(), ["stop c: to be started again"]);
}

#[test]
fn what_a_policy_leaves_to_a_human_waits_for_one() {
    let web = Deployment { policy: Policy::AlertOnly, ..deployment("web", spec("web:1")) };
    let mut host = Host::wanting(web);
    let plan = host.plan();
    assert!(plan.changes.is_empty());
    assert_eq!(host.drift(), ["its container is missing"]);
    host.asked = Asked::For([service("db")].into());
    assert_eq!(host.changes(), [""; 0]);
    host.asked = Asked::For([service("web")].into());
    assert_eq!(host.changes(), ["deploy web:1"]);
}

#[test]
fn nothing_is_fetched_or_made_for_what_a_policy_leaves_to_a_human() {
    let web = Deployment { policy: Policy::AlertOnly, ..deployment("web", spec("web:1")) };
    let mut host = Host::wanting(web);
    host.network = Network::Missing;
    host.images.clear();
    let plan = host.plan();
    assert!(plan.changes.is_empty() && plan.fetch.is_empty());
    assert_eq!(host.drift(), ["its container is missing"]);
    assert!(plan.reports[0].note.as_ref().is_some_and(|note| note.contains("alert_only")));
    host.asked = Asked::ForAll;
    assert_eq!(host.changes(), ["make the network, replacing: false"]);
    assert!(host.plan().fetch.contains("web:1"));
}

#[test]
fn a_predecessor_goes_though_the_policy_would_not_have_begun_it() {
    let old = deployment("web", spec("web:1"));
    let new = Deployment { policy: Policy::AlertOnly, ..deployment("web", spec("web:2")) };
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Running))
        .having(container("new", &new, State::Running));
    host.released.insert(old.id, host.now - DRAIN);
    assert_eq!(host.changes(), ["stop old: succeeded"]);
    host.containers[0].state = State::Exited;
    assert_eq!(host.changes(), ["remove old: succeeded"]);
}

#[test]
fn what_was_stopped_for_a_successor_has_one_or_serves_again_though_the_leave_is_over() {
    let (old, new) = (deployment("db", with_both("db:1")), deployment("db", with_both("db:2")));
    let mut host = Host::wanting(Deployment { policy: Policy::AlertOnly, ..new.clone() })
        .having(container("old", &old, State::Running))
        .having(container("new", &new, State::Created));
    assert_eq!(host.changes(), [""; 0], "the old one serves");
    host.containers[0].state = State::Exited;
    host.containers[0].told_to_end = Some(Ending::MakesWay);
    assert_eq!(host.changes(), ["start new"], "it was stopped for it");
    host.containers[1].state = State::Exited;
    assert_eq!(host.changes(), ["start new"], "it may have ended for a passing reason");
    host.containers[1].state = State::Running;
    host.containers[1].health = Health::Unhealthy;
    assert_eq!(host.changes(), ["stop new: unwell"]);
    host.containers[1].state = State::Exited;
    host.containers[1].told_to_end = Some(Ending::Goes("it is not well".into()));
    assert_eq!(host.changes(), ["remove new: unwell"]);
    host.containers.pop();
    host.setbacks.insert(new.id, Setback { is_final: true, ..setback("it is ill", host.now) });
    assert_eq!(host.changes(), ["start old"]);
    host.containers[0].told_to_end = None;
    assert_eq!(host.changes(), [""; 0], "one that ends for other reasons waits for a human");
}

#[test]
fn what_is_to_be_told_waits_for_somebody_to_be_told() {
    let policy = Policy::RemediateAndAlert;
    let mut host = Host::wanting(Deployment { policy, ..deployment("web", spec("web:1")) });
    assert_eq!(host.changes(), ["deploy web:1"]);
    host.alone = true;
    assert_eq!(host.changes(), [""; 0]);
    host.wanted[0].policy = Policy::Remediate;
    assert_eq!(host.changes(), ["deploy web:1"]);
}

#[test]
fn what_waits_for_one_that_cannot_be_stopped_has_failed_and_says_why() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Running))
        .having(container("new", &new, State::Created));
    let until = host.now + DRAIN;
    host.held_up.insert("old".into(), setback("Podman would not stop it", until));
    let plan = host.plan();
    assert_eq!((plan.changes, plan.look_at), (vec![], Some(until)));
    let notes: Vec<_> = plan.reports.iter().map(|it| it.note.as_deref()).collect();
    assert_eq!(notes, [Some("Podman would not stop it"); 2]);
    assert_eq!(host.phases(), [(Phase::Failed, false), (Phase::Retiring, true)]);
    host.now = until;
    assert_eq!(host.changes(), ["stop old: makesway"]);
    assert_eq!(host.phases(), [(Phase::Stopped, false), (Phase::Retiring, true)]);
}

#[test]
fn of_one_that_nobody_wants_and_that_cannot_be_stopped_it_is_said_why() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::new().having(container("c", &web, State::Running));
    host.released.insert(web.id, host.now - DRAIN);
    host.held_up.insert("c".into(), setback("Podman would not stop it", host.now + DRAIN));
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.plan().reports[0].note.as_deref(), Some("Podman would not stop it"));
}

#[test]
fn what_could_not_be_stopped_is_started_as_soon_as_it_has_ended() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::wanting(web.clone()).having(container("c", &web, State::Exited));
    let until = host.now + Duration::from_secs(600);
    host.held_up.insert("c".into(), setback("Podman would not stop it", until));
    assert_eq!(host.changes(), ["start c"]);
}

#[test]
fn what_was_given_up_for_good_makes_room_for_what_served_before_wherever_it_ends() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Exited))
        .having(container("new", &new, State::Exited));
    let is_over = setback("it is ill", host.now);
    host.setbacks.insert(new.id, Setback { is_final: true, ..is_over.clone() });
    assert_eq!(host.changes(), ["remove new: unwell"]);
    // Podman did it all the same.
    let unheard = Setback { is_final: true, is_unheard: true, ..is_over.clone() };
    let a_moment_before = host.now.checked_sub(Duration::from_millis(1)).expect("it was");
    for until in [host.now, a_moment_before] {
        host.setbacks.insert(new.id, Setback { until, ..unheard.clone() });
        assert_eq!(host.changes(), ["remove new: unwell"], "nobody waits for what is over");
    }
    let mut ahead = host.clone();
    ahead.containers[0].state = State::Running;
    ahead.containers[1].state = State::Created;
    assert_eq!(ahead.changes(), ["remove new: unwell"], "what serves is not stopped for it");
    host.setbacks.insert(new.id, is_over);
    assert_eq!(host.changes(), ["start new"], "one that may be tried again is");
    host.containers.remove(0);
    host.setbacks.values_mut().for_each(|it| it.is_final = true);
    assert_eq!(host.changes(), ["start new"], "nothing else could serve");
}

#[test]
fn what_was_given_up_for_good_has_another_try_where_nothing_is_well_without_it() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone()).having(container("old", &old, State::Running));
    host.setbacks.insert(new.id, Setback { is_final: true, ..setback("it is ill", host.now) });
    assert_eq!(host.changes(), [""; 0], "it serves, and would be stopped for it");
    host.containers[0].health = Health::Unhealthy;
    assert_eq!(host.changes(), ["make ahead db:2"]);
    host.containers.push(container("new", &new, State::Created));
    assert_eq!(host.changes(), ["stop old: makesway"]);
    host.containers[0].health = Health::Healthy;
    host.containers[0].state = State::Changing;
    assert_eq!(host.changes(), [""; 0], "it ends, whatever Podman last knew of it");
    host.containers[0].state = State::Exited;
    assert_eq!(host.changes(), ["start new"], "it was stopped for this");
    host.containers[0].state = State::Running;
    host.containers[0].health = Health::None;
    assert_eq!(host.changes(), ["remove new: unwell"], "it serves after all");
}

#[test]
fn what_podman_forgot_is_in_the_way_of_whatever_has_its_volumes() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new).having(container("old", &old, State::Stuck));
    assert_eq!(host.changes(), ["remove old: stuck"]);
    host.wanted = vec![Deployment { policy: Policy::AlertOnly, ..old }];
    assert_eq!(host.changes(), [""; 0], "its policy has it left to a human");
    host.held_up.insert("old".into(), setback("process 7 does not end", host.now + DRAIN));
    host.wanted[0].policy = Policy::Remediate;
    assert_eq!(host.changes(), [""; 0], "nothing is made beside it");
    assert_eq!(host.plan().reports[0].note.as_deref(), Some("process 7 does not end"));
}
