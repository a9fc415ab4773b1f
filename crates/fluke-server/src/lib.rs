//! .

pub mod alert;
pub mod changes;
pub mod events;
