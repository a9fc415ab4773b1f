use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::{Generation, Proxy, RoutesError, Settings, Supervisor};
use super::foreman::Foreman;
use super::stage::*;
use crate::services::section::{Found, LIMIT};

/// A proxy with one route that works.
async fn serving() -> Option<(Stage, Container)> {
    let mut stage = Stage::new()?;
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http("a.example.com"), &[&web])])).await;
    Some((stage, web))
}

#[tokio::test]
async fn what_cannot_be_written_replaces_nothing() {
    let Some((mut stage, web)) = serving().await else { return };
    // Where the new file is to be prepared, there is something in the way.
    let obstacle = stage.dynamic("routes.yaml.new");
    std::fs::create_dir(&obstacle).expect("room");
    let next = table([("web", http("b.example.com"), &[&web])]);
    let error = stage.error(&next).await;
    assert!(matches!(error, RoutesError::NotWritten { .. }), "{error}");
    assert_eq!(stage.get("a.example.com").await, (200, "web".into()));
    std::fs::remove_dir(&obstacle).expect("removed");
    stage.routes(&next).await;
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()));
}

#[tokio::test]
async fn what_somebody_did_to_the_files_is_seen_and_put_right() {
    let Some((mut stage, web)) = serving().await else { return };
    let routes = table([("web", http("a.example.com"), &[&web])]);
    let file = stage.dynamic("routes.yaml");
    for tampered in ["{ nonsense", "", "{\"http\":{\"routers\":{}}}"] {
        std::fs::write(&file, tampered).expect("room");
        assert_eq!(stage.drift(&routes).await, "the files of Traefik are not as they should be");
        stage.recovers(&routes).await;
    }
    let other = stage.dynamic("other.yaml");
    let more = r#"{"http":{"services":{"x.y":{"loadBalancer":{"servers":[]}}}}}"#;
    std::fs::write(&other, more).expect("room");
    stage.drift(&routes).await;
    stage.recovers(&routes).await;
    assert!(!other.exists());
    assert_eq!(stage.proxy.supervisor.started, 1, "all without a restart");
}

#[tokio::test]
async fn a_folder_that_was_made_anew_is_read_again() {
    let Some((mut stage, web)) = serving().await else { return };
    std::fs::remove_dir_all(stage.path("dynamic")).expect("removed");
    let next = table([("web", http("b.example.com"), &[&web])]);
    stage.drift(&next).await;
    stage.routes(&next).await;
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()));
    assert_eq!(stage.proxy.supervisor.started, 1, "all without a restart");
}

#[tokio::test]
async fn a_proxy_that_died_is_noticed_and_serves_again() {
    let Some((mut stage, web)) = serving().await else { return };
    let routes = table([("web", http("a.example.com"), &[&web])]);
    stage.proxy.supervisor.kill_all();
    tokio::time::timeout(LONG, stage.proxy.changed()).await.expect("noticed");
    assert_eq!(stage.drift(&routes).await, "Traefik does not run");
    assert_ne!(stage.proxy.in_effect(), routes.hash(), "nothing is in effect");
    stage.routes(&routes).await;
    assert_eq!(stage.get("a.example.com").await, (200, "web".into()));
}

#[tokio::test]
async fn of_one_that_is_about_to_be_started_again_it_is_said_where_to_look() {
    let Some((mut stage, web)) = serving().await else { return };
    let routes = table([("web", http("a.example.com"), &[&web])]);
    stage.proxy.supervisor.is_to_start_them_again = true;
    stage.proxy.supervisor.kill_all();
    tokio::time::timeout(LONG, stage.proxy.changed()).await.expect("noticed");
    assert_eq!(stage.drift(&routes).await, "Traefik is down");
    // Nobody waits for it.
    tokio::time::pause();
    let error = stage.error(&routes).await.to_string();
    assert!(error.contains("`journalctl -u fluke-proxy-"), "{error}");
}

#[tokio::test]
async fn one_that_does_not_come_up_is_not_started_again_and_again() {
    let stage = Stage::with(|settings, _| settings.program = Some("/bin/false".into()));
    let Some(mut stage) = stage else { return };
    stage.proxy.supervisor.is_to_start_them_again = true;
    tokio::time::pause();
    let error = stage.error(&table([])).await;
    assert!(matches!(error, RoutesError::NotUp { others: false, .. }), "{error}");
    assert_eq!(stage.drift(&table([])).await, "Traefik does not run");
}

#[tokio::test]
async fn one_that_answers_nobody_any_more_is_replaced() {
    let Some((mut stage, web)) = serving().await else { return };
    stage.proxy.supervisor.freeze_all();
    let next = table([("web", http("b.example.com"), &[&web])]);
    stage.routes(&next).await;
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()));
    assert_eq!(stage.proxy.supervisor.started, 2);
}

#[tokio::test]
async fn one_that_hangs_however_often_it_is_started_is_ended_and_it_is_said_why() {
    let Some((mut stage, web)) = serving().await else { return };
    stage.proxy.supervisor.freeze_all();
    stage.proxy.supervisor.are_to_hang = true;
    let next = table([("web", http("b.example.com"), &[&web])]);
    let first = stage.proxy.supervisor.running().await.expect("known").remove(0).generation;
    let address = stage.proxy.api_of(&first);
    // What is started next would not answer either.
    let silent = async {
        loop {
            match tokio::net::TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let (applied, _silent) =
        tokio::join!(tokio::time::timeout(LIMIT, stage.proxy.apply(&next)), silent);
    let error = applied.expect("there is time to say why").expect_err("it hangs");
    assert!(matches!(error, RoutesError::NotLoaded { .. }), "{error}");
    assert_eq!(stage.proxy.supervisor.started, 2);
    let ending = stage.proxy.supervisor.ending().await.expect("known");
    assert_eq!(ending.len(), 1, "it does not get up by itself");
}

#[tokio::test]
async fn a_port_is_nobody_elses_while_one_that_was_told_to_end_hangs() {
    let Some((mut stage, web)) = serving().await else { return };
    let first = stage.proxy.supervisor.running().await.expect("known").remove(0).generation;
    stage.proxy.supervisor.freeze_all();
    stage.proxy.supervisor.stop(&first).await.expect("told");
    let routes = table([("web", http("a.example.com"), &[&web])]);
    assert_eq!(stage.drift(&routes).await, "Traefik does not run");
    // One with another port listens beside it.
    let db = Container::tcp(LOCAL, "db").await;
    let next = table([("web", http("a.example.com"), &[&web]), ("db", tcp(15432), &[&db])]);
    stage.routes(&next).await;
    assert_eq!(stage.proxy.supervisor.ending().await.expect("known"), [first], "it hangs still");
}

#[tokio::test]
async fn one_that_serves_is_not_ended_for_having_no_time_for_the_agent() {
    let Some((stage, _web)) = serving().await else { return };
    let slow = Generation::of("one whose API is slow");
    assert!(stage.proxy.is_stuck(&slow).await, "nobody is there");
    let _silent = tokio::net::TcpListener::bind(stage.proxy.api_of(&slow)).await.expect("free");
    assert!(!stage.proxy.is_stuck(&slow).await, "requests are answered");
    stage.proxy.supervisor.freeze_all();
    assert!(stage.proxy.is_stuck(&slow).await, "nobody gets an answer");
}

#[tokio::test]
async fn an_agent_that_starts_anew_finds_the_proxy_as_it_is() {
    let Some((mut stage, web)) = serving().await else { return };
    let routes = table([("web", http("a.example.com"), &[&web])]);
    let Stage { proxy, .. } = &mut stage;
    let foreman = std::mem::take(&mut proxy.supervisor);
    let mut successor = Proxy::kept_by(foreman, proxy.settings.clone()).expect("a client");
    assert_eq!(successor.check(&routes).await.expect("it can be told"), Found::default());
    assert_eq!(successor.in_effect(), routes.hash());
    let other = table([("web", http("b.example.com"), &[&web])]);
    let found = successor.check(&other).await.expect("it can be told");
    assert_eq!(found.drift.as_deref(), Some("the files of Traefik are not as they should be"));
    successor.apply(&other).await.expect("it can be done");
    assert_eq!(successor.supervisor.started, 1, "it is the same process");
}

#[tokio::test]
async fn a_log_that_was_put_aside_is_followed_by_another() {
    let Some((mut stage, _web)) = serving().await else { return };
    let log = stage.path("access.log");
    stage.get("a.example.com").await;
    until("there is a log", || log.exists()).await;
    std::fs::rename(&log, stage.path("access.log.1")).expect("moved");
    stage.proxy.bound_log().await.expect("told");
    until("another log is there", || log.exists()).await;
    stage.get("a.example.com").await;
    until("it is written to", || {
        std::fs::read_to_string(&log).is_ok_and(|it| it.contains("a.example.com"))
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_starts_anew_keeps_the_log_within_bounds_though_nothing_is_to_be_done() {
    let Some((mut stage, web)) = serving().await else { return };
    let routes = table([("web", http("a.example.com"), &[&web])]);
    let log = stage.path("access.log");
    stage.get("a.example.com").await;
    until("there is a log", || log.exists()).await;
    std::fs::rename(&log, stage.path("access.log.1")).expect("moved");
    let Stage { proxy, .. } = &mut stage;
    let foreman = std::mem::take(&mut proxy.supervisor);
    let mut successor = Proxy::kept_by(foreman, proxy.settings.clone()).expect("a client");
    assert_eq!(successor.check(&routes).await.expect("it can be told"), Found::default());
    successor.bound_log().await.expect("told");
    until("another log is there", || log.exists()).await;
}

#[tokio::test]
async fn a_host_without_traefik_says_what_to_install() {
    let subnet = fluke_model::directory::Subnet::new(1).expect("a subnet");
    let folder = tempfile::tempdir().expect("a folder");
    let program = Some(PathBuf::from("/nonexistent/traefik"));
    let settings = Settings { program, ..Settings::new(folder.path().into(), subnet) };
    let mut proxy = Proxy::kept_by(Foreman::default(), settings).expect("a client");
    let found = proxy.check(&table([])).await.expect("it can be told");
    let words = found.problem.expect("there is none");
    assert_eq!(found.drift, None, "there is nothing to be done without it");
    assert!(words.contains("/nonexistent/traefik") && words.contains("install"), "{words}");
}

#[tokio::test]
async fn a_traefik_whose_program_is_gone_goes_on_with_the_newest_routes() {
    let linked = |settings: &mut Settings, folder: &Path| {
        let link = folder.join("traefik");
        if let Some(program) = settings.program.replace(link.clone()) {
            symlink(program, link).expect("room");
        }
    };
    let Some(mut stage) = Stage::with(linked) else { return };
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http("a.example.com"), &[&web])])).await;
    let (link, aside) = (stage.folder.path().join("traefik"), stage.folder.path().join("aside"));
    std::fs::rename(&link, &aside).expect("moved");
    let next = table([("web", http("b.example.com"), &[&web])]);
    stage.drift(&next).await;
    stage.proxy.apply(&next).await.expect("it runs");
    assert_eq!(stage.get("b.example.com").await, (200, "web".into()));
    let words = "there is no Traefik that can be run at";
    let found = stage.finds(&next).await;
    assert!(found.drift.is_none() && found.problem.is_some_and(|it| it.starts_with(words)));
    // A port that needs another process has to wait.
    let db = Container::tcp(LOCAL, "db").await;
    let last = table([("web", http("c.example.com"), &[&web]), ("db", tcp(15432), &[&db])]);
    assert!(stage.goes_on_with(&last).await.starts_with(words));
    assert_eq!(stage.get("c.example.com").await, (200, "web".into()));
    std::fs::rename(&aside, &link).expect("moved");
    stage.routes(&last).await;
}
