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
mod files;
mod leaving;
mod loaded;
mod log;
mod settings;
mod systemd;
mod unit;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use fluke_model::directory::Routes;
use fluke_model::id::Hash256;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::time::Instant;

pub use api::ApiError;
pub use compile::{Generation, LOCAL, REMOTE};
pub use ending::{end, end_what_is_left};
pub use settings::{API_PORT, Acme, Certificate, Network, Settings};
pub use systemd::Systemd;
pub use unit::{Running, Signal, Supervisor, SupervisorError, Unit, find as find_traefik, name};

use super::section::Found;
use api::Api;
use awaited::Awaited;
use certificates::Certificates;
use compile::{Gate, Plan, compile};
use leaving::Leaving;
use loaded::Loaded;
use log::Log;

/// How long Traefik may take to start and to load all routes.
const START: Duration = Duration::from_secs(15);
/// How long it may take to see that its file changed; then it is told.
const SEE: Duration = Duration::from_secs(2);
/// How long it may take once it was told.
const LOAD: Duration = Duration::from_secs(5);
/// It is asked so often whether it has.
const AGAIN: Duration = Duration::from_millis(20);

/// Why routes are not as they should be.
#[derive(Debug, thiserror::Error)]
pub enum RoutesError {
    /// There is no Traefik on this host.
    #[error(
        "there is no Traefik {}; install version 3 (https://doc.traefik.io/traefik), or say where \
         it is with `program` in the agent's `proxy` block",
        given.as_ref().map_or("in PATH".into(), |it| format!("that can be run at {}", it.display()))
    )]
    NoProgram {
        /// Where it should be.
        given: Option<PathBuf>,
    },
    /// What Traefik is to read cannot be written.
    #[error("cannot write to {}: {why}; make room, or make it writable", folder.display())]
    NotWritten {
        /// Where.
        folder: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// No process can be had.
    #[error("cannot keep Traefik running: {0}")]
    Supervisor(#[from] SupervisorError),
    /// Requests to its API cannot even be made.
    #[error("cannot ask Traefik: {0}")]
    Client(#[from] reqwest::Error),
    /// It was started, and does not come up.
    #[error(
        "Traefik does not come up within {} s: {why}; `journalctl -u {unit}` says what it said{}",
        START.as_secs(),
        if *others { "; the one before it goes on" } else { "" }
    )]
    NotUp {
        /// Its unit.
        unit: String,
        /// What is still missing.
        why: String,
        /// Whether another one serves what it has.
        others: bool,
    },
    /// It runs, and does not take what it is given.
    #[error("Traefik has not loaded its routes: {why}; `journalctl -u {unit}` says what it said")]
    NotLoaded {
        /// Its unit.
        unit: String,
        /// What is missing.
        why: String,
    },
}

/// Traefik on this host.
#[derive(Debug)]
pub struct Proxy<S = Systemd> {
    settings: Settings,
    supervisor: S,
    api: Api,
    certificates: Certificates,
    awaited: Awaited,
    log: Log,
    /// Processes that serve nobody but those whom they served before.
    leaving: Leaving,
    /// As it was when Traefik was last asked.
    in_effect: Hash256,
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
            leaving: Leaving::default(),
            in_effect: Routes::default().hash(),
        })
    }

    /// The hash of the routes that Traefik has loaded, as of the last look.
    pub fn in_effect(&self) -> Hash256 {
        self.in_effect
    }

    /// What differs from `wanted`, as Traefik and its files tell.
    pub async fn check(&mut self, wanted: &Routes) -> Result<Found, RoutesError> {
        self.program()?;
        let running = self.running().await?;
        let plan = self.plan(wanted, &running).await;
        let generation = &plan.fixed.generation;
        self.supervisor.follow(generation);
        if let Some(drift) = of_processes(generation, &running) {
            self.look(&running, &plan, wanted).await;
            return Ok(Found::drift(drift));
        }
        if !files::is_written(&self.settings.folder, &plan).map_err(|why| self.not_written(why))? {
            return Ok(Found::drift("the files of Traefik are not as they should be"));
        }
        Ok(match self.api.loaded(generation.api(self.settings.api)).await {
            Err(error) => Found::drift(error),
            Ok(loaded) => match self.seen(&loaded, &plan, wanted) {
                Some(difference) => Found::drift(difference),
                None => {
                    let awaited = self.certificates_are_had(&plan, wanted).await?;
                    let problems: Vec<String> =
                        plan.problems.iter().cloned().chain(awaited).collect();
                    Found { drift: None, problem: problem(&problems) }
                }
            },
        })
    }

    /// Has Traefik route as `wanted` says, but for what cannot be done, and returns when it does.
    ///
    /// What was stopped in the middle is finished by the next one.
    pub async fn apply(&mut self, wanted: &Routes) -> Result<(), RoutesError> {
        let program = self.program()?;
        let running = self.running().await?;
        let plan = self.plan(wanted, &running).await;
        let unit = Unit {
            generation: plan.fixed.generation.clone(),
            program,
            folder: self.settings.folder.clone(),
        };
        let plan = self.write(plan, self.told_as_well(&unit.generation, &running)).await?;
        match running.iter().any(|it| it.generation == unit.generation) {
            true => self.reload(&unit, &plan, wanted).await?,
            false => self.start(&unit, &plan, wanted, &running).await?,
        }
        self.retire(&unit.generation, &running).await
    }

    /// Returns when Traefik ended, or was started by somebody else. Cancel-safe.
    ///
    /// Also keeps its log within bounds.
    pub async fn changed(&mut self) {
        loop {
            tokio::select! {
                () = self.supervisor.changed() => return,
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

    async fn plan(&mut self, wanted: &Routes, running: &[Running]) -> Plan {
        let (pairs, problems) = self.certificates.read(&self.settings.certificates);
        let mut plan = compile(wanted, &self.settings, pairs.clone(), &BTreeSet::new());
        if !running.iter().any(|it| it.generation == plan.fixed.generation) {
            let taken = self.taken(&plan, running).await;
            if !taken.is_empty() {
                plan = compile(wanted, &self.settings, pairs, &taken);
            }
        }
        plan.problems.extend(problems);
        plan
    }

    /// The ports that are to be listened on, and cannot be.
    async fn taken(&self, plan: &Plan, running: &[Running]) -> BTreeSet<Gate> {
        let mut own = BTreeSet::new();
        for one in running {
            own.extend(self.api.gates(self.api_of(&one.generation)).await.unwrap_or_default());
        }
        let all = plan.gates.difference(&own).copied();
        all.filter(|gate| !is_free(*gate, self.settings.listen)).collect()
    }

    /// Who hears of new routes beside the one that is to be, and whether that leaves: it has the ports
    /// for packets for as long as it has connections, and must not lead where nobody is any more.
    fn told_as_well(&self, current: &Generation, running: &[Running]) -> Vec<(Generation, bool)> {
        let others = running.iter().map(|it| &it.generation).filter(|it| !self.leaving.has(it));
        let all = others.map(|it| (it, false)).chain(self.leaving.all().map(|it| (it, true)));
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
            for (generation, leaves) in as_well {
                let dynamic = plan.dynamic.clone();
                let dynamic = if leaves { dynamic.of_one_that_leaves() } else { dynamic };
                files::tell(&folder, &generation, &dynamic)?;
            }
            files::write(&folder, &plan).map(|()| plan)
        };
        let written = tokio::task::spawn_blocking(write).await.map_err(io::Error::other);
        written.and_then(|written| written).map_err(|why| self.not_written(why))
    }

    /// Starts a process; those that run serve until it does.
    async fn start(
        &mut self,
        unit: &Unit,
        plan: &Plan,
        wanted: &Routes,
        running: &[Running],
    ) -> Result<(), RoutesError> {
        match self.leaving.forget(&unit.generation) {
            // It goes back on what it was told, and the connections that it has are lost.
            true => self.supervisor.restart(&unit.generation).await?,
            false => self.supervisor.start(unit).await?,
        }
        let Err(why) = self.until_loaded(&unit.generation, plan, wanted, START).await else {
            return Ok(());
        };
        let others = running.iter().any(|it| it.is_up);
        if others {
            self.supervisor.stop(&unit.generation).await?;
            self.look(running, plan, wanted).await;
        }
        Err(RoutesError::NotUp { unit: unit.name(), why, others })
    }

    /// Has a process that runs load what is new.
    async fn reload(
        &mut self,
        unit: &Unit,
        plan: &Plan,
        wanted: &Routes,
    ) -> Result<(), RoutesError> {
        let generation = &unit.generation;
        if self.until_loaded(generation, plan, wanted, SEE).await.is_ok() {
            return Ok(());
        }
        // It hears nothing of a folder that was made anew. One that waits to be started again hears
        // nothing at all, and what is missing says more than that.
        let _ = self.supervisor.signal(generation, Signal::Reload).await;
        if self.until_loaded(generation, plan, wanted, LOAD).await.is_ok() {
            return Ok(());
        }
        if let Err(ApiError::Unreachable { .. }) = self.api.loaded(self.api_of(generation)).await {
            // It is there, and answers nobody.
            let _ = self.supervisor.restart(generation).await;
        }
        let loaded = self.until_loaded(generation, plan, wanted, START).await;
        loaded.map_err(|why| RoutesError::NotLoaded { unit: unit.name(), why })
    }

    /// Has the processes that came before end; at once, if they had their time.
    async fn retire(
        &mut self,
        current: &Generation,
        running: &[Running],
    ) -> Result<(), RoutesError> {
        for Running { generation, is_up } in running.iter().filter(|it| it.generation != *current) {
            if *is_up && !self.leaving.has(generation) {
                let process = self.supervisor.process(generation).await?;
                self.supervisor.signal(generation, Signal::End).await?;
                self.leaving.told(generation.clone(), process, Instant::now());
            } else {
                self.supervisor.stop(generation).await?;
            }
        }
        // One that dies is started again, and must find what it was told.
        let needed: Vec<&Generation> = self.leaving.all().chain([current]).collect();
        files::forget_all_but(&self.settings.folder, &needed)
            .map_err(|why| self.not_written(why))?;
        self.supervisor.follow(current);
        Ok(())
    }

    /// Waits until Traefik says that it has loaded everything; else, what is missing.
    async fn until_loaded(
        &mut self,
        generation: &Generation,
        plan: &Plan,
        wanted: &Routes,
        within: Duration,
    ) -> Result<(), String> {
        let address = self.api_of(generation);
        let deadline = Instant::now() + within;
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

    /// Sees to it that certificates are asked for until they are there; what is said of those that
    /// are not.
    async fn certificates_are_had(
        &mut self,
        plan: &Plan,
        wanted: &Routes,
    ) -> Result<Option<String>, RoutesError> {
        let (store, now) = (compile::store(&self.settings.folder), Instant::now());
        if self.awaited.look(&plan.dynamic, &store, now) {
            self.ask_again(plan, wanted).await?;
        }
        Ok(self.awaited.words(now))
    }

    /// Has Traefik ask for the certificates that it has not got: it does whenever it is told anything
    /// new.
    async fn ask_again(&mut self, plan: &Plan, wanted: &Routes) -> Result<(), RoutesError> {
        let dynamic = plan.dynamic.clone().stirred();
        for plan in [Plan { dynamic, ..plan.clone() }, plan.clone()] {
            let plan = self.write(plan, Vec::new()).await?;
            // One that does not is looked after with the next check.
            let _ = self.until_loaded(&plan.fixed.generation, &plan, wanted, SEE).await;
        }
        Ok(())
    }

    /// Takes note of what is loaded; how it differs from what should be.
    fn seen(&mut self, loaded: &Loaded, plan: &Plan, wanted: &Routes) -> Option<String> {
        let difference = loaded.difference(&plan.dynamic);
        // What is left out for good reason is no reason to wait for.
        self.in_effect = match difference {
            None => wanted.hash(),
            Some(_) => loaded.routes().hash(),
        };
        difference
    }

    /// Takes note of what is in effect while another process runs than should, or none.
    async fn look(&mut self, running: &[Running], plan: &Plan, wanted: &Routes) {
        let up = running.iter().find(|it| it.is_up);
        let loaded = match up {
            Some(one) => self.api.loaded(self.api_of(&one.generation)).await.ok(),
            None => None,
        };
        self.seen(&loaded.unwrap_or_default(), plan, wanted);
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

/// What is wrong with the processes that there are.
fn of_processes(wanted: &Generation, running: &[Running]) -> Option<String> {
    let current = running.iter().find(|it| it.generation == *wanted);
    match current {
        None if running.is_empty() => Some("Traefik does not run".to_owned()),
        None => Some("Traefik runs with other ports or other settings".to_owned()),
        Some(current) if !current.is_up => Some("Traefik is down".to_owned()),
        Some(_) if running.len() > 1 => Some("more than one Traefik runs".to_owned()),
        Some(_) => None,
    }
}

/// What is said of a proxy that leaves something out.
fn problem(left_out: &[String]) -> Option<String> {
    let words = || format!("all other routes are in effect, but {}", left_out.join("; "));
    (!left_out.is_empty()).then(words)
}

/// Whether a port could be listened on.
fn is_free(gate: Gate, listen: Option<IpAddr>) -> bool {
    let everywhere = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let places = listen.map_or(everywhere.to_vec(), |listen| vec![listen]);
    let bind = |listen| match gate {
        Gate::Tcp(port) => TcpListener::bind(SocketAddr::new(listen, port)).map(drop),
        Gate::Udp(port) => share(SocketAddr::new(listen, port)),
    };
    // Whatever else is wrong, Traefik says it better.
    let is_taken = |error: io::Error| error.kind() == io::ErrorKind::AddrInUse;
    !places.into_iter().any(|listen| bind(listen).is_err_and(is_taken))
}

/// Takes a port for packets, and lets it go: as Traefik does, beside any other that is its own. One
/// that leaves has it for as long as connections last that others of its ports have.
fn share(at: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&at.into())
}

#[cfg(test)]
mod tests;
