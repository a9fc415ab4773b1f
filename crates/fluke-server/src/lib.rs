//! The server's half of fluke. In the order that a commit takes:
//!
//! ```text
//! git, folder ─▶ source ─▶ fleet ─▶ session ─▶ reconcile ─▶ outlets: events, alert, changes
//!    webhook ────┘          │ trust   │ registry               └─▶ http
//!                           └─ tls    └─ reconciles
//! ```

pub mod folder;
pub mod git;
pub mod source;
pub mod webhook;

pub mod fleet;
pub mod reconcile;
pub mod reconciles;
pub mod registry;
pub mod session;
pub mod trust;

pub mod alert;
pub mod changes;
pub mod events;
pub mod outlets;
