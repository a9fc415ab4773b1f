//! Who the members of a swarm are: names, labels and fates, all out of a number.

use fluke_model::id::{AgentName, InvalidName};
use fluke_model::label::Labels;
use fluke_model::message::NodeType;

const ROLES: [&str; 5] = ["web", "db", "cache", "queue", "edge"];
const REGIONS: [&str; 3] = ["eu", "us", "ap"];
/// One in so many is for trying things out.
const STAGING: u32 = 10;

/// How many of a thousand are not as most are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Say of a step that it is not so.
    pub drifted: u32,
    /// Cannot tell of a step.
    pub failed: u32,
    /// Take their time for every check.
    pub slow: u32,
    /// Run a proxy.
    pub proxies: u32,
}

impl Default for Shares {
    fn default() -> Self {
        Self { drifted: 10, failed: 2, slow: 0, proxies: 0 }
    }
}

impl Shares {
    /// Everybody is well.
    pub const NONE: Self = Self { drifted: 0, failed: 0, slow: 0, proxies: 0 };

    /// Whether the `number`th member is slow; whether it is well is another matter.
    pub(super) fn is_slow(self, number: u32) -> bool {
        number.wrapping_mul(617) % 1000 < self.slow
    }

    /// What part the `number`th member plays.
    pub(super) fn node_type(self, number: u32) -> NodeType {
        match number.wrapping_mul(701) % 1000 < self.proxies {
            true => NodeType::Proxy,
            false => NodeType::Worker,
        }
    }
}

/// How a member is from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Well,
    Drifted,
    Failed,
}

impl Fate {
    /// Of the `number`th member; the same every time, and spread over names and labels.
    pub(super) fn of(number: u32, shares: Shares) -> Self {
        // 389 and 1000 have no common divisor: every thousand members draw every lot once.
        match number.wrapping_mul(389) % 1000 {
            lot if lot < shares.failed => Self::Failed,
            lot if lot < shares.failed + shares.drifted => Self::Drifted,
            _ => Self::Well,
        }
    }
}

/// The name and labels of the `number`th member: `web-eu-00000`, `db-us-00001`, …
pub fn member(number: u32) -> Result<(AgentName, Labels), InvalidName> {
    let role = ROLES[number as usize % ROLES.len()];
    let region = REGIONS[number as usize % REGIONS.len()];
    let env = if number.is_multiple_of(STAGING) { "staging" } else { "production" };
    let labels = [
        format!("role={role}"),
        format!("region={region}"),
        format!("env={env}"),
        format!("rack=r{:02}", number / 40 % 100),
    ];
    let labels = labels.iter().filter_map(|pair| Labels::parse_pair(pair).ok()).collect();
    Ok((AgentName::new(format!("{role}-{region}-{number:05}"))?, Labels(labels)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_come_out_of_the_number() {
        let (name, labels) = member(7).expect("a name");
        assert_eq!(name.as_str(), "cache-us-00007");
        assert_eq!(labels.to_string(), "env=production,rack=r00,region=us,role=cache");
    }

    #[test]
    fn every_thousand_has_its_share_of_trouble() {
        let shares = Shares { slow: 50, ..Shares::default() };
        let fates: Vec<_> = (0..10_000).map(|number| Fate::of(number, shares)).collect();
        let count = |fate| fates.iter().filter(|is| **is == fate).count();
        assert_eq!((count(Fate::Drifted), count(Fate::Failed)), (100, 20));
        assert_eq!((0..10_000).filter(|number| shares.is_slow(*number)).count(), 500);
        assert!((0..1000).all(|number| Fate::of(number, Shares::NONE) == Fate::Well));
    }
}
