//! The wire between server and agent: one gRPC stream an agent, opened by the agent.
//!
//! ```text
//!  fluke-agent                                                     fluke-server
//!  client::connect ─▶ Session { welcome, outgoing, incoming }      server::serve(fleet, …)
//!                       │ ToServer            ▲ ToAgent              │ Fleet::admit, enter
//!                       ▼                     │                      ▼
//!                     convert ══ proto/fluke/v1/agent.proto ══ convert ─▶ Link { outgoing, incoming }
//! ```
//!
//! Everybody else speaks [`fluke_model::message`]; no protobuf type is named outside this crate.
//! It knows no behaviour: who may enter, when to send a heartbeat and what to do about a message
//! is for its callers. What it does see to is that a message keeps to the grammar and the bounds,
//! belongs to this session, and comes once and in order.

pub mod client;
mod codec;
mod convert;
mod error;
mod refusal;
mod sequence;
pub mod server;
pub mod tcp;

pub use convert::{MAX_EXECUTORS, MAX_LABELS, MAX_STEPS};
pub use error::WireError;
pub use fluke_model::secret::{Secret, SecretDigest};
pub use refusal::Refusal;

/// The largest message that an agent takes: a snapshot.
pub const MAX_TO_AGENT: usize = 64 * 1024 * 1024;
/// The most of a message to an agent that goes out as one; the rest follows. A stream keeps room for
/// it for good, and a server has thousands of them.
const PART: usize = 4 * 1024;
/// The largest message that a server takes.
pub const MAX_TO_SERVER: usize = 8 * 1024 * 1024;
/// The port that agents are served on where none is named.
pub const DEFAULT_PORT: u16 = 7070;

/// Generated from `proto/fluke/v1/agent.proto`.
mod proto {
    tonic::include_proto!("fluke.v1");
}

#[cfg(test)]
mod tests;
