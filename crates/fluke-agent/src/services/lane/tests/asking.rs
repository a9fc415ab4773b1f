//! What waits for somebody, and who asked.

use fluke_model::id::CommitId;
use fluke_model::snapshot::Snapshot;

use super::*;
use crate::state::Held;

#[test]
fn what_a_policy_leaves_to_a_human_waits_until_somebody_asks() {
    tell(async |stage| {
        let mut web = service("web", spec(RUNS));
        web.policy = Policy::AlertOnly;
        let id = stage.wants([web])[0];
        let waits = |report: &DeploymentReport| {
            report.note.as_deref().is_some_and(|note| note.contains("alert_only"))
        };
        stage.until_report(id, waits).await;
        assert_eq!(stage.containers().await.len(), 0);
        let instruction = InstructionId { session: stage.session(), number: 7 };
        let trigger = Trigger::Manual { by: "ann".into() };
        stage.lane().inbox.settle(Settle { instruction, service: None, trigger });
        stage.until(|stage| stage.settled(instruction)).await;
        assert!(stage.report(id).is_some_and(|report| report.serves));
        let began = stage.facts("container.web");
        assert!(matches!(began[0], Fact::Began { .. }));
    });
}

#[test]
fn each_who_asks_for_a_service_gets_that_one_and_an_answer() {
    tell(async |stage| {
        let waiting = |name: &str| {
            let policy = Policy::AlertOnly;
            SnapshotService { policy, ..service(name, spec(RUNS)) }
        };
        let [db, mail, web] = stage.wants(["db", "mail", "web"].map(waiting))[..] else {
            panic!("three are wanted");
        };
        stage.until_report(mail, |report| report.note.is_some()).await;
        let session = stage.session();
        let asked = [(1, "web"), (2, "db"), (3, "gone")].map(|(number, name)| {
            let instruction = InstructionId { session, number };
            let service = Some(ServiceName::new(name).expect("a name"));
            let trigger = Trigger::Manual { by: "ann".into() };
            // Nobody waits for the answer to another.
            assert!(stage.lane().inbox.settle(Settle { instruction, service, trigger }));
            instruction
        });
        let [of_web, of_db, of_gone] = asked;
        stage.until(|stage| stage.settled(of_web) && stage.settled(of_db)).await;
        for (id, part, instruction) in [(web, "container.web", of_web), (db, "container.db", of_db)]
        {
            assert!(stage.report(id).is_some_and(|report| report.serves), "{part}");
            assert_eq!(stage.done_for(part), [Some(instruction)]);
        }
        assert!(!stage.report(mail).is_some_and(|report| report.serves), "nobody asked for it");
        assert!(
            stage.problem_of(of_gone).is_some_and(|why| why.contains("is to run on this host"))
        );
    });
}

#[tokio::test]
async fn who_asks_as_soon_as_an_agent_is_there_has_nothing_else_tried_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let services = ["db", "web"].map(|name| service(name, spec(RUNS)));
    let ids = services.each_ref().map(|it| {
        let (_, id) = it.deployments(&lane.host).next().expect("one of each");
        lane.deployments.gave_up_for_good(id, "it was no good".into(), Instant::now());
        id
    });
    let snapshot = Snapshot::default().with_services(services.map(Arc::new).into());
    let held = Held { commit: CommitId::new("c1"), snapshot: Arc::new(snapshot) };
    lane.inbox.hold(Arc::new(held), false);
    lane.inbox.session(Some(SessionId(1)));
    let instruction = InstructionId { session: SessionId(1), number: 7 };
    let trigger = Trigger::Manual { by: "ann".into() };
    let web = Some(fixture::service("web"));
    assert!(lane.inbox.settle(Settle { instruction, service: web, trigger }));
    lane.hear();
    assert_eq!(lane.settling.len(), 1, "it was taken up");
    let given_up: Vec<DeploymentId> = lane.deployments.given_up().into_keys().collect();
    assert_eq!(given_up, [ids[0]], "of the other nobody spoke");
}
