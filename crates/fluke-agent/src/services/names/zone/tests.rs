use domain::base::iana::{Opcode, Rcode};
use domain::base::{Message, MessageBuilder, Name};
use domain::rdata::{A, Soa};
use fluke_model::directory::NameKey;
use proptest::prelude::*;

use super::*;
use crate::services::names::question::{DATAGRAM, LONGEST};

fn address(n: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0AC8_0000 + u32::try_from(n).expect("few"))
}

fn names(services: &[(&str, usize)]) -> Names {
    let row = |(name, count): &(&str, usize)| {
        let name = ServiceName::new(name).expect("a name");
        NameKey::rows(&name, (1..=*count).map(address)).collect::<Vec<_>>()
    };
    services.iter().flat_map(row).collect()
}

/// A question as `dig` would send it; `edns` is the size that it says it can take.
fn ask(name: &str, kind: Rtype, edns: Option<u16>) -> Vec<u8> {
    let name: Name<Vec<u8>> = name.parse().expect("a name");
    let mut question = MessageBuilder::new_vec().question();
    question.header_mut().set_id(0x1234);
    question.header_mut().set_rd(true);
    question.push((name, kind)).expect("room");
    let mut question = question.additional();
    if let Some(size) = edns {
        let opt = question.opt(|opt| {
            opt.set_udp_payload_size(size);
            Ok(())
        });
        opt.expect("room");
    }
    question.finish()
}

fn answered(packet: &[u8], transport: Transport, names: Option<&Names>) -> Message<Vec<u8>> {
    match answer(packet, transport, names, |_| 0) {
        Verdict::Answer(answer) => Message::from_octets(answer).expect("an answer can be read"),
        other => panic!("not answered: {other:?}"),
    }
}

fn addresses(answer: &Message<Vec<u8>>) -> Vec<Ipv4Addr> {
    let records = answer.answer().expect("readable").limit_to::<A>();
    records.map(|record| record.expect("readable").data().addr()).collect()
}

/// How long the zone says that a no may be remembered.
fn negative_ttl(answer: &Message<Vec<u8>>) -> Option<u32> {
    let records = answer.authority().expect("readable").limit_to::<Soa<_>>();
    let mut ttls = records.map(|record| {
        let record = record.expect("readable");
        record.ttl().min(record.data().minimum()).as_secs()
    });
    ttls.next()
}

fn explanation(answer: &Message<Vec<u8>>) -> String {
    let error = answer.opt().and_then(|opt| {
        let error = opt.opt().extended_error()?;
        error.text_slice().map(|text| String::from_utf8_lossy(text).into_owned())
    });
    error.unwrap_or_default()
}

#[test]
fn an_address_is_forgotten_well_before_the_container_that_had_it_ends() {
    let packet = ask("web.internal", Rtype::A, None);
    let answer = answered(&packet, Transport::Udp, Some(&names(&[("web", 1)])));
    let mut records = answer.answer().expect("readable").limit_to::<A>();
    let ttl = records.next().expect("an address").expect("readable").ttl();
    let ttl = std::time::Duration::from_secs(ttl.as_secs().into());
    assert!(ttl * 2 < crate::services::DRAIN, "{ttl:?}");
}

#[test]
fn each_name_and_kind_has_its_answer() {
    use Rtype as R;
    let names = names(&[("web", 2), ("db", 1), ("down", 0)]);
    let cases: &[(&str, Rtype, Rcode, usize, Option<u32>)] = &[
        ("web.internal", R::A, Rcode::NOERROR, 2, None),
        ("WEB.InterNAL", R::A, Rcode::NOERROR, 2, None),
        ("web.internal.", R::ANY, Rcode::NOERROR, 2, None),
        ("db.internal", R::A, Rcode::NOERROR, 1, None),
        ("web.internal", R::AAAA, Rcode::NOERROR, 0, Some(1)),
        ("web.internal", R::MX, Rcode::NOERROR, 0, Some(1)),
        ("web.internal", R::HTTPS, Rcode::NOERROR, 0, Some(1)),
        ("down.internal", R::A, Rcode::NOERROR, 0, Some(1)),
        ("down.internal", R::AAAA, Rcode::NOERROR, 0, Some(1)),
        ("other.internal", R::A, Rcode::NXDOMAIN, 0, Some(1)),
        ("a.web.internal", R::A, Rcode::NXDOMAIN, 0, Some(1)),
        ("_no_name_.internal", R::A, Rcode::NXDOMAIN, 0, Some(1)),
        ("internal", R::A, Rcode::NOERROR, 0, Some(1)),
        ("internal", R::NS, Rcode::NOERROR, 0, Some(1)),
    ];
    for (name, kind, rcode, count, ttl) in cases {
        for edns in [None, Some(4096)] {
            let answer = answered(&ask(name, *kind, edns), Transport::Udp, Some(&names));
            let header = answer.header();
            let told = (header.rcode(), addresses(&answer).len(), negative_ttl(&answer));
            assert_eq!(told, (*rcode, *count, *ttl), "{name} {kind}");
            assert_eq!(header.id(), 0x1234);
            assert!(header.qr() && header.aa() && header.rd() && header.ra() && !header.tc());
            assert_eq!(answer.opt().is_some(), edns.is_some(), "EDNS to those who speak it");
            assert_eq!(answer.sole_question().expect("it is repeated").qtype(), *kind);
        }
    }
}

#[test]
fn the_zone_has_a_record_of_its_own() {
    let answer = answered(&ask("internal", Rtype::SOA, None), Transport::Udp, Some(&names(&[])));
    let mut records = answer.answer().expect("readable").limit_to::<Soa<_>>();
    let soa = records.next().expect("there").expect("readable");
    assert_eq!(soa.data().minimum(), NEGATIVE_TTL);
}

#[test]
fn everything_else_is_asked_elsewhere() {
    for name in ["example.com", "internal.example.com", "web.internal.lan", ".", "webinternal"] {
        let verdict = answer(&ask(name, Rtype::A, None), Transport::Udp, Some(&names(&[])), |_| 0);
        assert!(matches!(verdict, Verdict::Forward(_)), "{name}: {verdict:?}");
    }
}

#[test]
fn each_container_comes_first_in_turn() {
    let names = names(&[("web", 3)]);
    let firsts = (0..6).map(|turn| {
        let verdict =
            answer(&ask("web.internal", Rtype::A, None), Transport::Udp, Some(&names), |_| turn);
        let Verdict::Answer(bytes) = verdict else { panic!("not answered") };
        let all = addresses(&Message::from_octets(bytes).expect("readable"));
        assert_eq!(all.len(), 3);
        all[0]
    });
    let expected = [1, 2, 3, 1, 2, 3].map(address);
    assert_eq!(firsts.collect::<Vec<_>>(), expected);
}

#[test]
fn a_question_for_another_kind_takes_nobodys_turn() {
    let names = names(&[("web", 2)]);
    let packet = ask("web.internal", Rtype::AAAA, None);
    answer(&packet, Transport::Udp, Some(&names), |_| panic!("a turn was taken"));
}

#[test]
fn what_does_not_fit_is_cut_over_udp_and_whole_over_tcp() {
    let names = names(&[("web", 200)]);
    for (edns, limit) in [(None, 512), (Some(0), 512), (Some(700), 700), (Some(9000), DATAGRAM)] {
        let packet = ask("web.internal", Rtype::A, edns);
        let cut = answered(&packet, Transport::Udp, Some(&names));
        assert!(cut.header().tc());
        let (length, some) = (cut.as_slice().len(), addresses(&cut).len());
        assert!((limit - 16..=limit).contains(&length), "{length} of {limit}: as many as fit");
        assert!(some > 20, "those who never ask by TCP have something to go on");
        let whole = answered(&packet, Transport::Tcp, Some(&names));
        assert!(!whole.header().tc());
        assert_eq!(addresses(&whole).len(), 200);
    }
}

#[test]
fn people_are_told_why_there_is_nothing() {
    let table = names(&[("web", 0)]);
    let packet = ask("web.internal", Rtype::A, Some(1232));
    let answer = answered(&packet, Transport::Udp, Some(&table));
    assert_eq!(explanation(&answer), "no container of web is healthy");
    let answer = answered(&packet, Transport::Udp, None);
    assert_eq!(answer.header().rcode(), Rcode::SERVFAIL, "a no could be wrong, and remembered");
    assert_eq!(explanation(&answer), "the server has not told this host its services yet");
}

#[test]
fn an_unknown_version_of_edns_is_named() {
    let mut packet = ask("web.internal", Rtype::A, Some(1232));
    let version = packet.len() - 5;
    packet[version] = 1;
    let answer = answered(&packet, Transport::Udp, Some(&names(&[("web", 1)])));
    assert_eq!(answer.opt_rcode(), OptRcode::BADVERS);
    assert_eq!(answer.opt().expect("there").version(), 0);
    assert!(addresses(&answer).is_empty());
}

#[test]
fn what_is_no_question_gets_what_the_standards_say() {
    let good = ask("web.internal", Rtype::A, Some(1232));
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        match answer(&packet, Transport::Udp, Some(&names(&[("web", 1)])), |_| 0) {
            Verdict::Ignore => None,
            Verdict::Answer(answer) => {
                let answer = Message::from_octets(answer).expect("readable");
                assert_eq!(answer.header().id(), 0x1234);
                Some(answer.header().rcode())
            }
            Verdict::Forward(_) => panic!("forwarded"),
        }
    };
    let opt = good[good.len() - 11..].to_vec();
    assert_eq!(with(&|_| {}), Some(Rcode::NOERROR));
    assert_eq!(with(&|packet| packet.truncate(11)), None, "not even a header");
    assert_eq!(with(&|packet| packet[2] |= 0x80), None, "an answer");
    assert_eq!(with(&|packet| packet[2] |= Opcode::UPDATE.to_int() << 3), Some(Rcode::NOTIMP));
    assert_eq!(with(&|packet| packet.truncate(12)), Some(Rcode::FORMERR));
    assert_eq!(with(&|packet| packet.truncate(20)), Some(Rcode::FORMERR));
    assert_eq!(with(&|packet| packet[5] = 0), Some(Rcode::FORMERR), "no question");
    assert_eq!(with(&|packet| packet[5] = 2), Some(Rcode::FORMERR), "two questions");
    assert_eq!(with(&|packet| packet[11] = 2), Some(Rcode::FORMERR), "a record is missing");
    let two = |packet: &mut Vec<u8>| {
        packet[11] = 2;
        packet.extend_from_slice(&opt);
    };
    assert_eq!(with(&two), Some(Rcode::FORMERR), "EDNS twice");
    let named = |packet: &mut Vec<u8>| {
        let at = packet.len() - 11;
        packet.splice(at..=at, [1, b'a', 0]);
    };
    assert_eq!(with(&named), Some(Rcode::FORMERR), "EDNS under a name");
    assert_eq!(with(&|packet| packet.resize(LONGEST + 1, 0)), Some(Rcode::FORMERR));
    assert_eq!(with(&|packet| packet[29] = 3), Some(Rcode::REFUSED), "another class");
    let transfer = |packet: &mut Vec<u8>| packet[27] = 252;
    assert_eq!(with(&transfer), Some(Rcode::REFUSED));
}

fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let name = "([a-zA-Z0-9-]{1,20}\\.){0,4}(internal|INTERNAL|com)";
    let kind = prop_oneof![Just(1), Just(28), Just(255), any::<u16>()];
    let asked = (name, kind, any::<Option<u16>>())
        .prop_map(|(name, kind, edns)| ask(&name, Rtype::from_int(kind), edns));
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let damaged = (asked, damage).prop_map(|(mut packet, damage)| {
        for (index, byte) in damage {
            let at = index.index(packet.len());
            packet[at] = byte;
        }
        packet
    });
    prop_oneof![damaged, prop::collection::vec(any::<u8>(), 0..600)]
}

proptest! {
    #[test]
    fn whatever_comes_what_goes_back_can_be_read_and_fits(
        packet in any_packet(),
        count in 0_usize..400,
        turn in any::<usize>(),
        udp in any::<bool>(),
        known in any::<bool>(),
    ) {
        let names = names(&[("a", count), ("web", count)]);
        let transport = if udp { Transport::Udp } else { Transport::Tcp };
        let names = known.then_some(&names);
        let (bytes, limit) = match answer(&packet, transport, names, |_| turn) {
            Verdict::Ignore => return Ok(()),
            Verdict::Answer(bytes) => (bytes, DATAGRAM),
            Verdict::Forward(question) => {
                let asked = question.to_ask(7);
                prop_assert_eq!(asked.as_slice().len(), packet.len());
                prop_assert_eq!(question.labels().last() == Some(&b"internal".to_vec()), false);
                (unanswered(&question, "nobody answered"), 512)
            }
        };
        prop_assert!(!udp || bytes.len() <= limit);
        prop_assert_eq!(&bytes[..2], &packet[..2]);
        let answer = Message::from_octets(bytes).expect("there is a header");
        prop_assert!(answer.header().qr());
        for question in answer.question() {
            prop_assert!(question.is_ok());
        }
        let records = answer.iter();
        for record in records {
            prop_assert!(record.is_ok());
        }
    }

    #[test]
    fn answers_of_others_are_passed_on_or_cut_to_what_fits(
        edns in any::<Option<u16>>(),
        rest in prop::collection::vec(any::<u8>(), 0..4000),
    ) {
        let packet = ask("example.com", Rtype::TXT, edns);
        let Verdict::Forward(question) = answer(&packet, Transport::Udp, None, |_| 0) else {
            panic!("not forwarded");
        };
        let mut theirs = question.to_ask(99).into_octets();
        theirs[2] |= 0x80;
        theirs.extend_from_slice(&rest);
        let limit = usize::from(edns.unwrap_or(0)).clamp(512, DATAGRAM);
        let relayed = question.relay(Message::from_octets(theirs.clone()).expect("a header"));
        prop_assert_eq!(&relayed[..2], &packet[..2]);
        if theirs.len() <= limit {
            prop_assert_eq!(&relayed[2..], &theirs[2..]);
        } else {
            let cut = Message::from_octets(relayed).expect("a header");
            prop_assert!(cut.header().tc() && cut.as_slice().len() <= limit);
            prop_assert_eq!(cut.opt().is_some(), edns.is_some());
        }
    }
}
