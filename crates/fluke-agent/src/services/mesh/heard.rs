//! When each peer was last heard, on the agent's own clock. Pure.
//!
//! WireGuard tells the time of a handshake by the host's clock, which somebody may set: an hour
//! forward, and every tunnel would seem dead. Here it only tells one handshake from the next.

use std::collections::BTreeMap;
use std::time::Duration;

use fluke_model::directory::PublicKey;

use super::device::Device;

/// What was heard of whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard(BTreeMap<PublicKey, Last>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    /// By the host's clock; none: there was none yet.
    handshake: Option<Duration>,
    /// How long ago it was when it was first seen.
    ago: Duration,
    /// When that was, on the agent's own clock.
    seen: Duration,
}

impl Heard {
    /// Works out how long ago each peer of `device` was heard, `now` on the agent's own clock. One
    /// that was never seen before was heard when the host's clock says, for want of a better one.
    pub fn date(&mut self, device: &mut Device, now: Duration, since_epoch: Duration) {
        self.0.retain(|key, _| device.peers.contains_key(key));
        for (key, peer) in &mut device.peers {
            let handshake = peer.handshake;
            let told = || handshake.map_or(Duration::ZERO, |at| since_epoch.saturating_sub(at));
            let first = || Last { handshake, ago: told(), seen: now };
            let last = self.0.entry(*key).or_insert_with(first);
            if last.handshake != handshake {
                *last = Last { handshake, ago: Duration::ZERO, seen: now };
            }
            peer.silence = handshake.map(|_| last.ago + now.saturating_sub(last.seen));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::mesh::device::SeenPeer;

    const KEY: PublicKey = PublicKey([1; 32]);

    /// What is seen of a peer at one time after the other: the agent's clock, the host's, when its
    /// last handshake was by the latter, how long ago that is.
    #[track_caller]
    fn is_heard(seen: &[(u64, u64, Option<u64>, Option<u64>)]) {
        let mut heard = Heard::default();
        for (now, since_epoch, handshake, silence) in seen {
            let [now, since_epoch] = [*now, *since_epoch].map(Duration::from_secs);
            let handshake = handshake.map(Duration::from_secs);
            let peer = SeenPeer { handshake, ..SeenPeer::default() };
            let mut device = Device { peers: [(KEY, peer)].into(), ..Device::default() };
            heard.date(&mut device, now, since_epoch);
            let told = device.peers[&KEY].silence;
            assert_eq!(told, silence.map(Duration::from_secs), "at {now:?}");
        }
    }

    #[test]
    fn a_peer_is_as_old_as_the_clock_says_when_the_agent_starts_and_then_as_it_was_seen() {
        is_heard(&[
            (0, 1000, Some(960), Some(40)),
            (10, 1010, Some(960), Some(50)),
            (20, 1020, Some(1015), Some(0)),
            (30, 1030, Some(1015), Some(10)),
        ]);
        is_heard(&[(0, 1000, None, None), (10, 1010, Some(1007), Some(0)), (20, 1020, None, None)]);
    }

    #[test]
    fn a_clock_that_is_set_makes_no_peer_silent_and_none_alive() {
        is_heard(&[
            (0, 1000, Some(960), Some(40)),
            (10, 4610, Some(960), Some(50)),
            (20, 4620, Some(4611), Some(0)),
            (30, 30, Some(4611), Some(10)),
            (210, 210, Some(4611), Some(190)),
            (220, 220, Some(215), Some(0)),
        ]);
    }

    #[test]
    fn a_peer_that_goes_and_comes_back_is_another_one() {
        let mut heard = Heard::default();
        let peer = SeenPeer { handshake: Some(Duration::from_secs(9)), ..SeenPeer::default() };
        let mut device = Device { peers: [(KEY, peer)].into(), ..Device::default() };
        heard.date(&mut device, Duration::ZERO, Duration::from_secs(10));
        heard.date(&mut Device::default(), Duration::ZERO, Duration::from_secs(10));
        assert_eq!(heard, Heard::default());
    }
}
