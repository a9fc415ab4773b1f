//! Strangers by the thousand, and commits that are meant to hurt: the agent that belongs here goes
//! on as before, and the server gives back what they took.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::super::support::{Bed, ServerOptions, applied, bed, keeps};
use super::limits::reconcile;
use super::{Holds, assert_every_apply_has_one_end, held_by_server, polling};

/// On each port.
const STRANGERS: usize = 2000;

fn connect(to: SocketAddr) -> TcpStream {
    let stream =
        TcpStream::connect_timeout(&to, Duration::from_secs(20)).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(40))).expect("a socket");
    stream.set_write_timeout(Some(Duration::from_secs(40))).expect("a socket");
    stream
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
/// `POST / http`, to nobody.
const REQUEST: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 0x01, b'x'];

fn http2(to: SocketAddr) -> TcpStream {
    let mut stream = connect(to);
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    stream.write_all(&hello).expect("the server reads");
    stream
}

/// Goes on until the server has had enough; panics if it never has.
fn until_it_hangs_up(mut stream: TcpStream, frames: impl Iterator<Item = Vec<u8>>) {
    let mut refused = false;
    for frame in frames {
        if stream.write_all(&frame).is_err() {
            refused = true;
            break;
        }
    }
    let mut said = [0; 4096];
    loop {
        match stream.read(&mut said) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server holds on to a stranger (refused: {refused})");
            }
            Err(_) => return,
        }
    }
}

fn rapid_reset(to: SocketAddr) {
    let requests = (0..20_000_u32).map(|n| {
        let stream = 2 * n + 1;
        [frame(HEADERS, 5, stream, &REQUEST), frame(RESET, 0, stream, &8_u32.to_be_bytes())]
            .concat()
    });
    until_it_hangs_up(http2(to), requests);
}

fn endless_headers(to: SocketAddr) {
    let first = std::iter::once(frame(HEADERS, 0, 1, &REQUEST));
    // A literal header, never indexed: `a: aaaa…`.
    let more = [&[0x10, 0x01, b'a', 0x7f, 0x81, 0x3e][..], &[b'a'; 8000]].concat();
    until_it_hangs_up(
        http2(to),
        first.chain((0..5000).map(move |_| frame(CONTINUATION, 0, 1, &more))),
    );
}

fn oversized_frame(to: SocketAddr) {
    let mut header = frame(0, 0, 1, &[]);
    header[0] = 0xff;
    until_it_hangs_up(http2(to), std::iter::once(header).chain((0..200).map(|_| vec![0; 65_536])));
}

/// Strangers at both ports: some say nothing, some begin and do not go on.
fn gather(grpc: SocketAddr, http: SocketAddr) -> Vec<TcpStream> {
    let two = |n| {
        let (mut agent, mut page) = (connect(grpc), connect(http));
        if n % 2 == 0 {
            let _ = agent.write_all(b"PRI * HTTP/2.0\r\n\r\n");
            let _ = page.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ");
        }
        [agent, page]
    };
    (0..STRANGERS).flat_map(two).collect()
}

/// Lets them go, and waits until the server has noticed.
fn disperse(bed: &Bed, crowd: Vec<TcpStream>, before: Holds) -> Holds {
    drop(crowd);
    bed.until("the server has given back what they took", |bed| {
        held_by_server(bed).descriptors <= before.descriptors + 4
    });
    held_by_server(bed)
}

/// How long the agent that belongs here takes, from the question to the answer.
fn answer(bed: &Bed) -> Duration {
    let mut times: Vec<_> = (0..9)
        .map(|_| {
            let began = Instant::now();
            reconcile(bed);
            began.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

#[test]
fn thousands_of_strangers_neither_keep_the_agent_out_nor_leave_anything_behind() {
    let Some(bed) = bed() else { return };
    bed.server_with(ServerOptions { tls: fluke_bed::Tls::Off, ..polling() });
    let web = bed.host("web-1").joins("");
    bed.commit("a.fluke.hcl", &keeps("first", "remediate"));
    bed.settles();
    let (grpc, http) = (bed.server().grpc(), bed.server().http());
    let (alone, before) = (answer(&bed), held_by_server(&bed));

    let crowd = gather(grpc, http);
    std::thread::scope(|scope| {
        for port in [grpc, http] {
            scope.spawn(move || rapid_reset(port));
            scope.spawn(move || endless_headers(port));
            scope.spawn(move || oversized_frame(port));
        }
    });
    let crowded = answer(&bed);
    bed.commit("b.fluke.hcl", &keeps("second", "remediate"));
    bed.settles();
    // One that was away comes back through the crowd.
    web.kill_agent();
    bed.settles();
    let during = held_by_server(&bed);
    let after = disperse(&bed, crowd, before);
    tell(alone, crowded, [before, during, after]);
    bed.until("the server has given back their memory", |bed| {
        held_by_server(bed).memory_kib < before.memory_kib * 11 / 10 + 8 * 1024
    });
    assert_eq!((applied(&web, "first"), applied(&web, "second")), (1, 1));
    assert_every_apply_has_one_end(&bed, &web);
    assert!(!bed.server().log().contains("panicked"));
}

#[expect(clippy::print_stderr, reason = "figures are for whoever looks")]
fn tell(alone: Duration, crowded: Duration, [before, during, after]: [Holds; 3]) {
    let ratio = crowded.as_secs_f64() / alone.as_secs_f64();
    eprintln!("an answer alone {alone:?}, in a crowd {crowded:?}: {ratio:.2} times");
    eprintln!("before {before:?}\nduring {during:?}\nafter {after:?}");
}

#[test]
fn commits_that_are_meant_to_hurt_are_refused_and_the_last_good_one_stays() {
    let Some(bed) = bed() else { return };
    let good = bed.commit("good.fluke.hcl", &keeps("first", "remediate"));
    bed.server_with(polling());
    bed.until("the good one is in force", |bed| bed.source().commit == Some(good.clone()));
    let before = held_by_server(&bed);
    let blocks = "task \"x\" {}\n".repeat(40_000);
    let bombs: [(&str, Vec<u8>); 7] = [
        (
            "brackets",
            format!("locals {{\n  x = {}1{}\n}}\n", "[".repeat(100_000), "]".repeat(100_000))
                .into(),
        ),
        ("blocks within blocks", "a {\n".repeat(100_000).into()),
        ("templates", format!("locals {{\n  x = \"{}\"\n}}\n", "${\"".repeat(100_000)).into()),
        ("forty thousand blocks", blocks.into()),
        ("no UTF-8", b"task \"\xff\xfe\" {\n}\n".to_vec()),
        ("too large", vec![b'#'; 8 << 20]),
        (
            "doubling",
            (0..200)
                .fold("locals {\n  a0 = \"xxxxxxxxxx\"\n".to_string(), |text, n| {
                    format!("{text}  a{} = \"${{local.a{n}}}${{local.a{n}}}\"\n", n + 1)
                })
                .into_bytes()
                .into_iter()
                .chain(*b"}\n")
                .collect(),
        ),
    ];
    for (name, bomb) in bombs {
        std::fs::write(bed.repository().path().join("bomb.fluke.hcl"), &bomb).expect("written");
        let committed = Instant::now();
        let bad = bed.commit_files(&[]);
        bed.until(&format!("{name} is refused"), |bed| {
            let source = bed.source();
            source.last_seen == Some(bad.clone()) && source.rejected
        });
        tell_bomb(name, committed.elapsed(), held_by_server(&bed));
        assert_eq!(bed.source().commit, Some(good.clone()), "{name}");
        assert!(!bed.source().diagnostics.is_empty(), "{name}");
    }
    // Forty thousand blocks are a large commit, and not a bomb by themselves.
    let after = held_by_server(&bed);
    assert!(after.memory_kib < before.memory_kib + 96 * 1024, "{before:?} {after:?}");
    std::fs::remove_file(bed.repository().path().join("bomb.fluke.hcl")).expect("removed");
    let cured = bed.commit_files(&[]);
    bed.until("what is good again is in force", |bed| bed.source().commit == Some(cured.clone()));
    assert!(!bed.server().log().contains("panicked"));
}

#[expect(clippy::print_stderr, reason = "figures are for whoever looks")]
fn tell_bomb(name: &str, took: Duration, holds: Holds) {
    eprintln!("{name}: refused after {took:?}, server at {} KiB", holds.memory_kib);
}
