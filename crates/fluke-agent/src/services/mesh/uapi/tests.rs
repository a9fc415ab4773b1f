use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn nets() -> BTreeSet<Net> {
    ["10.100.0.7/32", "10.200.7.0/24"].map(|text| Net::parse(text).expect("a network")).into()
}

#[test]
fn orders_are_the_words_that_the_protocol_has_for_them() {
    let key = PublicKey([0xab; 32]);
    let peer = format!("set=1\npublic_key={}\n", "ab".repeat(32));
    let to = "[2001:db8::1]:51820".parse().expect("an endpoint");
    let add = PeerOrder::Add { endpoint: Some(to), allowed: nets(), keepalive: 25 };
    let table = [
        (PeerOrder::Remove, "update_only=true\nremove=true\n"),
        (PeerOrder::Endpoint(to), "update_only=true\nendpoint=[2001:db8::1]:51820\n"),
        (PeerOrder::Keepalive(0), "update_only=true\npersistent_keepalive_interval=0\n"),
        (
            PeerOrder::Allowed(nets()),
            "update_only=true\nreplace_allowed_ips=true\nallowed_ip=10.100.0.7/32\n\
             allowed_ip=10.200.7.0/24\n",
        ),
        (
            add,
            "endpoint=[2001:db8::1]:51820\npersistent_keepalive_interval=25\n\
             replace_allowed_ips=true\nallowed_ip=10.100.0.7/32\nallowed_ip=10.200.7.0/24\n",
        ),
    ];
    for (order, expected) in table {
        assert_eq!(words(&Order::Peer(key, &order)), format!("{peer}{expected}\n"));
    }
    assert_eq!(words(&Order::Port(51820)), "set=1\nlisten_port=51820\n\n");
    let private = PrivateKey::new([0x41; 32]);
    let said = words(&Order::Key(&private));
    assert_eq!(said, format!("set=1\nprivate_key=40{}\n\n", "41".repeat(31)));
}

#[test]
fn an_answer_is_read_whole() {
    let private = format!("{:02x}", 9) + &"00".repeat(30) + "40";
    let answer = format!(
        "private_key={private}\nlisten_port=51820\npublic_key={}\npreshared_key={}\n\
         protocol_version=1\nendpoint=192.0.2.1:4711\nlast_handshake_time_sec=1000\n\
         last_handshake_time_nsec=5\ntx_bytes=1\nrx_bytes=2\npersistent_keepalive_interval=25\n\
         allowed_ip=10.100.0.7/32\nallowed_ip=10.200.7.0/24\npublic_key={}\n\
         last_handshake_time_sec=0\nallowed_ip=fd00::/64\nerrno=0\n\n",
        "01".repeat(32),
        "00".repeat(32),
        "02".repeat(32),
    );
    let device = read(&answer).expect("sound");
    assert_eq!((device.port, device.peers.len()), (51820, 2));
    assert!(device.key.is_some_and(|key| key.0[0] == 0x42), "{:?}", device.key);
    let first = SeenPeer {
        endpoint: "192.0.2.1:4711".parse().ok(),
        allowed: nets(),
        foreign: false,
        keepalive: 25,
        handshake: Some(Duration::from_secs(1000)),
        silence: None,
    };
    assert_eq!(device.peers[&PublicKey([1; 32])], first);
    let second = SeenPeer { foreign: true, ..SeenPeer::default() };
    assert_eq!(device.peers[&PublicKey([2; 32])], second);
}

#[test]
fn what_went_wrong_is_known_by_its_number() {
    assert!(accepted("errno=0\n\n").is_ok());
    for (answer, code) in [("errno=22\n\n", 22), ("errno=-98\n\n", 98)] {
        let error = accepted(answer).expect_err("refused");
        assert_eq!(error.raw_os_error(), Some(code));
    }
    for answer in ["", "errno=\n", "errno=x\n", "listen_port=1\n"] {
        assert!(accepted(answer).is_err(), "{answer:?}");
    }
    for answer in ["public_key=ab\nerrno=0\n", "listen_port=70000\nerrno=0\n"] {
        assert!(read(answer).is_err(), "{answer:?}");
    }
}

proptest! {
    #[test]
    fn no_answer_is_too_odd(
        lines in proptest::collection::vec("(public_key|private_key|endpoint|allowed_ip|errno|x)=?[0-9a-fé:/.]{0,70}", 0..8),
    ) {
        let _ = read(&(lines.join("\n") + "\nerrno=0\n"));
    }
}
