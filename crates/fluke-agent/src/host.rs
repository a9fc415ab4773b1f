//! The host as the agent touches it. Only here: processes, users, files, the environment.

pub mod environment;
pub mod files;
pub mod output;
pub mod process;
pub mod users;
