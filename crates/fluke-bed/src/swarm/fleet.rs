//! What a story does to the services of a swarm, and what it waits for.

use std::time::Duration;

use fluke_model::id::ServiceName;

use super::agent::Order;
use super::{Swarm, SwarmError, Timing, lock};

/// Longer than a server that has just started knows less than its agents do, and than thousands of
/// hosts that come at once are told of each other.
const PATIENCE: Duration = Duration::from_secs(240);

impl Swarm {
    /// A container of a service ends on a host, and stays away.
    pub async fn loses(&self, name: &str, service: &str) -> Result<(), SwarmError> {
        self.shared.looks_for_nobody();
        self.order(name, Order::Lose(ServiceName::new(service)?)).await
    }

    /// It comes back.
    pub async fn regains(&self, name: &str, service: &str) -> Result<(), SwarmError> {
        self.order(name, Order::Regain(ServiceName::new(service)?)).await
    }

    /// Waits until so many hosts have names without the container that a story ended last, and says
    /// how long that took them.
    pub async fn names_are_without(&self, of: u64) -> Result<Timing, SwarmError> {
        let times = &self.shared.stopwatches.names;
        match self.gets_to_within(PATIENCE, of, || times.count()).await {
            Ok(()) => Ok(times.sum_up()),
            Err(hosts) => Err(SwarmError::Untold { hosts, of, within: PATIENCE }),
        }
    }

    /// Waits until so many hosts find so many containers of a service by its name.
    pub async fn find(&self, of: u64, service: &str, containers: usize) -> Result<(), SwarmError> {
        let service = ServiceName::new(service)?;
        let finds = || {
            let names = lock(&self.shared.shelves.names);
            names
                .holders(|it| it.addresses(&service).is_some_and(|found| found.len() == containers))
        };
        let found = self.gets_to_within(PATIENCE, of, finds).await;
        found.map_err(|hosts| SwarmError::Untold { hosts, of, within: PATIENCE })
    }

    /// How many hosts know so many hosts in the mesh.
    pub fn know_peers(&self, peers: usize) -> u64 {
        lock(&self.shared.shelves.peers).holders(|it| it.rows().len() == peers)
    }
}
