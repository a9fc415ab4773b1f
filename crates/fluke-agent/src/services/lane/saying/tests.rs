use fluke_model::id::{AgentName, CommitId};
use fluke_model::policy::Policy;
use fluke_model::service::{Health, Replica, SnapshotService};
use fluke_model::snapshot::Snapshot;
use fluke_model::verdict::Drift;

use super::*;
use crate::host::environment::Environment;
use crate::services::fixture::{HOST, deployment, service, spec};
use crate::services::plan::Replaces;

/// A host that should have one of `db` and one of `web`, and does not understand `new`.
fn desired() -> Desired {
    let of = |name: &str, container| SnapshotService {
        name: service(name),
        policy: Policy::AlertOnly,
        container,
        replicas: vec![Replica::Own],
        listens: Vec::new(),
    };
    let services = vec![
        Arc::new(of("db", Some(Arc::new(spec("db:1"))))),
        Arc::new(of("new", None)),
        Arc::new(of("web", Some(Arc::new(spec("web:1"))))),
    ];
    let snapshot = Arc::new(Snapshot::default().with_services(services));
    let held = Arc::new(Held { commit: CommitId::new("c1"), snapshot });
    let host = AgentName::new(HOST).expect("a name");
    Desired::new(held, &host, &Environment::from_pairs([("GREETING", "hello")]))
}

fn report(name: &str, phase: Phase, note: &str) -> DeploymentReport {
    let it = deployment(name, spec("web:1"));
    DeploymentReport {
        id: it.id,
        service: it.service,
        replica: it.replica,
        verdict: Verdict::Drifted(Drift::because("so")),
        phase,
        health: Health::None,
        image: "web:1".into(),
        digest: None,
        container: None,
        address: None,
        serves: phase == Phase::Running,
        note: Some(note.into()),
    }
}

fn deploy(name: &str) -> Change {
    let deployment = deployment(name, spec("web:1"));
    Change::Deploy { deployment, replaces: Replaces::Nothing, ahead: false }
}

/// What somebody is told who asked for this service, or for all.
fn told(plan: &Plan, only: Option<&str>) -> String {
    match settled(plan, only.map(service).as_ref(), &desired()) {
        None => "it goes on".into(),
        Some(None) => "done".into(),
        Some(Some(problem)) => problem,
    }
}

#[test]
fn who_asked_for_one_service_waits_for_no_other() {
    let running = report("web", Phase::Running, "");
    for (db, changes, of_all) in [
        (Phase::Failed, vec![], "db: so"),
        (Phase::Pulling, vec![], "it goes on"),
        (Phase::Missing, vec![deploy("db")], "it goes on"),
    ] {
        let reports = vec![report("db", db, "so"), running.clone()];
        let plan = Plan { reports, changes, ..Plan::default() };
        assert_eq!(told(&plan, Some("web")), "done", "{db:?}");
        assert_eq!(told(&plan, Some("db")), of_all, "{db:?}");
        assert_eq!(told(&plan, None), of_all, "{db:?}");
    }
    // Without a network nothing can be made.
    let changes = vec![Change::MakeNetwork { replaces: false }];
    let plan = Plan { reports: vec![running], changes, ..Plan::default() };
    assert_eq!(told(&plan, Some("web")), "it goes on");
}

#[test]
fn what_failed_is_told_each_once() {
    let reports = vec![
        report("db", Phase::Failed, "no such image"),
        report("web", Phase::Failed, "it does not stay up"),
        report("web", Phase::Failed, "it does not stay up"),
    ];
    let plan = Plan { reports, ..Plan::default() };
    assert_eq!(told(&plan, None), "db: no such image\nweb: it does not stay up");
    assert_eq!(told(&plan, Some("web")), "web: it does not stay up");
}

#[test]
fn nobody_is_told_that_something_is_done_which_is_not_here() {
    let plan = Plan::default();
    assert!(told(&plan, Some("mail")).contains("nothing of it is to run on this host"));
    assert!(told(&plan, Some("new")).contains("too old"));
    assert_eq!(told(&plan, None), "done");
}

#[test]
fn who_has_waited_long_enough_is_told_what_for() {
    let reports = vec![report("db", Phase::Failed, "x"), report("web", Phase::Pulling, "2 of 5")];
    let plan = Plan { reports, ..Plan::default() };
    for only in [None, Some("web")] {
        let late = unsettled(&plan, only.map(service).as_ref());
        assert_eq!(late, "it is not done after five minutes: web: 2 of 5");
    }
    let stuck = Plan { changes: vec![deploy("web")], ..Plan::default() };
    assert_eq!(unsettled(&stuck, None), "it is not done after five minutes");
}

#[test]
fn what_was_said_before_anybody_looked_is_said_anew_and_whole_by_whoever_has_looked() {
    let one = [report("web", Phase::Failed, "no Podman")];
    let other = [report("web", Phase::Failed, "no Podman yet")];
    let found = [report("web", Phase::Running, "")];
    let mut said = Said::default();
    let mut says = |reports: &[DeploymentReport], seen| {
        let report = said.deployments(reports, None, seen);
        report.map(|it| (it.whole, it.unseen, it.deployments.len()))
    };
    assert_eq!(says(&one, false), Some((true, true, 1)));
    assert_eq!(says(&one, false), None);
    assert_eq!(says(&other, false), Some((false, true, 1)));
    assert_eq!(
        says(&other, true),
        Some((true, false, 1)),
        "the server keeps what was not spoken of"
    );
    assert_eq!(says(&other, true), None);
    assert_eq!(says(&found, true), Some((false, false, 1)));
    assert_eq!(Said::default().deployments(&one, None, true).map(|it| it.unseen), Some(false));
}
