//! What an installation has made, so that it can be undone: that, and nothing else.

use std::path::{Path, PathBuf};

use fluke_model::id::Hash256;
use serde::{Deserialize, Serialize};

/// Everything that was made, in the order it was made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Record {
    /// One thing each.
    pub made: Vec<Made>,
}

/// A thing that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Made {
    /// The program.
    Program {
        /// Where.
        path: PathBuf,
    },
    /// A unit file, with what was written to it.
    Unit {
        /// Where.
        path: PathBuf,
        /// Of its content.
        sha256: Hash256,
    },
    /// A config or variables: the operator's, once written.
    Settings {
        /// Where.
        path: PathBuf,
    },
    /// What a service keeps.
    State {
        /// Where.
        path: PathBuf,
    },
    /// A folder.
    Folder {
        /// Where.
        path: PathBuf,
    },
    /// A user of the system.
    User {
        /// Its name.
        name: String,
    },
}

impl Made {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unit { path, .. }, Self::Unit { path: other, .. }) => path == other,
            (one, other) => one == other,
        }
    }
}

impl Record {
    /// Remembers `made`; once, and as it was made last.
    pub fn add(&mut self, made: Made) {
        match self.made.iter_mut().find(|known| known.is_same(&made)) {
            Some(known) => *known = made,
            None => self.made.push(made),
        }
    }

    /// Whether `made` is among them.
    pub fn has(&self, made: &Made) -> bool {
        self.made.iter().any(|known| known.is_same(made))
    }

    /// What was written to the unit file at `path`, if it was written here.
    pub fn unit(&self, path: &Path) -> Option<Hash256> {
        self.made.iter().find_map(|made| match made {
            Made::Unit { path: own, sha256 } if own == path => Some(*sha256),
            _ => None,
        })
    }

    /// As it is written down.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
