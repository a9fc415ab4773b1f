//! A crowd whose hosts run services.

use std::time::Instant;

use fluke_bed::swarm::{Shares, SwarmError, Timing, member};

use super::ROLES;
use super::crowd::Crowd;
use crate::row::{Bench, Trouble};

/// Of the service that containers are taken from.
const ROLE: usize = 0;

impl Crowd {
    /// Starts a server with a crowd of which every host but one runs two services, each in a
    /// container; waits until everybody knows of everybody's. One in a thousand is a proxy.
    pub fn start_serving(bench: &Bench, count: u32, poll_interval: &str) -> Result<Self, Trouble> {
        let crowd =
            Self::starts(bench, count, poll_interval, Shares { proxies: 1, ..Shares::NONE }, true)?;
        for role in 0..ROLES.len() {
            crowd.all_find_all(role).map_err(lost)?;
        }
        Ok(crowd)
    }

    /// How many run services: the one whom no role has does not.
    fn hosts(&self) -> u64 {
        u64::from(self.count) - 1
    }

    /// Waits until every host finds all containers of a role.
    fn all_find_all(&self, role: usize) -> Result<(), SwarmError> {
        let all = (self.hosts() as usize - role).div_ceil(ROLES.len());
        self.runtime.block_on(self.swarm.find(self.hosts(), &service(role), all))
    }

    /// A container ends, and everybody hears of it; then it comes back, and everybody hears of that.
    /// How long each host's names lead to where it was.
    pub fn loses_one(&self) -> Result<Timing, Trouble> {
        let (host, service) = (first()?, service(ROLE));
        let told = self.runtime.block_on(async {
            self.swarm.loses(&host, &service).await?;
            let timing = self.swarm.names_are_without(self.hosts()).await?;
            self.swarm.regains(&host, &service).await?;
            Ok(timing)
        });
        let timing = told.map_err(lost)?;
        self.all_find_all(ROLE).map_err(lost)?;
        Ok(timing)
    }

    /// Stops the server, has a container end, and starts the server again: the seconds from its start
    /// until everybody is in, and until everybody's names are right again.
    pub fn restarts_serving(&self) -> Result<(f64, f64), Trouble> {
        let (host, service) = (first()?, service(ROLE));
        self.stops()?;
        self.runtime.block_on(self.swarm.loses(&host, &service)).map_err(lost)?;
        let began = Instant::now();
        let inside = self.comes_back()?.into_iter().fold(0.0, f64::max);
        self.runtime.block_on(self.swarm.names_are_without(self.hosts())).map_err(lost)?;
        let agreed = began.elapsed().as_secs_f64();
        self.runtime.block_on(self.swarm.regains(&host, &service)).map_err(lost)?;
        self.all_find_all(ROLE).map_err(lost)?;
        Ok((inside, agreed))
    }
}

fn lost(error: SwarmError) -> Trouble {
    Trouble::failed("wait until everybody knows what runs where", error)
}

fn service(role: usize) -> String {
    format!("role-{}", ROLES[role])
}

/// The first member, whose role is the first.
fn first() -> Result<String, Trouble> {
    let (name, _) = member(0).map_err(|error| Trouble::failed("name a host", error))?;
    Ok(name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_those_of_the_members_in_their_order() {
        for number in 0..10 {
            let (_, labels) = member(number).expect("a name");
            let role = format!("role={}", ROLES[number as usize % ROLES.len()]);
            assert!(labels.to_string().contains(&role), "{labels}");
        }
    }
}
