//! How things stand: of a step, of a task on a host, of a host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one step stands on one host.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not checked since the server or the snapshot is new.
    #[default]
    Unknown,
    /// As it should be.
    InSync,
    /// Not as it should be.
    Drifted,
    /// Being put right now.
    Applying,
    /// Its check could not tell, or its apply failed.
    Failed,
    /// Applied without error, and its check still says no.
    AppliedButDrifted,
}

/// How a task, or all tasks of a host together, stand.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    InSync,
    /// Something is not as it should be.
    Drifted,
    /// Something is being put right now.
    Applying,
    /// Something could not be checked or put right.
    Failed,
    /// Something has not been checked yet.
    #[default]
    Unknown,
    /// The host is not connected.
    Offline,
}

impl StepStatus {
    /// The name used in JSON and on the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::InSync => "in_sync",
            Self::Drifted => "drifted",
            Self::Applying => "applying",
            Self::Failed => "failed",
            Self::AppliedButDrifted => "applied_but_drifted",
        }
    }

    /// Whether the host is not as Git says, as far as this step goes.
    pub fn is_drifted(self) -> bool {
        matches!(self, Self::Drifted | Self::Applying | Self::Failed | Self::AppliedButDrifted)
    }
}

impl Status {
    /// Every status there is, in the order they are documented.
    pub const ALL: [Status; 6] =
        [Self::InSync, Self::Drifted, Self::Applying, Self::Failed, Self::Unknown, Self::Offline];

    /// The name used in JSON and on the terminal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InSync => "in_sync",
            Self::Drifted => "drifted",
            Self::Applying => "applying",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Offline => "offline",
        }
    }

    /// Sums up steps: what is under way first, then what is worst. No steps: in sync.
    pub fn of_steps(steps: impl IntoIterator<Item = StepStatus>) -> Self {
        Self::of(steps.into_iter().map(|step| match step {
            StepStatus::Unknown => Self::Unknown,
            StepStatus::InSync => Self::InSync,
            StepStatus::Drifted => Self::Drifted,
            StepStatus::Applying => Self::Applying,
            StepStatus::Failed | StepStatus::AppliedButDrifted => Self::Failed,
        }))
    }

    /// Sums up parts: what is under way first, then what is worst. No parts: in sync.
    pub fn of(parts: impl IntoIterator<Item = Status>) -> Self {
        parts.into_iter().max_by_key(|status| status.weight()).unwrap_or(Self::InSync)
    }

    fn weight(self) -> u8 {
        match self {
            Self::InSync => 0,
            Self::Unknown => 1,
            Self::Drifted => 2,
            Self::Failed => 3,
            Self::Applying => 4,
            Self::Offline => 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_shows_what_is_under_way_then_what_is_worst() {
        use StepStatus::*;
        for (steps, sum) in [
            (&[][..], Status::InSync),
            (&[InSync, InSync][..], Status::InSync),
            (&[InSync, Unknown][..], Status::Unknown),
            (&[Unknown, Drifted][..], Status::Drifted),
            (&[Drifted, Failed][..], Status::Failed),
            (&[AppliedButDrifted, InSync][..], Status::Failed),
            (&[Failed, Applying][..], Status::Applying),
        ] {
            assert_eq!(Status::of_steps(steps.iter().copied()), sum, "{steps:?}");
        }
    }
}
