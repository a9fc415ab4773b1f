//! Ports, and those that are somebody else's.

use super::super::RoutesError;
use super::stage::*;
use crate::services::section::Found;

#[tokio::test]
async fn a_connection_reaches_a_container_and_mostly_one_of_this_host() {
    let Some(mut stage) = Stage::new() else { return };
    let near = Container::tcp(LOCAL, "near").await;
    let far = Container::tcp(REMOTE, "far").await;
    stage.routes(&table([("db", tcp(15432), &[&near, &far])])).await;
    for _ in 0..60 {
        let name = greeting(&stage, 15432).await;
        assert!(name == "near" || name == "far", "{name}");
    }
    let (near, far) = (near.served(), far.served());
    assert!(near >= 4 * far && far >= 5, "{near} to {far}");
}

#[tokio::test]
async fn where_requests_come_in_at_somebody_elses_port_it_is_said_and_nothing_is_started() {
    let Some(mut stage) = Stage::new() else { return };
    let somebody = tokio::net::TcpListener::bind(stage.at(WEB)).await.expect("free");
    let web = Container::http(LOCAL, "web").await;
    let routes = table([("web", http("a.example.com"), &[&web])]);
    let words = "another program of this host has port 18080, which requests come in at";
    let found = stage.finds(&routes).await;
    assert!(found.drift.is_none() && found.problem.is_some_and(|it| it.starts_with(words)));
    assert_ne!(stage.proxy.in_effect(), routes.hash(), "nothing is in effect");
    let error = stage.error(&routes).await;
    assert!(matches!(error, RoutesError::Taken { port: WEB, others: false }), "{error}");
    assert_eq!(stage.proxy.supervisor.started, 0);
    drop(somebody);
    let is_free = async {
        // A process that is being started elsewhere holds it for a moment longer.
        while stage.finds(&routes).await.drift.is_none() {}
    };
    tokio::time::timeout(LONG, is_free).await.expect("it is seen");
    stage.routes(&routes).await;
    assert_eq!(stage.get("a.example.com").await, (200, "web".into()));
}

#[tokio::test]
async fn a_port_that_is_somebody_elses_keeps_no_other_route_from_its_work() {
    let Some(mut stage) = Stage::new() else { return };
    let somebody = tokio::net::TcpListener::bind(stage.at(15432)).await.expect("free");
    let web = Container::http(LOCAL, "web").await;
    let db = Container::tcp(LOCAL, "db").await;
    let routes = table([("web", http("a.example.com"), &[&web]), ("db", tcp(15432), &[&db])]);
    stage.proxy.apply(&routes).await.expect("all but that port");
    assert_eq!(stage.get("a.example.com").await, (200, "web".into()));
    assert_eq!(stage.proxy.in_effect(), routes.hash(), "nobody waits for what cannot be");
    let problem = |found: Found| match found {
        Found { drift: None, problem: Some(words) } => words,
        other => panic!("{other:?}"),
    };
    let words = problem(stage.finds(&routes).await);
    assert!(words.contains("another program of this host has port 15432"), "{words}");
    // What else happens is put right all the same.
    stage.proxy.supervisor.kill_all();
    tokio::time::timeout(LONG, stage.proxy.changed()).await.expect("noticed");
    assert_eq!(stage.drift(&routes).await, "Traefik does not run");
    stage.proxy.apply(&routes).await.expect("all but that port");
    assert_eq!(stage.get("a.example.com").await, (200, "web".into()));
    assert_eq!(problem(stage.finds(&routes).await), words);
    drop(somebody);
    let is_free = async {
        // A process that is being started elsewhere holds it for a moment longer.
        while stage.finds(&routes).await.drift.is_none() {}
    };
    tokio::time::timeout(LONG, is_free).await.expect("it is seen");
    stage.routes(&routes).await;
    assert_eq!(greeting(&stage, 15432).await, "db");
}

#[tokio::test]
async fn a_port_that_somebody_takes_while_traefik_is_down_keeps_no_other_route_from_its_work() {
    let Some(mut stage) = Stage::new() else { return };
    let web = Container::http(LOCAL, "web").await;
    let db = Container::tcp(LOCAL, "db").await;
    let routes = table([("web", http("a.example.com"), &[&web]), ("db", tcp(15432), &[&db])]);
    stage.routes(&routes).await;
    // It is about to be started again, and would not come up.
    stage.proxy.supervisor.is_to_start_them_again = true;
    stage.proxy.supervisor.kill_all();
    tokio::time::timeout(LONG, stage.proxy.changed()).await.expect("noticed");
    let _somebody = tokio::net::TcpListener::bind(stage.at(15432)).await.expect("free");
    assert_eq!(stage.drift(&routes).await, "Traefik is down");
    stage.proxy.apply(&routes).await.expect("all but that port");
    assert_eq!(stage.get("a.example.com").await, (200, "web".into()));
    let words = stage.finds(&routes).await.problem.expect("it is left out");
    assert!(words.contains("another program of this host has port 15432"), "{words}");
}
