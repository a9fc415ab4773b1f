use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fluke_model::directory::Routes;
use fluke_model::service::Traffic;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::super::{Acme, RoutesError, Settings, Supervisor};
use super::stage::*;
use crate::services::section::Found;

/// Less than what Traefik takes for a pause.
const SOON: std::time::Duration = std::time::Duration::from_millis(300);

async fn greeting(stage: &Stage, port: u16) -> String {
    let mut stream = TcpStream::connect(stage.at(port)).await.expect("somebody listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an end");
    text
}

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

fn udp(port: u16) -> Traffic {
    Traffic::Udp { external: Some(port) }
}

/// One that sends every packet back.
async fn game() -> Container {
    let socket = UdpSocket::bind((LOCAL, 0)).await.expect("a port");
    let std::net::SocketAddr::V4(address) = socket.local_addr().expect("bound") else {
        panic!("v4")
    };
    let served = Arc::new(AtomicUsize::new(0));
    let count = served.clone();
    let task = tokio::spawn(async move {
        let mut packet = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut packet).await {
            count.fetch_add(1, Ordering::Relaxed);
            socket.send_to(&packet[..length], from).await.expect("sent");
        }
    });
    Container { address, served, task }
}

/// Sends a packet from a port that nobody used before; whether it comes back in time.
async fn plays(stage: &Stage, port: u16, within: Duration) -> bool {
    let player = UdpSocket::bind((stage.listen, 0)).await.expect("a port");
    player.send_to(b"ping", stage.at(port)).await.expect("sent");
    let mut packet = [0; 64];
    let received = tokio::time::timeout(within, player.recv_from(&mut packet)).await;
    received.is_ok_and(|it| packet[..it.expect("an answer").0] == *b"ping")
}

#[tokio::test]
async fn a_packet_reaches_a_container_and_its_answer_comes_back() {
    let Some(mut stage) = Stage::new() else { return };
    let game = game().await;
    stage.routes(&table([("game", udp(11001), &[&game])])).await;
    assert!(plays(&stage, 11001, LONG).await);
    assert_eq!(game.served(), 1);
}

#[tokio::test]
async fn a_port_for_packets_comes_back_while_the_one_that_had_it_leaves() {
    let Some(mut stage) = Stage::new() else { return };
    let (shell, game) = (echo().await, game().await);
    let before = table([("shell", tcp(15022), &[&shell]), ("game", udp(11001), &[&game])]);
    stage.routes(&before).await;
    // It keeps its process, and with it the port for packets.
    let mut session = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut session).await;
    stage.routes(&table([("shell", tcp(15022), &[&shell])])).await;
    goes_on(&mut session).await;
    stage.routes(&before).await;
    assert!(plays(&stage, 11001, LONG).await);
}

#[tokio::test]
async fn packets_go_where_containers_are_also_by_a_process_that_leaves() {
    let Some(mut stage) = Stage::new() else { return };
    let (shell, db) = (echo().await, Container::tcp(LOCAL, "db").await);
    let (old, new) = (game().await, game().await);
    let shell = ("shell", tcp(15022), &[&shell][..]);
    stage.routes(&table([shell.clone(), ("game", udp(11001), &[&old])])).await;
    let mut session = TcpStream::connect(stage.at(15022)).await.expect("somebody listens");
    goes_on(&mut session).await;
    let db = ("db", tcp(15432), &[&db][..]);
    stage.routes(&table([shell.clone(), db.clone(), ("game", udp(11001), &[&old])])).await;
    stage.routes(&table([shell, db, ("game", udp(11001), &[&new])])).await;
    old.dies().await;
    // Both processes have the port: whose a packet is, the kernel says by where it comes from.
    let all_are_led_there = async {
        let mut in_a_row = 0;
        while in_a_row < 32 {
            let comes_back = plays(&stage, 11001, Duration::from_secs(1)).await;
            in_a_row = if comes_back { in_a_row + 1 } else { 0 };
        }
    };
    tokio::time::timeout(LONG, all_are_led_there).await.expect("both know where it is now");
    assert!(new.served() >= 32);
    goes_on(&mut session).await;
}

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
    let error = stage.error(&routes).await;
    assert!(matches!(error, RoutesError::Taken { port: SECURE, others: true }), "{error}");
    assert_eq!(stage.proxy.supervisor.started, 1);
    goes_on_but_for_the_port(&mut stage, &routes, crowd).await;
    let found = stage.finds(&routes).await;
    assert_eq!(found, Found { drift: None, problem: Some(error.to_string()) });
    drop(somebody);
    let is_free = async {
        // A process that is being started elsewhere holds it for a moment longer.
        while stage.finds(&routes).await.drift.is_none() {}
    };
    tokio::time::timeout(LONG, is_free).await.expect("it is seen");
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
    let plan = stage.proxy.plan(&next, &[]).await.expect("it can be told");
    for _ in 0..10 {
        let (generation, why) = (plan.fixed.generation.clone(), "so".to_owned());
        stage.proxy.setbacks.gave_up(generation, why, std::time::Instant::now());
    }
    for domain in ["b.example.com", "c.example.com"] {
        stage.drift(&with_port(domain)).await;
        let error = stage.error(&with_port(domain)).await;
        assert!(matches!(error, RoutesError::NotUp { others: true, .. }), "{error}");
        assert_eq!(stage.get(domain).await, (200, "web".into()));
        let found = stage.finds(&with_port(domain)).await;
        assert_eq!(found, Found { drift: None, problem: Some(error.to_string()) });
    }
    assert_eq!(stage.proxy.supervisor.started, 1, "it is left alone");
    stage.proxy.forgive();
    stage.routes(&next).await;
    assert_eq!(greeting(&stage, 15432).await, "db");
    assert!(stage.proxy.setbacks.marks().is_empty(), "nothing is left of it");
}

fn turn_tls_on(stage: &mut Stage) {
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
async fn a_port_for_packets_that_is_somebody_elses_is_left_out() {
    let Some(mut stage) = Stage::new() else { return };
    let _somebody = UdpSocket::bind(stage.at(11001)).await.expect("free");
    let game = game().await;
    let routes = table([("game", udp(11001), &[&game])]);
    stage.proxy.apply(&routes).await.expect("all but that port");
    let words = stage.finds(&routes).await.problem.expect("it is left out");
    assert!(words.contains("another program of this host has port 11001"), "{words}");
}

/// Answers packets with its name.
async fn answering(name: &'static str) -> Container {
    let socket = UdpSocket::bind((LOCAL, 0)).await.expect("a port");
    let std::net::SocketAddr::V4(address) = socket.local_addr().expect("bound") else {
        panic!("it was asked for an IPv4 address")
    };
    tokio::spawn(async move {
        let mut packet = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut packet).await {
            let _ = socket.send_to(name.as_bytes(), from).await;
        }
    });
    let mut container = Container::tcp(LOCAL, "unused").await;
    container.address = address;
    container
}

/// Sends packets without a pause, and never from another port.
struct Player(UdpSocket);

impl Player {
    async fn of(stage: &Stage, port: u16) -> Self {
        let socket = UdpSocket::bind((stage.listen, 0)).await.expect("a port");
        socket.connect(stage.at(port)).await.expect("bound");
        Self(socket)
    }

    /// Who answers, if somebody does.
    async fn answer(&self) -> Option<String> {
        let mut packet = [0; 64];
        self.0.send(b"ping").await.expect("sent");
        let received = tokio::time::timeout(SOON, self.0.recv(&mut packet)).await.ok()?;
        Some(String::from_utf8_lossy(&packet[..received.expect("told")]).into_owned())
    }

    async fn is_led_to(&self, name: &str) {
        let told = async { while self.answer().await.as_deref() != Some(name) {} };
        tokio::time::timeout(LONG, told).await.expect("they are led there");
    }
}

#[tokio::test]
async fn somebody_who_sends_without_a_pause_is_led_anew_when_their_container_goes() {
    let Some(mut stage) = Stage::new() else { return };
    // Only root may end what is another program's.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let (old, new, other) = (answering("old").await, answering("new").await, answering("it").await);
    let newest = answering("newest").await;
    let game =
        |it: &Container| table([("game", udp(11001), &[it]), ("other", udp(11002), &[&other])]);
    stage.routes(&game(&old)).await;
    let player = Player::of(&stage, 11001).await;
    let nobody_else = Player::of(&stage, 11002).await;
    player.is_led_to("old").await;
    nobody_else.is_led_to("it").await;
    stage.routes(&game(&new)).await;
    player.is_led_to("new").await;
    assert_eq!(nobody_else.answer().await.as_deref(), Some("it"), "nobody else notices");
    // Also by an agent that was not there when they came.
    stage.has_another_agent();
    stage.drift(&game(&newest)).await;
    stage.routes(&game(&newest)).await;
    assert_ne!(player.answer().await.as_deref(), Some("new"), "they were parted");
    player.is_led_to("newest").await;
    assert_eq!(nobody_else.answer().await.as_deref(), Some("it"), "nobody else notices");
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

/// Says back whatever it is told, for as long as anybody listens.
async fn echo() -> Container {
    Container::serving(LOCAL, |mut stream, _| async move {
        let (mut from, mut to) = stream.split();
        let _ = tokio::io::copy(&mut from, &mut to).await;
    })
    .await
}

/// Says something by a connection, and waits until it comes back.
async fn goes_on(stream: &mut TcpStream) {
    let said = async {
        stream.write_all(b"still there?").await?;
        stream.read_exact(&mut [0; 12]).await
    };
    tokio::time::timeout(LONG, said).await.expect("in time").expect("it goes on");
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
