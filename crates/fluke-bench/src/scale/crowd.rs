//! A real server with a swarm on it.

use std::time::{Duration, Instant};

use fluke_bed::swarm::{Shares, Swarm, SwarmError, SwarmOptions, Timing};
use fluke_bed::{ServerOptions, TOKEN};
use fluke_model::id::CommitId;
use fluke_model::label::Labels;
use fluke_model::secret::Secret;
use fluke_wire::client::{ClientTls, Target};
use tokio::runtime::Runtime;

use super::{ONE, Releases, few, two_services};
use crate::row::{Bench, Trouble};
use crate::stage::Stage;

/// How often to look who is back: far less than it takes.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(120);

/// A server, and agents that are all well and have twenty steps each.
pub struct Crowd {
    /// The server with its repository.
    pub stage: Stage,
    /// Its agents.
    pub swarm: Swarm,
    /// Where the agents live.
    pub runtime: Runtime,
    pub(super) count: u32,
    releases: Releases,
}

impl Crowd {
    /// Starts a server over TLS, as it is by default but for its poll interval, and lets so many
    /// join.
    pub fn start(bench: &Bench, count: u32, poll_interval: &str) -> Result<Self, Trouble> {
        Self::starts(bench, count, poll_interval, Shares::NONE, false)
    }

    /// The same, with so many of a thousand among them whom [`Swarm::slow_ones_take`] is about; for
    /// now they are as quick as all others.
    pub fn start_with_slow(bench: &Bench, count: u32, slow: u32) -> Result<Self, Trouble> {
        Self::starts(bench, count, "1h", Shares { slow, ..Shares::NONE }, false)
    }

    pub(super) fn starts(
        bench: &Bench,
        count: u32,
        poll_interval: &str,
        shares: Shares,
        services: bool,
    ) -> Result<Self, Trouble> {
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
        let slow_takes = Duration::ZERO;
        let options = SwarmOptions { shares, services, slow_takes, ..SwarmOptions::to(target) };
        let swarm = Swarm::new(options).map_err(|error| failed(&error))?;
        let mut crowd = Self { stage, swarm, runtime, count, releases: Releases::default() };
        crowd.joins()?;
        if services {
            // Comes into force with the commit below.
            let manifest = two_services();
            let files = [("services.fluke.hcl", manifest.as_str())];
            crowd.stage.repository().commit("services", &files);
        }
        crowd.commits_for_all()?;
        Ok(crowd)
    }

    fn joins(&mut self) -> Result<(), Trouble> {
        let Self { swarm, runtime, count, .. } = self;
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("let agents join", error);
        let label = Labels::parse_pair(&format!("only={ONE}")).map_err(|error| failed(&error))?;
        let joined = runtime.block_on(async {
            swarm.join(*count - 1).await?;
            swarm.join_as(ONE, Labels([label].into())).await
        });
        match joined {
            Ok(()) => Ok(()),
            Err(error @ SwarmError::TooFewFiles { .. }) => Err(Trouble::NotRun(error.to_string())),
            Err(error) => Err(failed(&error)),
        }
    }

    /// The server's process.
    pub fn pid(&self) -> Result<u32, Trouble> {
        let gone = || Trouble::failed("look at the server", "it is gone");
        self.stage.server().pid().ok_or_else(gone)
    }

    /// A commit that concerns everybody: from its announcement to everybody's answer.
    pub fn commits_for_all(&mut self) -> Result<Timing, Trouble> {
        self.releases.all += 1;
        self.commits(u64::from(self.count))
    }

    /// A commit that concerns a few.
    pub fn commits_for_few(&mut self) -> Result<Timing, Trouble> {
        self.releases.few += 1;
        self.commits(few(self.count - 1))
    }

    /// A commit that concerns one.
    pub fn commits_for_one(&mut self) -> Result<Timing, Trouble> {
        self.releases.one += 1;
        self.commits(1)
    }

    /// Every host drifts at once and is put right: how long that took those that are not slow.
    pub fn drifts(&self) -> Result<Timing, Trouble> {
        let repaired = self.runtime.block_on(self.swarm.drifts_everywhere());
        repaired.map_err(|error| Trouble::failed("wait until everybody is repaired", error))
    }

    fn commits(&self, concerned: u64) -> Result<Timing, Trouble> {
        let commit = self.commit();
        self.swarm.expects_a_commit();
        self.stage.announce(commit.as_str())?;
        let answered = self.runtime.block_on(self.swarm.answers_to_commit(concerned));
        answered.map_err(|error| Trouble::failed("wait for a commit to be checked", error))
    }

    /// A commit that concerns one, which nobody announces.
    pub fn commit_for_one(&mut self) -> CommitId {
        self.releases.one += 1;
        self.commit()
    }

    fn commit(&self) -> CommitId {
        let files = [("tasks.fluke.hcl", &*self.manifest())];
        self.stage.repository().commit("round", &files)
    }

    /// What the newest commit says.
    pub fn manifest(&self) -> String {
        self.releases.manifest()
    }

    /// Waits until the one has what the newest commit says.
    pub fn one_has_the_newest(&self) -> Result<(), Trouble> {
        let newest = self.stage.repository().head();
        self.stage
            .until("the newest commit is where it belongs", |stage| stage.is_in_sync(ONE, &newest))
    }

    /// Stops the server and starts it again; of each agent the seconds from its start until it is
    /// in.
    pub fn returns(&self) -> Result<Vec<f64>, Trouble> {
        self.stops()?;
        self.comes_back()
    }

    /// Stops the server.
    pub(super) fn stops(&self) -> Result<(), Trouble> {
        self.stage.server().stop();
        self.looks("everybody has left", || self.swarm.statistics().connected == 0)
    }

    /// Starts it again; of each agent the seconds until it is in.
    pub(super) fn comes_back(&self) -> Result<Vec<f64>, Trouble> {
        let connected = || self.swarm.statistics().connected as usize;
        let began = Instant::now();
        self.stage.server().start();
        let mut times: Vec<f64> = Vec::new();
        self.looks("everybody is back", || {
            times.resize(times.len().max(connected()), began.elapsed().as_secs_f64());
            times.len() == self.count as usize
        })?;
        Ok(times)
    }

    /// The same, of the last of them.
    pub fn restarts(&self) -> Result<f64, Trouble> {
        Ok(self.returns()?.into_iter().fold(0.0, f64::max))
    }

    /// Breaks everybody's connection, and waits until all are back.
    pub fn breaks(&self) -> Result<(), Trouble> {
        let sessions = self.swarm.statistics().sessions + u64::from(self.count);
        let broken = self.runtime.block_on(self.swarm.breaks_everywhere());
        broken.map_err(|error| Trouble::failed("break connections", error))?;
        self.looks("everybody is back", || self.swarm.statistics().sessions >= sessions)
    }

    /// Waits for a state of the swarm.
    fn looks(&self, what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Trouble> {
        let began = Instant::now();
        while !holds() {
            if began.elapsed() > PATIENCE {
                let stands = format!("{:?}", self.swarm.statistics());
                return Err(Trouble::failed(format!("wait until {what}"), stands));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
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
