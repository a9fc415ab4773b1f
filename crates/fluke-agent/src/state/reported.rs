//! What the server knows of the steps, so that it is told only what changed.

use fluke_model::id::Hash256;
use fluke_model::message::StepReport;
use fluke_model::snapshot::StepIndex;
use fluke_model::verdict::Verdict;

/// What was reported in this session about one snapshot.
#[derive(Debug, Default)]
pub struct Reported {
    snapshot: Option<Hash256>,
    verdicts: Vec<Option<Verdict>>,
}

impl Reported {
    /// What is news to the server among verdicts about `snapshot`, which it now knows.
    pub fn news(
        &mut self,
        snapshot: Hash256,
        found: impl IntoIterator<Item = (StepIndex, Verdict)>,
    ) -> Vec<StepReport> {
        self.turn_to(snapshot);
        let mut news = Vec::new();
        for (step, verdict) in found {
            let known = self.known(step);
            if known.as_ref() != Some(&verdict) {
                *known = Some(verdict.clone());
                news.push(StepReport { step, verdict });
            }
        }
        news
    }

    /// Something was done about a step: whatever its next check says is news. A record may reach
    /// a server that cannot make use of it yet, so it never stands in for a report.
    pub fn forget(&mut self, snapshot: Hash256, step: StepIndex) {
        self.turn_to(snapshot);
        *self.known(step) = None;
    }

    fn turn_to(&mut self, snapshot: Hash256) {
        if self.snapshot != Some(snapshot) {
            *self = Self { snapshot: Some(snapshot), verdicts: Vec::new() };
        }
    }

    fn known(&mut self, step: StepIndex) -> &mut Option<Verdict> {
        let at = step.0 as usize;
        if self.verdicts.len() <= at {
            self.verdicts.resize(at + 1, None);
        }
        &mut self.verdicts[at]
    }
}

#[cfg(test)]
mod tests {
    use fluke_model::verdict::Drift;

    use super::*;

    const FIRST: StepIndex = StepIndex(0);
    const THIRD: StepIndex = StepIndex(2);

    fn drifted(reason: &str) -> Verdict {
        Verdict::Drifted(Drift::because(reason))
    }

    fn steps(news: Vec<StepReport>) -> Vec<u32> {
        news.into_iter().map(|report| report.step.0).collect()
    }

    #[test]
    fn only_what_changed_is_news() {
        let (one, other) = (Hash256::of(b"one"), Hash256::of(b"other"));
        let mut reported = Reported::default();
        let all = || [(FIRST, Verdict::Satisfied), (THIRD, drifted("missing"))];
        assert_eq!(steps(reported.news(one, all())), [0, 2], "all the first time");
        assert_eq!(steps(reported.news(one, all())), [0; 0], "nothing changed");
        assert_eq!(steps(reported.news(one, [(THIRD, drifted("older"))])), [2], "another reason");
        assert_eq!(steps(reported.news(other, all())), [0, 2], "another snapshot");
    }

    #[test]
    fn whatever_a_check_says_after_an_apply_is_news() {
        let one = Hash256::of(b"one");
        let mut reported = Reported::default();
        reported.news(one, [(FIRST, Verdict::Satisfied), (THIRD, Verdict::Satisfied)]);
        reported.forget(one, THIRD);
        let all = [(FIRST, Verdict::Satisfied), (THIRD, Verdict::Satisfied)];
        assert_eq!(steps(reported.news(one, all)), [2]);
    }
}
