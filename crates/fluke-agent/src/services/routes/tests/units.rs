//! On a host with systemd; others keep Traefik running as a child of the test.

use std::path::Path;
use std::process::Command;

use fluke_model::directory::Routes;
use tokio::io::AsyncWriteExt;

use super::super::{Proxy, Systemd, end};
use super::stage::*;
use crate::executor::systemd::BOOTED;
use crate::services::section::Found;

fn systemctl(arguments: &[&str]) -> String {
    let ran = Command::new("systemctl").args(arguments).output().expect("systemctl");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

async fn routes(proxy: &mut Proxy, routes: &Routes) {
    proxy.apply(routes).await.expect("it can be done");
    assert_eq!(proxy.check(routes).await.expect("it can be told"), Found::default());
    assert_eq!(proxy.in_effect(), routes.hash());
}

#[tokio::test]
async fn traefik_is_a_unit_that_outlives_its_agent_and_comes_back_when_it_dies() {
    if !Path::new(BOOTED).is_dir() {
        return;
    }
    // Not in /tmp, which the unit has for itself elsewhere.
    let folder = tempfile::tempdir_in("/var/lib").expect("a folder");
    let Some(settings) = settings(folder.path()) else { return };
    let listen = settings.listen.expect("an address");
    let web = Container::http(LOCAL, "web").await;
    let db = Container::tcp(LOCAL, "db").await;
    let at = std::net::SocketAddr::new(listen, WEB);
    let plain = table([("web", http("a.example.com"), &[&web])]);
    let with_port = table([("web", http("a.example.com"), &[&web]), ("db", tcp(15432), &[&db])]);

    let mut proxy = Proxy::new(settings.clone()).expect("a client");
    routes(&mut proxy, &plain).await;
    assert_eq!(ask(&client(), at, "a.example.com").await.expect("an answer").1, "web");
    drop(proxy);
    let mut proxy = Proxy::new(settings).expect("a client");
    let found = proxy.check(&plain).await.expect("it can be told");
    assert_eq!(found, Found::default(), "it went on");

    routes(&mut proxy, &with_port).await;
    assert_eq!(ask(&client(), at, "a.example.com").await.expect("an answer").1, "web");
    let active = ["list-units", "--state=active", "--plain", "--no-legend", "fluke-proxy-*"];
    until("the one before it ends", || systemctl(&active).lines().count() == 1).await;

    systemctl(&["kill", "--signal=KILL", "fluke-proxy-*"]);
    tokio::time::timeout(LONG, proxy.changed()).await.expect("noticed");
    routes(&mut proxy, &with_port).await;
    assert_eq!(ask(&client(), at, "a.example.com").await.expect("an answer").1, "web");

    // One that has to leave, and that systemd starts again because somebody killed it.
    let mut session =
        tokio::net::TcpStream::connect((listen, WEB)).await.expect("somebody listens");
    session.write_all(b"GET /").await.expect("begun");
    let leaving = systemctl(&active);
    let leaving = leaving.split_whitespace().next().expect("it runs");
    routes(&mut proxy, &plain).await;
    assert_eq!(systemctl(&active).lines().count(), 2, "it has a connection");
    let process = || systemctl(&["show", "--property=MainPID", "--value", leaving]);
    let before = process();
    systemctl(&["kill", "--signal=KILL", leaving]);
    let is_another = || ![before.trim(), "0"].contains(&process().trim());
    until("it is there again", is_another).await;
    let found = proxy.check(&plain).await.expect("it can be told");
    assert_eq!(found.drift.as_deref(), Some("more than one Traefik runs"));
    routes(&mut proxy, &plain).await;
    until("it ends", || systemctl(&active).lines().count() == 1).await;

    systemctl(&["stop", "fluke-proxy-*"]);
    let found = proxy.check(&plain).await.expect("it can be told");
    assert_eq!(found.drift.as_deref(), Some("Traefik does not run"));
    routes(&mut proxy, &plain).await;
    end(&mut Systemd::default(), folder.path()).await.expect("stopped");
    let units = || systemctl(&["list-units", "--all", "--plain", "--no-legend", "fluke-proxy-*"]);
    tokio::time::timeout(LONG, async {
        while !units().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("it ends");
}
