//! One process takes over from another, which leaves or goes on.

use std::time::Duration;

use fluke_model::directory::Routes;
use tokio::net::TcpStream;

use super::super::{Acme, RoutesError, Settings, Supervisor};
use super::stage::*;

/// Certificates come from somebody who is not there.
fn with_acme(settings: &mut Settings, _: &std::path::Path) {
    let directory = Some("https://127.0.0.1:1/dir".to_owned());
    let email = "ops@example.com".to_owned();
    settings.acme = Some(Acme { email, directory, ca_file: None });
}

#[tokio::test]
async fn certificates_are_no_business_of_a_process_that_leaves() {
    let Some(mut stage) = Stage::with(with_acme) else { return };
    let (shell, db) = (echo().await, Container::tcp(LOCAL, "db").await);
    let shell = ("shell", tcp(15022), &[&shell][..]);
    stage.routes(&table([shell.clone()])).await;
    let leaving = stage.dynamic("routes.yaml");
    let mut session = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut session).await;
    let db = ("db", tcp(15432), &[&db][..]);
    stage.routes(&table([shell.clone(), db.clone()])).await;
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([shell, db, ("web", http("a.example.com"), &[&web])])).await;
    let said = std::fs::read_to_string(leaving).expect("it is there");
    assert!(said.contains("a.example.com") && !said.contains("certResolver"), "{said}");
    drop(session);
    until_one_is_left(&mut stage).await;
}

#[tokio::test]
async fn certificates_are_no_business_of_one_that_an_agent_was_about_to_have_leave() {
    let Some(mut stage) = Stage::with(with_acme) else { return };
    let (shell, db) = (echo().await, Container::tcp(LOCAL, "db").await);
    let shell = ("shell", tcp(15022), &[&shell][..]);
    stage.routes(&table([shell.clone()])).await;
    let before = stage.dynamic("routes.yaml");
    let first = stage.proxy.supervisor.running().await.expect("known").remove(0).generation;
    let mut session = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut session).await;
    let db = ("db", tcp(15432), &[&db][..]);
    stage.routes(&table([shell.clone(), db.clone()])).await;
    // The agent was killed before it told the first one.
    stage.proxy.supervisor.restart(&first).await.expect("started");
    stage.has_another_agent();
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([shell, db, ("web", http("a.example.com"), &[&web])])).await;
    let said = std::fs::read_to_string(before).expect("it was told to leave");
    assert!(said.contains("a.example.com") && !said.contains("certResolver"), "{said}");
}

#[tokio::test]
async fn certificates_are_no_business_of_one_that_is_about_to_leave_unless_it_stays() {
    let Some(mut stage) = Stage::with(with_acme) else { return };
    stage.routes(&table([])).await;
    let before = stage.dynamic("routes.yaml");
    let (web, db) = (Container::http(LOCAL, "web").await, Container::tcp(LOCAL, "db").await);
    let web = ("web", http("a.example.com"), &[&web][..]);
    let routes = table([web, ("db", tcp(15432), &[&db])]);
    let asks = || {
        let said = std::fs::read_to_string(&before).unwrap_or_default();
        said.contains("a.example.com").then(|| said.contains("certResolver"))
    };
    // The next one never comes up.
    let program = stage.proxy.settings.program.replace("/bin/false".into());
    let (error, asked) = tokio::join!(stage.error(&routes), async {
        until("it is told of the route", || asks().is_some()).await;
        asks()
    });
    assert!(matches!(error, RoutesError::NotUp { others: true, .. }), "{error}");
    assert_eq!((asked, asks()), (Some(false), Some(true)), "while another was to come, and then");
    stage.proxy.settings.program = program;
}

#[tokio::test]
async fn one_that_serves_hears_of_routes_whatever_becomes_of_those_that_leave() {
    let Some(mut stage) = Stage::new() else { return };
    let (shell, web) = (echo().await, Container::http(LOCAL, "web").await);
    stage.routes(&table([("shell", tcp(15022), &[&shell])])).await;
    let obstacle = stage.dynamic("routes.yaml.new");
    let mut session = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut session).await;
    stage.routes(&table([])).await;
    // What the one that leaves is to read cannot be written.
    std::fs::create_dir(&obstacle).expect("room");
    let routes = table([("web", http("a.example.com"), &[&web])]);
    let error = stage.error(&routes).await;
    assert!(matches!(error, RoutesError::NotWritten { .. }), "{error}");
    let served = async { while stage.get("a.example.com").await.0 != 200 {} };
    tokio::time::timeout(LONG, served).await.expect("it was told");
    goes_on(&mut session).await;
}

#[tokio::test]
async fn a_port_for_tls_that_is_somebody_elses_keeps_the_one_that_serves_up_to_date() {
    let Some(mut stage) = Stage::new() else { return };
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http("a.example.com"), &[&web])])).await;
    let somebody = tokio::net::TcpListener::bind(stage.at(SECURE)).await.expect("free");
    turn_tls_on(&mut stage);
    let (db, shop) = (Container::tcp(LOCAL, "db").await, Container::http(LOCAL, "shop").await);
    let routes = table([
        ("web", http("a.example.com"), &[&web]),
        ("shop", http("b.example.com"), &[&shop]),
        ("db", tcp(15432), &[&db]),
    ]);
    let drift = stage.drift(&routes).await;
    assert_eq!(drift, "Traefik runs with other ports or other settings");
    let crowd = Crowd::of(2, stage.at(WEB), "a.example.com");
    let words = stage.goes_on_with(&routes).await;
    let why = RoutesError::Taken { port: SECURE, others: true };
    assert_eq!(words, why.to_string());
    assert_eq!(stage.proxy.supervisor.started, 1);
    goes_on_but_for_the_port(&mut stage, &routes, crowd).await;
    drop(somebody);
    let is_free = async {
        // A process that is being started elsewhere holds it for a moment longer.
        while stage.finds(&routes).await.drift.is_none() {}
    };
    tokio::time::timeout(LONG, is_free).await.expect("it is seen");
}

#[tokio::test]
async fn what_else_is_missing_is_said_while_nobody_can_take_over() {
    let Some(mut stage) = Stage::new() else { return };
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http("a.example.com"), &[&web])])).await;
    turn_tls_on(&mut stage);
    let _somebody = tokio::net::TcpListener::bind(stage.at(SECURE)).await.expect("free");
    let both = [("web", http("a.example.com"), &[&web][..]), ("zoo", http("a.example.com"), &[])];
    let words = stage.goes_on_with(&table(both)).await;
    assert!(words.starts_with("another program of this host has port 18443"), "{words}");
    assert!(
        words.ends_with("zoo.main is left out: web.main has the same domain or port"),
        "{words}"
    );
}

#[tokio::test]
async fn tls_that_nobody_comes_up_with_costs_no_request_of_those_that_were_served_without() {
    let Some(mut stage) = Stage::new() else { return };
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http("a.example.com"), &[&web])])).await;
    turn_tls_on(&mut stage);
    stage.proxy.settings.program = Some("/bin/false".into());
    let (db, shop) = (Container::tcp(LOCAL, "db").await, Container::http(LOCAL, "shop").await);
    let routes = table([
        ("web", http("a.example.com"), &[&web]),
        ("shop", http("b.example.com"), &[&shop]),
        ("db", tcp(15432), &[&db]),
    ]);
    let crowd = Crowd::of(2, stage.at(WEB), "a.example.com");
    let error = stage.error(&routes).await;
    assert!(matches!(error, RoutesError::NotUp { others: true, .. }), "{error}");
    goes_on_but_for_the_port(&mut stage, &routes, crowd).await;
    assert_eq!(stage.proxy.setbacks.marks().len(), 1, "it is left alone for a while");
}

#[tokio::test]
async fn one_that_failed_often_keeps_no_news_from_the_one_that_serves_until_somebody_asks() {
    let Some(mut stage) = Stage::new() else { return };
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http("a.example.com"), &[&web])])).await;
    let db = Container::tcp(LOCAL, "db").await;
    let with_port =
        |domain| table([("web", http(domain), &[&web][..]), ("db", tcp(15432), &[&db])]);
    let next = with_port("b.example.com");
    leaves_alone(&mut stage, &next).await;
    for domain in ["b.example.com", "c.example.com"] {
        let words = stage.goes_on_with(&with_port(domain)).await;
        assert!(words.contains("does not come up") && words.contains("goes on"), "{words}");
        assert_eq!(stage.get(domain).await, (200, "web".into()));
    }
    assert_eq!(stage.proxy.supervisor.started, 1, "it is left alone");
    stage.proxy.forgive();
    stage.routes(&next).await;
    assert_eq!(greeting(&stage, 15432).await, "db");
    assert!(stage.proxy.setbacks.marks().is_empty(), "nothing is left of it");
}

/// The process that these routes need did not come up so often that it is not tried again soon.
pub(super) async fn leaves_alone(stage: &mut Stage, routes: &Routes) {
    let plan = stage.proxy.plan(routes, &[]).await.expect("it can be told");
    for _ in 0..10 {
        let (generation, why) = (plan.fixed.generation.clone(), "so".to_owned());
        stage.proxy.setbacks.gave_up(generation, why, std::time::Instant::now());
    }
}

pub(super) fn turn_tls_on(stage: &mut Stage) {
    let folder = stage.folder.path().to_owned();
    with_acme(&mut stage.proxy.settings, &folder);
}

/// The one before goes on: nobody noticed, newer domains are served, and it is said which port is not.
async fn goes_on_but_for_the_port(stage: &mut Stage, routes: &Routes, crowd: Crowd) {
    crowd.goes_on().await;
    let (_, failures) = crowd.leaves().await;
    assert_eq!(failures, [""; 0]);
    assert_eq!(stage.get("b.example.com").await, (200, "shop".into()), "with the newest routes");
    let left_out = |stage: &Stage| -> Vec<String> {
        stage.proxy.left_out().iter().map(|key| key.service.to_string()).collect()
    };
    assert_eq!((stage.proxy.in_effect(), left_out(stage)), (routes.hash(), vec!["db".into()]));
    stage.finds(routes).await;
    assert_eq!((stage.proxy.in_effect(), left_out(stage)), (routes.hash(), vec!["db".into()]));
}

#[tokio::test]
async fn a_new_port_comes_with_a_process_that_takes_over() {
    let Some(mut stage) = Stage::new() else { return };
    let web = Container::http(LOCAL, "web").await;
    let db = Container::tcp(LOCAL, "db").await;
    stage.routes(&table([("web", http("a.example.com"), &[&web])])).await;
    let with_port = table([("web", http("a.example.com"), &[&web]), ("db", tcp(15432), &[&db])]);
    let drift = stage.drift(&with_port).await;
    assert_eq!(drift, "Traefik runs with other ports or other settings");
    stage.routes(&with_port).await;
    assert_eq!(greeting(&stage, 15432).await, "db");
    assert_eq!(stage.get("a.example.com").await, (200, "web".into()));
    assert_eq!(stage.proxy.supervisor.started, 2);
    // A change of routes needs no other process.
    stage.routes(&table([("db", tcp(15432), &[&db])])).await;
    assert_eq!(stage.proxy.supervisor.started, 2);
    stage.routes(&table([])).await;
    until_refused(&stage, 15432).await;
}

#[tokio::test]
async fn a_connection_lasts_though_another_process_takes_over_and_ends_with_its_own() {
    let Some(mut stage) = Stage::new() else { return };
    let (shell, db) = (echo().await, Container::tcp(LOCAL, "db").await);
    let before = table([("shell", tcp(15022), &[&shell])]);
    let after = table([("shell", tcp(15022), &[&shell]), ("db", tcp(15432), &[&db])]);
    stage.routes(&before).await;
    let mut first = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut first).await;
    stage.routes(&after).await;
    goes_on(&mut first).await;
    until_one_listens(&stage, 15022).await;
    let mut second = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut second).await;
    assert_eq!(greeting(&stage, 15432).await, "db");
    // Back to what there was: the one that was told to end begins anew.
    stage.routes(&before).await;
    goes_on(&mut second).await;
    until_refused(&stage, 15432).await;
    until_one_listens(&stage, 15022).await;
    let mut third = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut third).await;
    drop(second);
    until_one_is_left(&mut stage).await;
    goes_on(&mut third).await;
}

#[tokio::test]
async fn one_that_was_to_leave_and_was_started_again_is_seen_and_has_to_leave_again() {
    let Some(mut stage) = Stage::new() else { return };
    let (shell, db) = (echo().await, Container::tcp(LOCAL, "db").await);
    stage.routes(&table([("shell", tcp(15022), &[&shell])])).await;
    let mut session = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut session).await;
    let first = stage.proxy.supervisor.running().await.expect("known").remove(0).generation;
    let routes = table([("shell", tcp(15022), &[&shell]), ("db", tcp(15432), &[&db])]);
    stage.routes(&routes).await;
    // As systemd does with one that the kernel has killed.
    stage.proxy.supervisor.restart(&first).await.expect("started");
    assert_eq!(stage.drift(&routes).await, "more than one Traefik runs");
    stage.routes(&routes).await;
    until_one_is_left(&mut stage).await;
    assert_eq!(greeting(&stage, 15432).await, "db");
}

#[tokio::test]
async fn what_is_in_effect_is_what_the_one_that_serves_has_whoever_leaves() {
    let Some(mut stage) = Stage::new() else { return };
    let (shell, db) = (echo().await, Container::tcp(LOCAL, "db").await);
    let shell = ("shell", tcp(15022), &[&shell][..]);
    let tables = [table([shell.clone()]), table([shell, ("db", tcp(15432), &[&db])])];
    // Whichever of two is listed first, one time it is the one that leaves.
    let mut sessions = Vec::new();
    for routes in [&tables[0], &tables[1], &tables[0]] {
        stage.routes(routes).await;
        until_one_listens(&stage, 15022).await;
        // Another agent would not know that it does.
        let known = std::mem::take(&mut stage.proxy.leaving);
        stage.finds(routes).await;
        assert_eq!(stage.proxy.in_effect(), routes.hash());
        stage.proxy.leaving = known;
        let mut session = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
        goes_on(&mut session).await;
        sessions.push(session);
    }
}

async fn until_one_is_left(stage: &mut Stage) {
    let ended = async {
        while stage.proxy.supervisor.running().await.expect("known").len() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, ended).await.expect("nothing keeps the one that was told to end");
}

/// Waits until the process that was told to end takes no more connections: who comes before that may
/// be its own, and end with it.
async fn until_one_listens(stage: &Stage, port: u16) {
    let address = u32::from_ne_bytes(stage.listen.octets());
    let listens = format!(" {address:08X}:{port:04X} 00000000:0000 0A ");
    let sockets = || std::fs::read_to_string("/proc/self/net/tcp").expect("there is a /proc");
    let one_listens = async {
        while sockets().matches(&listens).count() != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, one_listens).await.expect("one process has the port");
}

async fn until_refused(stage: &Stage, port: u16) {
    let refused = async {
        while TcpStream::connect(stage.at(port)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, refused).await.expect("a port that nobody needs is closed");
}
