//! Drift of services: an event for each, alerts by policy, a line among all drift, and an end.

use fluke_model::event::EventKind;
use fluke_model::id::ServiceName;
use fluke_model::message::{NetworkReport, SectionReport, ServicesReport};
use fluke_model::service::{DeploymentReport, Health, Phase, Replica, Service};
use proptest::prelude::*;

use super::services::off;
use super::*;
use crate::services::fixture::service;

const MISSING: &str = "its container is missing";

/// A host that has `web`, well, under this policy.
fn serving(policy: Policy) -> (Lab, DeploymentReport) {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[ok(0)]);
    let it = lab.wants("c2", &service(None), policy, &[Replica::Own]).remove(0);
    lab.runs(vec![it.clone()]);
    lab.forget();
    (lab, it)
}

fn pending(policy: Policy) -> News {
    let remediation_status = match policy {
        Policy::AlertOnly => RemediationStatus::PendingManual,
        _ => RemediationStatus::InProgress,
    };
    News::DriftDetected { policy, remediation_status }
}

impl Lab {
    fn forget(&mut self) {
        self.events.clear();
        self.alerts.clear();
    }

    /// The agent says this, and nothing of the others.
    fn reports(&mut self, it: DeploymentReport) {
        let report = ServicesReport { deployments: vec![it], ..ServicesReport::default() };
        self.step(Input::Message(ToServer::Services(report)));
    }

    /// The agent tells of something that was done to a container of `web`.
    fn does(&mut self, replica: Replica, fact: Fact) {
        self.does_for(None, replica, fact);
    }

    /// The agent makes the only one anew on somebody's word, and that ends so.
    pub(super) fn makes_for(&mut self, instruction: InstructionId, outcome: Outcome) {
        let output = Output::from_text("");
        let ended = Fact::Ended { outcome, duration_ms: 1, output };
        for fact in [Fact::Began { reason: MISSING.into() }, ended] {
            self.does_for(Some(instruction), Replica::Own, fact);
        }
    }

    fn does_for(&mut self, instruction: Option<InstructionId>, replica: Replica, fact: Fact) {
        self.records += 1;
        let board = self.machine.board.as_ref().expect("a snapshot");
        let web = ServiceName::new("web").expect("a name");
        let part = replica.part(&web);
        let record = Record {
            id: RecordId(self.records),
            at: self.now.wall,
            instruction,
            snapshot: board.snapshot.hash(),
            commit: board.commit.clone(),
            subject: Subject::Service { service: Some(web), part },
            trigger: Trigger::Watch,
            fact,
        };
        self.step(Input::Message(ToServer::Record(record)));
    }

    /// The agent makes the only one anew, and that ends so.
    fn makes(&mut self, outcome: Outcome) {
        self.makes_one(Replica::Own, outcome);
    }

    fn makes_one(&mut self, replica: Replica, outcome: Outcome) {
        self.does(replica, Fact::Began { reason: MISSING.into() });
        let output = Output::from_text("");
        self.does(replica, Fact::Ended { outcome, duration_ms: 1, output });
    }

    fn told(&mut self) -> (Vec<EventKind>, Vec<News>) {
        let is_apply =
            |kind: &EventKind| matches!(kind, EventKind::ApplyStarted | EventKind::ApplyFinished);
        let kinds = self.events.drain(..).map(|event| event.kind).filter(|kind| !is_apply(kind));
        (kinds.collect(), std::mem::take(&mut self.alerts))
    }
}

#[test]
fn a_drift_that_waits_for_a_human_is_told_once_and_listed_until_somebody_puts_it_right() {
    let (mut lab, it) = serving(Policy::AlertOnly);
    for note in ["one", "another"] {
        let note = Some(note.to_string());
        lab.reports(DeploymentReport { note, ..off(&it, Phase::Missing, MISSING) });
    }
    let event = lab.events[0].clone();
    assert_eq!(event.service.as_ref().map(ServiceName::as_str), Some("web"));
    assert_eq!(event.step.as_ref().map(ToString::to_string).as_deref(), Some("container.web"));
    assert_eq!(event.trigger.as_deref(), Some("watch"));
    assert_eq!(event.output.as_deref(), Some(MISSING));
    assert_eq!(event.task, None);
    assert_eq!(lab.told(), (vec![EventKind::DriftDetected], vec![pending(Policy::AlertOnly)]));
    let drift = lab.machine.drift();
    assert_eq!(drift.len(), 1);
    assert_eq!((drift[0].owner(), drift[0].policy), (Some("web"), Policy::AlertOnly));
    assert_eq!(drift[0].status, StepStatus::Drifted);
    assert_eq!(drift[0].reason.as_deref(), Some(MISSING));
    assert!(drift[0].since.is_some() && drift[0].task_hash.is_some());

    lab.ask(None);
    let settle = lab.answer(&[ok(0)]);
    let [ToAgent::Settle { instruction, .. }] = settle[..] else { panic!("{settle:?}") };
    lab.forget();
    lab.makes(Outcome::Success);
    lab.reports(it);
    lab.step(Input::Message(ToServer::Settled { instruction, problem: None }));
    assert_eq!(lab.told(), (vec![], vec![News::DriftRemediated { success: true }]));
    assert!(lab.machine.drift().is_empty());
}

#[test]
fn what_goes_away_by_itself_is_told_to_have_done_so() {
    let (mut lab, it) = serving(Policy::RemediateAndAlert);
    lab.reports(off(&it, Phase::Stopped, "its container does not run"));
    lab.told();
    lab.reports(it);
    assert_eq!(lab.told(), (vec![EventKind::DriftResolved], vec![News::DriftResolved]));
}

#[test]
fn a_streak_of_failures_is_told_once_and_its_end_once() {
    let (mut lab, it) = serving(Policy::RemediateAndAlert);
    for _ in 0..3 {
        lab.reports(off(&it, Phase::Missing, MISSING));
        lab.makes(Outcome::Failure);
        let note = Some("no address is free".to_string());
        lab.reports(DeploymentReport { note, ..off(&it, Phase::Failed, MISSING) });
    }
    let failed = News::DriftRemediated { success: false };
    let alerts = vec![pending(Policy::RemediateAndAlert), failed];
    assert_eq!(lab.told(), (vec![EventKind::DriftDetected], alerts));
    let drift = lab.machine.drift();
    assert_eq!(drift[0].status, StepStatus::Failed);
    assert_eq!(drift[0].reason.as_deref(), Some("no address is free"));
    lab.makes(Outcome::Success);
    lab.reports(it);
    assert_eq!(lab.told(), (vec![], vec![News::DriftRemediated { success: true }]));
}

#[test]
fn what_became_unwell_was_not_failed_by_anybody() {
    let (mut lab, it) = serving(Policy::RemediateAndAlert);
    let unwell =
        DeploymentReport { health: Health::Unhealthy, ..off(&it, Phase::Failed, "it is not well") };
    lab.reports(unwell.clone());
    assert_eq!(lab.told().1, [pending(Policy::RemediateAndAlert)]);
    assert_eq!(lab.status(), Status::Failed);
    lab.reports(it);
    assert_eq!(lab.told().1, [News::DriftResolved]);
}

#[test]
fn what_is_put_right_silently_has_events_and_no_alerts() {
    let (mut lab, it) = serving(Policy::Remediate);
    lab.reports(off(&it, Phase::Missing, MISSING));
    lab.makes(Outcome::Failure);
    lab.reports(off(&it, Phase::Failed, MISSING));
    assert_eq!(lab.machine.drift().len(), 1);
    lab.makes(Outcome::Success);
    lab.reports(it);
    assert_eq!(lab.told(), (vec![EventKind::DriftDetected], vec![]));
}

#[test]
fn containers_that_cannot_be_looked_at_are_an_error_and_no_drift() {
    let (mut lab, it) = serving(Policy::AlertOnly);
    let reason = "Podman does not answer".to_string();
    lab.reports(DeploymentReport { verdict: Verdict::Error { reason }, ..it.clone() });
    assert_eq!(lab.told(), (vec![EventKind::CheckFailed], vec![]));
    assert_eq!(lab.machine.drift()[0].status, StepStatus::Failed);
    assert_eq!(lab.status(), Status::Failed);
    lab.reports(it);
    assert_eq!(lab.told(), (vec![EventKind::CheckRecovered], vec![]));
}

#[test]
fn the_drift_of_a_service_ends_when_all_its_containers_here_are_well() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[ok(0)]);
    let both = [Replica::Number(0), Replica::Number(2)];
    let its = lab.wants("c2", &service(Some(3)), Policy::AlertOnly, &both);
    lab.runs(its.iter().map(|it| off(it, Phase::Missing, MISSING)).collect());
    let (kinds, alerts) = lab.told();
    let found = kinds.iter().filter(|kind| **kind == EventKind::DriftDetected).count();
    assert_eq!((found, alerts.len()), (2, 1), "an event for each, an alert for all");
    let steps = |lab: &Lab| -> Vec<String> {
        lab.machine.drift().iter().map(|entry| entry.step.to_string()).collect()
    };
    assert_eq!(steps(&lab), ["container.web-0", "container.web-2"]);
    lab.reports(its[0].clone());
    assert_eq!((lab.told().1, steps(&lab)), (vec![], vec!["container.web-2".to_string()]));
    lab.reports(its[1].clone());
    assert_eq!(lab.told().1, [News::DriftResolved]);
}

#[test]
fn a_commit_takes_back_the_drift_of_what_it_changes() {
    let (mut lab, it) = serving(Policy::AlertOnly);
    lab.reports(off(&it, Phase::Missing, MISSING));
    lab.forget();
    let mut other = service(None);
    other.container.image = "web:2".into();
    let new = lab.wants("c3", &other, Policy::AlertOnly, &[Replica::Own]).remove(0);
    assert_eq!(lab.events[0].output.as_deref(), Some("the service was changed"));
    assert_eq!(lab.told(), (vec![EventKind::DriftResolved], vec![News::DriftResolved]));
    assert!(lab.machine.drift().is_empty(), "nothing is known of the new one");
    lab.reports(off(&new, Phase::Missing, "a container of an earlier version runs"));
    assert_eq!(lab.events[0].trigger.as_deref(), Some("commit"));
    assert_eq!(lab.told(), (vec![EventKind::DriftDetected], vec![pending(Policy::AlertOnly)]));
    lab.commit("c4", &[quiet("a")]);
    assert_eq!(lab.events[0].output.as_deref(), Some("the service no longer runs on this host"));
    assert_eq!(lab.told().1, [News::DriftResolved]);
}

#[test]
fn what_was_reported_before_git_was_heard_of_counts_from_then_on() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[ok(0)]);
    let its = lab.wants("c2", &service(None), Policy::AlertOnly, &[Replica::Own]);
    lab.commit("c3", &[quiet("a")]);
    lab.runs(vec![off(&its[0], Phase::Missing, MISSING)]);
    lab.forget();
    assert!(lab.machine.drift().is_empty(), "nobody wants it");
    lab.wants("c4", &service(None), Policy::AlertOnly, &[Replica::Own]);
    assert_eq!(lab.told(), (vec![EventKind::DriftDetected], vec![pending(Policy::AlertOnly)]));
    assert_eq!(lab.status(), Status::Drifted);
}

#[test]
fn a_policy_that_changes_is_kept_to_from_then_on() {
    let (mut lab, it) = serving(Policy::Remediate);
    lab.reports(off(&it, Phase::Missing, MISSING));
    lab.forget();
    lab.wants("c3", &service(None), Policy::AlertOnly, &[Replica::Own]);
    assert_eq!(lab.told(), (vec![], vec![pending(Policy::AlertOnly)]), "the same drift");
    assert_eq!(lab.machine.drift()[0].policy, Policy::AlertOnly);
}

#[test]
fn a_connection_that_is_lost_makes_no_second_drift_of_one() {
    let (mut lab, it) = serving(Policy::AlertOnly);
    let gone = off(&it, Phase::Missing, MISSING);
    lab.reports(gone.clone());
    lab.told();
    lab.step(Input::Disconnected { why: "so".into() });
    assert_eq!(lab.machine.drift().len(), 1, "what is known of a host that is away");
    lab.sessions += 1;
    let session = SessionId(lab.sessions);
    let wanted = {
        let board = lab.machine.board.as_ref().expect("a snapshot");
        Wanted { commit: board.commit.clone(), snapshot: board.snapshot.clone() }
    };
    lab.step(Input::Connected { hello: hello(), session, wanted: Some(wanted) });
    lab.answer(&[]);
    lab.forget();
    lab.runs(vec![gone]);
    assert_eq!(lab.told(), (vec![], vec![]));
    lab.runs(vec![it]);
    assert_eq!(lab.told(), (vec![EventKind::DriftResolved], vec![News::DriftResolved]));
}

#[test]
fn what_services_share_is_among_what_has_drifted_and_pages_go_through_all_of_it() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[unsure(0)]);
    let replicas: Vec<_> = [0, 2, 10].map(Replica::Number).into();
    let its = lab.wants("c2", &service(Some(11)), Policy::AlertOnly, &replicas);
    lab.runs(its.iter().map(|it| off(it, Phase::Missing, MISSING)).collect());
    let section = |problem: Option<&str>| SectionReport {
        hash: Hash256::of(b""),
        problem: problem.map(str::to_string),
        left_out: [].into(),
    };
    let broken = NetworkReport {
        names: section(Some("nobody listens")),
        routes: None,
        mesh: section(Some("no interface")),
    };
    lab.step(Input::Message(ToServer::Network(broken.clone())));
    let all = lab.machine.drift();
    let steps: Vec<String> = all.iter().map(|entry| entry.step.to_string()).collect();
    assert_eq!(
        steps,
        [
            "shell.s0",
            "container.web-0",
            "container.web-2",
            "container.web-10",
            "dns.records",
            "mesh.peers"
        ]
    );
    for (at, entry) in all.iter().enumerate() {
        let mark = fluke_model::api::DriftMark::from(entry);
        let text = String::from(mark);
        let mark: fluke_model::api::DriftMark = text.parse().expect("a mark reads itself");
        let rest = lab.machine.drift_after(Some((&mark.owner, &mark.step)));
        assert_eq!(rest, all[at + 1..], "behind {text}");
    }
    let well = NetworkReport { names: section(None), mesh: section(None), ..broken };
    lab.step(Input::Message(ToServer::Network(well)));
    assert_eq!(lab.machine.drift().len(), 4);
}

/// Something that an agent says of its containers, or does to them.
#[derive(Debug, Clone)]
enum Say {
    Report(u8, Phase),
    Undecided(u8),
    Well(u8),
    Makes(u32, bool),
    Commit(u8),
}

fn say() -> impl Strategy<Value = Say> {
    const PHASES: [Phase; 5] =
        [Phase::Missing, Phase::Pulling, Phase::Stopped, Phase::Starting, Phase::Failed];
    prop_oneof![
        4 => (0u8..2, prop::sample::select(&PHASES[..])).prop_map(|(n, it)| Say::Report(n, it)),
        1 => (0u8..2).prop_map(Say::Undecided),
        3 => (0u8..2).prop_map(Say::Well),
        2 => (0u32..2, any::<bool>()).prop_map(|(n, well)| Say::Makes(n, well)),
        1 => (0u8..2).prop_map(Say::Commit),
    ]
}

fn version(number: u8) -> Service {
    let mut service = service(None);
    service.container.image = format!("web:{number}");
    service
}

proptest! {
    /// However it goes: a drift is told before it is told to be over, no two in a row are of one
    /// sort, a failure comes once at most in between, and in the end all is told to be well.
    #[test]
    fn alerts_of_a_service_make_sense(policy in prop::sample::select(&Policy::ALL[..]),
        saying in prop::collection::vec(say(), 0..40)) {
        let mut lab = Lab::with(&[quiet("a")]);
        lab.answer(&[ok(0)]);
        let replicas = [Replica::Number(0), Replica::Number(1)];
        let mut its = lab.wants("v0", &version(0), policy, &replicas);
        let mut is = 0;
        for say in saying {
            match say {
                Say::Report(n, phase) => lab.reports(off(&its[usize::from(n)], phase, "so")),
                Say::Undecided(n) => {
                    let verdict = Verdict::Error { reason: "so".into() };
                    lab.reports(DeploymentReport { verdict, ..its[usize::from(n)].clone() });
                }
                Say::Well(n) => lab.reports(its[usize::from(n)].clone()),
                Say::Makes(n, well) => {
                    let outcome = if well { Outcome::Success } else { Outcome::Failure };
                    lab.makes_one(Replica::Number(n), outcome);
                }
                Say::Commit(to) if to != is => {
                    is = to;
                    its = lab.wants(&format!("v{to}"), &version(to), policy, &replicas);
                }
                Say::Commit(_) => {}
            }
        }
        its.into_iter().for_each(|it| lab.reports(it));
        prop_assert!(lab.machine.drift().is_empty());
        prop_assert!(policy.alerts() || lab.alerts.is_empty());
        let (mut is_open, mut has_failed) = (false, false);
        for news in &lab.alerts {
            match news {
                News::DriftDetected { .. } => {
                    prop_assert!(!is_open, "told twice: {:?}", lab.alerts);
                    (is_open, has_failed) = (true, false);
                }
                News::DriftRemediated { success: false } => {
                    prop_assert!(is_open && !has_failed, "{:?}", lab.alerts);
                    has_failed = true;
                }
                News::DriftRemediated { success: true } | News::DriftResolved => {
                    prop_assert!(is_open, "the end of nothing: {:?}", lab.alerts);
                    is_open = false;
                }
            }
        }
        prop_assert!(!is_open, "nobody was told that it is over: {:?}", lab.alerts);
    }
}

#[test]
fn what_a_host_refuses_is_told_once_and_alerts_nobody() {
    let (mut lab, it) = serving(Policy::RemediateAndAlert);
    let why = "refused by this host's own config: `container` is not among `allow.executors`";
    let verdict = Verdict::Error { reason: why.into() };
    let refused = DeploymentReport { verdict, phase: Phase::Missing, serves: false, ..it.clone() };
    for note in ["one", "another"] {
        lab.reports(DeploymentReport { note: Some(note.into()), ..refused.clone() });
    }
    assert_eq!(lab.told(), (vec![EventKind::CheckFailed], vec![]));
    assert_eq!(lab.status(), Status::Failed);
    let drift = lab.machine.drift();
    assert_eq!((drift.len(), drift[0].reason.as_deref()), (1, Some(why)));

    let left = DeploymentReport { phase: Phase::Retiring, note: Some("kept".into()), ..refused };
    lab.runs(vec![left]);
    let network = lab.machine.detail().network;
    assert_eq!((network.len(), network[0].problem.as_deref()), (1, Some("kept")));
    lab.runs(vec![it]);
    assert_eq!(lab.status(), Status::InSync);
    assert!(lab.machine.detail().network.is_empty());
}
