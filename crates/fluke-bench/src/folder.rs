//! A folder that goes with the value.

use tempfile::TempDir;

use crate::row::Trouble;

/// A new one, which nobody else has.
pub fn folder() -> Result<TempDir, Trouble> {
    TempDir::with_prefix("fluke-bench-").map_err(|error| Trouble::failed("make a folder", error))
}
