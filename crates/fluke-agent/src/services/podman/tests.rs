mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fluke_model::id::VolumeName;
use fluke_model::service::{ContainerSpec, HealthSpec, Replica, Resources};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::create::{Limit, Spot, create_body};
use super::*;
use crate::services::fixture;
use crate::services::plan::Deployment;

fn deployment() -> Deployment {
    let spec = ContainerSpec {
        command: Some(vec!["serve".into()]),
        volumes: BTreeMap::from([(VolumeName::new("data").expect("a name"), "/data".into())]),
        health: Some(HealthSpec {
            command: "wget -q localhost".into(),
            interval_ms: 10_000,
            timeout_ms: 5_000,
            retries: 3,
            start_period_ms: 0,
        }),
        resources: Resources { cpu_millis: Some(500), memory: Some(64 << 20) },
        ..fixture::spec("registry.example/shop:1")
    };
    fixture::replica("shop", Replica::Number(2), spec)
}

#[test]
fn a_container_is_asked_for_in_podman_s_words() {
    let deployment = deployment();
    let spot =
        Spot { network: "fluke", address: [10, 200, 7, 5].into(), gateway: [10, 200, 7, 1].into() };
    let env = BTreeMap::from([("LOG".to_string(), "info".to_string())]);
    let limits = vec![Limit { kind: "nofile", soft: 1024, hard: 4096 }];
    let body = create_body(&deployment, env, spot, limits);
    let id = deployment.id.to_string();
    assert_eq!(
        serde_json::to_value(&body).expect("plain data"),
        json!({
            "name": format!("shop-2-{}", deployment.id.short()),
            "image": "registry.example/shop:1",
            "labels": {
                "fluke.deployment.id": id,
                "fluke.service.id": "shop",
                "fluke.service.name": "shop",
                "fluke.replica": "2",
                "fluke.health.interval_ms": "10000",
            },
            "command": ["serve"],
            "env": { "LOG": "info" },
            "netns": { "nsmode": "bridge" },
            "Networks": { "fluke": {
                "static_ips": ["10.200.7.5"],
                "static_mac": "02:42:0a:c8:07:05",
            } },
            "dns_server": ["10.200.7.1"],
            "volumes": [{ "Name": "fluke.shop.data.2", "Dest": "/data" }],
            "healthconfig": {
                "Test": ["CMD-SHELL", "wget -q localhost"],
                "Interval": 0,
                "Timeout": 5_000_000_000_u64,
                "Retries": 3,
                "StartPeriod": 10_000_000_000_u64,
            },
            "resource_limits": {
                "memory": { "limit": 67108864, "swap": 67108864 },
                "cpu": { "quota": 50000, "period": 100000 },
            },
            "r_limits": [{ "type": "nofile", "soft": 1024, "hard": 4096 }],
            "restart_policy": "no",
            "image_volume_mode": "tmpfs",
            "log_configuration": { "size": 16_777_216 },
        })
    );
}

#[test]
fn without_a_health_block_nobody_asks_not_even_what_the_image_would() {
    let spot =
        Spot { network: "fluke", address: [10, 200, 7, 5].into(), gateway: [10, 200, 7, 1].into() };
    let deployment = fixture::deployment("shop", fixture::spec("shop:1"));
    let body = create_body(&deployment, BTreeMap::new(), spot, Vec::new());
    let body = serde_json::to_value(&body).expect("plain data");
    assert_eq!(body["healthconfig"]["Test"], json!(["NONE"]));
    assert_eq!(body["healthconfig"]["Interval"], 0);
    assert!(body["labels"].get("fluke.health.interval_ms").is_none());
}

#[test]
fn names_of_images_become_part_of_an_address() {
    assert_eq!(escape("r.example:5000/a/b:1.2@sha256:00"), "r.example:5000/a/b:1.2@sha256:00");
    assert_eq!(escape("a b?c&d#e"), "a%20b%3Fc%26d%23e");
}

/// A Podman that answers one request of each connection, and hangs up at the next one. Counts the
/// connections.
fn forgetful_podman(socket: &Path) -> Arc<AtomicUsize> {
    let listener = tokio::net::UnixListener::bind(socket).expect("a socket");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                if heard(&mut stream).await.is_some() {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
                    stream.write_all(answer).await.expect("an answer");
                    heard(&mut stream).await;
                }
            });
        }
    });
    connections
}

/// The first line of a request whose head is read, if there was one.
async fn heard(stream: &mut tokio::net::UnixStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut head).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
    }
    String::from_utf8_lossy(&head).lines().next().map(str::to_owned)
}

#[tokio::test]
async fn a_podman_that_went_home_while_it_was_asked_is_asked_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("podman.sock");
    let connections = forgetful_podman(&socket);
    let podman = Podman::at(&socket).expect("a client");
    for _ in 0..3 {
        assert_eq!(podman.list().await.expect("a list"), []);
    }
    assert!(connections.load(Ordering::SeqCst) >= 2);
}

#[tokio::test]
async fn what_makes_something_new_is_not_asked_for_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("podman.sock");
    let connections = forgetful_podman(&socket);
    let podman = Podman::at(&socket).expect("a client");
    podman.list().await.expect("a list");
    let network = Network {
        name: "fluke".into(),
        driver: "bridge".into(),
        network_interface: String::new(),
        dns_enabled: false,
        subnets: None,
    };
    let made = podman.create_network(&network).await;
    assert!(matches!(made, Err(PodmanError::Unreachable { .. })), "{made:?}");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// A Podman that begins to say this much of an answer of 100 bytes, and then goes, or says no more.
fn breaks_off(socket: &Path, body: String, hangs: bool) -> Podman {
    let listener = tokio::net::UnixListener::bind(socket).expect("a socket");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            heard(&mut stream).await;
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.expect("somebody listens");
            if hangs {
                heard(&mut stream).await;
            }
        }
    });
    Podman::at(socket).expect("a client")
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let podman = breaks_off(&folder.path().join("goes"), r#"{"Image":"#.into(), false);
    let said = podman.inspect("d").await.expect_err("it broke off");
    assert!(matches!(said, PodmanError::Unreachable { .. }) && !said.is_an_answer(), "{said}");
    let podman = breaks_off(&folder.path().join("hangs"), r#"{"Status":"#.into(), true);
    let said = podman.ask_health("d", Duration::from_millis(50)).await.expect_err("it hangs");
    assert!(said.is_late() && !said.is_an_answer(), "{said}");
    let podman = breaks_off(&folder.path().join("other"), format!("{:100}", "[]"), false);
    let said = podman.inspect("d").await.expect_err("it is no container");
    assert!(said.is_an_answer(), "{said}");
}

#[tokio::test]
async fn why_nobody_answers_is_said_with_what_to_do_about_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("podman.sock");
    let podman = Podman::at(&socket).expect("a client");
    let said =
        |made: Result<Vec<Listed>, PodmanError>| made.expect_err("nobody is there").to_string();
    let at = format!("Podman does not answer at {}: ", socket.display());
    let none = "there is no socket; install Podman, then `systemctl enable --now podman.socket`";
    assert_eq!(said(podman.list().await), format!("{at}{none}"));
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("bound"));
    let left = "nobody listens; `systemctl enable --now podman.socket`";
    assert_eq!(said(podman.list().await), format!("{at}{left}"));
}
