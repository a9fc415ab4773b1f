//! HCL text to model, or every diagnostic with its exact place.
//!
//! Knows nothing of Git, disks or agents: it takes a [`tree::Tree`] and gives back values.

pub mod fmt;
pub mod hcl;
pub mod render;
pub mod tree;
