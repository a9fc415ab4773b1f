//! Containers of different hosts, on bridges that Netavark makes with all its rules.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;

use fluke_model::directory::Peers;

use super::hosts::{DEADLINE, Host, Place, World, skip, table};
use crate::services::bridge;

const PORT: u16 = 7000;

/// The network of a container, and no more of it than that.
struct Container {
    place: Place,
    address: Ipv4Addr,
}

impl Container {
    fn on(host: &Host, netavark: &std::path::Path) -> Self {
        let place = Place::new(None);
        let (number, address) = (host.number, host.subnet().address(5));
        let id = format!("{number:064}");
        let config = serde_json::json!({
            "container_id": id,
            "container_name": "web-0",
            "networks": { "fluke": { "static_ips": [address], "interface_name": "eth0" } },
            "network_info": { "fluke": {
                "name": "fluke", "id": id, "driver": "bridge", "network_interface": bridge::INTERFACE,
                "created": "2026-01-01T00:00:00Z", "ipv6_enabled": false, "internal": false,
                "dns_enabled": false, "ipam_options": { "driver": "host-local" },
                "subnets": [{
                    "subnet": format!("{}/24", host.subnet().network()),
                    "gateway": host.subnet().gateway(),
                }],
            } },
        });
        let dir = tempfile::tempdir().expect("a directory");
        let input = dir.path().join("input.json");
        std::fs::write(&input, config.to_string()).expect("room");
        host.sh(&format!(
            "{} --config {} setup /proc/{}/ns/net <{}",
            netavark.display(),
            dir.path().display(),
            place.thread,
            input.display()
        ));
        Self { place, address }
    }

    /// Whom `other` sees when this one comes.
    fn is_seen_as(&self, other: &Container) -> Ipv4Addr {
        let address = other.address;
        let listener = other.place.does(move |_| {
            Box::pin(async move { TcpListener::bind((address, PORT)).expect("a port") })
        });
        let serves = std::thread::spawn(move || {
            let (mut stream, from) = listener.accept().expect("somebody comes");
            stream.set_read_timeout(Some(DEADLINE)).expect("possible");
            // More than fits into one packet, there and back.
            let mut all = vec![0; LONG];
            stream.read_exact(&mut all).expect("all of it");
            stream.write_all(&all).expect("it listens");
            from.ip()
        });
        self.place.does(move |_| {
            Box::pin(async move {
                let to = (address, PORT).into();
                let mut stream = TcpStream::connect_timeout(&to, DEADLINE).expect("a way there");
                stream.set_read_timeout(Some(DEADLINE)).expect("possible");
                let sent = vec![7; LONG];
                stream.write_all(&sent).expect("it listens");
                let mut back = vec![0; LONG];
                stream.read_exact(&mut back).expect("all of it");
                assert!(back == sent);
            })
        });
        match serves.join().expect("served") {
            std::net::IpAddr::V4(from) => from,
            other => panic!("{other}"),
        }
    }
}

const LONG: usize = 100_000;

fn netavark() -> Option<PathBuf> {
    let usual = ["/usr/lib/podman/netavark", "/usr/libexec/podman/netavark"].map(PathBuf::from);
    let found = usual.into_iter().find(|path| path.is_file());
    if found.is_none() {
        skip("needs netavark");
    }
    found
}

#[test]
fn containers_of_two_hosts_see_each_other_as_they_are() {
    let (Some(world), Some(netavark)) = (World::new(), netavark()) else { return };
    let (one, two) = (world.host(1), world.host(2));
    // On one host the mesh is first, on the other the bridge with its rules.
    let there = Container::on(&two, &netavark);
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    let here = Container::on(&one, &netavark);
    one.reaches(&two);
    // By iptables or by nftables: Podman 5 has another one than Podman 4.
    let rules = one.sh("nft list ruleset").to_lowercase();
    assert!(rules.contains("masquerade"), "there would be nothing to keep out of the way: {rules}");
    assert_eq!(here.is_seen_as(&there), here.address);
    assert_eq!(there.is_seen_as(&here), there.address);
    assert_eq!(one.drift(&table), None, "bridges are none of ours");
}

/// As in clouds whose networks take something of each packet for themselves, and of some hosts more
/// than of others.
#[test]
fn what_is_long_gets_through_where_packets_must_be_short() {
    let (Some(world), Some(netavark)) = (World::new(), netavark()) else { return };
    let (one, two) = (world.host(1), world.host(2));
    world.narrows(&two, 1400);
    let (here, there) = (Container::on(&one, &netavark), Container::on(&two, &netavark));
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    let is_as_long = |host: &Host, mtu: &str| host.sh("ip link show MESH").contains(mtu);
    assert!(is_as_long(&one, "mtu 1420") && is_as_long(&two, "mtu 1320"));
    assert_eq!(here.is_seen_as(&there), here.address);
    assert_eq!(there.is_seen_as(&here), there.address);
    two.sh("ip link set MESH mtu 1420");
    assert_eq!(two.drift(&table).as_deref(), Some("its MTU is not 1320"));
    world.narrows(&two, 1500);
    assert_eq!(two.drift(&table), None, "now it is what it should be");
    // What is said of a route goes before what its interface has.
    two.sh("ip route add 192.0.2.1 dev eth0 mtu 1390");
    assert_eq!(two.drift(&table).as_deref(), Some("its MTU is not 1310"));
    two.joins(&table);
}

/// As Docker and ufw leave it.
#[test]
fn a_chain_that_is_closed_is_opened_for_containers_and_for_nothing_else() {
    let (Some(world), Some(netavark)) = (World::new(), netavark()) else { return };
    let (one, two) = (world.host(1), world.host(2));
    let (here, there) = (Container::on(&one, &netavark), Container::on(&two, &netavark));
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    two.sh("iptables -P FORWARD DROP");
    let drift = two.drift(&table);
    assert_eq!(drift.as_deref(), Some("iptables keeps the mesh from containers"));
    two.joins(&table);
    assert_eq!(here.is_seen_as(&there), here.address);
    // What Podman 4 lets pass there Podman 5 does not.
    two.sh("iptables -F FORWARD");
    assert!(two.drift(&table).is_some());
    two.joins(&table);
    assert_eq!(here.is_seen_as(&there), here.address);
    assert_eq!(there.is_seen_as(&here), there.address);
    // iptables knows them for its own.
    let rules = two.sh("iptables-save -t filter");
    for (way, name) in [("-i", "iifname"), ("-o", "oifname")] {
        assert!(rules.contains(&format!("{way} {}", two.interface)), "{rules}");
        // One of them is not enough.
        two.sh(&format!(
            "nft delete rule ip filter FORWARD handle \
             $(nft -a list chain ip filter FORWARD | sed -n 's/.*{name} \"MESH\".*# handle //p')"
        ));
        assert!(two.drift(&table).is_some());
        two.joins(&table);
        assert_eq!(two.drift(&table), None);
    }
    two.leaves();
    let rules = two.sh("iptables-save -t filter");
    assert!(!rules.contains(&two.interface), "{rules}");
}

/// As ufw leaves it.
#[test]
fn a_host_that_lets_nothing_in_is_asked_for_names_by_its_own_containers() {
    let (Some(world), Some(netavark)) = (World::new(), netavark()) else { return };
    let one = world.host(1);
    let here = Container::on(&one, &netavark);
    let alone = Peers::default();
    one.joins(&alone);
    one.sh("iptables -P INPUT DROP");
    assert_eq!(one.drift(&alone).as_deref(), Some("iptables keeps containers from DNS"));
    one.joins(&alone);
    let rules = one.sh("iptables-save -t filter");
    let ours = "-A INPUT -s 10.200.1.0/24 -d 10.200.1.1/32 -i fluke-br0 -p";
    assert_eq!(rules.lines().filter(|line| line.starts_with(ours)).count(), 2, "{rules}");
    // What Netavark lets in beside it is not what this is about.
    one.sh("iptables -S INPUT | grep -i netavark | sed 's/^-A/iptables -D/' | sh");

    let gateway = one.subnet().gateway();
    let (packets, connections) = one.does(move |_| {
        Box::pin(async move {
            let packets = UdpSocket::bind((gateway, 53)).expect("a port");
            packets.set_read_timeout(Some(DEADLINE)).expect("possible");
            (packets, TcpListener::bind((gateway, 53)).expect("a port"))
        })
    });
    here.place.does(move |_| {
        Box::pin(async move {
            let asks = UdpSocket::bind("0.0.0.0:0").expect("a port");
            asks.send_to(b"web.internal?", (gateway, 53)).expect("a way");
            let to = (gateway, 53).into();
            TcpStream::connect_timeout(&to, DEADLINE).expect("somebody listens, and is reached");
        })
    });
    let (_, from) = packets.recv_from(&mut [0; 64]).expect("it gets there");
    assert_eq!(from.ip(), here.address);
    drop(connections);
    one.leaves();
    let rules = one.sh("iptables-save -t filter");
    assert!(!rules.contains("-i fluke-br0"), "{rules}");
}

/// As images of Oracle's cloud come, and hosts with iptables-services.
#[test]
fn a_chain_that_ends_with_a_refusal_is_closed_and_one_that_refuses_some_is_not() {
    let (Some(world), Some(netavark)) = (World::new(), netavark()) else { return };
    let (one, two) = (world.host(1), world.host(2));
    let (here, there) = (Container::on(&one, &netavark), Container::on(&two, &netavark));
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    for some in ["-p tcp --dport 23 -j REJECT", "-s 198.51.100.0/24 -j DROP", "-j ACCEPT"] {
        two.sh(&format!("iptables -A FORWARD {some} && iptables -A INPUT {some}"));
        assert_eq!(two.drift(&table), None, "{some}");
    }
    let refusals = [
        "-j REJECT --reject-with icmp-host-prohibited",
        "-j DROP",
        "-m comment --comment 'all the rest' -j REJECT",
    ];
    for all in refusals {
        two.sh(&format!(
            "iptables -F FORWARD && iptables -A FORWARD {all} && \
             iptables -F INPUT && iptables -A INPUT -p udp --dport 51820 -j ACCEPT && \
             iptables -A INPUT {all}"
        ));
        let drift = two.drift(&table);
        let words = "iptables keeps the mesh from containers; iptables keeps containers from DNS";
        assert_eq!(drift.as_deref(), Some(words), "{all}");
        two.joins(&table);
        assert_eq!(here.is_seen_as(&there), here.address, "{all}");
        assert_eq!(there.is_seen_as(&here), there.address, "{all}");
    }
    two.leaves();
    let rules = two.sh("iptables-save -t filter");
    assert!(!rules.contains(&two.interface) && !rules.contains("fluke-br0"), "{rules}");
}

#[test]
fn the_mesh_is_no_way_into_the_networks_behind_a_host() {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host(1), world.host(2));
    let behind = Place::new(None);
    one.sh(&format!(
        "ip link add lan type veth peer name eth0 netns {} && ip link set lan up && \
         ip address add 198.51.100.1/24 dev lan",
        behind.thread
    ));
    behind.sh("ip link set eth0 up && ip address add 198.51.100.2/24 dev eth0 && \
         ip route add default via 198.51.100.1");
    let table = table(&[&one, &two]);
    one.joins(&table);
    two.joins(&table);
    one.reaches(&two);
    // A host that somebody has taken over wants more than it was given.
    two.sh("wg set MESH peer $(wg show MESH peers) \
         allowed-ips 10.100.0.1/32,10.200.1.0/24,198.51.100.0/24 && \
         ip route add 198.51.100.0/24 dev MESH");
    let ping = "ping -q -c 3 -i 0.2 -W 1 198.51.100.2";
    assert!(!two.place.try_sh(ping).status.success(), "it got through");
    one.sh("nft delete table ip fluke-mesh");
    assert!(two.place.try_sh(ping).status.success(), "it would have got through without the rule");
}

/// Somebody outside of the fleet, who knows no way to containers, next to a host.
fn beside(host: &Host) -> Container {
    let place = Place::new(None);
    host.sh(&format!(
        "ip link add lan type veth peer name eth0 netns {} && ip link set lan up && \
         ip address add 198.51.100.1/24 dev lan",
        place.thread
    ));
    place.sh("ip link set eth0 up && ip address add 198.51.100.2/24 dev eth0");
    Container { place, address: Ipv4Addr::new(198, 51, 100, 2) }
}

#[test]
fn containers_are_answered_from_elsewhere_whoever_flushes_the_rules_of_others() {
    let (Some(world), Some(netavark)) = (World::new(), netavark()) else { return };
    let one = world.host(1);
    let _elsewhere = beside(&one);
    let table = table(&[&one]);
    let here = Container::on(&one, &netavark);
    one.joins(&table);
    let ping = "ping -q -c 3 -i 0.2 -W 1 198.51.100.2";
    assert!(here.place.try_sh(ping).status.success());
    one.sh("nft flush ruleset");
    assert!(!here.place.try_sh(ping).status.success(), "who would answer it?");
    assert_eq!(one.drift(&table).as_deref(), Some("the rules of `fluke-mesh` are others"));
    one.applies(&table);
    assert!(here.place.try_sh(ping).status.success());
}

#[test]
fn containers_have_the_address_that_somebody_gave_them_for_what_is_elsewhere() {
    let (Some(world), Some(netavark)) = (World::new(), netavark()) else { return };
    let one = world.host(1);
    let elsewhere = beside(&one);
    one.sh("ip address add 198.51.100.8/24 dev lan && ip address add 198.51.100.9/24 dev lan");
    let here = Container::on(&one, &netavark);
    one.joins(&table(&[&one]));
    // It would know the way to those who keep their own.
    elsewhere.place.sh("ip route add 10.200.1.0/24 via 198.51.100.1");
    let iptables = "iptables -t nat -I POSTROUTING -s 10.200.1.0/24 -o lan -j";
    let nft = "nft add table ip theirs && nft flush table ip theirs && \
         nft add chain ip theirs before '{ type nat hook postrouting priority 95; }' && \
         nft add rule ip theirs before ip saddr 10.200.1.0/24 oifname lan";
    let given = |last| Ipv4Addr::new(198, 51, 100, last);
    assert_eq!(here.is_seen_as(&elsewhere), given(1));
    // The last one goes before those that were there.
    let ways = [
        (format!("{iptables} SNAT --to-source 198.51.100.8"), given(8)),
        (format!("{iptables} NETMAP --to 10.200.1.0/24"), here.address),
        (format!("{nft} snat to 198.51.100.9"), given(9)),
        (format!("{nft} snat to ip saddr"), here.address),
    ];
    for (way, source) in ways {
        one.sh(&way);
        assert_eq!(here.is_seen_as(&elsewhere), source, "{way}");
    }
}
