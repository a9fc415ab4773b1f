//! Config files.

pub mod expand;
