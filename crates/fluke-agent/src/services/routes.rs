//! The proxy of a host: Traefik, told of the routes, kept running, and asked what it has loaded.
//!
//! ```text
//!  routes ─▶ compile (pure) ─┬▶ static: ports, ACME ─▶ a process for each, one after another
//!                            └▶ dynamic: routes ─▶ a file, by rename ─▶ Traefik reads it
//!  check, apply ◀─ loaded (pure) ◀─ Traefik's API, on this host alone
//! ```
//!
//! Routes change without a restart. Where ports change, the next process listens beside the last
//! one until it has loaded everything; one that does not get so far changes nothing. The last one
//! then takes nothing new, and ends with its connections, or after a while.

mod api;
mod awaited;
mod certificates;
mod compile;
mod config;
mod ending;
mod error;
mod files;
mod fitting;
mod lacking;
mod leaving;
mod loaded;
mod log;
mod packets;
mod ports;
mod settings;
mod succession;
mod systemd;
mod unit;
mod validity;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use fluke_model::directory::{RouteKey, Routes};
use fluke_model::gather::Gather;
use fluke_model::id::Hash256;
use tokio::time::Instant;

pub use api::ApiError;
pub use compile::{Generation, LOCAL, REMOTE};
pub use ending::{end, end_what_is_left};
pub use error::RoutesError;
pub use settings::{API_PORT, Acme, Certificate, Network, Settings};
pub use systemd::Systemd;
pub use unit::{Running, Signal, Supervisor, SupervisorError, Unit, find as find_traefik, name};

use super::section::Found;
use super::setback::Setbacks;
use api::Api;
use awaited::Awaited;
use certificates::Certificates;
use compile::{Gate, Plan, compile};
use leaving::Leaving;
use loaded::Loaded;
use log::Log;
use packets::Packets;

/// It is asked so often whether it has.
const AGAIN: Duration = Duration::from_millis(20);

/// Traefik on this host.
#[derive(Debug)]
pub struct Proxy<S = Systemd> {
    settings: Settings,
    supervisor: S,
    api: Api,
    certificates: Certificates,
    awaited: Awaited,
    log: Log,
    /// The one that did not come up, and how long it is left alone where another serves: all news is
    /// the other one's until then.
    setbacks: Setbacks<Generation>,
    /// Processes that serve nobody but those whom they served before.
    leaving: Leaving,
    /// As it was when Traefik was last asked.
    in_effect: Hash256,
    /// What was left out of that.
    left_out: BTreeSet<RouteKey>,
    packets: Packets,
}

impl Proxy {
    /// One that systemd keeps running.
    pub fn new(settings: Settings) -> Result<Self, RoutesError> {
        Self::kept_by(Systemd::default(), settings)
    }
}

impl<S: Supervisor> Proxy<S> {
    /// One that somebody keeps running.
    pub fn kept_by(supervisor: S, settings: Settings) -> Result<Self, RoutesError> {
        Ok(Self {
            log: Log::new(&settings.folder),
            settings,
            supervisor,
            api: Api::new()?,
            certificates: Certificates::default(),
            awaited: Awaited::default(),
            setbacks: Setbacks::default(),
            leaving: Leaving::default(),
            in_effect: Routes::default().hash(),
            left_out: BTreeSet::new(),
            packets: Packets::default(),
        })
    }

    /// The hash of the routes that Traefik has loaded, as of the last look.
    pub fn in_effect(&self) -> Hash256 {
        self.in_effect
    }

    /// Those of them that cannot be had.
    pub fn left_out(&self) -> &BTreeSet<RouteKey> {
        &self.left_out
    }

    /// What differs from `wanted`, as Traefik and its files tell.
    pub async fn check(&mut self, wanted: &Routes) -> Result<Found, RoutesError> {
        let running = self.running().await?;
        let plan = self.plan(wanted, &running).await?;
        let generation = &plan.fixed.generation;
        self.supervisor.follow(generation);
        if let Some(drift) = of_processes(generation, &running) {
            let one = self.look(&running, &plan, wanted).await;
            let is_settled = running.iter().all(|it| it.is_up && one.is_some());
            return match self.hindrance(&plan, &running) {
                // There is nothing to put right before that is over.
                Some(why) if is_settled => self.lacks(Some(why), one.as_ref(), &plan, wanted).await,
                _ => Ok(Found::drift(drift)),
            };
        }
        if !files::is_written(&self.settings.folder, &plan).map_err(|why| self.not_written(why))? {
            // It must be known where packets are led before they are led elsewhere.
            if self.packets.are_unknown() {
                self.look(&running, &plan, wanted).await;
            }
            return Ok(Found::drift("the files of Traefik are not as they should be"));
        }
        let differs = match self.api.loaded(self.api_of(generation)).await {
            Err(error) => Some(error.to_string()),
            Ok(loaded) => self.seen(&loaded, &plan, wanted),
        };
        match differs {
            Some(difference) => Ok(Found::drift(difference)),
            // What runs without its program cannot be started again.
            None => self.lacks(self.program().err(), Some(generation), &plan, wanted).await,
        }
    }

    /// Has Traefik route as `wanted` says, but for what cannot be done, and returns when it does.
    ///
    /// What was stopped in the middle is finished by the next one.
    pub async fn apply(&mut self, wanted: &Routes) -> Result<(), RoutesError> {
        let running = self.running().await?;
        let plan = self.plan(wanted, &running).await?;
        if let Some(why) = self.hindrance(&plan, &running) {
            // All is done that can be, and why there is no more of it is said with every look.
            let is_served = self.go_on(&plan, wanted).await?;
            return if is_served { Ok(()) } else { Err(why) };
        }
        let generation = plan.fixed.generation.clone();
        let plan = self.write(plan, self.told_as_well(&generation, &running, true)).await?;
        match running.iter().any(|it| it.generation == generation) {
            true => self.reload(&generation, &plan, wanted).await?,
            false => self.start(&plan, wanted).await?,
        }
        self.retire(&generation).await
    }

    /// Tries at once what failed before.
    pub fn forgive(&mut self) {
        self.setbacks.forget_all();
    }

    /// Returns when Traefik ended, or was started by somebody else, or when somebody may be led where
    /// nobody is any more. Cancel-safe.
    ///
    /// Also keeps its log within bounds.
    pub async fn changed(&mut self) {
        loop {
            tokio::select! {
                () = self.supervisor.changed() => return,
                () = self.packets.are_due() => return,
                () = self.log.is_due() => {}
            }
            if let Err(error) = self.bound_log().await {
                tracing::warn!(%error, "cannot begin another access log");
            }
        }
    }

    fn program(&self) -> Result<PathBuf, RoutesError> {
        let given = self.settings.program.as_deref();
        unit::find(given, std::env::var_os("PATH").as_deref())
            .ok_or_else(|| RoutesError::NoProgram { given: given.map(Into::into) })
    }

    /// The processes that there are, but for those that were told to end and have time for it.
    async fn running(&mut self) -> Result<Vec<Running>, RoutesError> {
        let mut running = self.supervisor.running().await?;
        self.leaving.see(&running);
        for Running { generation, .. } in &running {
            if self.leaving.has(generation) {
                self.leaving.meet(generation, self.supervisor.process(generation).await?);
            }
        }
        let now = Instant::now();
        running.retain(|one| !self.leaving.has_time(&one.generation, now));
        Ok(running)
    }

    async fn plan(&mut self, wanted: &Routes, running: &[Running]) -> Result<Plan, RoutesError> {
        let (pairs, problems) =
            self.certificates.read(&self.settings.certificates, SystemTime::now().into());
        let mut plan = compile(wanted, &self.settings, pairs.clone(), &BTreeSet::new());
        // One that is down comes up only if its ports are still free.
        if !is_up(&plan.fixed.generation, running) {
            let taken = self.taken(&plan, running).await?;
            if !taken.is_empty() {
                plan = compile(wanted, &self.settings, pairs, &taken);
            }
        }
        plan.problems.extend(problems);
        Ok(plan)
    }

    /// The ports that are to be listened on, or would be by one that is down, and cannot be.
    async fn taken(
        &mut self,
        plan: &Plan,
        running: &[Running],
    ) -> Result<BTreeSet<Gate>, RoutesError> {
        let mut own = BTreeSet::new();
        let ending = self.supervisor.ending().await?;
        for one in running.iter().map(|it| &it.generation).chain(&ending) {
            own.extend(match self.api.entry_points(self.api_of(one)).await {
                Ok(names) => names,
                Err(ApiError::Absent { .. }) => BTreeSet::new(),
                // One that has no time to say has its ports all the same.
                Err(_) => files::entry_points(&self.settings.folder, one),
            });
        }
        let own = self.gates(&own);
        let down = running.iter().filter(|it| !it.is_up);
        let of_those = down.flat_map(|it| self.gates_of(&it.generation));
        let all: BTreeSet<Gate> = plan.listens.values().copied().chain(of_those).gather();
        let others = all.difference(&own).copied();
        Ok(others.filter(|gate| !ports::is_free(*gate, self.settings.listen)).gather())
    }

    /// The ports that a process was told to listen on.
    fn gates_of(&self, generation: &Generation) -> BTreeSet<Gate> {
        self.gates(&files::entry_points(&self.settings.folder, generation))
    }

    fn gates(&self, names: &BTreeSet<String>) -> BTreeSet<Gate> {
        names.iter().filter_map(|name| Gate::of(name, &self.settings)).gather()
    }

    /// Who hears of new routes beside the one that is to be, and whether that leaves: it has the ports
    /// for packets for as long as it has connections, and must not lead where nobody is any more. Where
    /// one takes over, or did and its agent was killed over it, all others are about to.
    fn told_as_well(
        &self,
        current: &Generation,
        running: &[Running],
        takes_over: bool,
    ) -> Vec<(Generation, bool)> {
        let others = running.iter().map(|it| &it.generation).filter(|it| !self.leaving.has(it));
        let all = others.map(|it| (it, takes_over)).chain(self.leaving.all().map(|it| (it, true)));
        all.filter(|(it, _)| *it != current).map(|(it, leaves)| (it.clone(), leaves)).collect()
    }

    /// Writes what Traefik is to read, on a thread that may wait for the disk.
    async fn write(
        &self,
        plan: Plan,
        as_well: Vec<(Generation, bool)>,
    ) -> Result<Plan, RoutesError> {
        let folder = self.settings.folder.clone();
        let write = move || {
            // The one that serves does not wait for those that leave.
            files::write(&folder, &plan)?;
            for (generation, leaves) in as_well {
                let dynamic = files::fitting(&folder, &plan, &generation).dynamic;
                let dynamic = if leaves { dynamic.of_one_that_leaves() } else { dynamic };
                files::tell(&folder, &generation, &dynamic)?;
            }
            Ok(plan)
        };
        let written = tokio::task::spawn_blocking(write).await.map_err(io::Error::other);
        written.and_then(|written| written).map_err(|why| self.not_written(why))
    }

    /// Waits until Traefik says that it has loaded everything; else, what is missing.
    async fn until_loaded(
        &mut self,
        generation: &Generation,
        plan: &Plan,
        wanted: &Routes,
        deadline: Instant,
    ) -> Result<(), String> {
        let address = self.api_of(generation);
        loop {
            let missing = match self.api.loaded(address).await {
                Ok(loaded) => self.seen(&loaded, plan, wanted),
                Err(error) => Some(error.to_string()),
            };
            match missing {
                None => return Ok(()),
                Some(missing) if Instant::now() >= deadline => return Err(missing),
                Some(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Takes note of what is loaded; how it differs from what should be.
    fn seen(&mut self, loaded: &Loaded, plan: &Plan, wanted: &Routes) -> Option<String> {
        let difference = loaded.difference(&plan.dynamic);
        // What is left out for good reason is no reason to wait for.
        (self.in_effect, self.left_out) = match difference {
            None => (wanted.hash(), plan.left_out.clone()),
            Some(_) => (loaded.routes().hash(), BTreeSet::new()),
        };
        match difference {
            None => self.lead_packets(wanted),
            Some(_) => self.packets.are_led(&loaded.routes()),
        }
        difference
    }

    /// Whoever sends packets is led as routes say now, without a pause too.
    fn lead_packets(&mut self, wanted: &Routes) {
        if let Err(error) = self.packets.lead(wanted, Instant::now(), packets::part_from) {
            tracing::warn!(%error, "who sends packets without a pause is led where they were before");
        }
    }

    /// Takes note of what is in effect while another process runs than should, or none; which one it
    /// is, if it has all that it could have.
    async fn look(
        &mut self,
        running: &[Running],
        plan: &Plan,
        wanted: &Routes,
    ) -> Option<Generation> {
        let Some((one, loaded)) = self.serving(&plan.fixed.generation, running).await else {
            self.seen(&Loaded::default(), plan, wanted);
            return None;
        };
        let plan = files::fitting(&self.settings.folder, plan, &one);
        self.seen(&loaded, &plan, wanted).is_none().then_some(one)
    }

    /// The process that serves, the one that should before all others, and what it has loaded. One
    /// that leaves, as an agent before this one had it do, does not answer.
    async fn serving(
        &self,
        wanted: &Generation,
        running: &[Running],
    ) -> Option<(Generation, Loaded)> {
        let up = running.iter().filter(|it| it.is_up).map(|it| &it.generation);
        let (current, others): (Vec<_>, Vec<_>) = up.partition(|it| *it == wanted);
        for one in current.into_iter().chain(others) {
            if let Ok(loaded) = self.api.loaded(self.api_of(one)).await {
                return Some((one.clone(), loaded));
            }
        }
        None
    }

    async fn bound_log(&mut self) -> Result<(), String> {
        if !self.log.put_aside().map_err(|error| error.to_string())? {
            return Ok(());
        }
        // Whoever started them, and whatever they are to make way for: all write to the same one.
        let running = self.supervisor.running().await.map_err(|error| error.to_string())?;
        for one in running.iter().filter(|it| it.is_up) {
            let told = self.supervisor.signal(&one.generation, Signal::Reopen).await;
            told.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn api_of(&self, generation: &Generation) -> SocketAddrV4 {
        generation.api(self.settings.api)
    }

    fn not_written(&self, why: io::Error) -> RoutesError {
        RoutesError::NotWritten { folder: self.settings.folder.clone(), why }
    }
}

/// Whether there is a process of this generation.
fn is_up(generation: &Generation, running: &[Running]) -> bool {
    running.iter().any(|it| it.is_up && it.generation == *generation)
}

/// Whether there is a process of any.
fn is_any_up(running: &[Running]) -> bool {
    running.iter().any(|it| it.is_up)
}

/// What is wrong with the processes that there are.
fn of_processes(wanted: &Generation, running: &[Running]) -> Option<String> {
    let current = running.iter().find(|it| it.generation == *wanted);
    match current {
        None if running.is_empty() => Some("Traefik does not run".to_owned()),
        None if is_any_up(running) => {
            Some("Traefik runs with other ports or other settings".to_owned())
        }
        Some(current) if current.is_up => {
            (running.len() > 1).then(|| "more than one Traefik runs".to_owned())
        }
        _ => Some("Traefik is down".to_owned()),
    }
}

#[cfg(test)]
mod tests;
