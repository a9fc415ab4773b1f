//! One that serves falls, or hangs, while the one that should take over from it does not come up.

use std::time::Duration;

use fluke_model::directory::Routes;
use tokio::net::TcpStream;

use super::super::{Generation, RoutesError, Supervisor};
use super::stage::*;
use super::takeovers::{leaves_alone, turn_tls_on};
use crate::services::section::LIMIT;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A proxy without TLS, its only process, and a container.
async fn serving() -> Option<(Stage, Generation, Container)> {
    let mut stage = Stage::new()?;
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http("a.example.com"), &[&web])])).await;
    let first = only_one(&mut stage).await;
    Some((stage, first, web))
}

async fn only_one(stage: &mut Stage) -> Generation {
    let mut running = stage.proxy.supervisor.running().await.expect("known");
    assert_eq!(running.len(), 1, "{running:?}");
    running.remove(0).generation
}

/// All that run are gone, and not yet started again.
async fn falls(stage: &mut Stage) {
    stage.proxy.supervisor.is_to_start_them_again = true;
    stage.proxy.supervisor.kill_all();
    tokio::time::timeout(LONG, stage.proxy.changed()).await.expect("noticed");
}

#[tokio::test]
async fn one_that_falls_while_somebody_has_a_port_of_the_next_one_serves_again() {
    let Some((mut stage, first, web)) = serving().await else { return };
    turn_tls_on(&mut stage);
    let _somebody = tokio::net::TcpListener::bind(stage.at(SECURE)).await.expect("free");
    falls(&mut stage).await;
    let routes = table([("web", http("b.example.com"), &[&web])]);
    assert_eq!(stage.drift(&routes).await, "Traefik is down");
    let error = stage.error(&routes).await;
    assert!(matches!(error, RoutesError::Taken { port: SECURE, others: true }), "{error}");
    assert_eq!(only_one(&mut stage).await, first, "it may come back");
    stage.proxy.supervisor.starts_them_again().expect("started");
    until_settled(&mut stage, &routes).await;
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()), "with the newest routes");
    assert_eq!(stage.is_hindered(&routes).await, error.to_string());
}

#[tokio::test]
async fn one_that_falls_and_cannot_come_back_is_not_started_again_and_again() {
    // The last one is of a port that nobody wants any more: it would not come up without that, either.
    for (port, is_wanted) in [(WEB, true), (15432, true), (15432, false)] {
        let Some(mut stage) = Stage::new() else { return };
        let db = Container::tcp(LOCAL, "db").await;
        let routes = table([("db", tcp(15432), &[&db])]);
        stage.routes(&routes).await;
        turn_tls_on(&mut stage);
        falls(&mut stage).await;
        let _next = tokio::net::TcpListener::bind(stage.at(SECURE)).await.expect("free");
        let _own = tokio::net::TcpListener::bind(stage.at(port)).await.expect("free");
        let routes = if is_wanted { routes } else { table([]) };
        stage.drift(&routes).await;
        let error = stage.error(&routes).await;
        assert!(matches!(error, RoutesError::Taken { others: false, .. }), "{port}: {error}");
        assert_eq!(stage.proxy.supervisor.running().await.expect("known"), [], "{port}");
    }
}

#[tokio::test]
async fn one_that_falls_without_its_program_is_not_started_again_and_again() {
    let Some((mut stage, _, web)) = serving().await else { return };
    turn_tls_on(&mut stage);
    stage.proxy.settings.program = Some("/nonexistent/traefik".into());
    falls(&mut stage).await;
    let routes = table([("web", http("a.example.com"), &[&web])]);
    stage.drift(&routes).await;
    let error = stage.error(&routes).await;
    assert!(matches!(error, RoutesError::NoProgram { .. }), "{error}");
    assert_eq!(stage.proxy.supervisor.running().await.expect("known"), []);
    assert_eq!(stage.is_hindered(&routes).await, error.to_string());
}

#[tokio::test]
async fn one_that_falls_while_the_next_one_is_left_alone_serves_again() {
    let Some((mut stage, first, web)) = serving().await else { return };
    turn_tls_on(&mut stage);
    let routes = table([("web", http("a.example.com"), &[&web])]);
    leaves_alone(&mut stage, &routes).await;
    falls(&mut stage).await;
    let routes = table([("web", http("b.example.com"), &[&web])]);
    assert_eq!(stage.drift(&routes).await, "Traefik is down");
    let error = stage.error(&routes).await;
    assert!(matches!(error, RoutesError::NotUp { others: true, .. }), "{error}");
    assert_eq!(only_one(&mut stage).await, first, "it may come back");
    assert_eq!(stage.proxy.supervisor.started, 1, "the next one is left alone");
    stage.proxy.supervisor.starts_them_again().expect("started");
    until_settled(&mut stage, &routes).await;
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()), "with the newest routes");
}

#[tokio::test]
async fn one_that_comes_back_while_the_next_one_fails_is_not_stopped() {
    let Some((mut stage, first, web)) = serving().await else { return };
    turn_tls_on(&mut stage);
    stage.proxy.settings.program = Some("/bin/false".into());
    falls(&mut stage).await;
    stage.proxy.supervisor.is_to_start_them_beside = true;
    let routes = table([("web", http("b.example.com"), &[&web])]);
    let error = stage.error(&routes).await;
    assert!(matches!(error, RoutesError::NotUp { others: true, .. }), "{error}");
    assert_eq!(only_one(&mut stage).await, first);
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()), "with the newest routes");
}

#[tokio::test]
async fn one_that_comes_back_before_the_next_one_takes_over_has_time_for_its_connections() {
    let Some((mut stage, first, _web)) = serving().await else { return };
    let (shell, db) = (echo().await, Container::tcp(LOCAL, "db").await);
    let shell = ("shell", tcp(15022), &[&shell][..]);
    stage.routes(&table([shell.clone()])).await;
    stage.proxy.supervisor.stop(&first).await.expect("told");
    let first = only_one(&mut stage).await;
    falls(&mut stage).await;
    stage.proxy.supervisor.is_to_start_them_beside = true;
    stage.routes(&table([shell, ("db", tcp(15432), &[&db])])).await;
    assert!(stage.proxy.leaving.has(&first), "it was told to leave, and has its time");
    let mut session = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut session).await;
}

#[tokio::test]
async fn one_that_hangs_while_somebody_has_a_port_of_the_next_one_is_replaced() {
    let Some((mut stage, first, web)) = serving().await else { return };
    turn_tls_on(&mut stage);
    let _somebody = tokio::net::TcpListener::bind(stage.at(SECURE)).await.expect("free");
    stage.proxy.supervisor.freeze_all();
    let routes = table([("web", http("b.example.com"), &[&web])]);
    assert_eq!(stage.drift(&routes).await, "Traefik runs with other ports or other settings");
    stage.error(&routes).await;
    assert_eq!((only_one(&mut stage).await, stage.proxy.supervisor.started), (first, 2));
    until_settled(&mut stage, &routes).await;
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()));
    let why = RoutesError::Taken { port: SECURE, others: true };
    assert_eq!(stage.is_hindered(&routes).await, why.to_string());
}

#[tokio::test]
async fn one_that_hangs_while_the_next_one_does_not_come_up_is_replaced_and_it_is_said_why() {
    let Some((mut stage, first, web)) = serving().await else { return };
    turn_tls_on(&mut stage);
    stage.proxy.settings.program = Some("/bin/false".into());
    stage.proxy.supervisor.freeze_all();
    let routes = table([("web", http("b.example.com"), &[&web])]);
    let applied = tokio::time::timeout(LIMIT, stage.proxy.apply(&routes)).await;
    let error = applied.expect("there is time for both").expect_err("it does not come up");
    assert!(matches!(error, RoutesError::NotUp { others: true, .. }), "{error}");
    // It, the next one, and it again.
    assert_eq!((only_one(&mut stage).await, stage.proxy.supervisor.started), (first, 3));
    leaves_alone(&mut stage, &routes).await;
    until_settled(&mut stage, &routes).await;
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()));
}

#[tokio::test]
async fn one_that_hangs_and_could_not_be_started_again_is_left_as_it_is() {
    let Some((mut stage, first, web)) = serving().await else { return };
    turn_tls_on(&mut stage);
    stage.proxy.settings.program = Some("/nonexistent/traefik".into());
    stage.proxy.supervisor.freeze_all();
    let error = stage.error(&table([("web", http("b.example.com"), &[&web])])).await;
    assert!(matches!(error, RoutesError::NoProgram { .. }), "{error}");
    assert_eq!((only_one(&mut stage).await, stage.proxy.supervisor.started), (first, 1));
}

#[tokio::test]
async fn one_that_goes_on_reads_a_folder_that_was_made_anew() {
    let Some((mut stage, _, web)) = serving().await else { return };
    turn_tls_on(&mut stage);
    let _somebody = tokio::net::TcpListener::bind(stage.at(SECURE)).await.expect("free");
    std::fs::remove_dir_all(stage.path("dynamic")).expect("removed");
    stage.goes_on_with(&table([("web", http("b.example.com"), &[&web])])).await;
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()));
    assert_eq!(stage.proxy.supervisor.started, 1, "without a restart");
}

/// Waits until one that was just started has what it can take.
async fn until_settled(stage: &mut Stage, routes: &Routes) {
    let settled = async {
        while stage.finds(routes).await.drift.is_some() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LONG, settled).await.expect("it serves");
}
