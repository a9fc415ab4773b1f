//! Those who send packets: Traefik leads each of them to where it led them first, for as long as they
//! do not pause, whatever became of that container. So they are parted from it.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddrV4;

use fluke_model::directory::Routes;
use fluke_model::service::Traffic;

use crate::services::mesh::netlink::{Family, Socket, sockets};

/// Where packets are led.
#[derive(Debug, Default)]
pub struct Packets {
    /// As far as anything was seen.
    to: Option<BTreeSet<SocketAddrV4>>,
    /// Those that nobody could be parted from yet.
    left: BTreeSet<SocketAddrV4>,
}

impl Packets {
    /// Whether nothing was seen so far.
    pub fn are_unknown(&self) -> bool {
        self.to.is_none()
    }

    /// They are led as these routes say, which is not as they should be.
    pub fn are_led(&mut self, routes: &Routes) {
        self.to.get_or_insert_default().extend(ends(routes));
    }

    /// They are led as they should be from now on: senders are parted from where they were led before,
    /// if not now then the next time. That it fails is told once.
    pub fn lead(
        &mut self,
        wanted: &Routes,
        part_from: impl FnOnce(&BTreeSet<SocketAddrV4>) -> io::Result<()>,
    ) -> io::Result<()> {
        let now = ends(wanted);
        let before = self.to.take().unwrap_or_default();
        let gone = &(&before | &self.left) - &now;
        self.to = Some(now);
        let parted = if gone.is_empty() { Ok(()) } else { part_from(&gone) };
        let left = if parted.is_err() { gone } else { BTreeSet::new() };
        match std::mem::replace(&mut self.left, left).is_empty() {
            true => parted,
            false => Ok(()),
        }
    }
}

fn ends(routes: &Routes) -> BTreeSet<SocketAddrV4> {
    let routes = routes.rows().values();
    let of_packets = routes.filter(|it| matches!(it.traffic, Traffic::Udp { external: Some(_) }));
    of_packets.flat_map(|it| it.upstreams.iter().copied()).collect()
}

/// Ends what leads to these: the next packet of each sender is led anew.
pub fn part_from(gone: &BTreeSet<SocketAddrV4>) -> io::Result<()> {
    let socket = Socket::open(Family::Sockets)?;
    let mut found = Vec::new();
    socket.list(sockets::all(), |_, body| {
        found.extend(sockets::peer(body).filter(|(peer, _)| gone.contains(peer)));
    })?;
    for (_, id) in found {
        match socket.change(sockets::destroy(&id)) {
            // It ended by itself.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            ended => ended?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fluke_model::directory::{Route, RouteKey};
    use fluke_model::id::{PortName, ServiceName};

    use super::*;

    fn end(number: u8) -> SocketAddrV4 {
        SocketAddrV4::new([10, 0, 0, number].into(), 7777)
    }

    fn led_to(number: u8) -> Routes {
        let service = ServiceName::new("game").expect("a name");
        let key = RouteKey { service, port: PortName::new("main").expect("a name") };
        let upstreams = BTreeSet::from([end(number)]);
        Routes::from(vec![(key, Route { traffic: Traffic::Udp { external: Some(1) }, upstreams })])
    }

    #[test]
    fn senders_that_could_not_be_parted_from_a_container_are_the_next_time() {
        let mut packets = Packets::default();
        assert!(packets.are_unknown());
        packets.are_led(&led_to(1));
        let mut asked = Vec::new();
        let mut lead = |number, is_possible: bool| {
            let part_from = |gone: &BTreeSet<_>| {
                asked.push(gone.iter().copied().collect::<Vec<_>>());
                if is_possible { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            };
            packets.lead(&led_to(number), part_from).is_ok()
        };
        assert!(!lead(2, false), "it is told");
        assert!(lead(2, false), "and once is enough");
        assert!(lead(3, true));
        assert!(lead(3, true));
        assert_eq!(asked, [vec![end(1)], vec![end(1)], vec![end(1), end(2)]], "and no more then");
    }
}
