//! Messages that go in parts, and those that are for many.

use std::net::Ipv4Addr;

use fluke_model::directory::{NameKey, Names};
use fluke_model::id::ServiceName;
use fluke_model::message::{DirectoryEdit, ToAgent};
use prost::Message;

use super::hall::{Hall, hello, target};
use super::order::{Puppet, join, says, welcome_body};
use crate::client::connect;
use crate::proto::server_message::Body;
use crate::proto::{Heartbeat, Part, ServerMessage};
use crate::server::{Circular, Letter};
use crate::{MAX_TO_AGENT, PART};

/// All addresses of a name: so many that it takes several parts.
fn names() -> ToAgent {
    let web = ServiceName::new("web").expect("a name");
    let names: Names = NameKey::rows(&web, (0..20_000).map(Ipv4Addr::from)).collect();
    ToAgent::Directory(DirectoryEdit::Names(names.whole()))
}

#[tokio::test]
async fn what_many_are_told_arrives_at_each_of_them() {
    let mut hall = Hall::open().await;
    let circular = Circular::of(names());
    for name in ["web-1", "web-2"] {
        let mut session = connect(&target(&hall.url()), hello(name)).await.expect("let in");
        let guest = hall.next_guest().await;
        guest.link.outgoing.send(circular.clone()).await.expect("open");
        guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("open");
        assert_eq!(session.incoming.next().await, Ok(Some(names())), "{name}");
        assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)), "{name}");
    }
}

#[tokio::test]
async fn no_message_is_larger_than_a_part_and_each_has_its_number() {
    let letters: [Letter; 2] = [Circular::of(names()).into(), names().into()];
    for letter in letters {
        let mut hall = Hall::open().await;
        let (mut puppet, guest) = Puppet::enter(&mut hall).await;
        guest.link.outgoing.send(letter).await.expect("open");
        for number in 1.. {
            let message = puppet.hear.message().await.expect("open").expect("a message");
            assert!(message.encoded_len() < PART + 64, "{}", message.encoded_len());
            assert_eq!(message.sequence, number);
            let Some(Body::Part(Part { more, .. })) = message.body else { panic!("no part") };
            if !more {
                assert!(number > 1);
                break;
            }
        }
    }
}

#[tokio::test]
async fn parts_that_make_no_message_end_the_session() {
    let part = |content: Vec<u8>, more| Body::Part(Part { content: content.into(), more });
    let alive = ServerMessage { body: Some(Body::Heartbeat(Heartbeat {})), ..Default::default() };
    let within = ServerMessage { body: Some(part(alive.encode_to_vec(), false)), ..alive.clone() };
    let too_many = (0..=MAX_TO_AGENT / PART + 1).map(|_| part(vec![0; PART], true));
    for (case, parts, accepted) in [
        ("one", vec![part(alive.encode_to_vec(), false)], true),
        ("two", vec![part(alive.encode_to_vec(), true), part(vec![], false)], true),
        ("no message", vec![part(vec![0xff; 9], false)], false),
        ("parts of parts", vec![part(within.encode_to_vec(), false)], false),
        ("too many", too_many.collect(), false),
    ] {
        let parts = parts.into_iter().zip(1..).map(|(body, number)| says(5, number, body));
        let script = std::iter::once(says(5, 0, welcome_body())).chain(parts).collect();
        let mut session = join(script).await.expect("welcomed");
        let next = session.incoming.next().await;
        match accepted {
            true => assert_eq!(next, Ok(Some(ToAgent::Heartbeat)), "{case}"),
            false => assert!(next.is_err(), "{case}: {next:?}"),
        }
    }
}
