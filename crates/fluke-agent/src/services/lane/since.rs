//! Since when containers are what they are, by a clock that never jumps. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluke_model::gather::Gather;

use super::jobs::GRACE;
use crate::services::plan::{Container, State};
use crate::services::podman::CHANGE;

/// Whoever stops or removes a container has so long for it. Whoever wants to take longer is cut short:
/// nobody can tell them from those who are gone.
pub const LONGEST_CHANGE: Duration = CHANGE.saturating_add(GRACE);

/// What is remembered of containers.
#[derive(Debug, Default)]
pub struct Since {
    /// Those that Podman says somebody stops or removes, which is not the lane.
    changing: BTreeMap<String, Instant>,
    /// Those that run, each in its life: when that began, as far as could be told when it was first
    /// seen.
    running: BTreeMap<(String, i32), Instant>,
}

impl Since {
    /// Takes note of what Podman says; not of what the lane itself is stopping.
    pub fn see(
        &mut self,
        containers: &[Container],
        is_being_stopped: impl Fn(&str) -> bool,
        now: Instant,
    ) {
        let changing = containers.iter().filter(|it| it.state == State::Changing);
        let changing = changing.map(|it| &it.id).filter(|id| !is_being_stopped(id));
        let since = |id: &String| self.changing.get(id).copied().unwrap_or(now);
        self.changing = changing.map(|id| (id.clone(), since(id))).gather();
        let began = |it: &Container| Some((life(it)?, self.started(it)?));
        self.running = containers.iter().filter_map(began).gather();
    }

    /// When a container last started. Podman tells the time of day: whoever was seen before is
    /// neither older nor younger because somebody set the clock.
    pub fn started(&self, container: &Container) -> Option<Instant> {
        let known = life(container).and_then(|life| self.running.get(&life));
        known.copied().or(container.started)
    }

    /// Whether nobody changes it any more, whatever Podman says: it writes down what it is about to
    /// do, and does not take that back where it ended, or the power went, before it was done.
    pub fn is_abandoned(&self, container: &str, now: Instant) -> bool {
        let since = self.changing.get(container);
        since.is_some_and(|since| now.saturating_duration_since(*since) >= LONGEST_CHANGE)
    }
}

/// What tells one life of a container from the next, while it runs.
fn life(container: &Container) -> Option<(String, i32)> {
    Some((container.id.clone(), container.process?))
}

#[cfg(test)]
mod tests;
