//! The server's half of fluke: Git → desired state → reconciliation → events, alerts, API.

pub mod alert;
pub mod changes;
pub mod events;
pub mod folder;
pub mod git;
pub mod reconcile;
pub mod reconciles;
pub mod registry;
pub mod source;
pub mod trust;
pub mod webhook;
