//! One version of a service takes over from another.

use super::*;

#[test]
fn a_bad_image_keeps_the_old_one_serving() {
    tell(async |stage| {
        let old = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(old).await;
        let before = stage.containers().await.remove(0);
        let bad = ContainerSpec { image: "localhost:1/none:1".into(), ..spec(RUNS) };
        let new = stage.wants([service("web", bad)])[0];
        stage.until_report(new, |report| report.phase == Phase::Failed).await;
        assert!(stage.report(old).is_some_and(|report| report.serves));
        let after = stage.containers().await.remove(0);
        assert_eq!((before.id, before.pid), (after.id, after.pid));
    });
}

#[test]
fn a_successor_that_does_not_become_well_goes_and_the_old_one_stays() {
    tell(async |stage| {
        let old = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(old).await;
        let mut ill = with_health(RUNS);
        let health = ill.health.as_mut().expect("it has one");
        (health.interval_ms, health.retries, health.timeout_ms) = (300, 1, 1000);
        let new = stage.wants([service("web", ill)])[0];
        stage.until(|stage| stage.endings("container.web").contains(&Outcome::Failure)).await;
        assert!(stage.report(old).is_some_and(|report| report.serves));
        stage.until_report(new, |report| report.phase == Phase::Failed).await;
        stage.until_all_is(async |stage| stage.containers().await.len() == 1).await;
        assert!(stage.report(old).is_some_and(|report| report.serves));
    });
}

#[test]
fn an_old_one_that_died_while_its_successor_cannot_be_had_serves_again_once_it_is_well() {
    tell(async |stage| {
        let old = stage.wants([service("web", with_health(WELL))])[0];
        stage.until_serves(old).await;
        let before = stage.containers().await.remove(0);
        let bad = ContainerSpec { image: "localhost:1/none:1".into(), ..with_health(WELL) };
        let new = stage.wants([service("web", bad)])[0];
        stage.until_report(new, |report| report.phase == Phase::Failed).await;
        stage.kill(&before);
        stage.until_report(old, |report| !report.serves).await;
        let report = stage.until_serves(old).await;
        assert_eq!((report.phase, report.health), (Phase::Retiring, Health::Healthy));
        let after = stage.containers().await.remove(0);
        assert_eq!(before.id, after.id, "it is the same container");
    });
}

#[test]
fn an_old_one_that_is_not_well_any_more_is_not_led_to_and_started_again() {
    tell(async |stage| {
        let mut well = with_health(WELL);
        let health = well.health.as_mut().expect("it has one");
        (health.interval_ms, health.retries, health.timeout_ms) = (300, 1, 1000);
        let old = stage.wants([service("web", well.clone())])[0];
        stage.until_serves(old).await;
        let before = stage.containers().await.remove(0);
        let bad = ContainerSpec { image: "localhost:1/none:1".into(), ..well };
        let new = stage.wants([service("web", bad)])[0];
        stage.until_report(new, |report| report.phase == Phase::Failed).await;
        stage.cli(&["exec", &before.id, "busybox", "rm", "/tmp/well"]);
        stage.until_report(old, |report| !report.serves).await;
        let after = stage.until_runs_other_than(&before).await;
        assert_eq!(before.id, after.id, "it is the same container");
        let report = stage.until_serves(old).await;
        assert_eq!((report.phase, report.health), (Phase::Retiring, Health::Healthy));
    });
}

#[test]
fn an_old_one_with_a_volume_serves_again_when_its_successor_was_no_good() {
    tell(async |stage| {
        let old = stage.wants([service("db", with_volume(with_health(WELL)))])[0];
        stage.until_serves(old).await;
        let before = stage.containers().await.remove(0);
        let mut ill = with_volume(with_health(RUNS));
        let health = ill.health.as_mut().expect("it has one");
        (health.interval_ms, health.retries, health.timeout_ms) = (300, 1, 1000);
        let ill = service("db", ill);
        let new = stage.wants([ill.clone()])[0];
        stage.until_report(old, |report| !report.serves).await;
        stage.until_report(new, |report| report.phase == Phase::Failed).await;
        let report = stage.until_serves(old).await;
        assert_eq!(report.health, Health::Healthy);
        let is_old = |it: &&Listed| it.id == before.id && it.state == "running";
        assert_eq!(stage.containers().await.iter().filter(is_old).count(), 1);

        // What serves is stopped for another try when somebody asks, and for nobody else's change.
        stage.until_report(new, waits_for_somebody).await;
        let tries = |stage: &Stage| stage.endings("container.db").len();
        let tried = tries(stage);
        let other = stage.wants([ill, service("web", spec(RUNS))])[1];
        stage.until_serves(other).await;
        assert_eq!(tries(stage), tried);
        stage.crash();
        stage.start();
        stage.until_report(new, waits_for_somebody).await;
        stage.until_serves(other).await;
        assert_eq!(tries(stage), tried, "an agent remembers");
        let instruction = InstructionId { session: stage.session(), number: 7 };
        let trigger = Trigger::Manual { by: "ann".into() };
        let service = Some(fixture::service("db"));
        stage.lane().inbox.settle(Settle { instruction, service, trigger });
        stage.until(|stage| stage.problem_of(instruction).is_some()).await;
        assert!(tries(stage) > tried);
        stage.until_serves(old).await;
    });
}

/// Why a deployment is not tried again before somebody says so.
fn waits_for_somebody(report: &DeploymentReport) -> bool {
    let note = report.note.as_deref();
    note.is_some_and(|note| note.ends_with("or by `fluke reconcile service db`"))
}

#[test]
fn an_old_one_with_a_volume_serves_on_when_its_successor_cannot_be_made() {
    tell(async |stage| {
        let old = stage.wants([service("db", with_volume(spec(RUNS)))])[0];
        stage.until_serves(old).await;
        let before = stage.containers().await.remove(0);
        // Podman puts no two volumes at one path.
        let mut odd = with_volume(spec(RUNS));
        odd.volumes.insert(VolumeName::new("more").expect("a name"), "/data".into());
        let new = stage.wants([service("db", odd)])[0];
        let failures = |stage: &Stage| {
            let ends = stage.endings("container.db");
            ends.iter().filter(|it| **it == Outcome::Failure).count()
        };
        stage.until(|stage| failures(stage) > 2).await;
        let report = stage.until_report(new, |report| report.phase == Phase::Failed).await;
        assert!(report.note.is_some_and(|note| note.contains("/data")), "it is said why");
        assert!(stage.report(old).is_some_and(|report| report.serves));
        let after = stage.containers().await;
        assert_eq!((after.len(), after[0].pid), (1, before.pid), "it was never stopped");
    });
}

#[test]
fn an_old_one_with_a_volume_is_stopped_once_for_a_successor_that_cannot_be_started() {
    tell(async |stage| {
        let old = stage.wants([service("db", with_volume(spec(RUNS)))])[0];
        stage.until_serves(old).await;
        let before = stage.containers().await.remove(0);
        let command = Some(vec!["/none".into()]);
        let odd = with_volume(ContainerSpec { command, ..spec(RUNS) });
        let new = stage.wants([service("db", odd)])[0];
        let report = stage.until_report(new, waits_for_somebody).await;
        assert!(report.note.is_some_and(|note| note.contains("/none")), "it is said why");
        stage.until_serves(old).await;
        let after = stage.containers().await;
        assert_eq!((after.len(), &after[0].id), (1, &before.id), "it is the same");
        assert_ne!(after[0].pid, before.pid, "it made way");
        let new = stage.wants([service("db", with_volume(with_health(WELL)))])[0];
        stage.until_serves(new).await;
        stage.until_all_is(async |stage| stage.containers().await.len() == 1).await;
    });
}

#[test]
fn a_successor_serves_before_its_predecessor_goes() {
    tell(async |stage| {
        let old = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(old).await;
        let new = stage.wants([service("web", with_health(WELL))])[0];
        stage.until_serves(new).await;
        let retiring = stage.report(old).expect("it is still there");
        assert_eq!((retiring.phase, retiring.serves), (Phase::Retiring, false));
        assert_eq!(retiring.image, "localhost/box:1");
        assert_eq!(stage.containers().await.len(), 2);
        stage.lane().inbox.release(vec![old]);
        stage.until(|stage| stage.report(old).is_none()).await;
        assert_eq!(stage.containers().await.len(), 1);
    });
}

/// Listens at 3000 once somebody has made a file.
const LATE: &str = "trap 'exit 0' TERM; until test -e /tmp/go; do sleep 0.05; done; \
                    busybox httpd -p 3000 -h /tmp; sleep 1000 & wait";

#[test]
fn a_successor_without_a_health_check_serves_once_it_listens() {
    tell(async |stage| {
        let old = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(old).await;
        let listens = vec![3000];
        let new = stage.wants([SnapshotService { listens, ..service("web", spec(LATE)) }])[0];
        let waits = |report: &DeploymentReport| {
            let note = report.note.as_deref();
            note.is_some_and(|note| note.contains("nothing listens at port 3000 yet"))
        };
        let report = stage.until_report(new, waits).await;
        assert_eq!((report.phase, report.serves), (Phase::Starting, false));
        assert!(stage.report(old).is_some_and(|report| report.serves));
        stage.cli(&["exec", &report.container.expect("it has one"), "touch", "/tmp/go"]);
        let report = stage.until_serves(new).await;
        assert_eq!((report.phase, report.note), (Phase::Running, None));
        assert!(stage.report(old).is_some_and(|report| !report.serves));
    });
}

#[test]
fn one_that_listens_nowhere_serves_all_the_same_and_it_is_said() {
    tell(async |stage| {
        let listens = vec![3000];
        let web = stage.wants([SnapshotService { listens, ..service("web", spec(LATE)) }])[0];
        let report = stage.until_serves(web).await;
        assert_eq!(report.note.as_deref(), Some("nothing listens at port 3000"));
        stage.cli(&["exec", &report.container.expect("it has one"), "touch", "/tmp/go"]);
        stage.until_report(web, |report| report.note.is_none()).await;
    });
}

#[test]
fn another_value_of_this_host_starts_a_successor_first() {
    tell(async |stage| {
        let env = [("SAYS".to_string(), "$GREETING".to_string())].into();
        let web = stage.wants([service("web", ContainerSpec { env, ..spec(RUNS) })])[0];
        let before = stage.until_serves(web).await;
        let old = stage.containers().await.remove(0);
        stage.crash();
        stage.greets("good day");
        stage.start();
        let after = stage.until_serves(web).await;
        assert_ne!((&before.container, before.address), (&after.container, after.address));
        let retires = |it: &&DeploymentReport| it.phase == Phase::Retiring;
        let retiring = stage.reports().find(retires).expect("it is still there").clone();
        assert_eq!((&retiring.container, retiring.address), (&before.container, before.address));
        let pids: Vec<i32> = stage.containers().await.iter().map(|it| it.pid).collect();
        assert!(pids.len() == 2 && pids.contains(&old.pid), "it goes on");
        stage.lane().inbox.release(vec![retiring.id]);
        stage.until(|stage| stage.reports().count() == 1).await;
        let left = stage.containers().await.remove(0);
        assert_ne!(left.id, old.id);
        assert_eq!(stage.cli(&["exec", &left.id, "sh", "-c", "echo $SAYS"]), "good day\n");
    });
}
