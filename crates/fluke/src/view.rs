//! What the API returned, laid out for people. Functions over values: nothing is fetched here.

pub mod agent;
pub mod event_line;
pub mod fleet;
pub mod reconcile;
pub mod service;
pub mod source;
pub mod task;

#[cfg(test)]
mod tests;
