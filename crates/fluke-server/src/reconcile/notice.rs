//! The alerts that a machine gives rise to, put into words.

use fluke_model::id::TaskName;

use super::{Machine, Now};
use crate::alert::{Alert, News, RemediationStatus};

impl Machine {
    pub(super) fn drifted(
        &self,
        task: usize,
        status: RemediationStatus,
        now: Now,
    ) -> Option<Alert> {
        let board = self.board.as_ref()?;
        let entry = &board.snapshot.tasks()[task];
        let news = News::DriftDetected { policy: entry.policy, remediation_status: status };
        Some(Alert { reason: board.reason(task), ..self.alert(&entry.name, news, now) })
    }

    pub(super) fn remediated(&self, task: &TaskName, success: bool, now: Now) -> Alert {
        let reason = self.board.as_ref().and_then(|board| {
            let (position, _) = board.snapshot.task(task)?;
            board.reason(position)
        });
        Alert { reason, ..self.alert(task, News::DriftRemediated { success }, now) }
    }

    pub(super) fn resolved(&self, task: &TaskName, now: Now) -> Alert {
        self.alert(task, News::DriftResolved, now)
    }

    fn alert(&self, task: &TaskName, news: News, now: Now) -> Alert {
        Alert {
            at: now.wall,
            agent: self.name.clone(),
            labels: self.hello.labels.clone(),
            task: task.clone(),
            commit: self.board.as_ref().map(|board| board.commit.clone()),
            reason: None,
            news,
        }
    }
}
