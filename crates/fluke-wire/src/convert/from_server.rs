//! What servers say.

use fluke_model::bounds::MAX_DEPLOYMENTS;
use fluke_model::id::{ServiceName, SessionId};
use fluke_model::message::{DirectoryEdit, RecordId, Scope, ToAgent, Welcome};
use fluke_model::service::DeploymentId;

use super::MAX_VERSION;
use super::directory::{
    claim_from_proto, claim_to_proto, edit_to_proto, names_from_proto, peers_from_proto,
    placements_from_proto, routes_from_proto,
};
use super::parts::{
    hash, hash_to_proto, instruction, instruction_to_proto, interval, millis_to_proto, named,
    required, steps, steps_to_proto, trigger, trigger_to_proto,
};
use super::services::deployment_id;
use super::snapshot::{snapshot_from_proto, snapshot_to_proto};
use super::text::{at_most, clip_line, line};
use crate::error::WireError;
use crate::proto;
use crate::proto::server_message::Body;

pub(crate) fn to_agent_to_proto(message: ToAgent) -> Body {
    match message {
        ToAgent::Welcome(welcome) => Body::Welcome(welcome_to_proto(welcome)),
        ToAgent::Heartbeat => Body::Heartbeat(proto::Heartbeat {}),
        ToAgent::Snapshot { commit, snapshot, is_moved } => Body::Snapshot(proto::Snapshot {
            moved: is_moved,
            ..snapshot_to_proto(&commit, &snapshot)
        }),
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
        ToAgent::Directory(edit) => edit_to_proto(edit),
        ToAgent::Subnet(claim) => Body::Subnet(claim_to_proto(claim)),
        ToAgent::Released(deployments) => Body::Released(proto::Released {
            deployments: deployments.iter().map(|id| hash_to_proto(id.0)).collect(),
        }),
        ToAgent::Settle { instruction, service, trigger } => Body::Settle(proto::Settle {
            instruction: Some(instruction_to_proto(instruction)),
            service: service.map(String::from),
            trigger: Some(trigger_to_proto(trigger)),
        }),
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
        Body::Part(_) => {
            return Err(WireError::Misplaced { expected: "a message", found: "a part of one" });
        }
        Body::Heartbeat(proto::Heartbeat {}) => ToAgent::Heartbeat,
        Body::Snapshot(snapshot) => {
            let is_moved = snapshot.moved;
            let (commit, snapshot) =
                snapshot_from_proto(snapshot).map_err(|error| error.within("snapshot"))?;
            ToAgent::Snapshot { commit, snapshot, is_moved }
        }
        Body::Check(check) => check_from_proto(check).map_err(|error| error.within("check"))?,
        Body::Apply(apply) => apply_from_proto(apply).map_err(|error| error.within("apply"))?,
        Body::Ack(ack) => ToAgent::Ack { record: RecordId(ack.record) },
        Body::Names(edit) => {
            ToAgent::Directory(names_from_proto(edit).map_err(|error| error.within("names"))?)
        }
        Body::Routes(edit) => {
            match routes_from_proto(edit).map_err(|error| error.within("routes"))? {
                Some(edit) => ToAgent::Directory(edit),
                None => return Ok(None),
            }
        }
        Body::Peers(edit) => {
            ToAgent::Directory(peers_from_proto(edit).map_err(|error| error.within("peers"))?)
        }
        Body::Placements(edit) => {
            let edit = placements_from_proto(edit).map_err(|error| error.within("placements"))?;
            ToAgent::Directory(DirectoryEdit::Placements(edit))
        }
        Body::Subnet(claim) => {
            ToAgent::Subnet(claim_from_proto(claim).map_err(|error| error.within("subnet"))?)
        }
        Body::Released(released) => {
            ToAgent::Released(released_from_proto(released).map_err(|e| e.within("released"))?)
        }
        Body::Settle(settle) => settle_from_proto(settle).map_err(|e| e.within("settle"))?,
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

fn released_from_proto(wire: proto::Released) -> Result<Vec<DeploymentId>, WireError> {
    let deployments = at_most("deployments", wire.deployments, MAX_DEPLOYMENTS)?;
    deployments.iter().map(|id| deployment_id("deployments", id)).collect()
}

fn settle_from_proto(wire: proto::Settle) -> Result<ToAgent, WireError> {
    let service = wire.service.map(|name| named("service", ServiceName::new(name)));
    Ok(ToAgent::Settle {
        instruction: instruction("instruction", wire.instruction)?,
        service: service.transpose()?,
        trigger: trigger("trigger", wire.trigger)?,
    })
}
