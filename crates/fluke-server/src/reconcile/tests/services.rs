//! A host's services: how they count, and how they are put right when somebody asks.

use fluke_model::api::ReconcileStep;
use fluke_model::id::ServiceName;
use fluke_model::message::ServicesReport;
use fluke_model::service::{DeploymentReport, Phase, Replica, Service, SnapshotService};

use super::*;
use crate::services::fixture::{deployment, service};

fn with_service() -> (Lab, DeploymentReport) {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[ok(0)]);
    let mut reports = lab.wants("c2", &service(None), Policy::Remediate, &[Replica::Own]);
    (lab, reports.remove(0))
}

/// One that is not as it should be.
pub(super) fn off(it: &DeploymentReport, phase: Phase, how: &str) -> DeploymentReport {
    let verdict = Verdict::Drifted(Drift::because(how));
    DeploymentReport { verdict, phase, serves: false, ..it.clone() }
}

impl Lab {
    /// Git says that this service has these replicas here; gives each as it should be.
    pub(super) fn wants(
        &mut self,
        commit: &str,
        service: &Service,
        policy: Policy,
        replicas: &[Replica],
    ) -> Vec<DeploymentReport> {
        let (sent, reports) = self.is_given(commit, service, policy, replicas);
        assert!(matches!(sent[..], [ToAgent::Snapshot { .. }]), "no step is new: {sent:?}");
        reports
    }

    /// The same, and what the agent is told.
    fn is_given(
        &mut self,
        commit: &str,
        service: &Service,
        policy: Policy,
        replicas: &[Replica],
    ) -> (Vec<ToAgent>, Vec<DeploymentReport>) {
        let service = SnapshotService::new(service, policy, replicas.to_vec());
        let as_it_should_be =
            |(replica, id)| DeploymentReport { id, ..deployment("web", replica, [10, 200, 1, 2]) };
        let reports = service.deployments(&hello().name).map(as_it_should_be).collect();
        let Wanted { commit, snapshot } = wanted(commit, &[quiet("a")]);
        let snapshot = Snapshot::clone(&snapshot).with_services(vec![Arc::new(service)]);
        let sent = self.step(Input::Wanted(Wanted { commit, snapshot: Arc::new(snapshot) }));
        (sent, reports)
    }

    pub(super) fn runs(&mut self, deployments: Vec<DeploymentReport>) {
        let report = ServicesReport { whole: true, deployments, ..ServicesReport::default() };
        self.step(Input::Message(ToServer::Services(report)));
    }

    fn is_asked_to_settle(sent: &[ToAgent]) -> InstructionId {
        match sent {
            [ToAgent::Settle { instruction, service: None, .. }] => *instruction,
            other => panic!("not asked to settle: {other:?}"),
        }
    }

    fn settles(&mut self, instruction: InstructionId, problem: Option<&str>) {
        let problem = problem.map(str::to_string);
        self.step(Input::Message(ToServer::Settled { instruction, problem }));
    }
}

#[test]
fn a_host_is_as_well_as_its_services_are() {
    let (mut lab, it) = with_service();
    assert_eq!(lab.status(), Status::Unknown, "nothing is known of it");
    for (phase, status, counted) in [
        (Phase::Pulling, Status::Applying, (0, 1, 0)),
        (Phase::Missing, Status::Drifted, (0, 1, 0)),
        (Phase::Failed, Status::Failed, (0, 0, 1)),
        (Phase::Running, Status::Drifted, (0, 1, 0)),
    ] {
        lab.runs(vec![off(&it, phase, "so")]);
        assert_eq!(lab.status(), status, "{phase:?}");
        let counts = lab.machine.view().services.expect("it has one");
        assert_eq!((counts.in_sync, counts.drifted, counts.failed), counted, "{phase:?}");
    }
    lab.runs(vec![it]);
    assert_eq!(lab.status(), Status::InSync);
    let detail = lab.machine.detail();
    assert_eq!(detail.service_details[0].deployments[0].phase, Phase::Running);
}

#[test]
fn who_asks_for_a_host_gets_its_services_put_right_as_well() {
    let (mut lab, it) = with_service();
    lab.runs(vec![it]);
    lab.ask(None);
    let sent = lab.answer(&[ok(0)]);
    let settle = Lab::is_asked_to_settle(&sent);
    assert!(!matches!(lab.progress.last(), Some(Progress::Ended { .. })), "it is not over yet");
    lab.settles(settle, Some("web: the image cannot be pulled"));
    let Some(Progress::Ended { error: Some(error) }) = lab.progress.last() else {
        panic!("not over: {:?}", lab.progress);
    };
    assert_eq!(error, "web: the image cannot be pulled");

    lab.ask(Some("a"));
    assert!(lab.answer(&[ok(0)]).is_empty(), "a task is not a service");

    lab.ask(None);
    lab.answer(&[ok(0)]);
    lab.step(Input::Disconnected { why: "gone".into() });
    assert!(matches!(lab.progress.last(), Some(Progress::Ended { error: Some(_) })));
}

#[test]
fn an_agent_that_did_not_look_at_its_containers_yet_is_asked_all_the_same() {
    let (mut lab, _) = with_service();
    lab.ask(None);
    let sent = lab.answer(&[ok(0)]);
    let settle = Lab::is_asked_to_settle(&sent);
    lab.settles(settle, None);
    assert!(matches!(lab.progress.last(), Some(Progress::Ended { error: None })));
}

#[test]
fn an_agent_that_runs_no_containers_is_not_held_against_its_services() {
    let mut lab = Lab::new();
    lab.connect_as(Hello { executors: vec![], ..hello() }, &[quiet("a")]);
    lab.answer(&[ok(0)]);
    let it = lab.wants("c2", &service(None), Policy::Remediate, &[Replica::Own]).remove(0);
    assert_eq!(lab.status(), Status::InSync, "nobody will ever speak of them");
    lab.ask(None);
    assert!(lab.answer(&[ok(0)]).is_empty(), "nor put them right");
    assert!(matches!(lab.progress.last(), Some(Progress::Ended { error: None })));

    let verdict = Verdict::Error { reason: "refused".into() };
    lab.runs(vec![DeploymentReport { verdict, phase: Phase::Missing, serves: false, ..it }]);
    assert_eq!(lab.status(), Status::Failed, "this one does speak of them");
    assert!(lab.machine.detail().service_details[0].deployments[0].refused);
}

#[test]
fn services_do_not_wait_for_a_step_that_is_being_applied() {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[super::off(0)]);
    let it = lab.wants("c2", &service(None), Policy::Remediate, &[Replica::Own]).remove(0);
    lab.runs(vec![off(&it, Phase::Missing, "its container is missing")]);
    let drifted = lab.events.last().expect("it has drifted");
    assert_eq!(drifted.kind, EventKind::DriftDetected);
    assert_eq!(drifted.commit, Some(CommitId::new("c2")));
    let sent = lab.wish(What::Service(named("web")));
    let (service, ..) = settle(&sent);
    assert_eq!(service, Some("web"), "whoever asks does not wait either");
    lab.runs(vec![it]);
    assert_eq!(lab.machine.view().services.map(|counts| counts.in_sync), Some(1));
    assert_eq!(lab.machine.view().commit, Some(CommitId::new("c1")), "steps are held to that");
    assert!(lab.wish(What::Host).is_empty(), "that one is about steps as well");

    assert_eq!(super::told(&lab.perform(Outcome::Success)), ["check all"]);
    lab.answer(&[ok(0)]);
    assert_eq!(lab.machine.view().commit, Some(CommitId::new("c2")));
    assert_eq!(lab.status(), Status::InSync);
}

/// Whether what the agent is sent is said to be of the same commit as what it holds.
fn is_moved(sent: &[ToAgent]) -> bool {
    let mut moved = sent.iter().filter_map(|message| match message {
        ToAgent::Snapshot { is_moved, .. } => Some(*is_moved),
        _ => None,
    });
    moved.next_back().expect("a snapshot")
}

#[test]
fn a_replica_that_moves_here_comes_from_no_commit_and_leaves_steps_alone() {
    let (web, numbers) = (service(Some(2)), [Replica::Number(0), Replica::Number(1)]);
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[ok(0)]);
    let give = |lab: &mut Lab, commit: &str, numbers: &[Replica]| {
        lab.is_given(commit, &web, Policy::Remediate, numbers)
    };
    let (sent, first) = give(&mut lab, "c2", &numbers[..1]);
    assert!(!is_moved(&sent), "that was the commit");
    lab.runs(first.clone());
    lab.pass(POLL);
    lab.answer(&[super::off(0)]);
    lab.perform(Outcome::Failure);
    lab.events.clear();

    let (sent, both) = give(&mut lab, "c2", &numbers);
    assert!(is_moved(&sent));
    assert_eq!(super::told(&sent), ["snapshot"], "what failed is not tried for that");
    lab.runs(vec![first[0].clone(), off(&both[1], Phase::Missing, "its container is missing")]);
    let triggers: Vec<_> = lab.events.iter().map(|event| event.trigger.as_deref()).collect();
    assert_eq!(triggers, [Some("placement")]);

    let (sent, _) = give(&mut lab, "c3", &numbers);
    assert!(sent.is_empty(), "a commit that changes nothing here");
    let (sent, _) = give(&mut lab, "c3", &numbers[..1]);
    assert!(is_moved(&sent), "and does not come into it");
}

#[test]
fn a_check_that_a_replica_moves_into_is_asked_for_again() {
    let (mut lab, _) = with_service();
    let web = service(Some(2));
    lab.wants("c3", &web, Policy::Remediate, &[Replica::Number(0)]);
    assert_eq!(super::told(&lab.pass(POLL)), ["check all"]);
    let (sent, _) = lab.is_given("c3", &web, Policy::Remediate, &[Replica::Number(1)]);
    assert_eq!(super::told(&sent), ["snapshot", "check all"]);
    assert_eq!(super::told(&lab.answer(&[super::off(0)])), ["apply 0"]);
    // In the middle of an apply, too.
    let (sent, _) = lab.is_given("c3", &web, Policy::Remediate, &[Replica::Number(0)]);
    assert!(is_moved(&sent));
    assert!(lab.perform(Outcome::Success).is_empty(), "nothing is new");
}

fn named(name: &str) -> ServiceName {
    ServiceName::new(name).expect("a name")
}

/// What was asked of the agent's services: which one, on whose word, and under which number.
fn settle(sent: &[ToAgent]) -> (Option<&str>, Option<&str>, InstructionId) {
    match sent {
        [ToAgent::Settle { instruction, service, trigger }] => {
            (service.as_ref().map(ServiceName::as_str), trigger.by(), *instruction)
        }
        other => panic!("not asked to settle: {other:?}"),
    }
}

#[test]
fn who_asks_for_a_service_gets_that_one_and_no_task_is_checked() {
    let (mut lab, it) = with_service();
    lab.runs(vec![it]);
    let sent = lab.wish(What::Service(named("web")));
    let (service, by, instruction) = settle(&sent);
    assert_eq!((service, by), (Some("web"), Some("eve")));
    assert_eq!(lab.progress, [Progress::Applying]);

    lab.makes_for(instruction, Outcome::Success);
    let [.., Progress::Step(begun), Progress::Step(ended)] = &lab.progress[..] else {
        panic!("{:?}", lab.progress);
    };
    let place = |step: &ReconcileStep| (step.owner().map(str::to_string), step.step.to_string());
    assert_eq!(place(begun), (Some("web".into()), "container.web".into()));
    assert_eq!((begun.outcome, ended.outcome), (None, Some(Outcome::Success)));
    lab.settles(instruction, None);
    assert_eq!(lab.progress.last(), Some(&Progress::Ended { error: None }));
    // What comes behind the answer is nobody's.
    lab.progress.clear();
    lab.makes_for(instruction, Outcome::Success);
    assert_eq!(lab.progress, []);
}

#[test]
fn two_who_ask_for_services_are_both_answered_each_with_their_own() {
    let (mut lab, it) = with_service();
    lab.runs(vec![it]);
    let sent = lab.wish(What::Service(named("web")));
    let (.., first) = settle(&sent);
    let sent = lab.wish(What::Service(named("web")));
    let (.., second) = settle(&sent);
    assert_ne!(first, second);
    lab.settles(second, Some("web: no such image"));
    assert_eq!(lab.refusal(), "web: no such image");
    lab.settles(first, None);
    assert_eq!(lab.progress.last(), Some(&Progress::Ended { error: None }));
}

#[test]
fn a_service_that_is_not_for_the_host_any_more_is_not_asked_for() {
    let (mut lab, it) = with_service();
    lab.runs(vec![it]);
    assert_eq!(lab.wish(What::Service(named("db"))), []);
    assert!(lab.refusal().contains("the service `db` no longer runs on this host"));
    lab.wants("c3", &service(Some(2)), Policy::Remediate, &[]);
    assert_eq!(lab.wish(What::Service(named("web"))), []);
    assert!(lab.refusal().contains("(commit c3)"), "{}", lab.refusal());
}

#[test]
fn those_who_wait_for_services_count_among_those_who_wait() {
    let (mut lab, it) = with_service();
    lab.runs(vec![it]);
    for _ in 0..MAX_REQUESTS {
        lab.wish(What::Service(named("web")));
    }
    let request = Request { id: "one more".into(), by: "eve".into(), what: What::Host };
    assert!(!lab.machine.ask(request));
}
