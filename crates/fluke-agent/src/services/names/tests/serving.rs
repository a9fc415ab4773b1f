use std::net::{Ipv4Addr, SocketAddr};

use domain::base::iana::{Rcode, Rtype};
use tokio::net::TcpStream;

use super::client::{self, addresses};
use super::*;

#[tokio::test]
async fn what_is_served_is_what_was_told_over_udp_and_tcp() {
    let mut host = Host::alone().await;
    assert_eq!(host.server.serving().await.expect("it listens"), None);
    let table = names(&[("web", 3)]);
    let wrong = host.server.check(&table).await;
    assert!(matches!(wrong, Err(NamesError::Other { serving: None, .. })), "{wrong:?}");
    host.server.apply(&table).await.expect("served");
    host.server.check(&table).await.expect("nothing is wrong");
    assert_eq!(host.server.serving().await.expect("it listens"), Some(table.hash()));
    let at = host.address().await;
    assert_eq!(addresses(&client::udp(at, "web.internal").await).len(), 3);
    assert_eq!(addresses(&client::tcp(at, "Web.Internal").await).len(), 3);
    host.server.apply(&names(&[("db", 1)])).await.expect("served");
    let answer = client::udp(at, "web.internal").await;
    assert_eq!(answer.header().rcode(), Rcode::NXDOMAIN);
    assert!(host.server.check(&table).await.is_err());
}

#[tokio::test]
async fn each_container_comes_first_in_turn_for_each_service() {
    let mut host = Host::alone().await;
    host.server.apply(&names(&[("web", 2), ("db", 2)])).await.expect("served");
    let at = host.address().await;
    let mut firsts = Vec::new();
    for _ in 0..4 {
        firsts.push(addresses(&client::udp(at, "web.internal").await)[0]);
        client::udp(at, "db.internal").await;
    }
    assert_ne!(firsts[0], firsts[1]);
    assert_eq!((firsts[0], firsts[1]), (firsts[2], firsts[3]));
}

#[tokio::test]
async fn the_last_names_are_served_right_after_a_restart() {
    let mut host = Host::alone().await;
    let table = names(&[("web", 2)]);
    host.server.apply(&table).await.expect("served");
    host.keeps(&table).await;
    host.server = started(setup(&host.dir, 0)).await;
    assert_eq!(addresses(&client::udp(host.address().await, "web.internal").await).len(), 2);
    host.server.check(&table).await.expect("nothing is wrong");
}

#[tokio::test]
async fn damaged_records_are_put_aside_and_nothing_is_denied_meanwhile() {
    let host = Host::alone().await;
    std::fs::write(host.dir.path().join("names.json"), "{").expect("room");
    let server = started(setup(&host.dir, 0)).await;
    let host = Host { server, ..host };
    let answer = client::udp(host.address().await, "web.internal").await;
    assert_eq!(answer.header().rcode(), Rcode::SERVFAIL);
    assert!(host.dir.path().join("names.json.corrupt-1").exists());
}

#[tokio::test]
async fn names_that_cannot_be_kept_are_served_and_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let records = dir.path().join("away/names.json");
    let mut server = started(Setup { records, ..setup(&dir, 0) }).await;
    let table = names(&[("web", 1)]);
    server.apply(&table).await.expect("served");
    server.changed().await;
    let wrong = server.check(&table).await;
    assert!(
        matches!(wrong, Err(NamesError::NotKept { .. })),
        "a restart would lose them: {wrong:?}"
    );
    assert_eq!(server.serving().await.expect("it listens"), Some(table.hash()));
    std::fs::create_dir(dir.path().join("away")).expect("room");
    // Whoever looks has it tried again.
    let _ = server.check(&table).await;
    server.changed().await;
    server.check(&table).await.expect("nothing is wrong");
}

#[tokio::test]
async fn names_that_nobody_hears_are_kept_once_they_can_be() {
    let (taken, _) = world::both().await;
    let port = taken.local_addr().expect("bound").port();
    let dir = tempfile::tempdir().expect("a directory");
    let records = dir.path().join("away/names.json");
    let setup = Setup { records: records.clone(), ..setup(&dir, port) };
    let (mut server, table) = (NamesServer::start(setup), names(&[("web", 1)]));
    server.apply(&table).await.expect_err("it does not listen");
    server.changed().await;
    std::fs::create_dir(dir.path().join("away")).expect("room");
    let wrong = server.check(&table).await;
    assert!(matches!(wrong, Err(NamesError::NotListening { .. })), "{wrong:?}");
    let kept = tokio::time::timeout(client::DEADLINE, server.changed()).await;
    kept.expect("whoever looks has it tried again");
    assert_eq!(records::look(&records).expect("sound"), Some(table));
}

#[tokio::test]
async fn a_disk_that_hangs_keeps_no_names_waiting_and_gets_the_last_of_them() {
    let mut host = Host::alone().await;
    // Whoever opens it to write waits for somebody who reads.
    let hangs = host.dir.path().join("names.json.new");
    let made = std::process::Command::new("mkfifo").arg(&hangs).status();
    assert!(made.expect("mkfifo runs").success());
    let tables = [1, 2, 3].map(|count| names(&[("web", count)]));
    let mut served = Vec::new();
    for table in &tables {
        let applied = tokio::time::timeout(client::DEADLINE, host.server.apply(table)).await;
        served.push(applied.is_ok_and(|applied| applied.is_ok()));
        host.server.check(table).await.expect("nothing is wrong yet");
    }
    let reads = std::fs::OpenOptions::new().read(true).write(true).open(&hangs);
    assert_eq!(served, [true; 3], "at once");
    let at = host.address().await;
    assert_eq!(addresses(&client::udp(at, "web.internal").await).len(), 3);
    host.keeps(&tables[2]).await;
    drop(reads);
}

#[test]
fn names_are_written_once_and_again_where_somebody_changed_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let (table, path) = (names(&[("web", 1)]), dir.path().join("names.json"));
    let kept = records::save(&path, &table, None).expect("room");
    assert_eq!(records::save(&path, &table, Some(kept)).expect("room"), kept);
    std::fs::write(&path, "{}").expect("room");
    let again = records::save(&path, &table, Some(kept)).expect("room");
    assert_ne!(again, kept);
    assert_eq!(records::look(&path).expect("sound"), Some(table));
    let other = names(&[("web", 2)]);
    assert_ne!(records::save(&path, &other, Some(again)).expect("room"), again);
    assert_eq!(records::look(&path).expect("sound"), Some(other));
}

#[tokio::test]
async fn names_that_somebody_took_from_the_disk_are_put_back() {
    let mut host = Host::alone().await;
    let table = names(&[("web", 1)]);
    host.server.apply(&table).await.expect("served");
    host.keeps(&table).await;
    std::fs::remove_file(host.dir.path().join("names.json")).expect("it was there");
    host.server.check(&table).await.expect("it is served all the same");
    host.keeps(&table).await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_reported_and_had_once_it_is_free() {
    let (taken, _) = world::both().await;
    let port = taken.local_addr().expect("bound").port();
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = NamesServer::start(setup(&dir, port));
    let table = names(&[("web", 1)]);
    let first = server.apply(&table).await.expect_err("it does not listen");
    let NamesError::NotListening { why, .. } = &first else { panic!("{first:?}") };
    assert!(why.contains("in use"), "{why}");
    let again = server.check(&table).await.expect_err("what nobody hears is not served");
    assert_eq!(again.to_string(), first.to_string(), "it is no news");
    drop(taken);
    let listens = async {
        while server.serving().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(client::DEADLINE, listens).await.expect("it tries again by itself");
    server.check(&table).await.expect("what it was told meanwhile");
}

#[tokio::test]
async fn it_listens_at_an_address_that_is_not_there_yet() {
    let dir = tempfile::tempdir().expect("a directory");
    let gateway = Ipv4Addr::new(10, 255, 254, 1);
    let server = started(Setup { gateway, ..setup(&dir, 0) }).await;
    assert_eq!(server.serving().await.expect("it listens"), None);
}

#[tokio::test]
async fn a_listener_that_ended_is_seen_and_started_anew() {
    let mut host = Host::alone().await;
    let table = names(&[("web", 1)]);
    host.server.apply(&table).await.expect("served");
    host.server.task.abort();
    let wrong = host.server.check(&table).await;
    assert!(matches!(wrong, Err(NamesError::Stuck { .. })), "{wrong:?}");
    // It has no port of its own in tests, and may come upon one that is taken.
    while let Err(error) = host.server.apply(&table).await {
        assert!(matches!(error, NamesError::NotListening { .. }), "{error}");
    }
    assert_eq!(addresses(&client::udp(host.address().await, "web.internal").await).len(), 1);
}

#[tokio::test]
async fn strangers_are_refused() {
    let mut host = Host::alone().await;
    host.server.apply(&names(&[("web", 1)])).await.expect("served");
    let at = host.address().await;
    let packet = client::question(9, "web.internal", Rtype::A, None);
    let answer = client::from(Ipv4Addr::new(127, 0, 1, 1), at, &packet).await;
    assert_eq!(answer.header().rcode(), Rcode::REFUSED);
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 1, 1], 0))).expect("bound");
    let mut stream = socket.connect(at.into()).await.expect("the kernel connects");
    assert!(client::hear(&mut stream).await.is_none(), "and is hung up on");
}

#[tokio::test]
async fn one_connection_may_ask_many_things_and_nothing_endless() {
    let mut host = Host::alone().await;
    host.server.apply(&names(&[("web", 100)])).await.expect("served");
    let at = host.address().await;
    let mut stream = TcpStream::connect(at).await.expect("connected");
    for id in 1..=5 {
        client::say(&mut stream, &client::question(id, "web.internal", Rtype::A, None)).await;
    }
    for id in 1..=5 {
        let answer = client::hear(&mut stream).await.expect("an answer");
        assert_eq!((answer.header().id(), addresses(&answer).len()), (id, 100));
    }
    client::say(&mut stream, &[0; 5000]).await;
    assert!(client::hear(&mut stream).await.is_none(), "no question is so long");
    let mut silent = TcpStream::connect(at).await.expect("connected");
    assert!(client::hear(&mut silent).await.is_none(), "who says nothing is hung up on");
}

#[tokio::test]
async fn more_connections_than_may_be_wait_for_their_turn() {
    let mut host = Host::alone().await;
    host.server.apply(&names(&[("web", 1)])).await.expect("served");
    let at = host.address().await;
    let mut idle = Vec::new();
    for last in (1..=6).flat_map(|last| [last; 16]) {
        idle.push(connected_from(last, at).await);
    }
    assert_eq!(addresses(&client::udp(at, "web.internal").await).len(), 1, "others go on");
    assert_eq!(addresses(&client::tcp(at, "web.internal").await).len(), 1, "idle ones make room");
}

#[tokio::test]
async fn one_client_cannot_have_all_connections() {
    let mut host = Host::alone().await;
    host.server.apply(&names(&[("web", 1)])).await.expect("served");
    let at = host.address().await;
    let mut idle = Vec::new();
    for _ in 0..16 {
        idle.push(connected_from(1, at).await);
    }
    let mut one_more = connected_from(1, at).await;
    let packet = client::question(1, "web.internal", Rtype::A, None);
    let framed = [&[0, u8::try_from(packet.len()).expect("short")], &packet[..]].concat();
    // Whether it is hung up on before or after it has asked.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut one_more, &framed).await;
    assert!(client::hear(&mut one_more).await.is_none());
    let mut other = connected_from(2, at).await;
    client::say(&mut other, &packet).await;
    assert_eq!(addresses(&client::hear(&mut other).await.expect("an answer")).len(), 1);
}

/// A connection from `127.0.0.LAST`.
async fn connected_from(last: u8, server: SocketAddrV4) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).expect("bound");
    socket.connect(server.into()).await.expect("the kernel connects")
}
