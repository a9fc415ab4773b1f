//! The server's half of fluke. In the order that a commit takes:
//!
//! ```text
//! git, folder ─▶ source ─▶ fleet ─▶ session ─▶ reconcile ─▶ outlets: events, alert, changes
//!    webhook ────┘          │ trust   │ registry               └─▶ http
//!                           └─ tls    └─ reconciles
//! ```
//!
//! [`server`] puts it all together.

pub mod folder;
pub mod git;
pub mod source;
pub mod webhook;

pub mod clock;
mod complaints;
pub mod fleet;
pub mod reconcile;
pub mod reconciles;
pub mod registry;
pub mod session;
pub mod strikes;
pub mod tls;
pub mod trust;

pub mod alert;
pub mod changes;
pub mod events;
pub mod http;
pub mod meter;
pub mod outlets;

pub mod server;
pub mod services;
