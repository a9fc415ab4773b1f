use std::time::Duration;

use fluke_model::directory::{NameKey, Peer, Peers, PublicKey, Subnet};
use fluke_model::id::{AgentName, ServiceName};
use fluke_model::time::Timestamp;

use super::super::attempts::Attempts;
use super::super::device::{Device, SeenPeer};
use super::super::plan::Wanted;
use super::*;

/// A host that knows two others, on a clock of its own.
struct Host {
    wanted: Wanted,
    device: Device,
    attempts: Attempts,
    now: Duration,
    names: Names,
}

impl Host {
    fn new() -> Self {
        let peers =
            Peers::from(vec![peer(1, &["192.0.2.1:51820", "198.51.100.1:51820"]), peer(2, &[])]);
        let wanted = Wanted::new(PublicKey([9; 32]), 51820, subnet(9), &peers, vec![]);
        let known = wanted.peers.keys().map(|key| (*key, SeenPeer::default()));
        let device = Device { peers: known.collect(), ..Device::default() };
        let (attempts, now) = (Attempts::default(), Duration::from_secs(1000));
        let mut host = Self { wanted, device, attempts, now, names: Names::default() };
        host.attempts.seen(&host.wanted, host.now);
        host
    }

    /// With a container of `web` on this host.
    fn knowing_of(mut self, number: u8) -> Self {
        let web = ServiceName::new("web").expect("a name");
        self.names = NameKey::rows(&web, [subnet(number).address(7)]).collect();
        self
    }

    fn after(&mut self, seconds: u64) -> Option<String> {
        self.now += Duration::from_secs(seconds);
        self.attempts.seen(&self.wanted, self.now);
        let in_vain = self.attempts.in_vain(&self.wanted, &self.device, self.now);
        words(in_vain, &self.names, 51820)
    }

    fn hears(&mut self, number: u8, ago: u64) {
        let peer = self.device.peers.get_mut(&PublicKey([number; 32])).expect("it is known");
        peer.silence = Some(Duration::from_secs(ago));
    }
}

fn subnet(number: u8) -> Subnet {
    Subnet::new(number.into()).expect("a number")
}

fn peer(number: u8, endpoints: &[&str]) -> (AgentName, Peer) {
    let endpoints = endpoints.iter().map(|to| to.parse().expect("an endpoint")).collect();
    let name = AgentName::new(format!("h{number}")).expect("a name");
    let (public_key, subnet) = (PublicKey([number; 32]), subnet(number));
    (name, Peer { public_key, endpoints, subnet, since: Timestamp(1) })
}

const MISSED: &str = "no answer for 3 minutes from h1 at 192.0.2.1:51820, 198.51.100.1:51820: let \
                      UDP through from here to there, or from there to port 51820 of this host";

#[test]
fn a_peer_that_never_answered_knowing_of_once_it_has_had_its_time() {
    let mut host = Host::new().knowing_of(1);
    assert_eq!(host.after(179), None);
    assert_eq!(host.after(1).as_deref(), Some(MISSED));
    assert_eq!(
        host.after(600).as_deref(),
        Some(MISSED),
        "in the same words for as long as it is so"
    );
    host.hears(1, 3);
    assert_eq!(host.after(1), None, "it answers");
    host.hears(1, 170);
    assert_eq!(host.after(1), None, "tunnels that live are not always heard of sooner");
    host.hears(1, 180);
    assert_eq!(host.after(1).as_deref(), Some(MISSED));
}

#[test]
fn of_a_host_that_no_name_leads_to_nothing_is_said() {
    let mut host = Host::new();
    assert_eq!(host.after(1000), None, "it may be away");
    assert_eq!(host.knowing_of(1).after(0).as_deref(), Some(MISSED));
}

#[test]
fn a_peer_that_has_to_come_to_us_is_nobody_whom_we_call() {
    assert_eq!(Host::new().knowing_of(2).after(1000), None);
}
