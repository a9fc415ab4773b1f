//! What a host runs, put together from what its agent says.

use std::collections::{BTreeMap, BTreeSet};

use crate::bounds::{Excess, MAX_DEPLOYMENTS, many};
use crate::gather::Gather;
use crate::message::ServicesReport;
use crate::service::{DeploymentId, DeploymentReport};

/// The deployments of one host. A map makes room for a dozen at once and most hosts have two, so what
/// is said of each lies beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deployments(BTreeMap<DeploymentId, Box<DeploymentReport>>);

impl Deployments {
    /// Accepts what is said, unless it would be too much to be known of one host: nobody is listened
    /// to without end.
    pub fn accept(&self, report: &ServicesReport) -> Result<(), Excess> {
        if self.0.len() + report.deployments.len() <= MAX_DEPLOYMENTS {
            return Ok(());
        }
        let gone: BTreeSet<&DeploymentId> = report.gone.iter().gather();
        let clears = report.whole && !report.unseen;
        let kept = self.0.keys().filter(|id| !clears && !gone.contains(id));
        let all: BTreeSet<&DeploymentId> =
            kept.chain(report.deployments.iter().map(|it| &it.id)).gather();
        many("the list of this host's deployments", all.len(), MAX_DEPLOYMENTS)
    }

    /// Takes what changed. Whoever could not look knows no better than who looked last.
    pub fn take(&mut self, report: ServicesReport) {
        if report.whole && !report.unseen {
            self.0.clear();
        }
        report.gone.iter().for_each(|id| drop(self.0.remove(id)));
        for it in report.deployments {
            match self.0.get_mut(&it.id).filter(|_| report.unseen) {
                Some(known) => (known.verdict, known.note) = (it.verdict, it.note),
                None => drop(self.0.insert(it.id, Box::new(it))),
            }
        }
    }

    /// What was last said of this one.
    pub fn get(&self, id: &DeploymentId) -> Option<&DeploymentReport> {
        self.0.get(id).map(|it| &**it)
    }

    /// What was last said of each.
    pub fn values(&self) -> impl Iterator<Item = &DeploymentReport> {
        self.0.values().map(|it| &**it)
    }

    /// The same, to be changed by whoever knows better.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut DeploymentReport> {
        self.0.values_mut().map(|it| &mut **it)
    }

    /// Whether it runs nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Hash256, ServiceName};
    use crate::service::{Health, Phase, Replica};
    use crate::verdict::Verdict;

    fn report(number: u32, serves: bool) -> DeploymentReport {
        DeploymentReport {
            id: DeploymentId(Hash256::of(&number.to_be_bytes())),
            service: ServiceName::new("web").expect("a name"),
            replica: Replica::Number(number),
            verdict: Verdict::Satisfied,
            phase: Phase::Running,
            health: Health::None,
            image: "web:1".into(),
            digest: None,
            container: None,
            address: None,
            serves,
            note: None,
        }
    }

    #[test]
    fn what_was_said_holds_until_something_else_is_said_of_it_or_of_all() {
        let mut all = Deployments::default();
        let says = |deployments| ServicesReport { deployments, ..ServicesReport::default() };
        all.take(says(vec![report(1, false), report(2, false)]));
        all.take(says(vec![report(1, true)]));
        assert_eq!(all.get(&report(1, true).id), Some(&report(1, true)));
        assert_eq!(all.values().filter(|it| it.serves).count(), 1);
        all.take(ServicesReport { gone: vec![report(1, true).id], ..says(vec![]) });
        assert!(all.values().eq([&report(2, false)]));
        all.take(ServicesReport { whole: true, ..says(vec![report(3, true)]) });
        assert!(all.values().eq([&report(3, true)]));
    }

    #[test]
    fn who_could_not_look_knows_no_better_than_who_looked_last() {
        let mut all = Deployments::default();
        let says = |deployments| ServicesReport { deployments, ..ServicesReport::default() };
        all.take(says(vec![report(1, true), report(2, true)]));
        let verdict = Verdict::Error { reason: "no Podman".into() };
        let note = Some("no Podman".into());
        let failed = |number| DeploymentReport {
            phase: Phase::Failed,
            verdict: verdict.clone(),
            note: note.clone(),
            ..report(number, false)
        };
        let unseen =
            ServicesReport { whole: true, unseen: true, ..says(vec![failed(1), failed(3)]) };
        assert!(all.accept(&unseen).is_ok());
        all.take(unseen);
        let DeploymentReport { verdict, note, .. } = failed(1);
        let known = DeploymentReport { verdict, note, ..report(1, true) };
        assert_eq!(all.get(&known.id), Some(&known), "it may run as it did");
        assert_eq!(all.get(&report(2, true).id), Some(&report(2, true)), "it was not spoken of");
        assert_eq!(all.get(&failed(3).id), Some(&failed(3)), "nobody knew it");
    }

    #[test]
    fn who_cannot_look_is_not_listened_to_without_end() {
        let mut all = Deployments::default();
        let many = |from: usize, count: usize| {
            let each = (from..from + count).map(|number| report(number as u32, false));
            ServicesReport {
                whole: true,
                unseen: true,
                deployments: each.collect(),
                ..ServicesReport::default()
            }
        };
        all.take(many(0, MAX_DEPLOYMENTS));
        assert!(all.accept(&many(0, MAX_DEPLOYMENTS)).is_ok());
        assert!(all.accept(&many(MAX_DEPLOYMENTS, 1)).is_err());
        assert!(all.accept(&ServicesReport { unseen: false, ..many(MAX_DEPLOYMENTS, 1) }).is_ok());
    }

    #[test]
    fn a_host_that_runs_little_takes_little_room() {
        let entry = size_of::<(DeploymentId, Box<DeploymentReport>)>();
        assert!(entry * 5 < size_of::<DeploymentReport>() + size_of::<DeploymentId>(), "{entry}");
    }
}
