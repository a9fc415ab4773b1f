//! Units of the host's systemd: over D-Bus, and through `systemctl` where there is no bus.
//!
//! ```text
//!  check ─▶ observe: one call for all units ─▶ judge (pure) ─▶ verdict
//!  apply ─▶ observe ─▶ judge ─▶ plan ─▶ carried out ─▶ observe …
//!  watch ─▶ signals of exactly the watched units
//! ```

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use fluke_model::task::SystemdSpec;
use fluke_model::verdict::{Drift, Output, Verdict};
use futures_util::{StreamExt, stream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Executor, LookAgain};
use crate::host::Host;
use crate::state::processing::Applied;

mod apply;
mod bus;
mod facts;
mod files;
mod judge;
mod name;
mod systemctl;
pub(crate) mod transient;
mod watch;

use bus::{Bus, CallError, Link};
use facts::{Details, Facts, FileState, Load};
use files::Known;
use judge::{Judgement, judge};
use name::UnitName;
use systemctl::Systemctl;
use watch::Watch;

/// Only a host that systemd has booted has this.
pub(crate) const BOOTED: &str = "/run/systemd/system";
/// Processes that the caller's own bound ends.
const BOUNDED_ABOVE: Duration = Duration::from_secs(24 * 60 * 60);
const STOPS: &str =
    "the agent stopped waiting for systemd, because it stops itself; the next check tells";
/// How long systemd may be away from the bus while it is replaced: it is asked again after these.
const AWAY: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(200), Duration::from_millis(800)];
/// How many questions about single units are put to systemd at once; it answers one by one.
const AT_ONCE: usize = 8;

/// How long systemd may take to say whether the host goes down.
const SAID_WITHIN: Duration = Duration::from_secs(1);

/// Whether systemd is about to bring the host down, in whatever way: all of them have a job to reach
/// this target. Where nobody can tell, it is not.
pub(crate) async fn goes_down() -> bool {
    let ask = async {
        let target = UnitName::parse("shutdown.target").ok()?;
        let found = Link::default().bus().await.ok()?.list(&[target]).await.ok()?;
        Some(found.iter().any(|it| it.job.as_ref().is_some_and(|job| job.kind == "start")))
    };
    timeout(SAID_WITHIN, ask).await.ok().flatten().unwrap_or(false)
}

/// The units of this host.
#[derive(Debug)]
pub(super) struct Systemd {
    host: Host,
    link: Arc<Link>,
    known: Mutex<Known>,
    watch: Arc<Watch>,
    /// The one that hears of changes, once somebody wants to know.
    hearing: Mutex<JoinSet<()>>,
}

/// The way to systemd that there is now.
enum Way {
    Bus(Bus),
    Systemctl(Systemctl),
}

impl Systemd {
    pub(super) fn new(host: Host) -> Self {
        Self {
            host,
            link: Arc::default(),
            known: Mutex::default(),
            watch: Arc::default(),
            hearing: Mutex::default(),
        }
    }

    /// Checks many units at the price of one.
    pub(super) async fn check_all(&self, specs: &[&SystemdSpec], within: Duration) -> Vec<Verdict> {
        let judged = timeout(within, self.judge_all(specs)).await;
        let judged = judged.unwrap_or_else(|_| {
            let reason = format!(
                "systemd did not answer within {} s; `systemctl status` on the host shows whether it \
                 does at all",
                within.as_secs_f32()
            );
            specs.iter().map(|_| Judgement::Error(reason.clone())).collect()
        });
        judged.into_iter().map(Verdict::from).collect()
    }

    async fn judge_all(&self, specs: &[&SystemdSpec]) -> Vec<Judgement> {
        let names: Vec<_> = specs.iter().map(|spec| UnitName::parse(&spec.unit)).collect();
        let valid: Vec<UnitName> = names.iter().flatten().cloned().collect();
        let mut found = match self.observe(&valid).await {
            Ok(facts) => facts.into_iter(),
            Err(reason) => {
                return specs.iter().map(|_| Judgement::Error(reason.clone())).collect();
            }
        };
        let pairs = specs.iter().zip(names).map(|(spec, name)| {
            let facts = name.as_ref().ok().and_then(|_| found.next());
            async move {
                match (name, facts) {
                    (Ok(name), Some(facts)) => self.judge(spec, &name, facts).await.0,
                    (Ok(_), None) => Judgement::Error("systemd said nothing of it".to_owned()),
                    (Err(reason), _) => Judgement::Error(reason),
                }
            }
        });
        let pairs: Vec<_> = pairs.collect();
        stream::iter(pairs).buffered(AT_ONCE).collect().await
    }

    /// Judges a unit, with its details where they are needed.
    async fn judge(
        &self,
        spec: &SystemdSpec,
        name: &UnitName,
        mut facts: Facts,
    ) -> (Judgement, Facts) {
        let first = judge(spec, &facts);
        if first == Judgement::Satisfied || facts.details.is_some() {
            return (first, facts);
        }
        match self.details(name, &facts).await {
            Ok(details) => {
                facts.details = Some(details);
                (judge(spec, &facts), facts)
            }
            Err(error) => (Judgement::Error(error.to_string()), facts),
        }
    }

    async fn way(&self) -> Result<Way, String> {
        if !Path::new(BOOTED).is_dir() {
            return Err(format!(
                "this host does not run systemd ({BOOTED} is not there); do not select it for this \
                 task, or give the task another kind of step"
            ));
        }
        match self.link.bus().await {
            Ok(bus) => Ok(Way::Bus(bus)),
            Err(error) => match Systemctl::find(&self.host) {
                Some(systemctl) => Ok(Way::Systemctl(systemctl)),
                None => Err(format!("{error}; and there is no `systemctl` on this host")),
            },
        }
    }

    /// How units are now.
    async fn observe(&self, names: &[UnitName]) -> Result<Vec<Facts>, String> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut pauses = AWAY.iter();
        loop {
            let found = match self.way().await? {
                Way::Bus(bus) => self.observe_over(&bus, names).await,
                Way::Systemctl(systemctl) => {
                    return systemctl.list(names, BOUNDED_ABOVE).await;
                }
            };
            // The bus was restarted, or systemd is being replaced: the next one will know.
            match (found, pauses.next()) {
                (Err(error), Some(pause)) if error.is_gone() => tokio::time::sleep(*pause).await,
                (found, _) => return found.map_err(|error| error.to_string()),
            }
        }
    }

    async fn observe_over(&self, bus: &Bus, names: &[UnitName]) -> Result<Vec<Facts>, CallError> {
        // Before anything is asked: what changes from here on is found by the next look.
        let seen = self.known().refresh(&bus.directories);
        let mut units = bus.list(names).await?;
        for (name, facts) in names.iter().zip(&mut units) {
            facts.restless = self.watch.is_restless(name);
        }
        let mut unknown = Vec::new();
        {
            let known = self.known();
            for (at, name) in names.iter().enumerate() {
                match known.get(name) {
                    Some(state) => units[at].file = state.clone(),
                    None => unknown.push(at),
                }
            }
        }
        let asked = unknown.into_iter().map(|at| {
            let (name, id) = (names[at].clone(), units[at].id.clone());
            async move { (at, file_state(bus, &name, &id).await) }
        });
        let asked: Vec<_> = asked.collect();
        let mut answers = stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some((at, state)) = answers.next().await {
            let state = state?;
            // What systemd would not say now, it may say next time.
            if state != Some(FileState::Bad) {
                self.known().keep(&names[at], &state, &seen, SystemTime::now());
            }
            units[at].file = state;
        }
        Ok(units)
    }

    /// What helps to explain a unit.
    async fn details(&self, name: &UnitName, facts: &Facts) -> Result<Details, String> {
        let Way::Bus(bus) = self.way().await? else { return Ok(Details::default()) };
        let properties = bus.properties(&facts.id).await.map_err(|error| error.to_string())?;
        let mut details = Details::read(&properties);
        if facts.load == Load::NotFound {
            details.near = files::near(name, &bus.directories);
        }
        if facts.file == Some(FileState::Linked) {
            details.installable = files::is_installable(&details.fragment);
        }
        Ok(details)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // What is known is checked against the disk each time it is used.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a unit's files say; an alias says what the unit itself says.
async fn file_state(bus: &Bus, name: &UnitName, id: &str) -> Result<Option<FileState>, CallError> {
    match bus.file_state(name.as_str()).await? {
        Some(FileState::Alias) if id != name.as_str() => bus.file_state(id).await,
        state => Ok(state),
    }
}

impl Executor for Systemd {
    type Spec = SystemdSpec;

    async fn check(&self, spec: &SystemdSpec, within: Duration) -> Verdict {
        let verdict = self.check_all(&[spec], within).await.pop();
        verdict.unwrap_or_else(|| Verdict::Error { reason: "nothing was found out".to_owned() })
    }

    async fn apply(&self, spec: &SystemdSpec, _: &Drift, within: Duration) -> Applied {
        let mut stop = self.host.stop.clone();
        // Dropping what is under way only stops waiting for it: systemd goes on by itself.
        let applied = tokio::select! {
            applied = timeout(within, self.put_right(spec)) => applied,
            () = stop.stopped() => {
                return Applied::Interrupted(Output::from_text(STOPS));
            }
        };
        applied.unwrap_or_else(|_| {
            Applied::Failed(Output::from_text(format!(
                "timed out after {} s; systemd goes on by itself, and the next check tells what came \
                 of it",
                within.as_secs_f32()
            )))
        })
    }

    fn watch(&self, spec: &SystemdSpec) -> Option<LookAgain> {
        if !Path::new(BOOTED).is_dir() {
            return None;
        }
        let unit = UnitName::parse(&spec.unit).ok()?;
        let mut hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        if hearing.is_empty() {
            hearing.spawn(watch::run(self.link.clone(), self.watch.clone()));
        }
        Some(self.watch.of(unit))
    }
}

#[cfg(test)]
mod tests;
