//! The alerts that a machine gives rise to, put into words.

use fluke_model::id::ServiceName;
use fluke_model::policy::Policy;

use super::{Machine, Now};
use crate::alert::{Alert, News, Owner, RemediationStatus};

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
        let of = Owner::Task(entry.name.clone());
        Some(Alert { reason: board.reason(task), ..self.alert(of, news, now) })
    }

    pub(super) fn service_drifted(
        &self,
        name: &ServiceName,
        policy: Policy,
        remediation_status: RemediationStatus,
        now: Now,
    ) -> Alert {
        let news = News::DriftDetected { policy, remediation_status };
        let reason = self.service_reason(name);
        Alert { reason, ..self.alert(Owner::Service(name.clone()), news, now) }
    }

    pub(super) fn remediated(&self, of: Owner, success: bool, now: Now) -> Alert {
        let reason = match &of {
            Owner::Task(task) => self.board.as_ref().and_then(|board| {
                let (position, _) = board.snapshot.task(task)?;
                board.reason(position)
            }),
            Owner::Service(service) => self.service_reason(service),
        };
        Alert { reason, ..self.alert(of, News::DriftRemediated { success }, now) }
    }

    pub(super) fn resolved(&self, of: Owner, now: Now) -> Alert {
        self.alert(of, News::DriftResolved, now)
    }

    fn alert(&self, of: Owner, news: News, now: Now) -> Alert {
        let commit = self.board.as_ref().map(|board| match of {
            Owner::Task(_) => &board.commit,
            Owner::Service(_) => board.newest().0,
        });
        Alert {
            at: now.wall,
            agent: self.name.clone(),
            labels: self.hello.labels.clone(),
            commit: commit.cloned(),
            of,
            reason: None,
            news,
        }
    }
}
