//! Processes of Traefik: how one comes up, takes over from others, and is replaced where it is of no use.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use fluke_model::directory::Routes;
use tokio::time::Instant;

use super::api::ApiError;
use super::compile::{Generation, Plan};
use super::loaded::Loaded;
use super::{Proxy, RoutesError, Running, Signal, Supervisor, Unit, files, is_up, unit};

/// How long Traefik may take to start and to load all routes.
pub const START: Duration = Duration::from_secs(15);
/// How long it may take to see that its file changed; then it is told.
pub const SEE: Duration = Duration::from_secs(2);
/// How long it may take once it was told, as well.
const LOAD: Duration = Duration::from_secs(7);
/// How long all of it may take, with a restart: whoever waits is then told why, and not that it took
/// too long.
const RELOAD: Duration = Duration::from_secs(20);
/// Whether whoever waits at a socket that is closed is let in by another one at the same port.
const LET_IN_BY_ANOTHER: &str = "/proc/sys/net/ipv4/tcp_migrate_req";

impl<S: Supervisor> Proxy<S> {
    /// Why the one that should run cannot come up, where it is not up.
    pub(super) fn hindrance(&self, plan: &Plan, running: &[Running]) -> Option<RoutesError> {
        let generation = &plan.fixed.generation;
        if is_up(generation, running) {
            return None;
        }
        let others = self.do_any_go_on(plan, running);
        if let Some(port) = plan.in_the_way {
            return Some(RoutesError::Taken { port, others });
        }
        if let Err(error) = self.program() {
            return Some(error);
        }
        let failed = self.setbacks.marks().get(generation)?;
        let is_left_alone = others && !self.setbacks.is_due(generation, Instant::now().into_std());
        let (unit, why) = (unit::name(generation), failed.why.clone());
        is_left_alone.then_some(RoutesError::NotUp { unit, why, others })
    }

    fn do_any_go_on(&self, plan: &Plan, running: &[Running]) -> bool {
        running.iter().any(|one| self.goes_on(plan, one))
    }

    /// Whether a process serves while the one that should run does not. One that has just fallen does
    /// as soon as it is started again, unless its program is gone, or somebody else has a port of its
    /// own by then.
    fn goes_on(&self, plan: &Plan, one: &Running) -> bool {
        let comes_back =
            || self.program().is_ok() && plan.taken.is_disjoint(&self.gates_of(&one.generation));
        one.generation != plan.fixed.generation && (one.is_up || comes_back())
    }

    /// Starts a process; those that run serve until it does.
    pub(super) async fn start(&mut self, plan: &Plan, wanted: &Routes) -> Result<(), RoutesError> {
        let unit = Unit {
            generation: plan.fixed.generation.clone(),
            program: self.program()?,
            folder: self.settings.folder.clone(),
        };
        // Kernels before 5.14 have none of it: there, who comes just as another takes over is refused.
        let _ = std::fs::write(LET_IN_BY_ANOTHER, "1");
        match self.leaving.forget(&unit.generation) {
            // It goes back on what it was told, and the connections that it has are lost.
            true => self.supervisor.restart(&unit.generation).await?,
            false => self.supervisor.start(&unit).await?,
        }
        let Err(why) =
            self.until_loaded(&unit.generation, plan, wanted, Instant::now() + START).await
        else {
            self.setbacks.forget_all();
            return Ok(());
        };
        self.setbacks.retain(|it| *it == unit.generation);
        self.setbacks.gave_up(unit.generation.clone(), why.clone(), Instant::now().into_std());
        // One that was down when this began may have been started again.
        let running = self.running().await?;
        let others = self.do_any_go_on(plan, &running);
        // It would be tried again and again otherwise, without a pause. One that is slow serves.
        if others || self.is_stuck(&unit.generation).await {
            self.supervisor.stop(&unit.generation).await?;
            self.go_on(plan, wanted).await?;
        }
        Err(RoutesError::NotUp { unit: unit.name(), why, others })
    }

    /// Nobody takes over: who is there goes on, with the newest routes, and nobody else is to come up.
    /// Whether somebody has all of them that it can take.
    pub(super) async fn go_on(
        &mut self,
        plan: &Plan,
        wanted: &Routes,
    ) -> Result<bool, RoutesError> {
        let running = self.running().await?.into_iter();
        let (mut running, lost): (Vec<_>, Vec<_>) =
            running.partition(|it| it.is_up || self.goes_on(plan, it));
        for one in lost {
            self.supervisor.stop(&one.generation).await?;
        }
        let current = &plan.fixed.generation;
        // It may take a moment to end.
        running.retain(|it| it.generation != *current);
        let told = self.told_as_well(current, &running, false);
        self.write(plan.clone(), told).await?;
        let answering = self.serving(current, &running).await.map(|(one, _)| one);
        let hanging = running.iter().find(|it| it.is_up).map(|it| it.generation.clone());
        let one = match (answering, hanging) {
            (Some(one), _) => one,
            (None, Some(one)) if !self.hangs(&one).await => one,
            (None, hanging) => {
                // There is no time to wait for it where another one was waited for.
                if let Some(one) = hanging {
                    self.replace(&one).await;
                }
                self.seen(&Loaded::default(), plan, wanted);
                return Ok(false);
            }
        };
        let plan = files::fitting(&self.settings.folder, plan, &one);
        Ok(self.take_in(&one, &plan, wanted).await.is_ok())
    }

    /// Has a process that runs load what is new.
    pub(super) async fn reload(
        &mut self,
        generation: &Generation,
        plan: &Plan,
        wanted: &Routes,
    ) -> Result<(), RoutesError> {
        let deadline = Instant::now() + RELOAD;
        if self.take_in(generation, plan, wanted).await.is_ok() {
            return Ok(());
        }
        let Err(why) = self.until_loaded(generation, plan, wanted, deadline).await else {
            return Ok(());
        };
        if self.is_stuck(generation).await {
            // It does not get up by itself. The next one begins after a pause.
            self.supervisor.stop(generation).await?;
        }
        Err(RoutesError::NotLoaded { unit: unit::name(generation), why })
    }

    /// Waits until a process that runs has what is new; one that answers nobody is replaced.
    async fn take_in(
        &mut self,
        generation: &Generation,
        plan: &Plan,
        wanted: &Routes,
    ) -> Result<(), String> {
        let began = Instant::now();
        if self.until_loaded(generation, plan, wanted, began + SEE).await.is_ok() {
            return Ok(());
        }
        // It hears nothing of a folder that was made anew. One that has not come so far that it answers
        // would end by what it is told.
        if self.api.loaded(self.api_of(generation)).await.is_ok() {
            let _ = self.supervisor.signal(generation, Signal::Reload).await;
        }
        let taken = self.until_loaded(generation, plan, wanted, began + LOAD).await;
        if taken.is_err() && self.is_stuck(generation).await {
            self.replace(generation).await;
        }
        taken
    }

    /// Starts one again that is of no use; without its program, it could not be.
    async fn replace(&mut self, generation: &Generation) {
        if self.program().is_ok() {
            let _ = self.supervisor.restart(generation).await;
        }
    }

    /// Whether a process is there for nobody. One that only has no time for the agent serves others.
    pub(super) async fn is_stuck(&self, generation: &Generation) -> bool {
        match self.api.loaded(self.api_of(generation)).await {
            Err(ApiError::Absent { .. }) => true,
            Err(ApiError::Silent { .. }) => !self.are_requests_answered().await,
            Err(ApiError::Garbled { .. }) | Ok(_) => false,
        }
    }

    /// The same, but for one that is not there yet: it may be starting.
    async fn hangs(&self, generation: &Generation) -> bool {
        let loaded = self.api.loaded(self.api_of(generation)).await;
        matches!(loaded, Err(ApiError::Silent { .. })) && !self.are_requests_answered().await
    }

    async fn are_requests_answered(&self) -> bool {
        let listen = self.settings.listen.unwrap_or(Ipv4Addr::LOCALHOST.into());
        self.api.is_answered(SocketAddr::new(listen, self.settings.web)).await
    }

    /// Has the processes that came before end; at once, if they had their time.
    pub(super) async fn retire(&mut self, current: &Generation) -> Result<(), RoutesError> {
        // One that was down when this began may have been started again, and serve somebody.
        let running = self.running().await?;
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
}
