//! What messages of both directions are made of.

use std::time::Duration;

use fluke_model::id::{CommitId, Hash256, InstructionId, SessionId};
use fluke_model::policy::{Policy, Trigger};
use fluke_model::snapshot::StepIndex;
use fluke_model::task::{OnFailure, UnitState};
use fluke_model::verdict::Outcome;

use super::text::{at_most, clip_line, line};
use super::{MAX_BY, MAX_COMMIT, MAX_STEPS};
use crate::error::WireError;
use crate::proto;

/// Complains about a name under the field it came in.
pub(super) fn named<T, E: ToString>(field: &str, name: Result<T, E>) -> Result<T, WireError> {
    name.map_err(|error| WireError::invalid(field, format!("is not valid: {}", error.to_string())))
}

pub(super) fn required<T>(field: &str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or_else(|| WireError::invalid(field, "is missing"))
}

pub(super) fn hash_to_proto(hash: Hash256) -> Vec<u8> {
    hash.as_bytes().to_vec()
}

pub(super) fn hash(field: &str, bytes: &[u8]) -> Result<Hash256, WireError> {
    let digest = bytes.try_into().map_err(|_| {
        WireError::invalid(field, format!("has {} bytes; a SHA-256 has 32", bytes.len()))
    })?;
    Ok(Hash256::from_bytes(digest))
}

pub(super) fn millis_to_proto(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

pub(super) fn interval(field: &str, millis: u64) -> Result<Duration, WireError> {
    match millis {
        0 => Err(WireError::invalid(field, "must not be 0")),
        millis => Ok(Duration::from_millis(millis)),
    }
}

pub(super) fn instruction_to_proto(id: InstructionId) -> proto::InstructionId {
    proto::InstructionId { session: id.session.0, number: id.number }
}

pub(super) fn instruction(
    field: &str,
    id: Option<proto::InstructionId>,
) -> Result<InstructionId, WireError> {
    let id = required(field, id)?;
    Ok(InstructionId { session: SessionId(id.session), number: id.number })
}

pub(super) fn commit_to_proto(commit: &CommitId) -> String {
    clip_line(commit.as_str().to_owned(), MAX_COMMIT)
}

pub(super) fn commit(field: &str, text: String) -> Result<CommitId, WireError> {
    Ok(CommitId::new(line(field, text, MAX_COMMIT)?))
}

pub(super) fn steps_to_proto(steps: Vec<StepIndex>) -> proto::Steps {
    proto::Steps { indices: steps.into_iter().map(|step| step.0).collect() }
}

pub(super) fn steps(field: &str, steps: proto::Steps) -> Result<Vec<StepIndex>, WireError> {
    let indices = at_most(field, steps.indices, MAX_STEPS)?;
    Ok(indices.into_iter().map(StepIndex).collect())
}

pub(super) fn trigger_to_proto(trigger: Trigger) -> proto::Trigger {
    use proto::TriggerKind as Kind;
    let (kind, by) = match trigger {
        Trigger::Commit => (Kind::Commit, String::new()),
        Trigger::Placement => (Kind::Placement, String::new()),
        Trigger::Poll => (Kind::Poll, String::new()),
        Trigger::Connect => (Kind::Connect, String::new()),
        Trigger::Watch => (Kind::Watch, String::new()),
        Trigger::Retry => (Kind::Retry, String::new()),
        Trigger::Offline => (Kind::Offline, String::new()),
        Trigger::Manual { by } => (Kind::Manual, clip_line(by, MAX_BY)),
    };
    proto::Trigger { kind: kind.into(), by }
}

pub(super) fn trigger(field: &str, trigger: Option<proto::Trigger>) -> Result<Trigger, WireError> {
    use proto::TriggerKind as Kind;
    let trigger = required(field, trigger)?;
    let kind = trigger.kind();
    let by = line(field, trigger.by, MAX_BY)?;
    Ok(match kind {
        Kind::Commit => Trigger::Commit,
        Kind::Placement => Trigger::Placement,
        Kind::Poll => Trigger::Poll,
        Kind::Connect => Trigger::Connect,
        Kind::Watch => Trigger::Watch,
        Kind::Retry => Trigger::Retry,
        Kind::Offline => Trigger::Offline,
        Kind::Manual => Trigger::Manual { by },
        Kind::Unspecified if by.is_empty() => Trigger::Poll,
        Kind::Unspecified => Trigger::Manual { by },
    })
}

pub(super) fn outcome_to_proto(outcome: Outcome) -> i32 {
    use proto::Outcome as Wire;
    match outcome {
        Outcome::Success => Wire::Success,
        Outcome::Failure => Wire::Failure,
        Outcome::AppliedButDrifted => Wire::AppliedButDrifted,
        Outcome::Healed => Wire::Healed,
        Outcome::Skipped => Wire::Skipped,
        Outcome::Interrupted => Wire::Interrupted,
    }
    .into()
}

pub(super) fn outcome(outcome: proto::Outcome) -> Outcome {
    use proto::Outcome as Wire;
    match outcome {
        Wire::Success => Outcome::Success,
        Wire::Failure | Wire::Unspecified => Outcome::Failure,
        Wire::AppliedButDrifted => Outcome::AppliedButDrifted,
        Wire::Healed => Outcome::Healed,
        Wire::Skipped => Outcome::Skipped,
        Wire::Interrupted => Outcome::Interrupted,
    }
}

pub(super) fn policy_to_proto(policy: Policy) -> i32 {
    match policy {
        Policy::Remediate => proto::Policy::Remediate,
        Policy::RemediateAndAlert => proto::Policy::RemediateAndAlert,
        Policy::AlertOnly => proto::Policy::AlertOnly,
    }
    .into()
}

/// None for one that is not known.
pub(super) fn policy(policy: proto::Policy) -> Option<Policy> {
    match policy {
        proto::Policy::Remediate => Some(Policy::Remediate),
        proto::Policy::RemediateAndAlert => Some(Policy::RemediateAndAlert),
        proto::Policy::AlertOnly => Some(Policy::AlertOnly),
        proto::Policy::Unspecified => None,
    }
}

pub(super) fn on_failure_to_proto(on_failure: OnFailure) -> i32 {
    match on_failure {
        OnFailure::Abort => proto::OnFailure::Abort,
        OnFailure::Continue => proto::OnFailure::Continue,
    }
    .into()
}

/// None for one that is not known.
pub(super) fn on_failure(on_failure: proto::OnFailure) -> Option<OnFailure> {
    match on_failure {
        proto::OnFailure::Abort => Some(OnFailure::Abort),
        proto::OnFailure::Continue => Some(OnFailure::Continue),
        proto::OnFailure::Unspecified => None,
    }
}

pub(super) fn unit_state_to_proto(state: UnitState) -> i32 {
    match state {
        UnitState::Running => proto::UnitState::Running,
        UnitState::Stopped => proto::UnitState::Stopped,
    }
    .into()
}

/// None for one that is not known.
pub(super) fn unit_state(state: proto::UnitState) -> Option<UnitState> {
    match state {
        proto::UnitState::Running => Some(UnitState::Running),
        proto::UnitState::Stopped => Some(UnitState::Stopped),
        proto::UnitState::Unspecified => None,
    }
}
