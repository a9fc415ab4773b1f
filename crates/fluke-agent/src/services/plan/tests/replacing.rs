//! One version takes over from another.

use super::*;

#[test]
fn a_successor_starts_first_and_serves_before_its_predecessor_goes() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", with_health("web:2")));
    let mut host = Host::wanting(new.clone()).having(container("old", &old, State::Running));
    assert_eq!(host.changes(), ["replace by web:2"]);
    assert_eq!(host.phases(), [(Phase::Missing, false), (Phase::Retiring, true)]);

    host.containers.push(container("new", &new, State::Running));
    host.containers[1].asked_since = Some(host.now);
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.phases(), [(Phase::Starting, false), (Phase::Retiring, true)]);

    host.containers[1].health = Health::Healthy;
    assert_eq!(host.phases(), [(Phase::Running, true), (Phase::Retiring, false)]);
    assert_eq!(host.changes(), [""; 0], "something may still lead to it");
    host.released.insert(old.id, host.now - DRAIN);
    assert_eq!(host.changes(), ["stop old: succeeded"]);
}

#[test]
fn a_predecessor_that_has_to_serve_again_is_led_to_whatever_was_said_before() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", with_health("web:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Running))
        .having(container("new", &new, State::Running));
    host.containers[1].health = Health::Healthy;
    assert!(!host.plan().leads_again_to(old.id));
    host.containers[1].health = Health::Unhealthy;
    assert!(host.plan().leads_again_to(old.id));
    // One that has no successor here goes, though it serves to its end.
    host.wanted.clear();
    assert!(!host.plan().leads_again_to(old.id));
}

#[test]
fn without_a_health_check_a_successor_serves_once_it_listens() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", spec("web:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Running))
        .having(container("new", &new, State::Running));
    host.released.insert(old.id, host.now - DRAIN);
    (host.containers[1].started, host.containers[1].silent_at) = (Some(host.now), Some(3000));
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.phases(), [(Phase::Starting, false), (Phase::Retiring, true)]);
    let plan = host.plan();
    let note = plan.reports[0].note.as_deref();
    assert_eq!(note, Some("it runs, and nothing listens at port 3000 yet"));
    assert_eq!(plan.look_at, Some(host.now + Duration::from_secs(10)));

    host.containers[1].silent_at = None;
    assert_eq!(host.phases(), [(Phase::Running, true), (Phase::Retiring, false)]);
    assert_eq!(host.changes(), ["stop old: succeeded"]);
    assert_eq!(host.plan().reports[0].note, None);
}

#[test]
fn one_that_does_not_listen_in_time_counts_as_well_and_it_is_said() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", spec("web:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Running))
        .having(container("new", &new, State::Running));
    (host.containers[1].started, host.containers[1].silent_at) = (Some(host.now), Some(3000));
    host.now += Duration::from_secs(10);
    assert_eq!(host.phases(), [(Phase::Running, true), (Phase::Retiring, false)]);
    assert_eq!(host.plan().reports[0].note.as_deref(), Some("nothing listens at port 3000"));
}

#[test]
fn a_predecessor_that_does_not_listen_yet_is_not_led_to_either() {
    let [first, second, third] = ["web:1", "web:2", "web:3"].map(|it| deployment("web", spec(it)));
    let mut host = Host::wanting(third)
        .having(container("first", &first, State::Running))
        .having(container("second", &second, State::Running));
    (host.containers[1].started, host.containers[1].silent_at) = (Some(host.now), Some(3000));
    let reports = host.plan().reports;
    let serves = |id: &str| reports.iter().find(|it| it.container.as_deref() == Some(id));
    assert_eq!(serves("first").map(|it| it.serves), Some(true));
    assert_eq!(serves("second").map(|it| it.serves), Some(false));
    let patience = host.now + Duration::from_secs(10);
    assert_eq!(host.plan().look_at, Some(patience), "it is waited for no longer");
}

#[test]
fn a_successor_that_does_not_become_well_goes_and_its_predecessor_stays() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", with_health("web:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Running))
        .having(container("new", &new, State::Running));
    host.containers[1].asked_since = Some(host.now);
    // 4 s to start, and three rounds of at most 2 s.
    assert_eq!(host.plan().look_at, Some(host.now + Duration::from_secs(10)));
    host.now += Duration::from_secs(10);
    assert_eq!(host.changes(), ["stop new: unwell"]);
    host.containers[1].told_to_end = Some(Ending::Goes("it did not".into()));
    host.containers[1].state = State::Changing;
    assert_eq!(host.changes(), [""; 0], "it has its time to end");
    host.containers[1].state = State::Exited;
    assert_eq!(host.changes(), ["remove new: unwell"], "it is not started again");
    host.containers.pop();
    let setback = setback("it did not", host.now + DRAIN);
    host.setbacks.insert(new.id, setback);
    assert_eq!(host.changes(), [""; 0], "not at once");
    assert_eq!(host.phases(), [(Phase::Failed, false), (Phase::Retiring, true)]);
    host.now += DRAIN;
    assert_eq!(host.changes(), ["replace by web:2"]);
}

#[test]
fn what_serves_is_not_stopped_again_for_a_successor_that_was_no_good() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone()).having(container("old", &old, State::Exited));
    let setback = Setback { is_final: true, ..setback("it did not become well", host.now) };
    host.setbacks.insert(new.id, setback);
    assert_eq!(host.changes(), ["start old"]);
    host.containers[0].state = State::Running;
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.phases(), [(Phase::Failed, false), (Phase::Retiring, true)]);
    let plan = host.plan();
    assert_eq!(plan.look_at, None, "it is for somebody to say");
    let note = plan.reports[0].note.as_deref().unwrap_or_default();
    assert!(note.starts_with("it did not become well; the old version serves"), "{note}");
    assert!(note.ends_with("or by `fluke reconcile service db`"), "{note}");
    // Nothing is lost by another try once nothing serves.
    host.containers[0].health = Health::Unhealthy;
    assert_eq!(host.changes(), ["make ahead db:2"]);
    host.containers.clear();
    assert_eq!(host.changes(), ["deploy db:2"]);
}

#[test]
fn what_serves_is_not_stopped_for_a_successor_that_cannot_be_made() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone()).having(container("old", &old, State::Running));
    let until = host.now + DRAIN;
    host.setbacks.insert(new.id, setback("Podman would not", until));
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.phases(), [(Phase::Failed, false), (Phase::Retiring, true)]);
    host.now = until;
    assert_eq!(host.changes(), ["make ahead db:2"], "it may be tried as often as anybody likes");
}

#[test]
fn what_was_made_ahead_and_cannot_be_started_goes_and_its_predecessor_serves_again() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Exited))
        .having(container("new", &new, State::Created));
    host.setbacks.insert(new.id, setback("no such program", host.now + DRAIN));
    assert_eq!(host.changes(), ["remove new: unwell"]);
    host.containers.pop();
    assert_eq!(host.changes(), ["start old"]);
}

#[test]
fn a_successor_is_not_given_up_because_nobody_answered_whether_it_was_started() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Exited))
        .having(container("new", &new, State::Created));
    let until = host.now + DRAIN;
    let unheard = Setback { is_unheard: true, ..setback("Podman took more than 60 s", until) };
    host.setbacks.insert(new.id, unheard);
    let plan = host.plan();
    assert_eq!((plan.changes, plan.look_at), (vec![], Some(until)));
    assert_eq!(plan.reports[0].note.as_deref(), Some("Podman took more than 60 s"));
    host.now = until;
    assert_eq!(host.changes(), ["start new"]);
}

#[test]
fn what_was_made_ahead_of_another_version_is_nothing_to_go_back_to() {
    let [first, second, third] =
        ["db:1", "db:2", "db:3"].map(|it| deployment("db", with_volume(it)));
    let mut host = Host::wanting(third.clone())
        .having(container("first", &first, State::Running))
        .having(container("second", &second, State::Created));
    assert_eq!(host.changes(), ["remove second: stuck"]);
    host.containers.pop();
    assert_eq!(host.changes(), ["make ahead db:3"]);
    // Somebody thinks better of it.
    host.wanted = vec![first];
    host.containers.push(container("third", &third, State::Created));
    assert_eq!(host.changes(), ["remove third: succeeded"]);
}

#[test]
fn what_was_made_and_never_started_serves_in_nobodys_place() {
    for make in [with_health, with_both] {
        let (old, new) = (deployment("web", make("web:1")), deployment("web", make("web:2")));
        // The agent ended before it started the new one, and somebody thinks better of that.
        let mut host = Host::wanting(old.clone())
            .having(container("old", &old, State::Running))
            .having(container("new", &new, State::Created));
        host.containers[0].health = Health::Unhealthy;
        assert_eq!(host.changes(), ["stop old: to be started again"]);
        host.containers[0].state = State::Exited;
        let until = host.now + DRAIN;
        host.setbacks.insert(old.id, setback("it does not stay up", until));
        assert_eq!(host.changes(), [""; 0]);
        host.containers.remove(0);
        assert_eq!(host.changes(), [""; 0], "whatever became of the old one");
        host.containers[0].started = Some(host.now - DRAIN);
        assert_eq!(host.changes(), ["start new"], "it ran before the host was started");
    }
}

#[test]
fn a_predecessor_that_does_not_stay_up_is_started_after_pauses() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", spec("web:2")));
    let mut host = Host::wanting(new).having(container("old", &old, State::Exited));
    let until = host.now + DRAIN;
    host.images.insert("web:2".into(), Image::Coming("soon".into()));
    host.setbacks.insert(old.id, setback("it does not stay up", until));
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.plan().look_at, Some(until));
    host.now = until;
    assert_eq!(host.changes(), ["start old"]);
}

#[test]
fn a_predecessor_is_not_started_while_another_one_ends() {
    let [first, second, third] =
        ["db:1", "db:2", "db:3"].map(|it| deployment("db", with_volume(it)));
    let mut host = Host::wanting(third)
        .having(container("first", &first, State::Exited))
        .having(container("second", &second, State::Changing));
    host.images.insert("db:3".into(), Image::Coming("soon".into()));
    assert_eq!(host.changes(), [""; 0]);
}

#[test]
fn the_predecessor_goes_on_while_the_image_cannot_be_had() {
    for make in [spec, with_volume] {
        let (old, new) = (deployment("web", make("web:1")), deployment("web", make("web:2")));
        let mut host = Host::wanting(new).having(container("old", &old, State::Running));
        let until = host.now + DRAIN;
        host.images.insert("web:2".into(), Image::Failed("no such image".into(), until));
        assert_eq!(host.changes(), [""; 0]);
        assert_eq!(host.phases(), [(Phase::Failed, false), (Phase::Retiring, true)]);
    }
}

#[test]
fn a_predecessor_that_becomes_ill_is_started_again_while_its_successor_cannot_be_had() {
    for make in [with_health, with_both] {
        let (old, new) = (deployment("web", make("web:1")), deployment("web", make("web:2")));
        let mut host = Host::wanting(new).having(container("old", &old, State::Running));
        let until = host.now + DRAIN;
        host.images.insert("web:2".into(), Image::Failed("no such image".into(), until));
        for (health, done) in [
            (Health::Healthy, vec![]),
            (Health::Starting, vec![]),
            (Health::Unhealthy, vec!["stop old: to be started again"]),
        ] {
            host.containers[0].health = health;
            assert_eq!(host.changes(), done, "{health:?}");
        }
        host.setbacks.insert(old.id, setback("it does not stay up", until));
        assert_eq!(host.changes(), [""; 0], "it has its pause");
        host.setbacks.clear();
        host.wanted[0].policy = Policy::AlertOnly;
        assert_eq!(host.changes(), [""; 0]);
        host.wanted[0].policy = Policy::Remediate;
        host.containers[0].state = State::Exited;
        host.containers[0].told_to_end = Some(Ending::Returns("it is not well".into()));
        assert_eq!(host.changes(), ["start old"]);
    }
}

#[test]
fn what_was_made_with_other_values_of_this_host_is_what_came_before() {
    for make in [spec, with_volume] {
        let web = deployment("web", make("web:1"));
        let mut old = container("old", &web, State::Running);
        old.outdated = Some("its variable KEY has another value".into());
        old.origin.deployment = Some(deployment("web", make("another")).id);
        let mut host = Host::wanting(web.clone()).having(old);
        let how = if web.spec.is_stateful() { "make ahead" } else { "make anew" };
        assert_eq!(host.changes(), [format!("{how} web:1")]);
        host.wanted[0].policy = Policy::AlertOnly;
        let told = "its variable KEY has another value".to_string();
        assert_eq!(host.drift(), [told]);
    }
}

#[test]
fn a_successor_that_does_not_stay_up_makes_way_for_its_predecessor() {
    for make in [spec, with_volume] {
        let (old, new) = (deployment("web", make("web:1")), deployment("web", make("web:2")));
        let mut host = Host::wanting(new.clone())
            .having(container("old", &old, State::Exited))
            .having(container("new", &new, State::Exited));
        let setback = setback("it ended at once", host.now + DRAIN);
        host.setbacks.insert(new.id, setback);
        assert_eq!(host.changes(), ["remove new: unwell"]);
        host.containers.pop();
        assert_eq!(host.changes(), ["start old"]);
    }
}

#[test]
fn what_ran_before_the_host_was_started_is_kept_until_its_successor_serves() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone()).having(container("old", &old, State::Created));
    assert_eq!(host.changes(), ["remove old: stuck"], "nobody ever knew it well");
    host.containers[0].started = Some(host.now);
    assert_eq!(host.changes(), ["replace by db:2"]);
    let setback = setback("Podman would not", host.now + DRAIN);
    host.setbacks.insert(new.id, setback);
    assert_eq!(host.changes(), ["start old"]);
    host.setbacks.clear();
    host.containers.push(container("new", &new, State::Created));
    assert_eq!(host.changes(), ["start new"]);
    // Somebody is about to start it.
    host.containers[0].process = Some(7);
    assert_eq!(host.changes(), ["remove old: stuck"]);
}

#[test]
fn nothing_serves_again_beside_what_may_still_have_its_volumes() {
    let [first, second, third] =
        ["db:1", "db:2", "db:3"].map(|it| deployment("db", with_volume(it)));
    // Whoever began to stop the second did not get to the end, and the third is not here.
    let mut host = Host::wanting(third)
        .having(container("first", &first, State::Exited))
        .having(container("second", &second, State::Stuck));
    host.images.clear();
    for state in [State::Stuck, State::Created] {
        (host.containers[1].state, host.containers[1].started) = (state, None);
        assert_eq!(host.changes(), ["remove second: stuck"], "{state:?}");
    }
    host.containers.pop();
    assert_eq!(host.changes(), ["start first"]);
}

#[test]
fn in_a_network_that_has_to_stay_neither() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let theirs = Container { in_network: true, ..somebody_elses("theirs") };
    let mut host = Host::wanting(new.clone())
        .having(theirs)
        .having(container("old", &old, State::Exited))
        .having(container("new", &new, State::Stuck));
    host.network = Network::Other("so".into());
    assert_eq!(host.changes(), ["remove new: stuck"]);
    host.containers.pop();
    assert_eq!(host.changes(), ["start old"]);
}

#[test]
fn one_is_not_started_while_another_one_of_the_same_may_still_have_its_volumes() {
    let db = deployment("db", with_volume("db:1"));
    let mut host = Host::wanting(db.clone())
        .having(container("one", &db, State::Exited))
        .having(container("other", &db, State::Changing));
    assert_eq!(host.changes(), [""; 0]);
    host.containers[1].state = State::Stuck;
    assert_eq!(host.changes(), ["remove other: double"]);
    host.held_up.insert("other".into(), setback("Podman would not", host.now + DRAIN));
    assert_eq!(host.changes(), [""; 0]);
    host.containers.pop();
    assert_eq!(host.changes(), ["start one"]);
}
