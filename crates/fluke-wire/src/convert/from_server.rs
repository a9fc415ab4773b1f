//! What servers say.

use fluke_model::id::SessionId;
use fluke_model::message::{RecordId, Scope, ToAgent, Welcome};

use super::MAX_VERSION;
use super::parts::{
    hash, hash_to_proto, instruction, instruction_to_proto, interval, millis_to_proto, required,
    steps, steps_to_proto, trigger, trigger_to_proto,
};
use super::snapshot::{snapshot_from_proto, snapshot_to_proto};
use super::text::{clip_line, line};
use crate::error::WireError;
use crate::proto;
use crate::proto::server_message::Body;

pub(crate) fn to_agent_to_proto(message: ToAgent) -> Body {
    match message {
        ToAgent::Welcome(welcome) => Body::Welcome(welcome_to_proto(welcome)),
        ToAgent::Heartbeat => Body::Heartbeat(proto::Heartbeat {}),
        ToAgent::Snapshot { commit, snapshot } => {
            Body::Snapshot(snapshot_to_proto(&commit, &snapshot))
        }
        ToAgent::Check { instruction, snapshot, steps } => Body::Check(proto::Check {
            instruction: Some(instruction_to_proto(instruction)),
            snapshot: hash_to_proto(snapshot),
            scope: Some(scope_to_proto(steps)),
        }),
        ToAgent::Apply { instruction, snapshot, steps, trigger } => Body::Apply(proto::Apply {
            instruction: Some(instruction_to_proto(instruction)),
            snapshot: hash_to_proto(snapshot),
            steps: Some(steps_to_proto(steps)),
            trigger: Some(trigger_to_proto(trigger)),
        }),
        ToAgent::Ack { record } => Body::Ack(proto::Ack { record: record.0 }),
    }
}

/// None for what a newer server says and this version does not know. Never a welcome, which is
/// read with its envelope: see [`welcome_from_proto`].
pub(crate) fn to_agent_from_proto(body: Option<Body>) -> Result<Option<ToAgent>, WireError> {
    let Some(body) = body else { return Ok(None) };
    Ok(Some(match body {
        Body::Welcome(_) => {
            return Err(WireError::Misplaced { expected: "a message", found: "a second Welcome" });
        }
        Body::Heartbeat(proto::Heartbeat {}) => ToAgent::Heartbeat,
        Body::Snapshot(snapshot) => {
            let (commit, snapshot) =
                snapshot_from_proto(snapshot).map_err(|error| error.within("snapshot"))?;
            ToAgent::Snapshot { commit, snapshot }
        }
        Body::Check(check) => check_from_proto(check).map_err(|error| error.within("check"))?,
        Body::Apply(apply) => apply_from_proto(apply).map_err(|error| error.within("apply"))?,
        Body::Ack(ack) => ToAgent::Ack { record: RecordId(ack.record) },
    }))
}

/// Without the session, which the envelope carries.
pub(crate) fn welcome_to_proto(welcome: Welcome) -> proto::Welcome {
    proto::Welcome {
        heartbeat_ms: millis_to_proto(welcome.heartbeat),
        poll_interval_ms: millis_to_proto(welcome.poll_interval),
        version: clip_line(welcome.version, MAX_VERSION),
    }
}

pub(crate) fn welcome_from_proto(session: u64, wire: proto::Welcome) -> Result<Welcome, WireError> {
    Ok(Welcome {
        session: SessionId(session),
        heartbeat: interval("welcome.heartbeat_ms", wire.heartbeat_ms)?,
        poll_interval: interval("welcome.poll_interval_ms", wire.poll_interval_ms)?,
        version: line("welcome.version", wire.version, MAX_VERSION)?,
    })
}

fn scope_to_proto(scope: Scope) -> proto::check::Scope {
    match scope {
        Scope::All => proto::check::Scope::All(proto::AllSteps {}),
        Scope::Steps(steps) => proto::check::Scope::Steps(steps_to_proto(steps)),
    }
}

fn check_from_proto(wire: proto::Check) -> Result<ToAgent, WireError> {
    Ok(ToAgent::Check {
        instruction: instruction("instruction", wire.instruction)?,
        snapshot: hash("snapshot", &wire.snapshot)?,
        steps: match wire.scope {
            Some(proto::check::Scope::Steps(wire)) => Scope::Steps(steps("steps", wire)?),
            // Checks only look, so looking at too much is the harmless side.
            Some(proto::check::Scope::All(proto::AllSteps {})) | None => Scope::All,
        },
    })
}

fn apply_from_proto(wire: proto::Apply) -> Result<ToAgent, WireError> {
    Ok(ToAgent::Apply {
        instruction: instruction("instruction", wire.instruction)?,
        snapshot: hash("snapshot", &wire.snapshot)?,
        steps: steps("steps", required("steps", wire.steps)?)?,
        trigger: trigger("trigger", wire.trigger)?,
    })
}
