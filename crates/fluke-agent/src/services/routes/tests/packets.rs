//! Routes for packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fluke_model::service::Traffic;
use tokio::net::{TcpStream, UdpSocket};

use super::stage::*;

/// Less than what Traefik takes for a pause.
const SOON: std::time::Duration = std::time::Duration::from_millis(300);

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
    // Who was led there by a process that heard of it later is parted by another look.
    let due = tokio::time::timeout(LONG, stage.proxy.changed());
    due.await.expect("nobody has to say so");
    stage.finds(&game(&new)).await;
    player.is_led_to("new").await;
    // Also by an agent that was not there when they came.
    stage.has_another_agent();
    stage.drift(&game(&newest)).await;
    stage.routes(&game(&newest)).await;
    assert_ne!(player.answer().await.as_deref(), Some("new"), "they were parted");
    player.is_led_to("newest").await;
    assert_eq!(nobody_else.answer().await.as_deref(), Some("it"), "nobody else notices");
}
