//! The agent: keeps one host as its snapshot says.
//!
//! ```text
//!  server ══ session ─▶ agent ─▶ state      what next? (pure)
//!                         │
//!                         ├────▶ executor ─▶ host      check, apply
//!                         └────▶ store                 what survives a restart
//! ```
//!
//! Knows nothing of Git sources, HCL, selectors or other agents.

pub mod agent;
pub mod executor;
pub mod host;
pub mod journal;
pub mod services;
mod session;
pub mod state;
pub mod store;
pub mod world;

pub use agent::{AgentConfig, AgentError, AgentStatus, Ending, run, run_in, run_until};
pub use executor::Allow;
pub use services::ServicesConfig;
