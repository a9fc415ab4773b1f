//! A real server with a swarm on it.

use std::time::Duration;

use fluke_bed::swarm::{Shares, Swarm, SwarmError, SwarmOptions, Timing};
use fluke_bed::{ServerOptions, TOKEN};
use fluke_model::secret::Secret;
use fluke_wire::client::{ClientTls, Target};
use tokio::runtime::Runtime;

use super::{and_one_for_few, few};
use crate::row::{Bench, Trouble};
use crate::stage::Stage;

/// A server, and agents that are all well and have twenty steps each.
pub struct Crowd {
    /// The server with its repository.
    pub stage: Stage,
    /// Its agents.
    pub swarm: Swarm,
    /// Where the agents live.
    pub runtime: Runtime,
    count: u32,
    /// Which release everybody has, and which those few.
    releases: (usize, usize),
}

impl Crowd {
    /// Starts a server over TLS, as it is by default but for its poll interval, and lets so many
    /// join.
    pub fn start(bench: &Bench, count: u32, poll_interval: &str) -> Result<Self, Trouble> {
        let options = ServerOptions {
            poll_interval: poll_interval.into(),
            event_store: "memory {\n      max_events_per_agent = 100\n    }".into(),
            ..ServerOptions::default()
        };
        let stage = Stage::start_with(bench, options)?;
        let (url, ca) = (format!("grpcs://{}", stage.server().grpc()), stage.server().ca_file());
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("start a swarm", error);
        let target = Target {
            url: url.parse().map_err(|error| failed(&error))?,
            token: Secret::new(TOKEN),
            tls: ClientTls {
                ca_pem: Some(std::fs::read(ca).map_err(|error| failed(&error))?),
                ..ClientTls::default()
            },
        };
        let runtime = Runtime::new().map_err(|error| failed(&error))?;
        let options = SwarmOptions { shares: Shares::NONE, ..SwarmOptions::to(target) };
        let swarm = Swarm::new(options).map_err(|error| failed(&error))?;
        let mut crowd = Self { stage, swarm, runtime, count, releases: (0, 0) };
        crowd.joins()?;
        crowd.commits_for_all()?;
        Ok(crowd)
    }

    fn joins(&mut self) -> Result<(), Trouble> {
        let Self { swarm, runtime, count, .. } = self;
        match runtime.block_on(swarm.join(*count)) {
            Ok(_) => Ok(()),
            Err(error @ SwarmError::TooFewFiles { .. }) => Err(Trouble::NotRun(error.to_string())),
            Err(error) => Err(Trouble::failed("let agents join", error)),
        }
    }

    /// The server's process.
    pub fn pid(&self) -> Result<u32, Trouble> {
        let gone = || Trouble::failed("look at the server", "it is gone");
        self.stage.server().pid().ok_or_else(gone)
    }

    /// A commit that concerns everybody: from its announcement to everybody's answer.
    pub fn commits_for_all(&mut self) -> Result<Timing, Trouble> {
        self.releases.0 += 1;
        self.commits(u64::from(self.count))
    }

    /// A commit that concerns a few.
    pub fn commits_for_few(&mut self) -> Result<Timing, Trouble> {
        self.releases.1 += 1;
        self.commits(few(self.count))
    }

    fn commits(&self, concerned: u64) -> Result<Timing, Trouble> {
        let manifest = and_one_for_few(self.releases.0, self.releases.1);
        let files = [("tasks.fluke.hcl", manifest.as_str())];
        let commit = self.stage.repository().commit("round", &files);
        self.swarm.expects_a_commit();
        self.stage.announce(commit.as_str())?;
        let answered = self.runtime.block_on(self.swarm.answers_to_commit(concerned));
        answered.map_err(|error| Trouble::failed("wait for a commit to be checked", error))
    }

    /// Stops the server and starts it again; the seconds from its start until everybody is in.
    pub fn restarts(&self) -> Result<f64, Trouble> {
        self.stage.server().stop();
        let began = std::time::Instant::now();
        self.stage.server().start();
        let inside = self.runtime.block_on(self.swarm.all_are_in());
        inside.map_err(|error| Trouble::failed("wait for everybody to return", error))?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Lets time pass while nothing changes.
    pub fn rests(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
mod tests {
    use fluke_bed::swarm::member;

    use super::*;

    #[test]
    fn a_few_are_those_whom_the_manifest_chooses() {
        let chosen = (0..10_000).filter(|number| {
            let (_, labels) = member(*number).expect("a name");
            let labels = labels.to_string();
            ["env=staging", "rack=r00", "region=eu", "role=web"]
                .iter()
                .all(|it| labels.contains(it))
        });
        assert_eq!(chosen.count() as u64, few(10_000));
    }
}
