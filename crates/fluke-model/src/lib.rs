//! The nouns of fluke, and the decisions made over them.
//!
//! Everything here is a value or a function over values: no I/O, no async, no clock (`now` is
//! always an argument), no HCL, no protobuf. The server and the agent meet only in these types.

pub mod api;
pub mod bounds;
pub mod deployments;
pub mod diagnostic;
pub mod directory;
pub mod event;
pub mod gather;
pub mod id;
pub mod label;
pub mod message;
pub mod parallel;
pub mod placement;
pub mod policy;
pub mod secret;
pub mod service;
pub mod snapshot;
pub mod status;
pub mod task;
pub mod time;
pub mod verdict;
pub mod volume;
