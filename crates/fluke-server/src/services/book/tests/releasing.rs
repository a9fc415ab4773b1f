//! What was replaced goes once no proxy leads to it.

use super::*;

#[test]
fn a_replica_that_moved_leaves_the_routes_before_it_is_released() {
    let mut lab = Lab::settled(Some(1));
    lab.comes("p", NodeType::Proxy);
    lab.joins("a", vec![]);
    let old = deployment("0", Replica::Number(0), at(4));
    let retiring = DeploymentReport { phase: Phase::Retiring, ..old };
    lab.reports("a", vec![retiring]);
    assert_eq!(lab.addresses(), ["10.200.1.4"], "nothing else serves");
    lab.loads("p");
    assert!(lab.told[&name("a")].released.is_empty());
    lab.joins("b", vec![deployment("0b", Replica::Number(0), at(5))]);
    assert_eq!(lab.addresses(), ["10.200.1.5"]);
    assert!(lab.told[&name("a")].released.is_empty(), "the proxy still leads to it");
    lab.loads("p");
    assert_eq!(lab.told[&name("a")].released.len(), 1);
}

/// A predecessor that has to go, a successor that serves, and a proxy that still leads to the one.
fn succession(proxy: &str) -> Lab {
    let mut lab = Lab::settled(None);
    lab.comes(proxy, NodeType::Proxy);
    let old = deployment("old", Replica::Own, at(4));
    lab.joins("a", vec![old.clone()]);
    lab.loads(proxy);
    let old = DeploymentReport { phase: Phase::Retiring, serves: false, ..old };
    lab.reports("a", vec![old, deployment("new", Replica::Own, at(5))]);
    assert!(lab.told[&name("a")].released.is_empty(), "the proxy still leads to it");
    lab
}

fn is_released(lab: &Lab) -> bool {
    !lab.told[&name("a")].released.is_empty()
}

#[test]
fn what_served_again_for_a_moment_that_nobody_saw_is_told_to_be_released_again() {
    let mut lab = succession("p");
    lab.loads("p");
    assert!(is_released(&lab));
    let before = lab.told[&name("a")].clone();
    let report = |old_serves| {
        let old = deployment("old", Replica::Own, at(4));
        let old = DeploymentReport { phase: Phase::Retiring, serves: old_serves, ..old };
        let new = deployment("new", Replica::Own, at(5));
        let new = DeploymentReport { serves: !old_serves, ..new };
        Word::Services(ServicesReport { deployments: vec![old, new], ..ServicesReport::default() })
    };
    // Both are heard before anything follows from either.
    let now = Now { instant: lab.now, wall: Timestamp(1) };
    let session = lab.book.sessions[&name("a")];
    lab.book.hear(&name("a"), session, report(true), now);
    lab.says("a", report(false));
    let after = &lab.told[&name("a")];
    assert_eq!(after.released, before.released, "nothing was ever led to it");
    assert_ne!(after.resumed, before.resumed, "its host takes it for one that is not released");
}

#[test]
fn what_is_released_for_one_elsewhere_is_told_to_be_so_again_when_its_own_successor_serves() {
    let mut lab = Lab::settled(Some(1));
    let old = deployment("old", Replica::Number(0), at(4));
    let new = deployment("new", Replica::Number(0), at(5));
    lab.joins("a", vec![old.clone()]);
    let old = DeploymentReport { phase: Phase::Retiring, ..old };
    let starting = DeploymentReport { phase: Phase::Starting, serves: false, ..new.clone() };
    lab.reports("a", vec![old.clone(), starting]);
    assert!(!is_released(&lab), "nothing else serves");
    // Back from where nobody told it that it has no replica any more.
    lab.joins("b", vec![deployment("late", Replica::Number(0), at(6))]);
    assert!(is_released(&lab));
    let before = lab.told[&name("a")].resumed;
    // Its host goes on with it for now, and has not kept what it was told.
    let deployments = vec![new, DeploymentReport { serves: false, ..old }];
    lab.says("a", Word::Services(ServicesReport { deployments, ..ServicesReport::default() }));
    assert!(is_released(&lab));
    assert_ne!(lab.told[&name("a")].resumed, before, "it has to be told again");
}

#[test]
fn a_proxy_that_is_always_a_little_behind_keeps_nothing() {
    let mut lab = succession("p");
    let mut others = vec![deployment("other", Replica::Own, at(9))];
    lab.joins("b", others.clone());
    let loaded = lab.book.directory.routes.hash();
    others.push(deployment("another", Replica::Own, at(10)));
    lab.reports("b", others);
    assert_ne!(loaded, lab.book.directory.routes.hash(), "there is something newer");
    assert!(!is_released(&lab), "the proxy still leads to it");
    lab.has_loaded("p", loaded);
    assert!(is_released(&lab), "it leads to it no more, whatever else is to come");
}

#[test]
fn a_proxy_that_does_not_come_on_is_not_waited_for_for_ever() {
    let mut lab = succession("p");
    let stuck = Hash256::of(b"what it had");
    let broken = |problem: &str| {
        let section =
            || SectionReport { hash: stuck, problem: Some(problem.into()), left_out: [].into() };
        Word::Network(NetworkReport { names: section(), routes: Some(section()), mesh: section() })
    };
    lab.says("p", broken("Traefik does not start"));
    lab.passes(ROUTES_PATIENCE - Duration::from_secs(1));
    lab.says("p", broken("Traefik still does not start"));
    assert!(!is_released(&lab), "it has its time");
    let due = lab.book.due().expect("its time will be up");
    lab.passes(due - lab.now);
    assert!(is_released(&lab), "what it says counts no more");
}

#[test]
fn a_proxy_that_never_says_what_it_has_is_not_waited_for_for_ever() {
    let mut lab = succession("p");
    lab.says("p", Word::Left);
    lab.comes("p", NodeType::Proxy);
    lab.passes(ROUTES_PATIENCE - Duration::from_secs(1));
    assert!(!is_released(&lab));
    lab.passes(Duration::from_secs(1));
    assert!(is_released(&lab));
}

#[test]
fn a_proxy_that_comes_on_slowly_is_waited_for() {
    let mut lab = succession("p");
    for step in 0..5u8 {
        lab.passes(ROUTES_PATIENCE - Duration::from_secs(1));
        let section =
            || SectionReport { hash: Hash256::of(&[step]), problem: None, left_out: [].into() };
        let report = NetworkReport { names: section(), routes: Some(section()), mesh: section() };
        lab.says("p", Word::Network(report));
        assert!(!is_released(&lab), "it has loaded another one");
    }
    lab.loads("p");
    assert!(is_released(&lab));
}

#[test]
fn what_there_are_fewer_of_is_released() {
    let mut lab = Lab::settled(Some(2));
    let one =
        |number: u32| deployment(&number.to_string(), Replica::Number(number), at(number as u8));
    lab.joins("a", vec![one(0), one(1)]);
    lab.wants(service(Some(1)));
    assert_eq!(lab.placed().len(), 1);
    let retiring = DeploymentReport { phase: Phase::Retiring, ..one(1) };
    lab.reports("a", vec![one(0), retiring]);
    assert_eq!(lab.addresses(), ["10.200.1.0"]);
    assert_eq!(lab.told[&name("a")].released.len(), 1);
}

#[test]
fn other_routes_do_not_give_a_proxy_that_is_stuck_more_time() {
    let mut lab = succession("p");
    for step in 0..6u8 {
        lab.passes(ROUTES_PATIENCE / 5);
        lab.joins("b", vec![deployment("b", Replica::Own, [10, 200, 2, step])]);
    }
    assert!(is_released(&lab));
}

#[test]
fn a_proxy_whose_agent_restarts_goes_on_and_is_waited_for() {
    let mut lab = succession("p");
    lab.says("p", Word::Left);
    assert!(!is_released(&lab), "it still leads to it");
    lab.comes("p", NodeType::Proxy);
    assert!(!is_released(&lab), "it has not said what it has loaded");
    lab.loads("p");
    assert!(is_released(&lab));
}

#[test]
fn a_proxy_whose_agent_does_not_come_back_is_not_waited_for_for_ever() {
    let mut lab = succession("p");
    lab.says("p", Word::Left);
    let due = lab.book.due().expect("its time will be up");
    assert_eq!(due, lab.now + RESTART_GRACE);
    lab.passes(RESTART_GRACE);
    assert!(is_released(&lab));
}

#[test]
fn a_proxy_whose_agent_falls_again_and_again_is_not_waited_for_for_ever() {
    let stuck = Hash256::of(b"what it had");
    for says in [None, Some(stuck)] {
        let mut lab = succession("p");
        let mut since = lab.now;
        for fall in 0..6 {
            lab.passes(Duration::from_secs(9));
            lab.says("p", Word::Left);
            lab.passes(Duration::from_secs(1));
            lab.comes("p", NodeType::Proxy);
            if let Some(routes) = says {
                lab.has_loaded("p", routes);
                // It had loaded something else before.
                since = if fall == 0 { lab.now } else { since };
            }
            let is_over = lab.now - since >= ROUTES_PATIENCE;
            assert_eq!(is_released(&lab), is_over, "after {fall} falls, and it says {says:?}");
        }
        let before = lab.book.directory.routes.hash();
        lab.reports("a", succeeded_by("newer", 6));
        assert_ne!(lab.book.directory.routes.hash(), before);
        assert!(is_released(&lab), "it is not waited for with the next one either");
        lab.loads("p");
        lab.reports("a", succeeded_by("newest", 7));
        assert!(!is_released(&lab), "it has come on");
        lab.loads("p");
        assert!(is_released(&lab));
    }
}

/// One version that has to go, and another that serves.
fn succeeded_by(new: &str, last: u8) -> Vec<DeploymentReport> {
    let old = deployment(&format!("before {new}"), Replica::Own, at(last - 1));
    let old = DeploymentReport { phase: Phase::Retiring, serves: false, ..old };
    vec![old, deployment(new, Replica::Own, at(last))]
}

/// What is left of a version that another one serves in the place of.
fn succeeded() -> Vec<DeploymentReport> {
    let old = deployment("old", Replica::Own, at(4));
    let old = DeploymentReport { phase: Phase::Retiring, serves: false, ..old };
    vec![old, deployment("new", Replica::Own, at(5))]
}

#[test]
fn a_server_that_does_not_know_what_git_says_lets_nothing_go() {
    let now = Instant::now();
    let mut lab = Lab::of(Book::new(now), now);
    let retiring = deployment("0", Replica::Number(0), at(4));
    let retiring = DeploymentReport { phase: Phase::Retiring, ..retiring };
    lab.joins("a", vec![retiring]);
    lab.passes(RESTART_GRACE * 100);
    assert!(!is_released(&lab), "it may be what serves");
    lab.wants(service(Some(1)));
    assert!(!is_released(&lab), "nothing else does");
    lab.joins("b", vec![deployment("0b", Replica::Number(0), at(5))]);
    assert!(is_released(&lab));
}

#[test]
fn a_server_that_starts_lets_nothing_go_before_it_knows_which_proxies_there_are() {
    let mut lab = Lab::new(None);
    lab.joins("a", succeeded());
    assert!(!is_released(&lab), "a proxy may lead to it");
    lab.comes("p", NodeType::Proxy);
    lab.has_loaded("p", Hash256::of(b"what the server before this one said"));
    let due = lab.book.due().expect("it is settled then");
    lab.passes(due - lab.now);
    assert!(!is_released(&lab), "it does");
    lab.loads("p");
    assert!(is_released(&lab));
}
