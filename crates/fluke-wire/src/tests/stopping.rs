//! How sessions end.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fluke_model::id::{CommitId, Hash256, InstructionId, StepAddress, TaskName};
use fluke_model::message::{Hello, ToAgent, ToServer};
use fluke_model::policy::{Policy, Trigger};
use fluke_model::snapshot::{Snapshot, SnapshotTask, StepIndex};
use fluke_model::task::{ExecutorSpec, OnFailure, ShellSpec, Step};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::hall::{Hall, hello, target, welcome};
use crate::client::{SessionError, connect, connect_over};
use crate::refusal::Refusal;
use crate::server::{Accepted, Entry, Fleet, Link, SendError, serve};

#[tokio::test]
async fn a_session_ends_cleanly_when_its_run_ends() {
    let mut hall = Hall::open().await;
    let mut session = connect(&target(&hall.url()), hello("web-1")).await.expect("let in");
    let guest = hall.next_guest().await;
    guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("open");
    drop(guest);
    assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)));
    assert_eq!(session.incoming.next().await, Ok(None));
}

#[tokio::test]
async fn a_session_can_be_ended_with_a_reason() {
    let mut hall = Hall::open().await;
    let mut session = connect(&target(&hall.url()), hello("web-1")).await.expect("let in");
    let mut guest = hall.next_guest().await;
    guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("open");
    guest.link.outgoing.close(Refusal::Forbidden("the token was withdrawn".into()));

    assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)), "sent before");
    let error = session.incoming.next().await.expect_err("ended");
    assert_eq!(error, SessionError::Ended(Refusal::Forbidden("the token was withdrawn".into())));
    assert!(!error.is_restart());
    assert_eq!(guest.link.incoming.next().await, Ok(None));
    assert_eq!(guest.link.outgoing.send(ToAgent::Heartbeat).await, Err(SendError::Closed));
}

#[tokio::test]
async fn a_server_that_stops_tells_its_agents_to_come_back() {
    let mut hall = Hall::open().await;
    let mut session = connect(&target(&hall.url()), hello("web-1")).await.expect("let in");
    let mut guest = hall.next_guest().await;
    hall.stop();
    let error = session.incoming.next().await.expect_err("ended");
    assert!(error.is_restart(), "{error:?}");
    assert_eq!(error.to_string(), "the server ended the session: the server is shutting down");
    assert_eq!(guest.link.incoming.next().await, Ok(None), "its run is told as well");
    drop((session, guest));
    hall.stopped().await;
}

/// Lets everybody in and never lets go.
struct Stubborn;

impl Fleet for Stubborn {
    type Pass = ();

    async fn admit(&self, _: Option<&str>, _: Option<SocketAddr>) -> Result<(), Refusal> {
        Ok(())
    }

    async fn enter(&self, (): (), _: Hello, _: Option<SocketAddr>) -> Result<Entry, Refusal> {
        let run = async move |link: Link| {
            pending::<()>().await;
            drop(link);
        };
        Ok(Entry { welcome: welcome(), run: Box::new(move |link| Box::pin(run(link))) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_does_not_end_cannot_hold_up_a_stop() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let incoming = stream::iter([Ok(Accepted::new(theirs, None))]).chain(stream::pending());
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(Arc::new(Stubborn), incoming, stopped));
    let mut session =
        connect_over(ours, &target("grpc://pipe"), hello("web-1")).await.expect("let in");
    drop(stop);
    assert!(session.incoming.next().await.expect_err("told").is_restart());
    served.await.expect("no panic").expect("returns after the grace");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_read_cannot_hold_up_a_stop() {
    let (mut hall, pipe) = Hall::open_pipe();
    let session = connect_over(pipe, &target("grpc://pipe"), hello("web-1")).await.expect("let in");
    let guest = hall.next_guest().await;
    let send = || guest.link.outgoing.send(ToAgent::Heartbeat);
    while let Ok(sent) = timeout(Duration::from_secs(1), send()).await {
        sent.expect("open");
    }
    hall.stop();
    hall.stopped().await;
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_session_is_closed() {
    for begins in
        [&b""[..], b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"]
    {
        let (_hall, mut pipe) = Hall::open_pipe();
        pipe.write_all(begins).await.expect("open");
        let mut heard = Vec::new();
        let _ = pipe.read_to_end(&mut heard).await;
    }
}

/// A pipe that tells when it is let go.
struct Telltale {
    io: DuplexStream,
    _held: oneshot::Sender<()>,
}

impl AsyncRead for Telltale {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Telltale {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_hear_that_its_session_is_over_is_cut_off() {
    let (ours, theirs) = tokio::io::duplex(1024);
    let (held, let_go) = oneshot::channel();
    let io = Telltale { io: theirs, _held: held };
    let mut hall = Hall::open_over(Accepted::new(io, None));
    let session = connect_over(ours, &target("grpc://pipe"), hello("web-1")).await.expect("let in");
    let guest = hall.next_guest().await;
    // More than the agent's side takes in without being read.
    for number in 0..8 {
        let large = ToAgent::Apply {
            instruction: InstructionId { session: session.welcome.session, number },
            snapshot: Hash256::of(b""),
            steps: vec![StepIndex(u32::MAX); 100_000],
            trigger: Trigger::Poll,
        };
        guest.link.outgoing.send(large).await.expect("room");
    }
    drop(guest);
    let_go.await.expect_err("only let go of");
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_a_session_stays() {
    let (mut hall, pipe) = Hall::open_pipe();
    let mut session =
        connect_over(pipe, &target("grpc://pipe"), hello("web-1")).await.expect("let in");
    let mut guest = hall.next_guest().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    session.outgoing.send(ToServer::Heartbeat).await.expect("open");
    assert_eq!(guest.link.incoming.next().await, Ok(Some(ToServer::Heartbeat)));
    guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("open");
    assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)));
}

#[tokio::test]
async fn a_snapshot_that_no_agent_would_take_is_not_sent() {
    let mut hall = Hall::open().await;
    let mut session = connect(&target(&hall.url()), hello("web-1")).await.expect("let in");
    let guest = hall.next_guest().await;
    let command = "x".repeat(crate::MAX_TO_AGENT);
    let spec = ShellSpec {
        check: "false".into(),
        command,
        working_dir: None,
        run_as: None,
        env: Default::default(),
    };
    let step = Step {
        address: StepAddress::new("shell", "s").expect("a name"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Shell(spec),
    };
    let name = TaskName::new("t").expect("a name");
    let task = SnapshotTask { name, policy: Policy::Remediate, steps: [step].into() };
    let snapshot = Arc::new(Snapshot::from_hashed(vec![(Hash256::of(b""), Arc::new(task))]));
    let message = ToAgent::Snapshot { commit: CommitId::new("c0ffee"), snapshot, is_moved: false };
    let error = guest.link.outgoing.send(message).await.expect_err("too large");
    assert!(matches!(error, SendError::TooLarge { steps: 1, .. }), "{error}");

    guest.link.outgoing.send(ToAgent::Heartbeat).await.expect("the session goes on");
    assert_eq!(session.incoming.next().await, Ok(Some(ToAgent::Heartbeat)));
}
