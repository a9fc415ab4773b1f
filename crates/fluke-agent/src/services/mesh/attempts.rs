//! Which endpoint of each peer is tried. Pure.
//!
//! A host has several addresses, and which of them others can reach nobody knows beforehand: the one
//! that it is said to have is tried, then the next, until there is a handshake. One end that finds
//! the other is enough, as WireGuard answers to where it was asked from.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use fluke_model::directory::PublicKey;

use super::device::{Device, PeerOrder, SILENT};
use super::plan::{Change, Wanted, WantedPeer};

/// Time for three of WireGuard's own attempts.
const TRY: Duration = Duration::from_secs(15);

/// What was tried, and since when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts(BTreeMap<PublicKey, Attempt>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Attempt {
    /// What the table said then.
    said: Vec<SocketAddr>,
    /// Which of those that are worth a try was tried last.
    at: usize,
    /// On the agent's own clock.
    since: Duration,
    /// Since when any of them is tried.
    began: Duration,
}

impl Attempts {
    /// What the table said of a peer when it was last told to the interface. After a restart nobody
    /// knows; what the interface has then stays, and a silent peer is tried elsewhere soon.
    pub fn said_before(&self, key: &PublicKey) -> Option<&[SocketAddr]> {
        self.0.get(key).map(|attempt| attempt.said.as_slice())
    }

    /// Takes note that a change was made.
    pub fn made(&mut self, change: &Change, wanted: &Wanted, now: Duration) {
        let Change::Peer(key, order) = change else { return };
        match (order, wanted.peers.get(key)) {
            (PeerOrder::Add { .. } | PeerOrder::Endpoint(_), Some(peer)) => {
                let at = match order {
                    PeerOrder::Endpoint(to) => peer.endpoints.iter().position(|e| e == to),
                    _ => None,
                };
                let said = peer.said.clone();
                let before = self.0.get(key).filter(|before| before.said == said);
                let began = before.filter(|_| at.is_some()).map_or(now, |before| before.began);
                let attempt = Attempt { said, at: at.unwrap_or(0), since: now, began };
                self.0.insert(*key, attempt);
            }
            (PeerOrder::Remove, _) => drop(self.0.remove(key)),
            _ => {}
        }
    }

    /// Takes note of how peers are, all of whom are as wanted; and forgets all others.
    pub fn seen(&mut self, wanted: &Wanted, now: Duration) {
        self.0.retain(|key, _| wanted.peers.contains_key(key));
        for (key, peer) in &wanted.peers {
            // What the interface has was not our doing: the first in line comes next.
            let last = peer.endpoints.len().saturating_sub(1);
            let fresh = || Attempt { said: Vec::new(), at: last, since: now, began: now };
            let attempt = self.0.entry(*key).or_insert_with(fresh);
            if attempt.said != peer.said {
                attempt.said.clone_from(&peer.said);
                attempt.began = now;
            }
        }
    }

    /// Those peers that were called for so long without an answer that there is no tunnel to them.
    pub fn in_vain<'a>(
        &'a self,
        wanted: &'a Wanted,
        device: &'a Device,
        now: Duration,
    ) -> impl Iterator<Item = &'a WantedPeer> {
        let called = wanted.peers.iter().filter(|(_, peer)| !peer.endpoints.is_empty());
        let unheard =
            called.filter(move |(key, _)| match (device.peers.get(key), self.0.get(key)) {
                (Some(has), Some(attempt)) => {
                    has.silence.unwrap_or(now.saturating_sub(attempt.began)) >= SILENT
                }
                _ => false,
            });
        unheard.map(|(_, peer)| peer)
    }

    /// Those peers that are silent where they were tried, and where to try them next.
    pub fn next(&self, wanted: &Wanted, device: &Device, now: Duration) -> Vec<Change> {
        let silent = device.peers.iter().filter(|(_, has)| has.is_silent());
        let elsewhere = silent.filter_map(|(key, has)| {
            let (peer, attempt) = (wanted.peers.get(key)?, self.0.get(key)?);
            if now.saturating_sub(attempt.since) < TRY {
                return None;
            }
            let in_turn = peer.endpoints.iter().cycle().skip(attempt.at.saturating_add(1));
            let mut others =
                in_turn.take(peer.endpoints.len()).filter(|to| has.endpoint != Some(**to));
            Some(Change::Peer(*key, PeerOrder::Endpoint(*others.next()?)))
        });
        elsewhere.collect()
    }
}
