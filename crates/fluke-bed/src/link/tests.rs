use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::Link;

/// A server that has accepted one connection through a link.
fn connected() -> (Link, TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let to = listener.local_addr().expect("an address");
    let link = Link::new(Ipv4Addr::LOCALHOST, to).expect("a link");
    let agent = TcpStream::connect(link.address()).expect("a connection");
    let (server, _) = listener.accept().expect("a connection");
    // Accepted by the system is not yet known to the link.
    while link.connections() == 0 {
        std::thread::yield_now();
    }
    for stream in [&agent, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    }
    (link, agent, server)
}

fn hears(mut stream: &TcpStream, text: &str) {
    let mut heard = vec![0; text.len()];
    stream.read_exact(&mut heard).expect("it arrives");
    assert_eq!(heard, text.as_bytes());
}

fn is_silent(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let error = stream.read(&mut [0]).err().map(|error| error.kind());
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    error == Some(std::io::ErrorKind::WouldBlock)
}

#[test]
fn a_good_link_passes_everything_on_both_ways_and_tells_of_the_end() {
    let (link, mut agent, mut server) = connected();
    agent.write_all(b"hello").expect("sent");
    hears(&server, "hello");
    server.write_all(b"welcome").expect("sent");
    hears(&agent, "welcome");
    assert_eq!(link.connections(), 1);
    drop(agent);
    assert_eq!(server.read(&mut [0]).expect("an end"), 0);
}

#[test]
fn a_slow_link_delivers_late() {
    let (link, mut agent, server) = connected();
    link.delay(Duration::from_millis(300));
    let sent = Instant::now();
    agent.write_all(b"late").expect("sent");
    hears(&server, "late");
    assert!(sent.elapsed() >= Duration::from_millis(300));
}

#[test]
fn what_a_black_hole_took_arrives_when_it_is_healed() {
    let (link, mut agent, server) = connected();
    link.blackhole();
    agent.write_all(b"lost?").expect("sent");
    assert!(is_silent(&server));
    link.heal();
    hears(&server, "lost?");
}

#[test]
fn a_half_open_connection_is_gone_for_one_side_only() {
    let (link, mut agent, mut server) = connected();
    link.half_open();
    assert_eq!(agent.read(&mut [0]).expect("an end"), 0);
    assert!(is_silent(&server), "the server does not know");
    link.heal();
    assert_eq!(server.read(&mut [0]).expect("an end"), 0);
}

#[test]
fn a_torn_connection_is_gone_for_both() {
    let (link, mut agent, mut server) = connected();
    link.drop_connections();
    assert_eq!(agent.read(&mut [0]).expect("an end"), 0);
    assert_eq!(server.read(&mut [0]).expect("an end"), 0);
    assert_eq!(link.connections(), 0);
}

#[test]
fn a_forgotten_connection_stays_open_and_says_nothing_more() {
    let (link, mut agent, server) = connected();
    link.forget();
    agent.write_all(b"lost").expect("taken");
    assert!(is_silent(&server) && is_silent(&agent));
    link.heal();
    assert_eq!((&server).read(&mut [0]).expect("an end"), 0);
}

#[test]
fn a_link_that_corrupts_does_so_once() {
    let (link, mut agent, server) = connected();
    link.corrupt();
    agent.write_all(b"a").expect("sent");
    let mut heard = [0];
    (&server).read_exact(&mut heard).expect("it arrives");
    assert_ne!(&heard, b"a");
    agent.write_all(b"b").expect("sent");
    hears(&server, "b");
}
