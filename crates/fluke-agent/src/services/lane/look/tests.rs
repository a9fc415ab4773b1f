use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use fluke_model::id::{AgentName, CommitId};
use fluke_model::snapshot::Snapshot;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::host::environment::Environment;
use crate::services::fixture;
use crate::services::lane::tests::{service, spec};
use crate::state::Held;

/// As Podman shows one that has ended, made shorter; it may use this much memory.
fn shown(memory: usize) -> String {
    let limits = format!(r#"{{"Memory":{memory},"RestartPolicy":{{"Name":"no"}}}}"#);
    format!(
        r#"{{"Image":"7542","ImageName":"localhost/box:1","State":{{"Status":"exited"}},
           "Config":{{"Cmd":["sh","-c","true"]}},"HostConfig":{limits},
           "NetworkSettings":{{"Networks":{{"fluke":{{}}}}}}}}"#
    )
}

const NETWORK: &str = r#"{"name":"fluke","driver":"bridge","network_interface":"fluke-br0",
    "subnets":[{"subnet":"10.200.7.0/24","gateway":"10.200.7.1"}],"dns_enabled":false}"#;

/// A host with one container, which Podman lists as it is at any time.
struct Host {
    folder: tempfile::TempDir,
    desired: Desired,
    /// How often the container was looked at closely.
    closely: Arc<AtomicUsize>,
}

impl Host {
    fn new() -> Self {
        let web = Arc::new(service("web", spec("true")));
        let snapshot = Arc::new(Snapshot::default().with_services(vec![web]));
        let held = Arc::new(Held { commit: CommitId::new("c1"), snapshot });
        let host = AgentName::new(fixture::HOST).expect("a name");
        let desired = Desired::new(held, &host, &Environment::from_pairs([("", "")]));
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, desired, closely: Arc::default() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("podman.sock")
    }

    /// Podman, which says this of the network.
    fn podman(&self, network: &'static str) -> Podman {
        let listener = tokio::net::UnixListener::bind(self.socket()).expect("a socket");
        let (id, closely) = (self.desired.wanted[0].id, self.closely.clone());
        let listed =
            format!(r#"[{{"Id":"c","State":"exited","Labels":{{"fluke.deployment.id":"{id}"}}}}]"#);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                while let Some(path) = asked(&mut stream).await {
                    let body = match path.rsplit_once("/libpod/").expect("a path").1 {
                        "containers/json?all=true" => listed.clone(),
                        "containers/c/json" => shown(closely.fetch_add(1, Ordering::SeqCst)),
                        "networks/fluke/json" => network.into(),
                        _ => "[]".into(),
                    };
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    let sent = stream.write_all(format!("{head}{body}").as_bytes()).await;
                    sent.expect("somebody listens");
                }
            }
        });
        Podman::at(&self.socket()).expect("a client")
    }

    async fn look(&self, podman: &Podman, known: &mut Known) -> Seen {
        let (sys, proc) = (self.folder.path().into(), self.folder.path().into());
        let look = Look {
            podman,
            desired: &self.desired,
            subnet: Subnet::new(7).expect("in range"),
            interfaces: &Interfaces { sys, proc },
            lives: &Lives::default(),
            time: Timestamp(0),
        };
        look.around(known).await.expect("it can be looked at")
    }
}

/// The path that is asked for.
async fn asked(stream: &mut tokio::net::UnixStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8_lossy(&head).split(' ').nth(1).map(str::to_owned)
}

#[tokio::test]
async fn what_is_listed_as_it_was_is_looked_at_closely_once_or_when_that_is_doubted() {
    let host = Host::new();
    let (podman, mut known) = (host.podman(NETWORK), Known::default());
    for _ in 0..2 {
        let seen = host.look(&podman, &mut known).await;
        assert_eq!(seen.containers[0].tampered, None);
        known.doubt();
    }
    assert_eq!(host.closely.load(Ordering::SeqCst), 1);
    known.doubt_details();
    let seen = host.look(&podman, &mut known).await;
    assert_eq!(seen.containers[0].tampered.as_deref(), Some("it may use 1 bytes of memory"));
}

#[tokio::test]
async fn a_network_of_which_nothing_can_be_told_holds_up_nothing() {
    let host = Host::new();
    let podman = host.podman(r#"{"name":"fluke","driver":7}"#);
    let seen = host.look(&podman, &mut Known::default()).await;
    assert_eq!((seen.containers.len(), seen.network), (1, Network::Untold));
}
