//! What others need for the same work.

use serde::{Deserialize, Serialize};

use crate::statistics::Summary;

/// A figure of somebody else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerFigure {
    /// Who, and which version.
    pub peer: String,
    /// Which work.
    pub work: String,
    /// Seconds; none where it could not be done here.
    pub measured: Option<Summary>,
    /// Why not, or what has to be known.
    pub note: String,
}
