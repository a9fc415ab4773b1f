//! With a bridge that comes and goes, in a network of its own.

use std::net::Ipv4Addr;
use std::process::Command;

use domain::base::iana::Rtype;
use tokio::net::UdpSocket;

use super::client::{self, addresses};
use super::*;

const INSIDE: &str = "FLUKE_TEST_INSIDE_A_NETWORK";
const NAME: &str = "services::names::tests::bridge::it_answers_whenever_the_bridge_is_there";
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 200, 7, 1);

#[test]
fn it_answers_whenever_the_bridge_is_there() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        return runtime.expect("a runtime").block_on(bridge_comes_and_goes());
    }
    if !can_have_a_network() {
        return;
    }
    let this = std::env::current_exe().expect("a test program");
    let mut again = Command::new("unshare");
    again.arg("--net").arg(this).args(["--exact", NAME, "--nocapture"]).env(INSIDE, "1");
    let output = again.output().expect("unshare runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
fn can_have_a_network() -> bool {
    let ip = "ip link add name probe type bridge";
    let tried = Command::new("unshare").args(["--net", "sh", "-c", ip]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        assert!(std::env::var_os("CI").is_none(), "needs root, unshare and ip with bridges");
        eprintln!("SKIP: no network of its own can be made: needs root, unshare and ip");
    }
    can
}

async fn bridge_comes_and_goes() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = NamesServer::start(Setup { gateway: GATEWAY, ..setup(&dir, resolvers::PORT) });
    let table = names(&[("web", 2)]);
    server.apply(&table).await.expect("it listens before there is a bridge");
    for _ in 0..2 {
        for command in [
            "link set lo up",
            "link add name fluke0 type bridge",
            "address add 10.200.7.1/24 dev fluke0",
            "link set fluke0 up",
        ] {
            ip(command);
        }
        let at = SocketAddrV4::new(GATEWAY, resolvers::PORT);
        let packet = client::question(3, "web.internal", Rtype::A, None);
        assert_eq!(addresses(&client::from(GATEWAY, at, &packet).await).len(), 2);
        assert_eq!(addresses(&client::tcp(at, "web.internal").await).len(), 2);
        ip("link delete fluke0");
        let socket = UdpSocket::bind("0.0.0.0:0").await.expect("a socket");
        assert!(socket.connect(at).await.is_err(), "there is no way to it");
        server.check(&table).await.expect("it listens all the while");
    }
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}
