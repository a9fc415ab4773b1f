//! What Podman 4.3.1 and 5.4.2 said to the same questions, recorded and made shorter.

use super::*;
use crate::services::{bridge, plan};

/// To a request that begins and goes on like this: a status, and a body.
type Said = (&'static str, &'static str, u16, &'static str);

/// A Podman that says what a real one said.
fn recorded(socket: &Path, all: Vec<Said>) -> Podman {
    let listener = tokio::net::UnixListener::bind(socket).expect("a socket");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            while let Some(line) = heard(&mut stream).await {
                let is_it = |said: &&Said| line.starts_with(said.0) && line.contains(said.1);
                let (_, _, status, body) = all.iter().find(is_it).expect("a recording");
                let head = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\n\r\n", body.len());
                let sent = stream.write_all(format!("{head}{body}").as_bytes()).await;
                sent.expect("somebody listens");
            }
        }
    });
    Podman::at(socket).expect("a client")
}

fn four() -> Vec<Said> {
    vec![
        (
            "GET",
            "/containers/json",
            200,
            r#"[{"Id":"3676","ImageID":"7542","Labels":{"a":"b"},"Names":["shop-2"],"Networks":["fluke"],"Pid":227,"StartedAt":1794799154,"State":"running","Status":"starting"}]"#,
        ),
        ("GET", "/info", 200, r#"{"host":{"eventLogger":"file"},"store":{"graphRoot":"/root"}}"#),
        (
            "GET",
            "/networks/fluke/json",
            200,
            r#"{"name":"fluke","id":"82c8","driver":"bridge","network_interface":"fluke-br0","subnets":[{"subnet":"10.200.7.0/24","gateway":"10.200.7.1"}],"dns_enabled":false,"ipam_options":{"driver":"host-local"}}"#,
        ),
        (
            "GET",
            "/events",
            200,
            r#"{"status":"died","id":"3676","Type":"container","Action":"died","Actor":{"Attributes":{"containerExitCode":"0","fluke.replica":"2"}}}
"#,
        ),
        (
            "POST",
            "/images/pull",
            200,
            r#"{"stream":"Trying to pull h1:5000/web:1...\n"}
{"stream":"Storing signatures\n"}
{"images":["e741"],"id":"e741"}
"#,
        ),
    ]
}

fn five() -> Vec<Said> {
    vec![
        (
            "GET",
            "/containers/json",
            200,
            r#"[{"CIDFile":"","ExposedPorts":null,"Id":"3676","ImageID":"7542","Labels":{"a":"b"},"Names":["shop-2"],"Networks":["fluke"],"Pid":227,"Restarts":0,"StartedAt":1794799154,"State":"running","Status":"starting"}]"#,
        ),
        (
            "GET",
            "/info",
            200,
            r#"{"host":{"databaseBackend":"sqlite","eventLogger":"journald"},"store":{"graphRoot":"/root","transientStore":false}}"#,
        ),
        (
            "GET",
            "/networks/fluke/json",
            200,
            r#"{"name":"fluke","id":"82c8","driver":"bridge","network_interface":"fluke-br0","subnets":[{"subnet":"10.200.7.0/24","gateway":"10.200.7.1"}],"dns_enabled":false,"ipam_options":{"driver":"host-local"},"containers":{}}"#,
        ),
        (
            "GET",
            "/events",
            200,
            r#"{"status":"died","id":"3676","Type":"container","Action":"died","Actor":{"Attributes":{"fluke.replica":"2","podId":""}},"HealthStatus":"starting"}
"#,
        ),
        (
            "POST",
            "/images/pull",
            200,
            r#"{"stream":"Trying to pull h1:5000/web:1...\n"}
{"images":["e741"],"id":"e741"}
"#,
        ),
    ]
}

#[tokio::test]
async fn what_both_say_means_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lists = Vec::new();
    for (name, said, backend) in [("4", four(), ""), ("5", five(), "sqlite")] {
        let podman = recorded(&folder.path().join(name), said);
        lists.push(podman.list().await.expect("a list"));
        let store = podman.store().await.expect("a store");
        let (root, backend) = (PathBuf::from("/root"), backend.to_owned());
        assert_eq!(store, Store { folder: root, backend, is_transient: false });
        let network = podman.network("fluke").await.expect("an answer");
        let subnet = fluke_model::directory::Subnet::new(7).expect("in range");
        assert_eq!(bridge::judge(network.as_ref(), subnet), plan::Network::Ready);
        let event = podman.events().await.expect("a stream").next().await.expect("understood");
        let Event { kind, action, actor } = event.expect("something happened");
        assert_eq!((&*kind, &*action), ("container", "died"));
        assert_eq!(actor.attributes.expect("they are told")["fluke.replica"], "2");
        let mut pull = podman.pull("h1:5000/web:1").await.expect("a stream");
        let mut progress = pull.next().await.expect("understood");
        assert_eq!(progress, Progress::Says("Trying to pull h1:5000/web:1...".into()));
        while let Progress::Says(_) = progress {
            progress = pull.next().await.expect("understood");
        }
        assert_eq!(progress, Progress::Done("e741".into()));
    }
    assert_eq!(lists[0], lists[1]);
    assert_eq!((lists[0][0].pid, &*lists[0][0].status), (227, "starting"));
}

/// Podman 5 where somebody removed the network's bridge, or the network itself.
const NOT_TIDY: &str = r#"{"cause":"netavark (exit code 1): failed to get bridge interface: Netlink error: No such device (os error 19)","message":"removing container d network: netavark (exit code 1): failed to get bridge interface: Netlink error: No such device (os error 19)","response":500}"#;
const NO_NETWORK: &str = r#"{"cause":"network not found","message":"cleaning up container d: removing container d network: failed to convert net opts: unable to find network with name or ID n1: network not found","response":500}"#;
const PAUSED: &str = r#"{"cause":"container state improper","message":"container d is running or paused, refusing to clean up: container state improper","response":500}"#;
const GONE: &str = r#"{"cause":"no such container","message":"no container with ID or name \"d\" found: no such container","response":404}"#;
const IS_EXITED: &str = r#"{"Image":"7542","State":{"Status":"exited","Running":false,"Paused":false,"Pid":0},"Config":{},"HostConfig":{},"NetworkSettings":{}}"#;
const IS_PAUSED: &str = r#"{"Image":"7542","State":{"Status":"paused","Running":false,"Paused":true,"Pid":233},"Config":{},"HostConfig":{},"NetworkSettings":{}}"#;

#[tokio::test]
async fn what_was_done_is_no_failure_whatever_podman_5_could_not_tidy_up() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (verb, no, then, body, is_done)) in [
        ("POST", NOT_TIDY, 200, IS_EXITED, true),
        ("POST", PAUSED, 200, IS_PAUSED, false),
        ("POST", NOT_TIDY, 404, GONE, false),
        ("DELETE", NO_NETWORK, 404, GONE, true),
        ("DELETE", NO_NETWORK, 200, IS_EXITED, false),
    ]
    .into_iter()
    .enumerate()
    {
        let said =
            vec![(verb, "/containers/d", 500, no), ("GET", "/containers/d/json", then, body)];
        let podman = recorded(&folder.path().join(number.to_string()), said);
        let done = match verb {
            "POST" => podman.stop("d", Duration::ZERO).await,
            _ => podman.remove("d").await,
        };
        match done {
            Ok(()) => assert!(is_done, "{verb} {no} {body}"),
            Err(error) => {
                assert!(!is_done, "{error}");
                let kept = error.to_string();
                assert!(kept.contains("container d"), "the first no is told: {kept}");
            }
        }
    }
}
