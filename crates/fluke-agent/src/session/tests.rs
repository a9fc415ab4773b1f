//! One session over a pipe in memory, in a time that only passes when everybody waits.

use std::net::SocketAddr;
use std::sync::Arc;

use fluke_model::id::{AgentName, InstanceId, SessionId};
use fluke_model::message::NodeType;
use fluke_wire::client::connect_over;
use fluke_wire::server::{Accepted, Entry, Fleet, Link, serve};
use fluke_wire::{Refusal, Secret};
use futures_util::{StreamExt, stream};
use tokio::sync::Mutex;

use super::*;

const BEAT: Duration = Duration::from_secs(10);

/// Lets one agent in, and hands its session to the test.
struct Doorman(Mutex<Option<mpsc::Sender<Link>>>);

impl Fleet for Doorman {
    type Pass = ();

    async fn admit(&self, _: Option<&str>, _: Option<SocketAddr>) -> Result<(), Refusal> {
        Ok(())
    }

    async fn enter(&self, (): (), _: Hello, _: Option<SocketAddr>) -> Result<Entry, Refusal> {
        let guests = self.0.lock().await.take().expect("one agent comes");
        let welcome = Welcome {
            session: SessionId(1),
            heartbeat: BEAT,
            poll_interval: BEAT,
            version: "9.9.9".into(),
        };
        let run = |link| async move {
            guests.send(link).await.expect("the test listens");
            guests.closed().await;
        };
        Ok(Entry { welcome, run: Box::new(|link| Box::pin(run(link))) })
    }
}

fn hello() -> Hello {
    Hello {
        name: AgentName::new("web-01").expect("a name"),
        labels: Default::default(),
        version: "1.2.3".into(),
        executors: Vec::new(),
        node_type: NodeType::Worker,
        snapshot: None,
        instance: InstanceId(1),
        previous: None,
        tables: fluke_model::message::Holdings::default(),
    }
}

/// Both ends of a session, and what has to be kept for it to last.
async fn meet() -> (Session, Link, mpsc::Receiver<Link>) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (arrivals, mut guests) = mpsc::channel(1);
    let doorman = Arc::new(Doorman(Mutex::new(Some(arrivals))));
    let incoming = stream::iter([Ok(Accepted::new(theirs, None))]).chain(stream::pending());
    tokio::spawn(serve(doorman, incoming, std::future::pending::<()>()));
    let target = Target {
        url: "grpc://localhost:1".parse().expect("an address"),
        token: Secret::new("x"),
        tls: Default::default(),
    };
    let session = connect_over(ours, &target, hello()).await.expect("welcome");
    let link = guests.recv().await.expect("somebody came");
    (session, link, guests)
}

#[tokio::test(start_paused = true)]
async fn three_missed_heartbeats_mean_gone_and_one_that_comes_means_here() {
    let (session, link, _stay) = meet().await;
    let (to_agent, mut events) = events();
    let talking = tokio::spawn(async move { talk(session, &to_agent).await });
    let Some(Event::Connected { to_server, .. }) = events.recv().await else { panic!("began") };
    let began = Instant::now();
    sleep(2 * BEAT).await;
    link.outgoing.send(ToAgent::Heartbeat).await.expect("there");
    let End::Broken(reason) = talking.await.expect("no panic") else { panic!("broken") };
    assert_eq!(reason, "the server said nothing for 30 s");
    assert_eq!(began.elapsed().as_secs(), 50, "three beats after the last sign of life");
    assert!(events.recv().await.is_none(), "a sign of life is no message");
    drop(to_server);
}

#[tokio::test(start_paused = true)]
async fn the_agent_gives_a_sign_of_life_with_every_beat_and_leaves_in_good_order() {
    let (session, mut link, stay) = meet().await;
    let (to_agent, mut events) = events();
    let talking = tokio::spawn(async move { talk(session, &to_agent).await });
    let Some(Event::Connected { to_server, .. }) = events.recv().await else { panic!("began") };
    let began = Instant::now();
    for beat in 1..=5 {
        let said = link.incoming.next().await.expect("no error");
        assert_eq!((said, began.elapsed().as_secs()), (Some(ToServer::Heartbeat), beat * 10));
        link.outgoing.send(ToAgent::Heartbeat).await.expect("there");
    }
    let last = ToServer::LookAgain { snapshot: Hash256::of(b"s"), steps: Vec::new() };
    to_server.send(last.clone()).await.expect("there");
    drop(to_server);
    assert_eq!(link.incoming.next().await.expect("no error"), Some(last), "nothing is lost");
    assert_eq!(link.incoming.next().await.expect("no error"), None);
    drop((link, stay));
    assert!(matches!(talking.await.expect("no panic"), End::AgentLeft));
}
