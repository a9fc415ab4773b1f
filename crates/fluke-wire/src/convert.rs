//! Model to protobuf and back.
//!
//! To protobuf cannot fail: texts beyond their bounds are cut, and say so. From protobuf checks
//! everything, since anybody may be at the other end: grammar, bounds, hashes. What a newer
//! version may have added is tolerated, always to the harmless side.

mod directory;
mod from_agent;
mod from_server;
mod parts;
mod services;
mod snapshot;
mod text;

use fluke_model::bounds;

pub(crate) use from_agent::{hello_from_proto, to_server_from_proto, to_server_to_proto};
pub(crate) use from_server::{
    to_agent_from_proto, to_agent_to_proto, welcome_from_proto, welcome_to_proto,
};

/// The most labels an agent may have.
pub const MAX_LABELS: usize = 64;
/// The most kinds of steps an agent may name.
pub const MAX_EXECUTORS: usize = 64;
/// The most steps a snapshot may have.
pub const MAX_STEPS: usize = 100_000;
/// The most routes that a proxy says it leaves out; what is more goes unsaid.
pub(crate) const MAX_LEFT_OUT: usize = 10_000;

/// The most replicas a host may have.
pub const MAX_REPLICAS: usize = bounds::MAX_REPLICAS as usize;
/// The most addresses a host may be reached at.
pub(crate) const MAX_ENDPOINTS: usize = 16;
/// Bytes of a reason: why something is drifted, or could not be told.
pub(crate) const MAX_REASON: usize = 4 * 1024;
/// Bytes of a diff.
pub(crate) const MAX_DIFF: usize = 16 * 1024;
/// Bytes of a program's version.
pub(crate) const MAX_VERSION: usize = 128;
/// Bytes of a commit's id.
pub(crate) const MAX_COMMIT: usize = 128;
/// Bytes of who asked.
pub(crate) const MAX_BY: usize = 256;

#[cfg(test)]
pub(crate) mod tests;
