//! What is said of peers that do not answer. Pure.
//!
//! A host that is away is silent, too, and its server says so; but then no name leads to it any more.
//! One that names lead to and no tunnel does is why its containers are not reached from here.

use std::collections::BTreeSet;

use fluke_model::directory::Names;
use fluke_model::gather::Gather;

use super::device::SILENT;
use super::net::Net;
use super::plan::WantedPeer;

/// How many of them are named, and of each how many endpoints.
const NAMED: usize = 3;

/// That these peers were called in vain, as far as names lead to them, and what to do about it on a
/// host that listens at `port`.
pub fn words<'a>(
    in_vain: impl Iterator<Item = &'a WantedPeer>,
    names: &Names,
    port: u16,
) -> Option<String> {
    // Once for all of them: there may be many names, and as many peers.
    let led_to = names.rows().keys().filter_map(|key| key.address);
    let led_to: BTreeSet<Net> = led_to.map(|address| Net::around(address, 24)).gather();
    let missed: Vec<&WantedPeer> =
        in_vain.filter(|peer| !peer.allowed.is_disjoint(&led_to)).collect();
    let mut each: Vec<String> = missed.iter().take(NAMED).map(|peer| tried(peer)).collect();
    match missed.len() - each.len() {
        0 => {}
        more => each.push(format!("and {more} more")),
    }
    let minutes = SILENT.as_secs() / 60;
    let words = || {
        format!(
            "no answer for {minutes} minutes from {}: let UDP through from here to there, or from \
             there to port {port} of this host",
            each.join("; ")
        )
    };
    (!missed.is_empty()).then(words)
}

fn tried(peer: &WantedPeer) -> String {
    let endpoints = peer.endpoints.iter().take(NAMED).map(ToString::to_string);
    format!("{} at {}", peer.name, endpoints.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
