//! HCL text to model, or every diagnostic with its exact place.
//!
//! Knows nothing of Git, disks or agents: it takes a [`tree::Tree`] and gives back values.

pub mod fmt;
pub mod hcl;
mod load;
mod locals;
pub mod render;
mod schema;
pub mod tree;

pub use load::{DEFAULT_GLOB, GlobError, Loaded, Loader};
