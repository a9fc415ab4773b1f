//! .

pub mod changes;
pub mod events;
