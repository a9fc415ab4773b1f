//! Messages that are not the next one of this session, both ways.

use std::pin::Pin;

use fluke_model::message::{ToAgent, ToServer};
use futures_util::{Stream, stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};

use super::hall::{Guest, Hall, SESSION, TOKEN, hello, listen, target, welcome};
use crate::client::{ConnectError, Session, SessionError, connect};
use crate::convert::{to_server_to_proto, welcome_to_proto};
use crate::error::WireError;
use crate::proto::fleet_client::FleetClient;
use crate::proto::fleet_server::{Fleet, FleetServer};
use crate::proto::{
    AgentMessage, Began, Heartbeat, Record, ServerMessage, agent_message, record, server_message,
};
use crate::{MAX_TO_SERVER, proto};

/// An agent that says just what it is told to.
pub(super) struct Puppet {
    say: mpsc::Sender<AgentMessage>,
    pub(super) hear: Streaming<ServerMessage>,
}

impl Puppet {
    async fn call(hall: &Hall, first: AgentMessage) -> Result<Self, Status> {
        let channel = Endpoint::from_shared(format!("http://{}", hall.address))
            .expect("an address")
            .connect()
            .await
            .expect("a server");
        let (say, said) = mpsc::channel(4);
        say.send(first).await.expect("room");
        let mut request = Request::new(ReceiverStream::new(said));
        let bearer = format!("bearer {TOKEN}").parse().expect("ASCII");
        request.metadata_mut().insert("authorization", bearer);
        let mut client = FleetClient::new(channel).max_encoding_message_size(usize::MAX);
        let hear = client.connect(request).await?.into_inner();
        Ok(Self { say, hear })
    }

    pub(super) async fn enter(hall: &mut Hall) -> (Self, Guest) {
        let mut puppet = Self::call(hall, hello_message()).await.expect("let in");
        let welcome = puppet.hear.message().await.expect("open").expect("a welcome");
        assert_eq!((welcome.session, welcome.sequence), (SESSION.0, 0));
        let guest = hall.next_guest().await;
        (puppet, guest)
    }

    async fn says(&self, session: u64, sequence: u64, body: agent_message::Body) {
        let message = AgentMessage { session, sequence, body: Some(body) };
        self.say.send(message).await.expect("open");
    }
}

fn hello_message() -> AgentMessage {
    let body = Some(to_server_to_proto(ToServer::Hello(hello("puppet"))));
    AgentMessage { session: 0, sequence: 0, body }
}

fn heartbeat() -> agent_message::Body {
    agent_message::Body::Heartbeat(Heartbeat {})
}

#[tokio::test]
async fn a_server_refuses_what_is_not_the_next_message_and_says_so() {
    let mut hall = Hall::open().await;
    let session = SESSION.0;
    for (case, envelope, words) in [
        ("repeated", (session, 1), "message 1 came where 2 was due"),
        ("skipped", (session, 3), "message 3 came where 2 was due"),
        ("from the start", (session, 0), "message 0 came where 2 was due"),
        ("another session", (session + 1, 2), "00000000feedbef0 came in session 00000000feedbeef"),
        ("no session", (0, 2), "0000000000000000 came in session"),
    ] {
        let (mut puppet, mut guest) = Puppet::enter(&mut hall).await;
        puppet.says(session, 1, heartbeat()).await;
        assert_eq!(guest.link.incoming.next().await, Ok(Some(ToServer::Heartbeat)));

        puppet.says(envelope.0, envelope.1, heartbeat()).await;
        let error = guest.link.incoming.next().await.expect_err(case);
        assert!(error.to_string().contains(words), "{case}: {error}");
        let status = puppet.hear.message().await.expect_err(case);
        assert_eq!(status.code(), Code::InvalidArgument, "{case}");
        assert!(status.message().contains(words), "{case}: {status}");
        assert_eq!(guest.link.incoming.next().await, Ok(None), "it is over");
    }
}

#[tokio::test]
async fn a_second_hello_is_refused() {
    let mut hall = Hall::open().await;
    let (puppet, mut guest) = Puppet::enter(&mut hall).await;
    puppet.says(SESSION.0, 1, hello_message().body.expect("a body")).await;
    assert!(matches!(guest.link.incoming.next().await, Err(WireError::Misplaced { .. })));
}

#[tokio::test]
async fn whoever_does_not_begin_with_hello_is_refused() {
    let hall = Hall::open().await;
    let body = Some(heartbeat());
    for first in [
        AgentMessage { session: 0, sequence: 0, body },
        AgentMessage { session: 1, ..hello_message() },
        AgentMessage { sequence: 1, ..hello_message() },
        AgentMessage::default(),
    ] {
        let status = Puppet::call(&hall, first).await.err().expect("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains("where a Hello was due"), "{status}");
    }
}

#[tokio::test]
async fn a_message_from_the_future_is_skipped() {
    let mut hall = Hall::open().await;
    let (puppet, mut guest) = Puppet::enter(&mut hall).await;
    let future = AgentMessage { session: SESSION.0, sequence: 1, body: None };
    puppet.say.send(future).await.expect("open");
    puppet.says(SESSION.0, 2, heartbeat()).await;
    assert_eq!(guest.link.incoming.next().await, Ok(Some(ToServer::Heartbeat)));
}

#[tokio::test]
async fn a_message_beyond_the_bound_ends_the_session() {
    let mut hall = Hall::open().await;
    let (mut puppet, mut guest) = Puppet::enter(&mut hall).await;
    let reason = "x".repeat(MAX_TO_SERVER);
    let fact = Some(record::Fact::Began(Began { reason }));
    let record = agent_message::Body::Record(Record { fact, ..Default::default() });
    puppet.says(SESSION.0, 1, record).await;
    let error = guest.link.incoming.next().await.expect_err("too large");
    assert!(error.to_string().contains("too large"), "{error}");
    assert!(puppet.hear.message().await.is_err());
}

/// A server that says just what it is told to.
struct Script(Vec<ServerMessage>);

#[tonic::async_trait]
impl Fleet for Script {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<ServerMessage, Status>> + Send>>;

    async fn connect(
        &self,
        _: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        Ok(Response::new(Box::pin(stream::iter(self.0.clone().into_iter().map(Ok)))))
    }
}

pub(super) async fn join(script: Vec<ServerMessage>) -> Result<Session, ConnectError> {
    let (listener, address) = listen().await;
    let incoming = stream::unfold(listener, async |listener| {
        Some((listener.accept().await.map(|(io, _)| io), listener))
    });
    let service = FleetServer::new(Script(script)).max_encoding_message_size(usize::MAX);
    tokio::spawn(async move { Server::builder().serve_with_incoming(service, incoming).await });
    connect(&target(&format!("grpc://{address}")), hello("web-1")).await
}

pub(super) fn says(session: u64, sequence: u64, body: server_message::Body) -> ServerMessage {
    ServerMessage { session, sequence, body: Some(body) }
}

pub(super) fn welcome_body() -> server_message::Body {
    server_message::Body::Welcome(welcome_to_proto(welcome()))
}

#[tokio::test]
async fn an_agent_refuses_what_is_not_the_next_message() {
    let alive = || server_message::Body::Heartbeat(Heartbeat {});
    for (case, second, accepted) in [
        ("the next", says(5, 2, alive()), true),
        ("repeated", says(5, 1, alive()), false),
        ("skipped", says(5, 3, alive()), false),
        ("another session", says(6, 2, alive()), false),
        ("a second welcome", says(5, 2, welcome_body()), false),
    ] {
        let script = vec![says(5, 0, welcome_body()), says(5, 1, alive()), second];
        let mut session = join(script).await.expect("welcomed");
        assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)), "{case}");
        let next = session.incoming.next().await;
        assert_eq!(next.is_ok(), accepted, "{case}: {next:?}");
        if let Err(error) = next {
            assert!(matches!(error, SessionError::Wire(_)), "{case}: {error:?}");
            assert!(!error.is_restart());
        }
    }
}

#[tokio::test]
async fn an_agent_skips_what_a_newer_server_says() {
    let newer = ServerMessage { session: 5, sequence: 1, body: None };
    let alive = server_message::Body::Heartbeat(Heartbeat {});
    let script = vec![says(5, 0, welcome_body()), newer, says(5, 2, alive)];
    let mut session = join(script).await.expect("welcomed");
    assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)));
    assert_eq!(session.incoming.next().await, Ok(None));
}

#[tokio::test]
async fn a_server_that_does_not_begin_with_a_welcome_is_incompatible() {
    let alive = server_message::Body::Heartbeat(Heartbeat {});
    let hasty = proto::Welcome { heartbeat_ms: 0, ..welcome_to_proto(welcome()) };
    for (case, script) in [
        ("nothing", vec![]),
        ("another message", vec![says(5, 0, alive)]),
        ("a late welcome", vec![says(5, 1, welcome_body())]),
        ("no heartbeat", vec![says(5, 0, server_message::Body::Welcome(hasty))]),
    ] {
        let error = join(script).await.expect_err(case);
        assert!(matches!(error, ConnectError::Incompatible { .. }), "{case}: {error:?}");
    }
}

#[tokio::test]
async fn a_snapshot_beyond_the_agents_bound_is_refused_by_both_sides() {
    let hash = vec![0; 32];
    let name = "x".repeat(crate::MAX_TO_AGENT);
    let tasks = vec![proto::Task { name, ..Default::default() }];
    let large = proto::Snapshot { hash, tasks, ..proto::Snapshot::default() };
    let script =
        vec![says(5, 0, welcome_body()), says(5, 1, server_message::Body::Snapshot(large))];
    let mut session = join(script).await.expect("welcomed");
    let error = session.incoming.next().await.expect_err("too large");
    assert!(error.to_string().contains("too large"), "{error}");
}
