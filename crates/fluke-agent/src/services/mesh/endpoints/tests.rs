use super::*;

fn own(text: &str) -> Own {
    let (ip, bits) = text.split_once('/').expect("with a length");
    Own { ip: ip.parse().expect("an ip"), bits: bits.parse().expect("bits"), is_virtual: false }
}

fn bridge(text: &str) -> Own {
    Own { is_virtual: true, ..own(text) }
}

fn texts(endpoints: &[SocketAddr]) -> Vec<String> {
    endpoints.iter().map(ToString::to_string).collect()
}

#[test]
fn public_addresses_are_told_before_private_ones() {
    let found = [
        bridge("10.88.0.1/16"),
        own("192.168.1.5/24"),
        own("127.0.0.1/8"),
        own("169.254.1.1/16"),
        own("fe80::1/64"),
        own("2001:db8::5/64"),
        own("203.0.113.5/24"),
    ];
    let expected =
        ["203.0.113.5:51820", "[2001:db8::5]:51820", "192.168.1.5:51820", "10.88.0.1:51820"];
    assert_eq!(texts(&reachable(None, &found, 51820)), expected);

    let said = parse("198.51.100.1", 51820);
    assert_eq!(texts(&reachable(said, &found, 51820))[..2], ["198.51.100.1:51820", expected[0]]);
    let said = parse("203.0.113.5", 51820);
    assert_eq!(texts(&reachable(said, &found, 51820)), expected, "not twice");
}

#[test]
fn an_endpoint_is_an_address_with_or_without_a_port() {
    let table = [
        ("192.0.2.1", Some("192.0.2.1:51820")),
        ("192.0.2.1:9", Some("192.0.2.1:9")),
        ("2001:db8::1", Some("[2001:db8::1]:51820")),
        ("[2001:db8::1]:9", Some("[2001:db8::1]:9")),
        ("example.com", None),
        ("192.0.2.1:99999", None),
        ("", None),
    ];
    for (text, expected) in table {
        let read = parse(text, 51820).map(|to| to.to_string());
        assert_eq!(read.as_deref(), expected, "{text}");
    }
}

#[test]
fn what_is_near_is_tried_first_and_what_is_our_own_never() {
    let endpoints: Vec<SocketAddr> =
        ["203.0.113.5:1", "10.88.0.1:1", "[2001:db8::5]:1", "10.0.0.5:1"]
            .map(|to| to.parse().expect("an endpoint"))
            .into();
    let here = [own("10.0.0.9/24"), bridge("10.88.0.1/16")];
    let expected = ["10.0.0.5:1", "203.0.113.5:1", "[2001:db8::5]:1"];
    assert_eq!(texts(&nearest_first(&endpoints, &here)), expected);
    assert_eq!(texts(&nearest_first(&endpoints, &[own("2001:db8::9/64")]))[0], "[2001:db8::5]:1");
}

#[test]
fn no_more_are_told_than_are_good_for_anything() {
    let many: Vec<Own> = (1..100).map(|last| own(&format!("203.0.113.{last}/24"))).collect();
    assert_eq!(reachable(None, &many, 1).len(), MOST);
}
