//! How sessions begin, or do not.

use std::time::Duration;

use fluke_model::message::{RecordId, ToAgent, ToServer};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::hall::{Hall, hello, listen, target, welcome};
use crate::Secret;
use crate::client::{ConnectError, Target, connect, connect_over, connect_within};
use crate::convert::tests::any;

#[tokio::test]
async fn an_agent_says_hello_and_is_welcomed() {
    let mut hall = Hall::open().await;
    let mut session = connect(&target(&hall.url()), hello("web-1")).await.expect("let in");
    assert_eq!(session.welcome, welcome());

    let mut guest = hall.next_guest().await;
    assert_eq!(guest.hello, hello("web-1"));
    session.outgoing.send(ToServer::Heartbeat).await.expect("open");
    assert_eq!(guest.link.incoming.next().await, Ok(Some(ToServer::Heartbeat)));
    guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("open");
    assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)));
}

#[tokio::test]
async fn every_kind_of_message_arrives_as_it_was_and_in_order() {
    let (mut hall, pipe) = Hall::open_pipe();
    let mut session =
        connect_over(pipe, &target("grpc://pipe"), hello("web-1")).await.expect("let in");
    let mut guest = hall.next_guest().await;
    let mut runner = TestRunner::deterministic();

    for _ in 0..200 {
        let message = any::to_server().new_tree(&mut runner).expect("a message").current();
        if matches!(message, ToServer::Hello(_)) {
            continue;
        }
        session.outgoing.send(message.clone()).await.expect("open");
        assert_eq!(guest.link.incoming.next().await, Ok(Some(message)));

        let message = any::to_agent().new_tree(&mut runner).expect("a message").current();
        guest.link.outgoing.send(message.clone()).await.expect("open");
        assert_eq!(session.incoming.next().await, Ok(Some(message)));
    }
}

#[tokio::test]
async fn both_sides_can_be_driven_by_tasks_of_their_own() {
    let mut hall = Hall::open().await;
    let target = target(&hall.url());
    let agent = tokio::spawn(async move {
        let mut session = connect(&target, hello("web-1")).await.expect("let in");
        session.outgoing.send(ToServer::Heartbeat).await.expect("open");
        session.incoming.next().await
    });
    let mut guest = hall.next_guest().await;
    let server = tokio::spawn(async move {
        let heard = guest.link.incoming.next().await;
        guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("open");
        let _ = guest.link.incoming.next().await;
        heard
    });
    assert_eq!(agent.await.expect("no panic"), Ok(Some(ToAgent::Heartbeat)));
    assert_eq!(server.await.expect("no panic"), Ok(Some(ToServer::Heartbeat)));
}

#[tokio::test]
async fn reading_can_be_given_up_and_taken_up_again() {
    let (mut hall, pipe) = Hall::open_pipe();
    let mut session =
        connect_over(pipe, &target("grpc://pipe"), hello("web-1")).await.expect("let in");
    let guest = hall.next_guest().await;
    for n in 0..50 {
        let next = session.incoming.next();
        tokio::select! {
            biased;
            _ = next => panic!("nothing was sent"),
            () = tokio::task::yield_now() => {}
        }
        let ack = ToAgent::Ack { record: RecordId(n) };
        guest.link.outgoing.send(ack.clone()).await.expect("open");
        assert_eq!(session.incoming.next().await, Ok(Some(ack)));
    }
}

#[tokio::test]
async fn a_wrong_token_is_turned_away() {
    let hall = Hall::open().await;
    for token in ["", "wrong", "let-me-in ", "Let-me-in", "line\nbreak"] {
        let target = Target { token: Secret::new(token), ..target(&hall.url()) };
        let error = connect(&target, hello("web-1")).await.expect_err("not let in");
        assert!(matches!(error, ConnectError::Unauthenticated { .. }), "{token:?}: {error}");
        assert!(!error.is_retryable_soon());
    }
}

#[tokio::test]
async fn every_refusal_reaches_the_agent_with_its_reason() {
    let hall = Hall::open().await;
    for (name, words, passes) in [
        ("taken", "`taken` is connected from 10.0.0.1; give each agent its own `name`", true),
        ("banned", "the server refused this agent: `banned` is not among web-*", false),
        ("early", "is not ready: no commit is loaded yet", true),
    ] {
        let error = connect(&target(&hall.url()), hello(name)).await.expect_err("not let in");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.is_retryable_soon(), passes, "{error}");
    }
    let refused = connect(&target(&hall.url()), hello("taken")).await;
    assert!(matches!(refused, Err(ConnectError::NameTaken { .. })));
}

#[tokio::test]
async fn an_agent_with_too_many_labels_learns_why() {
    let hall = Hall::open().await;
    let mut hello = hello("web-1");
    for n in 0..65 {
        let pair = fluke_model::label::Labels::parse_pair(&format!("k{n}=v")).expect("a label");
        hello.labels.0.insert(pair.0, pair.1);
    }
    let error = connect(&target(&hall.url()), hello).await.expect_err("not let in");
    assert!(error.to_string().contains("`hello.labels` has 65 entries; at most 64"), "{error}");
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_unreachable() {
    let (listener, address) = listen().await;
    drop(listener);
    let error = connect(&target(&format!("grpc://{address}")), hello("web-1")).await;
    let error = error.expect_err("nobody there");
    assert!(matches!(&error, ConnectError::Unreachable { .. }), "{error:?}");
    assert!(error.is_retryable_soon());
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_on() {
    let (_listener, address) = listen().await;
    for scheme in ["grpc", "grpcs"] {
        let mut target = target(&format!("{scheme}://{address}"));
        target.tls.insecure_skip_verify = true;
        let limit = Duration::from_millis(100);
        let error = connect_within(&target, hello("web-1"), limit).await.expect_err("no answer");
        assert!(matches!(&error, ConnectError::NoAnswer { .. }), "{error:?}");
        assert!(error.to_string().contains("within 0.1 s"), "{error}");
    }
}

#[tokio::test]
async fn a_session_ends_when_the_agent_leaves() {
    let mut hall = Hall::open().await;
    let session = connect(&target(&hall.url()), hello("web-1")).await.expect("let in");
    let mut guest = hall.next_guest().await;
    drop(session);
    assert!(!matches!(guest.link.incoming.next().await, Ok(Some(_))));
    // The connection is gone as well, which the sender notices with the next message or so.
    while guest.link.outgoing.send(ToAgent::Heartbeat).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
