//! Services as the server sees them: who runs what, where replicas belong, and what all hosts are
//! told of each other.
//!
//! ```text
//! sessions ──▶ desk ──▶ book: view, claims ──▶ sheets ──▶ desk ──▶ sessions
//! ```

pub mod alarms;
pub mod book;
pub mod bulletin;
pub mod claims;
pub mod desk;
pub mod editions;
#[cfg(test)]
pub(crate) mod fixture;
pub mod host;
pub mod hosts;
pub mod listing;
pub mod moves;
pub mod sheet;
pub mod view;
pub mod way;
