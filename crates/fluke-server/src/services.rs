//! Services as the server sees them: who runs what, where replicas belong, and what all hosts are
//! told of each other.

pub mod claims;
pub mod view;
