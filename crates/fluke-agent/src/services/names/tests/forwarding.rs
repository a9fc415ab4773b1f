use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use domain::base::iana::{Rcode, Rtype};
use tokio::net::UdpSocket;

use super::client::{self, addresses, explanation};
use super::world::{ANSWER, Manner, World};
use super::*;

#[tokio::test]
async fn the_world_is_asked_what_is_not_ours_and_never_what_is() {
    let world = World::of(Manner::Honest).await;
    let mut host = Host::asking(&[world.address]).await;
    host.server.apply(&names(&[("web", 1)])).await.expect("served");
    let at = host.address().await;
    let answer = client::udp(at, "example.com").await;
    assert_eq!((addresses(&answer), answer.header().id()), (vec![ANSWER], 7));
    assert_eq!(addresses(&client::tcp(at, "example.com").await), [ANSWER]);
    let before = world.heard().len();
    for ours in ["web.internal", "none.internal", "a.b.internal", "internal"] {
        client::udp(at, ours).await;
    }
    assert_eq!(world.heard().len(), before);
}

#[tokio::test]
async fn each_question_goes_out_under_its_own_number_and_port() {
    let world = World::of(Manner::Honest).await;
    let host = Host::asking(&[world.address]).await;
    let at = host.address().await;
    for _ in 0..20 {
        client::udp(at, "example.com").await;
    }
    let heard = world.heard();
    let ids: BTreeSet<u16> = heard.iter().map(|(id, _)| *id).collect();
    let ports: BTreeSet<u16> = heard.iter().map(|(_, port)| *port).collect();
    assert!(ids.len() > 10 && ports.len() > 5, "{heard:?}");
}

#[tokio::test]
async fn only_the_answer_to_the_question_is_believed() {
    let world = World::of(Manner::Spoofed).await;
    let host = Host::asking(&[world.address]).await;
    let answer = client::udp(host.address().await, "example.com").await;
    assert_eq!(addresses(&answer), [ANSWER]);
}

#[tokio::test]
async fn a_cut_answer_is_asked_for_again_by_tcp_and_cut_again_where_it_does_not_fit() {
    let world = World::of(Manner::Long).await;
    let host = Host::asking(&[world.address]).await;
    let at = host.address().await;
    let cut = client::udp(at, "example.com").await;
    assert!(cut.header().tc() && cut.as_slice().len() <= 1232);
    let whole = client::tcp(at, "example.com").await;
    assert_eq!((whole.header().tc(), addresses(&whole).len()), (false, 300));
}

#[tokio::test]
async fn the_next_one_is_asked_where_one_is_away_silent_or_refuses() {
    let gone = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
    let gone = gone.local_addr().expect("bound");
    let refusing = World::of(Manner::Refuses).await;
    let honest = World::of(Manner::Honest).await;
    let silent = World::of(Manner::Silent).await;
    for first in [gone, refusing.address, silent.address] {
        let host = Host::asking(&[first, honest.address]).await;
        let at = host.address().await;
        for _ in 0..3 {
            assert_eq!(addresses(&client::udp(at, "example.com").await), [ANSWER]);
        }
    }
    assert_eq!(silent.heard().len(), 1, "the one that answers is asked first from then on");
}

#[tokio::test]
async fn where_nobody_answers_the_client_hears_so() {
    let host = Host::alone().await;
    let at = host.address().await;
    let answer = client::udp(at, "example.com").await;
    assert_eq!(answer.header().rcode(), Rcode::SERVFAIL);
    assert_eq!(explanation(&answer), "no resolver of this host answered");
    assert_eq!(client::tcp(at, "example.com").await.header().rcode(), Rcode::SERVFAIL);
    let refusing = World::of(Manner::Refuses).await;
    let host = Host::asking(&[refusing.address]).await;
    let answer = client::udp(host.address().await, "example.com").await;
    assert_eq!(answer.header().rcode(), Rcode::REFUSED, "their word, where there is no other");
}

#[tokio::test]
async fn a_noisy_client_is_turned_away_and_nobody_else_is() {
    let silent = World::of(Manner::Silent).await;
    let mut host = Host::asking(&[silent.address]).await;
    host.server.apply(&names(&[("web", 1)])).await.expect("served");
    let at = host.address().await;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket");
    socket.connect(at).await.expect("loopback");
    let packet = client::question(1, "example.com", Rtype::A, Some(1232));
    let is_full = |answer: &domain::base::Message<Vec<u8>>| {
        assert_eq!(answer.header().rcode(), Rcode::SERVFAIL);
        explanation(answer).contains("too many questions")
    };
    // The buffers of loopback may drop some: go on until one is turned away.
    let turned_away = async {
        loop {
            for _ in 0..50 {
                socket.send(&packet).await.expect("sent");
            }
            let soon = std::time::Duration::from_millis(100);
            let answer = tokio::time::timeout(soon, client::received(&socket)).await;
            if answer.is_ok_and(|answer| is_full(&answer)) {
                return;
            }
        }
    };
    tokio::time::timeout(client::DEADLINE, turned_away).await.expect("a bound");
    assert_eq!(addresses(&client::udp(at, "web.internal").await).len(), 1);
    let answer = client::from(Ipv4Addr::new(127, 0, 0, 2), at, &packet).await;
    assert_eq!(explanation(&answer), "no resolver of this host answered", "it was asked");
}
