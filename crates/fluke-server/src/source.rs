//! Stand-in.

use fluke_model::id::CommitId;
use fluke_model::snapshot::{Compiler, Model};
use fluke_model::time::Timestamp;

/// What Git says.
pub struct Desired {
    /// Which commit.
    pub commit: CommitId,
    /// Since when.
    pub since: Timestamp,
    /// What it says.
    pub model: Model,
    /// Makes snapshots of it.
    pub compiler: Compiler,
}
