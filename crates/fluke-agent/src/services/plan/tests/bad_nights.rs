//! Any sequence of snapshots, crashes and deaths, played against a Podman of the mind.

mod world;

use fluke_model::service::Replica;
use proptest::prelude::*;

use super::*;
use world::{Night, World, late_night, night};

proptest! {
    #[test]
    fn ends_with_what_git_says_and_nothing_else(
        exclusive: bool, nights in prop::collection::vec(night(), 0..60),
    ) {
        let mut world = World::new();
        world.host.exclusive = exclusive;
        let theirs = |world: &World| world.host.containers.iter().find(|it| it.id == "theirs").cloned();
        for night in nights {
            world.happens(night);
            prop_assert!(exclusive || theirs(&world) == Some(somebody_elses("theirs")));
            says_what_it_is_about_to_change(&world)?;
        }
        world.calms_down();
        prop_assert_eq!(theirs(&world).is_none(), exclusive);
        prop_assert_eq!(world.host.drift(), [""; 0]);
        let mut is: Vec<_> = world
            .ours()
            .map(|at| &world.host.containers[at])
            .map(|it| (it.origin.deployment, it.state, it.tampered.clone()))
            .collect();
        let mut should: Vec<_> =
            world.host.wanted.iter().map(|it| (Some(it.id), State::Running, None)).collect();
        is.sort_by_key(|it| it.0);
        should.sort_by_key(|it| it.0);
        prop_assert_eq!(is, should);
    }

    #[test]
    fn requests_find_somebody_who_listens_all_through_an_update_without_a_health_check(
        to in 0u8..4, works in 0usize..12,
    ) {
        let mut world = World::new();
        world.happens(Night::Commit([Some(0), None, None]));
        world.happens(Night::Works(3));
        prop_assert!(answers(&world));
        world.happens(Night::Commit([Some(to), None, None]));
        for at in 0..works {
            if let Some(change) = world.next() {
                world.applies(change, true);
            }
            prop_assert!(answers(&world), "led to somebody who does not listen yet");
            // It takes some time to listen, and less than anybody would give up after.
            if at % 3 == 2 {
                world.health_is_asked();
            }
            world.released();
            world.host.now += Duration::from_secs(3);
        }
    }

    #[test]
    fn one_that_is_ill_and_alone_is_started_again_after_pauses_that_grow(heals in 0u64..8000) {
        let mut world = World::new();
        world.happens(Night::Ill(0));
        world.happens(Night::Commit([None, Some(0), None]));
        world.happens(Night::Works(2));
        let id = world.host.containers.last().map(|it| it.id.clone());
        let mut starts = vec![world.host.now];
        for _ in 0..heals {
            world.host.now += Duration::from_secs(1);
            world.health_is_asked();
            while let Some(change) = world.next() {
                if let Change::Start { unwell, .. } = &change {
                    prop_assert!(unwell.is_some(), "it is said why");
                    starts.push(world.host.now);
                }
                world.applies(change, true);
            }
            prop_assert_eq!(world.host.containers.last().map(|it| it.id.clone()), id.clone());
            prop_assert_eq!(world.ours().count(), 1);
        }
        let pauses: Vec<_> = starts.windows(2).map(|two| two[1] - two[0]).collect();
        prop_assert!(pauses.is_sorted(), "{:?}", pauses);
        prop_assert!(pauses.iter().all(|it| (10..=600).contains(&it.as_secs())), "{:?}", pauses);
        prop_assert!(heals < 100 || !pauses.is_empty());
        world.happens(Night::Well(0));
        prop_assert!(serves(&world) && world.next().is_none());
    }

    #[test]
    fn a_bad_version_of_what_has_a_volume_interrupts_it_once_and_again_when_somebody_asks(
        seconds in 0u64..700,
    ) {
        let mut world = World::new();
        world.happens(Night::Commit([None, None, Some(0)]));
        world.happens(Night::Works(3));
        prop_assert!(serves(&world));
        world.happens(Night::Ill(1));
        world.happens(Night::Commit([None, None, Some(1)]));
        prop_assert_eq!(interruptions(&mut world, seconds.max(60)), 1);
        prop_assert!(serves(&world));
        world.happens(Night::Commit([Some(0), None, Some(1)]));
        prop_assert_eq!(interruptions(&mut world, seconds), 0, "of another service");
        world.setbacks.forget_all();
        prop_assert_eq!(interruptions(&mut world, seconds.max(60)), 1, "somebody asked");
        world.happens(Night::Commit([Some(0), None, Some(2)]));
        prop_assert_eq!(interruptions(&mut world, seconds.max(60)), 1, "it was changed");
        prop_assert!(world.host.drift().is_empty() && serves(&world));
    }

    #[test]
    fn a_version_that_cannot_be_made_interrupts_nothing_and_one_that_cannot_be_started_does_once(
        seconds in 60u64..700,
    ) {
        let mut world = World::new();
        world.happens(Night::Commit([None, None, Some(0)]));
        world.happens(Night::Works(3));
        world.happens(Night::Refused(1));
        world.happens(Night::Commit([None, None, Some(1)]));
        prop_assert_eq!(interruptions(&mut world, seconds), 0);
        prop_assert!(serves(&world) && !world.host.drift().is_empty());
        world.happens(Night::Accepted(1));
        world.happens(Night::Unstartable(1));
        world.setbacks.forget_all();
        prop_assert_eq!(interruptions(&mut world, seconds), 1);
        prop_assert!(serves(&world) && !world.host.drift().is_empty());
        world.happens(Night::Accepted(1));
        world.setbacks.forget_all();
        prop_assert_eq!(interruptions(&mut world, seconds), 1, "somebody asked");
        prop_assert!(serves(&world) && world.host.drift().is_empty());
    }

    #[test]
    fn what_ran_before_a_reboot_is_there_to_go_back_to(
        cannot_be_made: bool, works in 0usize..4, seconds in 60u64..700,
    ) {
        let mut world = World::new();
        world.happens(Night::Commit([None, None, Some(0)]));
        world.happens(Night::Works(3));
        let bad = if cannot_be_made { Night::Refused(1) } else { Night::Unstartable(1) };
        world.happens(bad);
        world.happens(Night::Commit([None, None, Some(1)]));
        for _ in 0..works {
            world.next().into_iter().for_each(|change| world.applies(change, true));
        }
        world.happens(Night::Reboots);
        interruptions(&mut world, seconds);
        prop_assert!(serves(&world) && !world.host.drift().is_empty());
    }

    #[test]
    fn a_version_whose_start_nobody_answers_is_started_all_the_same(seconds in 60u64..700) {
        let mut world = World::new();
        world.happens(Night::Commit([None, None, Some(0)]));
        world.happens(Night::Works(3));
        world.happens(Night::Commit([None, None, Some(1)]));
        world.happens(Night::Unheard(false));
        prop_assert_eq!(interruptions(&mut world, seconds), 1);
        prop_assert!(serves(&world) && world.host.drift().is_empty());
    }

    #[test]
    fn what_was_given_up_for_good_is_not_waited_for_whatever_nobody_answers(
        nights in prop::collection::vec((late_night(), 0u64..3), 0..16),
    ) {
        let mut world = World::new();
        world.happens(Night::Commit([None, None, Some(0)]));
        world.happens(Night::Works(3));
        world.happens(Night::Ill(1));
        world.happens(Night::Commit([None, None, Some(1)]));
        interruptions(&mut world, 60);
        world.happens(Night::Restarts);
        for (night, seconds) in nights {
            world.happens(night);
            world.host.now += Duration::from_secs(seconds);
            world.next().into_iter().for_each(|change| world.applies(change, true));
            world.health_is_asked();
            world.looks();
        }
        world.happens(Night::Well(0));
        interruptions(&mut world, 700);
        prop_assert!(serves(&world), "what served before it does");
        prop_assert!(world.next().is_none());
    }

    #[test]
    fn what_nobody_got_to_stop_lets_go_of_its_volumes_before_another_one_serves_again(
        seconds in 100u64..700,
    ) {
        let mut world = World::new();
        world.happens(Night::Commit([None, None, Some(0)]));
        world.happens(Night::Works(3));
        world.happens(Night::Ill(1));
        world.happens(Night::Commit([None, None, Some(1)]));
        world.happens(Night::Works(3));
        world.happens(Night::Abandoned(1));
        world.happens(Night::NoImage(2));
        world.happens(Night::Commit([None, None, Some(2)]));
        prop_assert!(!world.alive.is_empty());
        interruptions(&mut world, seconds);
        prop_assert!(serves(&world) && world.ours().count() == 1);
    }

    #[test]
    fn one_that_had_to_serve_again_has_its_time_after_that(before in 0u64..20, steps in 1usize..20) {
        let mut world = World::new();
        world.happens(Night::Commit([None, Some(0), None]));
        world.happens(Night::Works(3));
        world.happens(Night::Commit([None, Some(1), None]));
        world.happens(Night::Works(1));
        world.happens(Night::Released);
        world.happens(Night::Passes(before));
        world.happens(Night::Ill(1));
        prop_assert!(world.looks().reports.iter().any(|it| it.phase == Phase::Retiring && it.serves));
        world.happens(Night::Well(1));
        for _ in 0..steps {
            // It is told to end no sooner than it may be.
            world.happens(Night::Works(1));
            world.happens(Night::Passes(1));
            world.happens(Night::Released);
        }
        prop_assert!(steps < 10 || world.ours().count() == 1, "it goes some time");
    }

    #[test]
    fn one_that_died_while_its_successor_cannot_be_made_serves_again(
        healthy: bool, works in 1usize..4,
    ) {
        let versions = |version| match healthy {
            true => [None, Some(version), None],
            false => [Some(version), None, None],
        };
        let mut world = World::new();
        world.happens(Night::Commit(versions(0)));
        world.happens(Night::Works(3));
        let until = world.host.now + Duration::from_secs(3600);
        world.host.images.insert("image:1".into(), Image::Failed("no such image".into(), until));
        world.happens(Night::Commit(versions(1)));
        world.happens(Night::Dies(0));
        prop_assert!(!serves(&world));
        world.happens(Night::Works(works));
        prop_assert!(serves(&world));
    }

    #[test]
    fn one_that_becomes_ill_while_its_successor_cannot_be_made_is_started_again(seconds in 60u64..600) {
        let mut world = World::new();
        world.happens(Night::Commit([None, Some(0), Some(0)]));
        world.happens(Night::Works(6));
        world.happens(Night::NoImage(1));
        world.happens(Night::Commit([None, Some(1), Some(1)]));
        world.happens(Night::Ill(0));
        let lives = |world: &World| {
            let all = world.ours().map(|at| world.host.containers[at].process);
            all.collect::<BTreeSet<_>>()
        };
        let before = lives(&world);
        interruptions(&mut world, seconds);
        prop_assert!(before.is_disjoint(&lives(&world)), "each had another try");
        world.happens(Night::Well(0));
        prop_assert_eq!(interruptions(&mut world, seconds), 0);
        prop_assert_eq!(serving(&world), 2);
    }

    #[test]
    fn what_was_begun_comes_to_an_end_also_while_nobody_can_be_told(
        ill: bool, changes in 0usize..6, restarts: bool,
    ) {
        let mut world = World::new();
        world.happens(Night::Commit([None, Some(0), Some(0)]));
        world.happens(Night::Works(6));
        prop_assert_eq!(serving(&world), 2);
        if ill {
            world.happens(Night::Ill(1));
        }
        world.happens(Night::Commit([None, Some(1), Some(1)]));
        for _ in 0..changes {
            if let Some(change) = world.next() {
                world.applies(change, true);
            }
        }
        world.happens(Night::Alone(true));
        if restarts {
            world.happens(Night::Restarts);
        }
        interruptions(&mut world, 300);
        prop_assert_eq!(serving(&world), 2);
    }

    #[test]
    fn one_that_has_to_serve_again_is_led_to_once_it_listens(reboots: bool) {
        let mut world = World::new();
        world.happens(Night::Commit([Some(0), None, None]));
        world.happens(Night::Works(3));
        world.happens(Night::NoImage(1));
        world.happens(Night::Commit([Some(1), None, None]));
        world.happens(if reboots { Night::Reboots } else { Night::Dies(0) });
        while let Some(change) = world.next() {
            world.applies(change, true);
            prop_assert!(leads_to_nobody_else(&world), "led to somebody who does not listen yet");
        }
        world.health_is_asked();
        prop_assert!(answers(&world));
    }

    #[test]
    fn a_service_that_served_is_served_by_something_until_its_successor_is_well(
        to in 0u8..4, ill: bool, works in 0usize..6,
    ) {
        let mut world = World::new();
        world.happens(Night::Commit([None, Some(0), None]));
        world.happens(Night::Works(3));
        prop_assert!(serves(&world));
        if ill {
            world.happens(Night::Ill(to));
        }
        world.happens(Night::Commit([None, Some(to), None]));
        for _ in 0..works {
            if let Some(change) = world.next() {
                world.applies(change, true);
            }
            world.health_is_asked();
            prop_assert!(serves(&world) || (ill && to == 0));
            world.released();
            world.host.now += Duration::from_secs(7);
        }
    }
}

/// How often something that runs makes way for its successor in so many seconds.
fn interruptions(world: &mut World, seconds: u64) -> usize {
    let mut count = 0;
    for _ in 0..seconds {
        world.host.now += Duration::from_secs(1);
        world.health_is_asked();
        while let Some(change) = world.next() {
            count += usize::from(matches!(change, Change::Stop { why: Why::MakesWay, .. }));
            world.applies(change, true);
            world.health_is_asked();
        }
    }
    count
}

/// Whether everybody who is led to listens.
fn leads_to_nobody_else(world: &World) -> bool {
    let reports = world.host.plan().reports;
    let mut serving = reports.iter().filter(|report| report.serves);
    serving.all(|it| it.container.as_deref().is_some_and(|id| world.listening.contains(id)))
}

/// ... and somebody is.
fn answers(world: &World) -> bool {
    serves(world) && leads_to_nobody_else(world)
}

fn serves(world: &World) -> bool {
    serving(world) > 0
}

/// Of how many services something serves.
fn serving(world: &World) -> usize {
    let reports = world.host.plan().reports;
    let serving = reports.iter().filter(|report| report.serves);
    serving.map(|report| &report.service).collect::<BTreeSet<_>>().len()
}

/// Nothing of what is wanted is changed, or waits, that was not told to have drifted.
fn says_what_it_is_about_to_change(world: &World) -> Result<(), TestCaseError> {
    let plan = world.host.plan();
    // Of a place: a service, and which of its replicas.
    let has_drifted = |place: &(ServiceName, Replica)| {
        let is_told = |it: &&DeploymentReport| {
            it.phase != Phase::Retiring && (&it.service, it.replica) == (&place.0, place.1)
        };
        plan.reports.iter().find(is_told).is_some_and(|it| it.verdict != Verdict::Satisfied)
    };
    let is_wanted = |place: &(ServiceName, Replica)| {
        let mut wanted = world.host.wanted.iter();
        wanted.any(|it| (&it.service, it.replica) == (&place.0, place.1))
    };
    for change in plan.changes.iter().filter(|it| !place::ends_a_succession(it)) {
        let place = match change {
            Change::MakeNetwork { .. } => continue,
            Change::Deploy { deployment, .. } => {
                Some((deployment.service.clone(), deployment.replica))
            }
            Change::Remove { origin, .. }
            | Change::Stop { origin, .. }
            | Change::Start { origin, .. } => origin.service.clone().zip(origin.replica),
        };
        if let Some(place) = place.filter(is_wanted) {
            prop_assert!(has_drifted(&place), "{change:?} comes as a surprise");
        }
    }
    for report in plan.reports.iter().filter(|it| it.phase != Phase::Retiring) {
        prop_assert!(report.phase == Phase::Running || report.verdict != Verdict::Satisfied);
    }
    Ok(())
}
