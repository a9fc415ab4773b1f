//! Keeps processes of Traefik running where there is no systemd: as children of the test.

use std::collections::BTreeMap;
use std::process::Stdio;

use futures_util::future::select_all;
use nix::sys::signal::{self, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::super::{Generation, Running, Signal, Supervisor, SupervisorError, Unit};

#[derive(Debug, Default)]
pub(super) struct Foreman {
    children: BTreeMap<Generation, (Unit, Child)>,
    /// Those that were told to end: their time for it is their own.
    ending: BTreeMap<Generation, Child>,
    /// How many processes there ever were.
    pub(super) started: usize,
    /// Whether those that died count as about to be started again.
    pub(super) is_to_start_them_again: bool,
    /// Whether they are, as soon as another one is started.
    pub(super) is_to_start_them_beside: bool,
    /// Whether those that are started from now on do nothing.
    pub(super) are_to_hang: bool,
}

impl Foreman {
    fn spawn(&mut self, unit: &Unit) -> Result<(), SupervisorError> {
        let log = unit.folder.with_extension("out");
        let log = std::fs::File::options().create(true).append(true).open(log).map_err(failed)?;
        let mut command = Command::new(&unit.program);
        command.args(unit.arguments()).stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
        let child = command.kill_on_drop(true).spawn().map_err(failed)?;
        self.started += 1;
        if let Some(process) = child.id().filter(|_| self.are_to_hang) {
            kill(Pid::from_raw(process as i32), signal::Signal::SIGSTOP).map_err(failed)?;
        }
        self.children.insert(unit.generation.clone(), (unit.clone(), child));
        Ok(())
    }

    fn tell(&self, generation: &Generation, signal: signal::Signal) -> Result<(), SupervisorError> {
        let process = self.children.get(generation).and_then(|(_, child)| child.id());
        match process {
            Some(process) => kill(Pid::from_raw(process as i32), signal).map_err(failed),
            None => Err(failed("it does not run")),
        }
    }

    /// Starts those again that died.
    pub(super) fn starts_them_again(&mut self) -> Result<(), SupervisorError> {
        let dead = self.children.values_mut().filter_map(|(unit, child)| {
            (!matches!(child.try_wait(), Ok(None))).then(|| unit.clone())
        });
        let dead: Vec<Unit> = dead.collect();
        dead.iter().try_for_each(|unit| self.spawn(unit))
    }

    /// As an accident would.
    pub(super) fn kill_all(&self) {
        self.tell_all(signal::Signal::SIGKILL);
    }

    /// They are there, and do nothing any more.
    pub(super) fn freeze_all(&self) {
        self.tell_all(signal::Signal::SIGSTOP);
    }

    fn tell_all(&self, signal: signal::Signal) {
        for generation in self.children.keys() {
            self.tell(generation, signal).expect("it runs");
        }
    }
}

fn failed(error: impl ToString) -> SupervisorError {
    SupervisorError::Failed(error.to_string())
}

impl Supervisor for Foreman {
    async fn running(&mut self) -> Result<Vec<Running>, SupervisorError> {
        let of = |(generation, (_, child)): (&Generation, &mut (Unit, Child))| Running {
            generation: generation.clone(),
            is_up: matches!(child.try_wait(), Ok(None)),
        };
        let mut all: Vec<Running> = self.children.iter_mut().map(of).collect();
        all.retain(|it| it.is_up || self.is_to_start_them_again);
        self.children.retain(|of, _| all.iter().any(|it| it.generation == *of));
        Ok(all)
    }

    async fn ending(&mut self) -> Result<Vec<Generation>, SupervisorError> {
        self.ending.retain(|_, child| matches!(child.try_wait(), Ok(None)));
        Ok(self.ending.keys().cloned().collect())
    }

    async fn start(&mut self, unit: &Unit) -> Result<(), SupervisorError> {
        if self.is_to_start_them_beside {
            self.starts_them_again()?;
        }
        self.spawn(unit)
    }

    async fn stop(&mut self, generation: &Generation) -> Result<(), SupervisorError> {
        // One that died needs not be told.
        let _ = self.tell(generation, signal::Signal::SIGTERM);
        if let Some((_, child)) = self.children.remove(generation) {
            self.ending.insert(generation.clone(), child);
        }
        Ok(())
    }

    async fn restart(&mut self, generation: &Generation) -> Result<(), SupervisorError> {
        let Some((unit, mut child)) = self.children.remove(generation) else {
            return Err(failed("it does not run"));
        };
        child.kill().await.map_err(failed)?;
        self.spawn(&unit)
    }

    async fn signal(
        &mut self,
        generation: &Generation,
        signal: Signal,
    ) -> Result<(), SupervisorError> {
        let signal = match signal {
            Signal::Reload => signal::Signal::SIGHUP,
            Signal::Reopen => signal::Signal::SIGUSR1,
            Signal::End => signal::Signal::SIGTERM,
        };
        self.tell(generation, signal)
    }

    async fn process(&mut self, generation: &Generation) -> Result<Option<u32>, SupervisorError> {
        Ok(self.children.get(generation).and_then(|(_, child)| child.id()))
    }

    fn follow(&mut self, _: &Generation) {}

    async fn changed(&mut self) {
        let ends = self.children.values_mut().map(|(_, child)| Box::pin(child.wait()));
        drop(select_all(ends).await);
    }
}
