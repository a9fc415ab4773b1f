//! What happens on drift: the one decision the server makes for a task, as a function.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task::OnFailure;
use crate::verdict::Verdict;

/// What happens on drift.
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
pub enum Policy {
    /// Put it right, and say nothing.
    #[default]
    Remediate,
    /// Put it right, and tell.
    RemediateAndAlert,
    /// Tell, and wait for a human.
    AlertOnly,
}

impl Policy {
    /// All policies, in the order they are documented.
    pub const ALL: [Policy; 3] = [Self::Remediate, Self::RemediateAndAlert, Self::AlertOnly];

    /// The name used in manifests, configs and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remediate => "remediate",
            Self::RemediateAndAlert => "remediate_and_alert",
            Self::AlertOnly => "alert_only",
        }
    }

    /// Whether drift is told to the alert webhook.
    pub fn alerts(self) -> bool {
        self != Self::Remediate
    }

    /// Whether drift is put right without anybody asking.
    pub fn remediates(self) -> bool {
        self != Self::AlertOnly
    }
}

/// Why a cycle was started. Recorded and shown; only `Manual` is ever branched on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// A commit changed the host's snapshot.
    Commit,
    /// Replicas of a service moved: the commit is what it was.
    Placement,
    /// `poll_interval` has passed since the last cycle.
    Poll,
    /// The agent connected.
    Connect,
    /// The agent saw something change.
    Watch,
    /// A failed task is due for another try.
    Retry,
    /// The agent repaired it on its own while the server was away.
    Offline,
    /// Somebody asked.
    Manual {
        /// Who.
        by: String,
    },
}

impl Trigger {
    /// Whether somebody asked, so that policies and pauses do not hold it up.
    pub fn is_manual(&self) -> bool {
        matches!(self, Self::Manual { .. })
    }

    /// The name used in events.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Placement => "placement",
            Self::Poll => "poll",
            Self::Connect => "connect",
            Self::Watch => "watch",
            Self::Retry => "retry",
            Self::Offline => "offline",
            Self::Manual { .. } => "manual",
        }
    }

    /// Who asked, if somebody did.
    pub fn by(&self) -> Option<&str> {
        match self {
            Self::Manual { by } => Some(by),
            _ => None,
        }
    }
}

/// What is known of one step when its task is decided upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Not checked yet.
    Unknown,
    /// The check agreed.
    Satisfied,
    /// The check disagreed.
    Drifted,
    /// The check could not tell.
    Error,
}

impl From<&Verdict> for Finding {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Satisfied => Self::Satisfied,
            Verdict::Drifted(_) => Self::Drifted,
            Verdict::Error { .. } => Self::Error,
        }
    }
}

/// What to do about one task on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Every step is as it should be, or unknown; nothing to do.
    Nothing,
    /// Apply these steps, by their position in the task.
    Apply(Vec<usize>),
    /// Drifted; the policy leaves it to a human.
    AwaitHuman,
    /// Drifted; it failed before, and its pause is not over.
    HoldOff,
    /// Drifted, but an earlier step's check could not tell, and that step says `abort`.
    Blocked,
}

/// Decides what to do about a task, from what is known of its steps in declaration order.
///
/// `manual` overrides the policy and any pause; nothing overrides a check that could not tell.
pub fn decide(
    policy: Policy,
    manual: bool,
    paused: bool,
    findings: impl IntoIterator<Item = (Finding, OnFailure)>,
) -> Decision {
    let mut due = Vec::new();
    let mut drifted = false;
    let mut blocked = false;
    for (position, (finding, on_failure)) in findings.into_iter().enumerate() {
        match finding {
            Finding::Drifted if blocked => drifted = true,
            Finding::Drifted => {
                drifted = true;
                due.push(position);
            }
            Finding::Error => blocked |= on_failure == OnFailure::Abort,
            Finding::Satisfied | Finding::Unknown => {}
        }
    }
    match () {
        () if !drifted => Decision::Nothing,
        () if due.is_empty() => Decision::Blocked,
        () if manual => Decision::Apply(due),
        () if !policy.remediates() => Decision::AwaitHuman,
        () if paused => Decision::HoldOff,
        () => Decision::Apply(due),
    }
}

/// The longest pause between two tries of a failing task.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// How long to leave a task alone after its `failures`th failure in a row.
pub fn pause_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    Duration::from_secs(10 << doublings).min(LONGEST_PAUSE)
}

/// A task that was well for less than this had only seemed so.
pub const LASTING: Duration = Duration::from_secs(3);

/// So many relapses in a row are put right at once; then with growing pauses.
pub const FREE_RELAPSES: u32 = 30;

/// Counts how often a task that was well, put right or by itself, drifted again right away.
///
/// A service that is killed is to be running again at once. One that starts and dies, over and over,
/// is to be left alone for longer and longer, like a task whose apply fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Relapses {
    drifted: bool,
    well_since: Option<Instant>,
    count: u32,
}

impl Relapses {
    /// The task is as it should be.
    pub fn found_well(&mut self, now: Instant) {
        if std::mem::take(&mut self.drifted) {
            self.well_since = Some(now);
        }
    }

    /// The task is not as it should be; tells how long to leave it alone, where it should be.
    pub fn found_drifted(&mut self, now: Instant) -> Option<Duration> {
        if std::mem::replace(&mut self.drifted, true) {
            return None;
        }
        let lasted = self.well_since.take().map(|since| now.saturating_duration_since(since));
        self.count = match lasted {
            Some(lasted) if lasted < LASTING => self.count.saturating_add(1),
            _ => 0,
        };
        self.count.checked_sub(FREE_RELAPSES).filter(|beyond| *beyond > 0).map(pause_after)
    }
}

#[cfg(test)]
mod tests {
    use super::Finding::*;
    use super::OnFailure::*;
    use super::*;

    #[test]
    fn one_decision_for_each_situation() {
        use Policy::*;
        for (case, policy, manual, paused, findings, decision) in [
            ("in sync", Remediate, false, false, vec![(Satisfied, Abort)], Decision::Nothing),
            ("unchecked", Remediate, false, false, vec![(Unknown, Abort)], Decision::Nothing),
            (
                "drifted",
                Remediate,
                false,
                false,
                vec![(Satisfied, Abort), (Drifted, Abort)],
                Decision::Apply(vec![1]),
            ),
            (
                "told too",
                RemediateAndAlert,
                false,
                false,
                vec![(Drifted, Abort)],
                Decision::Apply(vec![0]),
            ),
            ("a human's", AlertOnly, false, false, vec![(Drifted, Abort)], Decision::AwaitHuman),
            (
                "a human asked",
                AlertOnly,
                true,
                false,
                vec![(Drifted, Abort)],
                Decision::Apply(vec![0]),
            ),
            ("failed before", Remediate, false, true, vec![(Drifted, Abort)], Decision::HoldOff),
            (
                "failed, and asked",
                Remediate,
                true,
                true,
                vec![(Drifted, Abort)],
                Decision::Apply(vec![0]),
            ),
            ("cannot tell", Remediate, false, false, vec![(Error, Abort)], Decision::Nothing),
            (
                "error in front",
                Remediate,
                true,
                false,
                vec![(Error, Abort), (Drifted, Abort)],
                Decision::Blocked,
            ),
            (
                "error passed over",
                Remediate,
                false,
                false,
                vec![(Error, Continue), (Drifted, Abort)],
                Decision::Apply(vec![1]),
            ),
            (
                "error behind",
                Remediate,
                false,
                false,
                vec![(Drifted, Abort), (Error, Abort), (Drifted, Abort)],
                Decision::Apply(vec![0]),
            ),
        ] {
            assert_eq!(decide(policy, manual, paused, findings), decision, "{case}");
        }
    }

    #[test]
    fn pauses_grow_to_ten_minutes() {
        let seconds: Vec<u64> = (1..9).map(|n| pause_after(n).as_secs()).collect();
        assert_eq!(seconds, [10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
    }

    #[test]
    fn what_drifts_again_and_again_right_after_it_was_well_is_left_alone_for_longer_and_longer() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut relapses = Relapses::default();
        assert_eq!(relapses.found_drifted(start), None, "the first drift");
        assert_eq!(relapses.found_drifted(start), None, "the same drift");
        let relapse = |relapses: &mut Relapses| {
            relapses.found_well(start);
            relapses.found_drifted(start + second)
        };
        for _ in 0..FREE_RELAPSES {
            assert_eq!(relapse(&mut relapses), None);
        }
        assert_eq!(relapse(&mut relapses), Some(10 * second));
        assert_eq!(relapse(&mut relapses), Some(20 * second));
        relapses.found_well(start);
        assert_eq!(relapses.found_drifted(start + LASTING), None, "that one lasted");
        assert_eq!(relapse(&mut relapses), None, "and the count starts anew");
    }
}
