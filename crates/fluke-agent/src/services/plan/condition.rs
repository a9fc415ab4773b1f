//! What one container is good for.

use std::time::{Duration, Instant};

use fluke_model::service::{Health, HealthSpec};

use super::{Container, Deployment, State};

/// How long a container that nobody asks for its health has to accept connections.
pub const TIME_TO_LISTEN: Duration = Duration::from_secs(10);

/// Whether it may serve.
pub fn is_well(container: &Container, wanted: &Deployment, now: Instant) -> bool {
    container.state == State::Running
        && match wanted.spec.health {
            Some(_) => container.health == Health::Healthy,
            None => may_yet_listen(container, now).is_none(),
        }
}

/// A port that nothing listens at, and until when that may change; then running is all that can be
/// asked for.
pub(super) fn may_yet_listen(container: &Container, now: Instant) -> Option<(u16, Instant)> {
    let until = container.started? + TIME_TO_LISTEN;
    container.silent_at.filter(|_| now < until).map(|port| (port, until))
}

/// How long a container has to become well that is asked so.
pub(super) fn time_to_be_well(health: &HealthSpec) -> Duration {
    let rounds = u64::from(health.retries).saturating_add(1);
    let rounds = rounds.saturating_mul(health.interval_ms.saturating_add(health.timeout_ms));
    Duration::from_millis(health.start_period_ms.saturating_add(rounds))
}

/// Whether it served, and may do so again. Nobody ever knew one well that was never started.
pub(super) fn can_serve_again(container: &Container) -> bool {
    match container.state {
        State::Running | State::Changing | State::Exited => true,
        State::Created => ran_before_the_host_started(container),
        State::Stuck => false,
    }
}

/// Podman may say of all that ran before the host was started that it was made, and nothing else.
fn ran_before_the_host_started(made: &Container) -> bool {
    made.started.is_some()
}

/// Whether a successor cannot be started beside it: two containers must never run with one volume.
pub(super) fn keeps_volumes(predecessor: &Container, wanted: &Deployment) -> bool {
    let has_ended = match predecessor.state {
        State::Exited => true,
        // One that is about to run has a process.
        State::Created => ran_before_the_host_started(predecessor) && predecessor.process.is_none(),
        State::Running | State::Changing | State::Stuck => false,
    };
    wanted.spec.is_stateful() && !has_ended
}
