//! Hosts that reach each other, whatever somebody does to their interfaces.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use fluke_model::directory::{Peer, Peers, PublicKey, Subnet};
use fluke_model::id::AgentName;
use fluke_model::time::Timestamp;

use super::hosts::{DEADLINE, Host, World, table};
use crate::services::mesh::PORT;
use crate::services::section::Found;

#[test]
fn two_hosts_reach_each_other() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    let row = one.row();
    assert_eq!(row.1.endpoints, vec!["192.0.2.1:51820".parse().expect("an endpoint")]);
    // Each is told of all, itself included.
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    two.reaches(&one);
    let link = one.sh("ip -details link show MESH");
    assert!(link.contains("mtu 1420") && link.contains("UP"), "{link}");
    assert!(one.sh("ip route").contains("10.200.2.0/24 dev"));
    assert_eq!(one.sh("cat /proc/sys/net/ipv4/ip_forward").trim(), "1");
}

#[test]
fn a_peer_that_comes_and_goes_costs_the_others_nothing() {
    let Some(world) = World::new() else { return };
    let (one, two, three) = (world.host(1), world.host(2), world.host(3));
    let both = table(&[&one, &two]);
    let all = table(&[&one, &two, &three]);
    one.joins(&both);
    two.joins(&both);
    one.reaches(&two);
    let handshakes = || one.sh("wg show MESH latest-handshakes");
    let before = handshakes();

    let echo = Echo::between(&one, &two);
    echo.goes_on();
    for host in [&one, &two, &three] {
        host.joins(&all);
    }
    three.reaches(&one);
    three.reaches(&two);
    echo.goes_on();
    for host in [&one, &two] {
        host.joins(&both);
    }
    echo.goes_on();
    assert_eq!(echo.lost(), 0);
    assert_eq!(handshakes(), before, "it is the same tunnel all the while");
}

#[test]
fn what_somebody_does_to_the_interface_is_seen_and_put_right() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    let undone = [
        ("ip link set MESH down", "it is down"),
        ("ip link delete MESH", "the interface is not there"),
        ("ip address delete 10.100.0.1/32 dev MESH", "it has not the address 10.100.0.1/32"),
        ("ip address add 172.16.0.1/24 dev MESH", "it leads to 172.16.0.0/24, as nobody should"),
        ("ip route delete 10.200.2.0/24", "it does not lead to 10.200.2.0/24"),
        // As networkd would have it, or somebody else.
        (
            "ip route add 172.16.1.0/24 dev MESH proto 16 metric 50",
            "it leads to 172.16.1.0/24, as nobody should",
        ),
        (
            "ip route replace 10.200.2.0/24 dev MESH proto static scope global",
            "it leads to 10.200.2.0/24, as nobody should",
        ),
        // Beside ours, and of no use while that is there.
        (
            "ip route add 10.200.2.0/24 dev MESH metric 50",
            "it leads to 10.200.2.0/24, as nobody should",
        ),
        ("ip link set MESH mtu 1300", "its MTU is not 1420"),
        ("wg set MESH peer $(wg show MESH peers) remove", "peer h2 is missing"),
        ("wg set MESH peer $(wg genkey | wg pubkey) allowed-ips 10.9.9.9/32", "peer with key"),
        (
            "wg set MESH peer $(wg show MESH peers) allowed-ips fd00::/64",
            "peer h2 has other networks",
        ),
        ("wg set MESH listen-port 4711", "it does not listen at port 51820"),
        ("nft delete table ip fluke-mesh", "the rules of `fluke-mesh` are others"),
        ("nft flush chain ip fluke-mesh forward", "the rules of `fluke-mesh` are others"),
        ("echo 0 >/proc/sys/net/ipv4/ip_forward", "the host does not forward packets"),
    ];
    for (command, words) in undone {
        one.sh(command);
        let drift = one.drift(&table).unwrap_or_default();
        assert!(drift.starts_with(words), "{command}: {drift}");
        one.joins(&table);
        one.reaches(&two);
    }
}

#[test]
fn the_end_of_the_program_is_heard_of_and_put_right() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.does(|mesh| {
        Box::pin(async {
            let quiet = tokio::time::timeout(Duration::from_millis(50), mesh.changed()).await;
            assert!(quiet.is_err(), "what we did ourselves is no news");
        })
    });
    one.sh(if one.has_program() { "kill -9 $(PROGRAM)" } else { "ip link delete MESH" });
    one.does(|mesh| Box::pin(mesh.changed()));
    assert!(one.drift(&table).is_some());
    one.joins(&table);
    one.reaches(&two);
}

#[test]
fn a_program_that_hangs_is_ended_and_another_takes_its_place() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    if !one.has_program() {
        return;
    }
    let programs = || [&one, &two].map(|host| host.sh("PROGRAM"));
    let before = programs();
    // It may answer once more before each of its threads has heard it.
    one.sh("it=$(PROGRAM); kill -STOP $it; for each in /proc/$it/task/*/status; do \
         until grep -q '^State:.T' $each; do :; done; done");
    let drift = one.drift(&table);
    assert_eq!(drift.as_deref(), Some("the program that serves it does not answer"));
    one.joins(&table);
    one.reaches(&two);
    let after = programs();
    assert!(after[0] != before[0] && after[0].lines().count() == 1, "{before:?} {after:?}");
    assert_eq!(after[1], before[1], "that of the other host is none of its business");
}

#[test]
fn two_hosts_reach_each_other_by_ipv6() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    for host in [&one, &two] {
        host.sh(&format!(
            "ip address flush dev eth0 && ip address add 2001:db8::{}/64 dev eth0 nodad",
            host.number
        ));
    }
    assert_eq!(one.row().1.endpoints, vec!["[2001:db8::1]:51820".parse().expect("an endpoint")]);
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    assert!(two.sh("wg show MESH endpoints").contains("[2001:db8::1]:51820"));
    assert_eq!(one.drift(&table), None);
}

/// More than fit into one message of the kernel, or one packet.
#[test]
fn of_a_hundred_peers_the_one_that_goes_is_the_only_one() {
    let Some(world) = World::new() else { return };
    let one = world.host(1);
    let row = |number: u16| {
        let name = AgentName::new(format!("h{number}")).expect("a name");
        let public_key = PublicKey([u8::try_from(number).expect("few"); 32]);
        let endpoint = SocketAddr::from(([192, 0, 2, 200], number));
        let subnet = Subnet::new(number).expect("a number");
        (name, Peer { public_key, endpoints: vec![endpoint], subnet, since: Timestamp(1) })
    };
    let mut rows: Vec<_> = (2..=101).map(row).collect();
    one.joins(&Peers::from(rows.clone()));
    let keys = || -> BTreeSet<String> {
        one.sh("wg show MESH peers").lines().map(str::to_owned).collect()
    };
    let before = keys();
    assert_eq!(before.len(), rows.len());
    let gone = rows.remove(50);
    let left = Peers::from(rows);
    assert_eq!(one.drift(&left).map(|words| words.contains("should not be there")), Some(true));
    one.joins(&left);
    let missing: Vec<_> = before.difference(&keys()).cloned().collect();
    assert_eq!(missing, [BASE64_STANDARD.encode(gone.1.public_key.0)]);
    assert_eq!(keys().len(), before.len() - 1);
}

#[test]
fn a_port_that_is_somebody_elses_is_named_and_taken_when_it_is_free() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    let table = table(&[&one, &two]);
    two.joins(&table);
    let taken = one.does(|_| {
        Box::pin(async { std::net::UdpSocket::bind(("0.0.0.0", PORT)).expect("a free port") })
    });
    let is_taken = |words: &str| words.contains("Address already in use");
    let words = one.fails(&table);
    assert!(is_taken(&words), "{words}");
    // What else happens is put right all the same.
    one.sh("ip link delete MESH");
    let drift = one.drift(&table).unwrap_or_default();
    assert!(drift.starts_with("the interface is not there"), "{drift}");
    let words = one.fails(&table);
    assert!(is_taken(&words), "{words}");
    assert_eq!(one.sh("wg show MESH peers").lines().count(), 1, "all that can be is there");
    drop(taken);
    one.joins(&table);
    one.reaches(&two);
}

#[test]
fn a_host_that_gets_another_address_is_heard_of() {
    let Some(world) = World::new() else { return };
    let one = world.host(1);
    one.joins(&Peers::default());
    one.sh("ip address add 198.51.100.1/24 dev eth0");
    one.does(|mesh| Box::pin(mesh.changed()));
    let endpoints = one.row().1.endpoints;
    assert_eq!(endpoints.len(), 2, "{endpoints:?}");
}

#[test]
fn an_agent_that_starts_anew_leaves_tunnels_as_they_are() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    let before = one.sh("wg show MESH dump | cut -f 1-5");
    one.does(|mesh| {
        Box::pin(async {
            let again = crate::services::mesh::Mesh::open(mesh.setup.clone()).expect("a mesh");
            drop(std::mem::replace(mesh, again));
        })
    });
    assert_eq!(one.drift(&table), None);
    one.joins(&table);
    assert_eq!(one.sh("wg show MESH dump | cut -f 1-5"), before);
}

#[test]
fn an_interface_of_somebody_else_is_left_alone() {
    let Some(world) = World::new() else { return };
    let one = world.host(1);
    one.sh("ip link add name MESH type bridge");
    let words = one.fails(&Peers::default());
    assert!(words.contains("is no WireGuard interface (`bridge`)"), "{words}");
    assert!(one.sh("ip -details link show MESH").contains("bridge"));
}

#[test]
fn a_network_that_leads_elsewhere_already_is_named_and_the_rest_is_done() {
    let Some(world) = World::new() else { return };
    let (one, two, three) = (world.host(1), world.host(2), world.host(3));
    let table = table(&[&one, &two, &three]);
    two.joins(&table);
    three.joins(&table);
    // A route to the same network, to a part of it, and to all around it.
    for to in ["10.200.2.0/24", "10.200.2.64/26", "10.200.2.0/23"] {
        one.sh(&format!("ip route add {to} via 192.0.2.77"));
        one.applies(&table);
        let Found { drift, problem } = one.finds(&table);
        let words = problem.unwrap_or_default();
        assert!(words.contains("peer h2 is not led to at 10.200.2.0/24"), "{words}");
        assert!(words.contains(&format!("this host has {to} elsewhere")), "{words}");
        assert_eq!(drift, None, "there is nothing to repair");
        one.reaches(&three);
        one.reaches(&two);
        assert!(one.sh("ip route get 10.200.2.77").contains("via 192.0.2.77"), "left as it was");
        one.sh(&format!("ip route delete {to} via 192.0.2.77"));
        one.joins(&table);
    }
}

/// As in a data centre that has taken those addresses for itself.
#[test]
fn hosts_whose_own_network_is_in_the_range_of_containers_reach_each_other() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    for host in [&one, &two] {
        host.sh(&format!(
            "ip address flush dev eth0 && ip address add 10.212.0.{}/16 dev eth0",
            host.number
        ));
    }
    assert_eq!(one.row().1.endpoints, vec!["10.212.0.1:51820".parse().expect("an endpoint")]);
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    two.reaches(&one);
    // One whose own containers would be there is told.
    one.sh("ip address add 10.200.1.77/23 dev eth0");
    let words = one.finds(&table).problem.unwrap_or_default();
    assert!(words.contains("this host has 10.200.0.0/23 elsewhere"), "{words}");
}

#[test]
fn a_host_that_leaves_takes_everything_with_it_but_its_key() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    one.joins(&table(&[&one, &two]));
    let key = one.row().1.public_key;
    assert!(one.is_left());
    one.leaves();
    assert!(!one.is_left());
    // Somebody else's stays, though it is called the same.
    one.sh("ip link add MESH type bridge");
    one.leaves();
    assert!(!one.is_left());
    one.sh("ip link delete MESH");
    assert_eq!(one.sh("nft list tables"), "");
    assert!(!one.sh("ip link").contains(&one.interface));
    assert_eq!(one.row().1.public_key, key);
    let path = one.does(|mesh| Box::pin(async { mesh.setup.key.clone() }));
    let mode = std::fs::metadata(path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Datagrams that go one way and come back, one after the other.
struct Echo {
    answered: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Echo {
    const PORT: u16 = 7007;

    fn between(one: &Host, two: &Host) -> Self {
        let (from, to) = (one.subnet().host(), two.subnet().host());
        let bound = |address: std::net::Ipv4Addr, port: u16| {
            move |_: &mut crate::services::mesh::Mesh| {
                let socket = std::net::UdpSocket::bind((address, port)).expect("a socket");
                socket.set_read_timeout(Some(Duration::from_secs(2))).expect("possible");
                socket
            }
        };
        // A socket stays in the network that it was made in, whoever uses it.
        let (asks, answers) = (bound(from, 0), bound(to, Self::PORT));
        let asks = one.does(move |mesh| Box::pin(async move { asks(mesh) }));
        let answers = two.does(move |mesh| Box::pin(async move { answers(mesh) }));
        let (answered, lost) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let ends = Arc::new(AtomicBool::new(false));
        let stop = ends.clone();
        let echo = std::thread::spawn(move || {
            let mut buffer = [0; 1200];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((length, from)) = answers.recv_from(&mut buffer) {
                    let _ = answers.send_to(&buffer[..length], from);
                }
            }
        });
        let (stop, good, bad) = (ends.clone(), answered.clone(), lost.clone());
        let ask = std::thread::spawn(move || {
            let (mut sent, mut buffer) = ([0; 1200], [0; 1200]);
            for number in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                sent[..8].copy_from_slice(&number.to_be_bytes());
                let asked =
                    asks.send_to(&sent, (to, Self::PORT)).and_then(|_| asks.recv(&mut buffer));
                match asked {
                    Ok(_) if buffer == sent => good.fetch_add(1, Ordering::Relaxed),
                    _ => bad.fetch_add(1, Ordering::Relaxed),
                };
            }
        });
        Self { answered, lost, ends, threads: vec![echo, ask] }
    }

    /// Waits for a hundred more answers.
    fn goes_on(&self) {
        let (from, began) = (self.answered.load(Ordering::Relaxed), Instant::now());
        while self.answered.load(Ordering::Relaxed) < from + 100 {
            assert!(began.elapsed() < DEADLINE, "nothing comes back");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
