//! A host's services: how they count, and how they are put right when somebody asks.

use fluke_model::message::ServicesReport;
use fluke_model::service::{DeploymentReport, Phase, Replica, SnapshotService};

use super::*;
use crate::services::fixture::{deployment, service};

fn with_service() -> (Lab, DeploymentReport) {
    let mut lab = Lab::with(&[quiet("a")]);
    lab.answer(&[ok(0)]);
    let web = SnapshotService::new(&service(None), Policy::Remediate, vec![Replica::Own]);
    let (_, id) = web.deployments(&hello().name).next().expect("one");
    let Wanted { commit, snapshot } = wanted("c2", &[quiet("a")]);
    let snapshot = Snapshot::clone(&snapshot).with_services(vec![Arc::new(web)]);
    let sent = lab.step(Input::Wanted(Wanted { commit, snapshot: Arc::new(snapshot) }));
    assert!(matches!(sent[..], [ToAgent::Snapshot { .. }]), "no step is new: {sent:?}");
    (lab, DeploymentReport { id, ..deployment("web", Replica::Own, [10, 200, 1, 2]) })
}

impl Lab {
    fn runs(&mut self, deployments: Vec<DeploymentReport>) {
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
        (Phase::Running, Status::InSync, (1, 0, 0)),
    ] {
        lab.runs(vec![DeploymentReport { phase, ..it.clone() }]);
        assert_eq!(lab.status(), status, "{phase:?}");
        let counts = lab.machine.view().services.expect("it has one");
        assert_eq!((counts.in_sync, counts.drifted, counts.failed), counted, "{phase:?}");
    }
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
fn an_agent_that_does_not_speak_of_services_is_not_waited_for() {
    let (mut lab, _) = with_service();
    lab.ask(None);
    assert!(lab.answer(&[ok(0)]).is_empty());
    assert!(matches!(lab.progress.last(), Some(Progress::Ended { error: None })));
}
