//! Colours, and what they stand for.

use fluke_model::api::ReconcileState;
use fluke_model::status::{Status, StepStatus};
use fluke_model::verdict::Outcome;

/// How a piece of text is shown on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// As it is.
    #[default]
    Plain,
    /// Headings and names.
    Bold,
    /// Less important.
    Dim,
    /// Wrong.
    Red,
    /// Right.
    Green,
    /// Not as it should be, or worth a look.
    Yellow,
    /// Under way.
    Cyan,
    /// Wrong, and not to be changed now.
    DimRed,
}

impl Paint {
    /// Wraps `text` in what a terminal needs, if there are `colours`.
    pub fn on(self, text: &str, colours: bool) -> String {
        match self.code() {
            Some(code) if colours && !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_string(),
        }
    }

    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Dim => Some("2"),
            Self::Red => Some("31"),
            Self::Green => Some("32"),
            Self::Yellow => Some("33"),
            Self::Cyan => Some("36"),
            Self::DimRed => Some("2;31"),
        }
    }
}

impl From<Status> for Paint {
    fn from(status: Status) -> Self {
        match status {
            Status::InSync => Self::Green,
            Status::Drifted => Self::Yellow,
            Status::Applying => Self::Cyan,
            Status::Failed => Self::Red,
            Status::Unknown => Self::Dim,
            Status::Offline => Self::DimRed,
        }
    }
}

impl From<StepStatus> for Paint {
    fn from(status: StepStatus) -> Self {
        match status {
            StepStatus::InSync => Self::Green,
            StepStatus::Drifted => Self::Yellow,
            StepStatus::Applying => Self::Cyan,
            StepStatus::Failed | StepStatus::AppliedButDrifted => Self::Red,
            StepStatus::Unknown => Self::Dim,
        }
    }
}

impl From<Outcome> for Paint {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success | Outcome::Healed => Self::Green,
            Outcome::Skipped => Self::Yellow,
            Outcome::Failure | Outcome::AppliedButDrifted | Outcome::Interrupted => Self::Red,
        }
    }
}

impl From<ReconcileState> for Paint {
    fn from(state: ReconcileState) -> Self {
        match state {
            ReconcileState::Waiting => Self::Dim,
            ReconcileState::Checking | ReconcileState::Applying => Self::Cyan,
            ReconcileState::Done => Self::Green,
            ReconcileState::Failed => Self::Red,
            ReconcileState::Offline => Self::DimRed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_colour_where_there_should_be_none() {
        assert_eq!(Paint::Red.on("x", false), "x");
        assert_eq!(Paint::Plain.on("x", true), "x");
        assert_eq!(Paint::Red.on("", true), "");
        assert_eq!(Paint::Red.on("x", true), "\u{1b}[31mx\u{1b}[0m");
    }
}
