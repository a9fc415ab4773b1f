//! With `dig`, which was not written by us.

use super::world::{ANSWER, Manner, World};
use super::*;

/// What `dig` prints; none where there is no `dig`.
#[expect(clippy::print_stderr, reason = "a test that is left out says so")]
async fn dig(server: SocketAddrV4, arguments: &[&str]) -> Option<String> {
    let mut command = tokio::process::Command::new("dig");
    command.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string()]);
    command.args(["+tries=1", "+timeout=20"]).args(arguments);
    match command.output().await {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "dig is needed: {error}");
            eprintln!(
                "SKIP: there is no dig ({error}); run scripts/test, or install bind9-dnsutils"
            );
            None
        }
    }
}

#[tokio::test]
async fn dig_finds_what_is_there_and_understands_what_is_not() {
    let world = World::of(Manner::Honest).await;
    let mut host = Host::asking(&[world.address]).await;
    host.server.apply(&names(&[("web", 3), ("big", 120), ("down", 0)])).await.expect("served");
    let at = host.address().await;
    let cases: &[(&[&str], &[&str])] = &[
        (&["web.internal"], &["NOERROR", "flags: qr aa rd ra", "ANSWER: 3", "udp: 1232"]),
        (&["WEB.INTERNAL", "+tcp"], &["NOERROR", "ANSWER: 3", "(TCP)"]),
        (&["web.internal", "+noedns"], &["NOERROR", "ANSWER: 3", "ADDITIONAL: 0"]),
        (&["web.internal", "AAAA"], &["NOERROR", "ANSWER: 0, AUTHORITY: 1", "SOA"]),
        (&["none.internal"], &["NXDOMAIN", "ANSWER: 0, AUTHORITY: 1", "SOA"]),
        (&["down.internal"], &["NOERROR", "ANSWER: 0", "no container of down is healthy"]),
        (&["big.internal"], &["NOERROR", "ANSWER: 120", "retrying in TCP mode"]),
        (&["big.internal", "+ignore"], &["flags: qr aa tc rd ra"]),
        (&["web.internal", "+edns=1", "+noednsneg"], &["BADVERS"]),
        (&["web.internal", "+opcode=notify"], &["NOTIMP"]),
        (&["web.internal", "AXFR"], &["Transfer failed"]),
        (&["example.com"], &["NOERROR", "ANSWER: 1", &ANSWER.to_string()]),
    ];
    for (arguments, expected) in cases {
        let Some(said) = dig(at, arguments).await else { return };
        for part in *expected {
            assert!(said.contains(part), "dig {arguments:?} should say {part:?}:\n{said}");
        }
        assert!(!said.contains("WARNING"), "dig {arguments:?} warns:\n{said}");
    }
}
