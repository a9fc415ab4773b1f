use std::sync::LazyLock;

use fluke_model::service::ContainerSpec;

use super::*;
use crate::services::fixture;
use crate::services::plan::Deployment;

fn deployment() -> Deployment {
    let health = HealthSpec {
        command: "true".into(),
        interval_ms: 10_000,
        timeout_ms: 2_000,
        retries: 2,
        start_period_ms: 0,
    };
    let spec = fixture::spec("web:1");
    fixture::deployment("web", ContainerSpec { health: Some(health), ..spec })
}

fn container(health: Health, started: Instant) -> Container {
    let container = fixture::container("c", &deployment(), State::Running);
    Container { health, started: Some(started), process: Some(1), ..container }
}

/// How long after its start a container is asked, until `end`, if it never gets well.
fn asked_at(health: Health, end: Duration) -> Vec<u64> {
    let start = Instant::now();
    let mut rounds = Rounds::default();
    let mut now = start;
    let mut asked = Vec::new();
    loop {
        rounds.see([container(health, start)].iter(), now);
        for question in rounds.due(now) {
            asked.push((now - start).as_millis() as u64);
            rounds.answered(&question, Answer::Unwell(None), nothing, now);
        }
        now = rounds.next().expect("it goes on");
        if now > start + end {
            return asked;
        }
    }
}

/// A container that was given nothing that must not be told.
fn nothing(_: DeploymentId) -> Option<&'static Secrets> {
    static NOTHING: LazyLock<Secrets> = LazyLock::new(Secrets::default);
    Some(&NOTHING)
}

/// What it is asked in this one of its lives.
fn asked(process: i32) -> Question {
    let limit = Duration::from_secs(2);
    Question { container: "c".into(), process: Some(process), limit }
}

fn answer(well: bool) -> Answer {
    if well { Answer::Well } else { Answer::Unwell(None) }
}

#[test]
fn who_has_just_started_is_asked_often_and_then_as_the_manifest_says() {
    let expected = [0, 250, 500, 750, 1125, 1687, 2531, 3796, 5695, 8542, 12814, 22814];
    let asked = asked_at(Health::Starting, Duration::from_secs(30));
    // Halves of odd numbers of microseconds do not matter.
    let is_near = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= 2;
    assert_eq!(asked.len(), expected.len(), "{asked:?}");
    assert!(asked.iter().zip(&expected).all(is_near), "{asked:?}");
    assert_eq!(asked_at(Health::Healthy, Duration::from_secs(25)), [0, 10_000, 20_000]);
}

#[test]
fn an_answer_is_worth_a_look_when_it_is_another() {
    let now = Instant::now();
    for (known, well, worth) in [
        (Health::Starting, true, true),
        (Health::Healthy, true, false),
        (Health::Healthy, false, true),
        (Health::Unhealthy, false, false),
        (Health::Unhealthy, true, true),
    ] {
        let mut rounds = Rounds::default();
        rounds.see([container(known, now)].iter(), now);
        assert_eq!(rounds.due(now).len(), 1);
        assert_eq!(rounds.due(now), [], "one question at a time");
        assert_eq!(
            rounds.answered(&asked(1), answer(well), nothing, now),
            worth,
            "{known:?} {well}"
        );
    }
}

#[test]
fn who_does_not_answer_is_not_well_and_is_asked_less() {
    let now = Instant::now();
    let mut rounds = Rounds::default();
    rounds.see([container(Health::Healthy, now)].iter(), now);
    rounds.due(now);
    assert!(!rounds.answered(&asked(1), Answer::Silence, nothing, now) && !rounds.is_silent("c"));
    rounds.due(rounds.next().expect("it goes on"));
    assert!(!rounds.answered(&asked(1), Answer::NotHeard, nothing, now) && !rounds.is_silent("c"));
    rounds.due(rounds.next().expect("it goes on"));
    assert!(rounds.answered(&asked(1), Answer::Silence, nothing, now) && rounds.is_silent("c"));
    assert_eq!(rounds.next(), Some(now + Duration::from_secs(40)));
    rounds.answered(&asked(1), Answer::Well, nothing, now);
    assert!(!rounds.is_silent("c"));
}

#[test]
fn what_was_last_complained_of_is_known_until_it_is_well() {
    const NO: &str = "its health command ended with exit code 1: no";
    let now = Instant::now();
    let mut rounds = Rounds::default();
    rounds.see([container(Health::Healthy, now)].iter(), now);
    for (answer, complaint) in [
        (Answer::Unwell(Some(Finding { exit_code: 1, output: "no".into() })), Some(NO)),
        (Answer::NotHeard, Some(NO)),
        (Answer::Silence, Some(NO_ANSWER)),
        (Answer::Well, None),
    ] {
        rounds.answered(&asked(1), answer.clone(), nothing, now);
        assert_eq!(rounds.complaint("c"), complaint, "{answer:?}");
    }
}

#[test]
fn a_restart_begins_anew_and_who_is_gone_is_not_asked() {
    let start = Instant::now();
    let mut rounds = Rounds::default();
    rounds.see([container(Health::Healthy, start)].iter(), start);
    rounds.due(start);
    rounds.answered(&asked(1), Answer::Well, nothing, start);
    let later = start + Duration::from_secs(5);
    let again = Container { process: Some(2), ..container(Health::Starting, later) };
    rounds.see([again].iter(), later);
    assert_eq!(rounds.next(), Some(later));
    assert_eq!(rounds.due(later), [asked(2)]);
    assert!(!rounds.answered(&asked(1), Answer::Well, nothing, later), "it was asked before");
    assert_eq!(rounds.next(), None, "its own answer is still to come");
    assert!(rounds.answered(&asked(2), Answer::Well, nothing, later));
    rounds.see([].iter(), later);
    assert_eq!(rounds.next(), None);
}

#[test]
fn a_complaint_is_told_without_what_the_host_gave_and_without_what_moves_a_cursor() {
    let (mut rounds, now) = (Rounds::default(), Instant::now());
    rounds.see([container(Health::Healthy, now)].iter(), now);
    let secrets = Secrets::new([&b"hunter2"[..]]);
    let mut told = |output: &str, secrets: Option<&Secrets>| {
        let finding = Finding { exit_code: 7, output: output.into() };
        rounds.answered(&asked(1), Answer::Unwell(Some(finding)), |_| secrets, now);
        rounds.complaint("c").expect("it complained").to_owned()
    };
    let how = "its health command ended with exit code 7";
    assert_eq!(told("", Some(&secrets)), how);
    assert_eq!(
        told("no way\n\x1b[31mto db:hunter2@db\r\n", Some(&secrets)),
        format!("{how}: to db:•••@db")
    );
    assert_eq!(told("to hunter2", None), how, "nobody knows what is a secret of it");
    let cut = format!("first\n{}\nhunt", "x".repeat(490));
    assert!(!told(&cut, Some(&secrets)).contains("hunt"), "half a secret is one");
    let cut = format!("{}hunt", "x".repeat(496));
    assert_eq!(told(&cut, Some(&secrets)), how, "so it is in the only line");
}

#[test]
fn who_could_not_be_asked_has_all_its_time_again_and_what_is_known_of_it_stays() {
    let (mut rounds, start) = (Rounds::default(), Instant::now());
    let seen =
        |rounds: &mut Rounds, now| rounds.see([container(Health::Healthy, start)].iter(), now);
    seen(&mut rounds, start);
    for _ in 0..2 {
        rounds.due(rounds.next().expect("it goes on"));
        rounds.answered(&asked(1), Answer::Silence, nothing, start);
    }
    assert!(rounds.is_silent("c"));
    rounds.in_the_dark();
    assert_eq!((rounds.next(), rounds.due(start + Duration::from_secs(100))), (None, vec![]));
    let later = start + Duration::from_secs(5);
    seen(&mut rounds, later);
    assert_eq!(rounds.since("c", Some(1)), Some(later));
    assert!(!rounds.is_silent("c") && rounds.complaint("c") == Some(NO_ANSWER));
    assert_eq!(rounds.due(later), [asked(1)], "it may have been Podman that was silent");
    assert!(rounds.answered(&asked(1), Answer::Silence, nothing, later) && rounds.is_silent("c"));
    seen(&mut rounds, later + Duration::from_secs(1));
    assert_eq!(rounds.since("c", Some(1)), Some(later), "once");
}

#[test]
fn who_is_being_asked_when_it_gets_dark_is_not_asked_twice() {
    let (mut rounds, start) = (Rounds::default(), Instant::now());
    rounds.see([container(Health::Healthy, start)].iter(), start);
    assert_eq!(rounds.due(start), [asked(1)]);
    rounds.in_the_dark();
    let later = start + Duration::from_secs(60);
    rounds.see([container(Health::Healthy, start)].iter(), later);
    assert_eq!((rounds.next(), rounds.due(later)), (None, vec![]));
    assert!(rounds.answered(&asked(1), Answer::Unwell(None), nothing, later), "it was heard");
    assert_eq!(rounds.next(), Some(later + Duration::from_secs(10)));
}
