//! Those who send packets: Traefik leads each of them to where it led them first, for as long as they
//! do not pause, whatever became of that container. So they are parted from it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;

use fluke_model::directory::Routes;
use fluke_model::gather::Gather;
use fluke_model::service::Traffic;
use tokio::time::Instant;

use super::succession::SEE;
use crate::services::mesh::netlink::{Family, Socket, sockets};

/// How long it may take until nobody leads packets as before: a process that leaves hears of new routes
/// after the one that counts, and each of them leads connections otherwise first.
const ONCE_MORE: Duration = SEE;

/// Where packets are led.
#[derive(Debug, Default)]
pub struct Packets {
    /// As far as anything was seen.
    to: Option<BTreeSet<SocketAddrV4>>,
    /// Those that nobody could be parted from yet.
    left: BTreeSet<SocketAddrV4>,
    /// Those that senders were parted from, and when those are who were led there since.
    again: BTreeMap<SocketAddrV4, Instant>,
    /// What of that was told.
    told: Option<Instant>,
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
    /// if not now then the next time, and once more after a while. That it fails is told once.
    pub fn lead(
        &mut self,
        wanted: &Routes,
        now: Instant,
        part_from: impl FnOnce(&BTreeSet<SocketAddrV4>) -> io::Result<()>,
    ) -> io::Result<()> {
        let to = ends(wanted);
        self.again.retain(|end, _| !to.contains(end));
        let due = self.again.extract_if(.., |_, at| *at <= now).map(|(end, _)| end).gather();
        let before = self.to.take().unwrap_or_default();
        let gone = &(&before | &self.left) - &to;
        self.to = Some(to);
        let all = &gone | &due;
        let parted = if all.is_empty() { Ok(()) } else { part_from(&all) };
        let left = match parted {
            Ok(()) => {
                self.again.extend(gone.into_iter().map(|end| (end, now + ONCE_MORE)));
                BTreeSet::new()
            }
            Err(_) => all,
        };
        match std::mem::replace(&mut self.left, left).is_empty() {
            true => parted,
            false => Ok(()),
        }
    }

    /// Returns when senders are to be parted once more; once for each time. Cancel-safe.
    pub async fn are_due(&mut self) {
        let next = self.again.values().filter(|at| Some(**at) > self.told).min().copied();
        let Some(at) = next else { return std::future::pending().await };
        tokio::time::sleep_until(at).await;
        self.told = Some(at);
    }
}

fn ends(routes: &Routes) -> BTreeSet<SocketAddrV4> {
    let routes = routes.rows().values();
    let of_packets = routes.filter(|it| matches!(it.traffic, Traffic::Udp { external: Some(_) }));
    of_packets.flat_map(|it| it.upstreams.iter().copied()).gather()
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

    /// What senders are parted from when packets are led to an end at a time, in seconds.
    #[derive(Default)]
    struct Night {
        packets: Packets,
        start: Option<Instant>,
        asked: Vec<Vec<SocketAddrV4>>,
    }

    impl Night {
        fn lead(&mut self, number: u8, seconds: u64, is_possible: bool) -> io::Result<()> {
            let start = *self.start.get_or_insert_with(Instant::now);
            let part_from = |gone: &BTreeSet<_>| {
                self.asked.push(gone.iter().copied().collect());
                if is_possible { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            };
            self.packets.lead(&led_to(number), start + Duration::from_secs(seconds), part_from)
        }
    }

    #[test]
    fn senders_that_could_not_be_parted_from_a_container_are_the_next_time() {
        let mut night = Night::default();
        assert!(night.packets.are_unknown());
        night.packets.are_led(&led_to(1));
        assert!(night.lead(2, 0, false).is_err(), "it is told");
        assert!(night.lead(2, 0, false).is_ok(), "and once is enough");
        assert!(night.lead(3, 0, true).is_ok());
        assert!(night.lead(3, 0, true).is_ok());
        let asked = [vec![end(1)], vec![end(1)], vec![end(1), end(2)]];
        assert_eq!(night.asked, asked, "and no more then");
    }

    #[test]
    fn senders_that_were_led_to_a_container_that_is_gone_by_who_heard_of_it_later_are_parted_too() {
        let mut night = Night::default();
        night.packets.are_led(&led_to(1));
        for (number, seconds) in [(2, 0), (2, 1), (3, 1), (3, 2), (3, 2), (3, 3), (3, 60)] {
            assert!(night.lead(number, seconds, true).is_ok());
        }
        let asked = [1, 2, 1, 2].map(|number| vec![end(number)]);
        assert_eq!(night.asked, asked, "once more each, however often others change");
        // One that is back is nobody to be parted from.
        assert!(night.lead(4, 60, true).is_ok() && night.lead(3, 61, true).is_ok());
        assert!(night.lead(3, 63, true).is_ok());
        assert_eq!(night.asked[4..], [3, 4, 4].map(|number| vec![end(number)]));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_told_once_when_senders_are_to_be_parted_once_more() {
        let mut packets = Packets::default();
        packets.are_led(&led_to(1));
        let start = Instant::now();
        packets.lead(&led_to(2), start, |_| Ok(())).expect("parted");
        packets.are_due().await;
        assert_eq!(start.elapsed(), ONCE_MORE);
        // Whether or not it could be done.
        let more = tokio::time::timeout(ONCE_MORE * 10, packets.are_due()).await;
        more.expect_err("once is enough");
    }
}
