//! Stories of a lane with a real Podman, on a machine of its own as far as Podman can tell.

mod stage;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use fluke_model::directory::{Names, Subnet};
use fluke_model::id::{InstructionId, ServiceName, VolumeName};
use fluke_model::message::{DirectoryEdit, Fact, SectionReport};
use fluke_model::policy::{Policy, Trigger};
use fluke_model::service::{ContainerSpec, HealthSpec, Phase, Replica, SnapshotService};
use fluke_model::verdict::Outcome;
use fluke_model::volume::{Volume, Volumes};

use super::*;
use crate::executor::Allow;
use crate::services::inbox::Settle;
use crate::services::podman::create::{Spot, container_name, create_body};
use crate::services::{bridge, fixture};
use stage::{RUNS, Stage, service, spec, tell};

fn with_health(command: &str) -> ContainerSpec {
    let health = HealthSpec {
        command: "test -e /tmp/well".into(),
        interval_ms: 60_000,
        timeout_ms: 5_000,
        retries: 3,
        start_period_ms: 0,
    };
    ContainerSpec { health: Some(health), ..spec(command) }
}

/// Comes up, and is well from the beginning.
const WELL: &str = "mkdir -p /tmp; touch /tmp/well; trap 'exit 0' TERM; sleep 1000 & wait";

#[test]
fn a_service_is_deployed_from_nothing() {
    tell("a_service_is_deployed_from_nothing", async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let report = stage.until_serves(web).await;
        let address = report.address.expect("it has one");
        assert!(stage.subnet().contains(address));
        let containers = stage.containers().await;
        assert_eq!(containers.len(), 1);
        assert_eq!(containers[0].state, "running");
        let labels = containers[0].labels.clone().expect("labels");
        assert_eq!(labels["fluke.service.name"], "web");
        assert_eq!(labels["fluke.deployment.id"], web.to_string());
        stage.until(|stage| stage.endings("container.web").len() == 1).await;
        assert_eq!(stage.endings("network.fluke"), [Outcome::Success]);
        assert_eq!(stage.endings("container.web"), [Outcome::Success]);
    });
}

#[test]
fn a_killed_container_is_started_again() {
    tell("a_killed_container_is_started_again", async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await.remove(0);
        stage.kill(&before);
        let after = stage.until_runs_other_than(&before).await;
        assert_eq!(before.id, after.id, "it is the same container");
        stage.until_serves(web).await;
    });
}

#[test]
fn a_container_that_does_not_stay_up_is_not_started_without_end() {
    tell("a_container_that_does_not_stay_up_is_not_started_without_end", async |stage| {
        let web = stage.wants([service("web", spec("exit 3"))])[0];
        let report = stage.until_report(web, |report| report.phase == Phase::Failed).await;
        assert!(report.note.is_some_and(|note| note.contains("does not stay up")));
        assert!(stage.endings("container.web").len() >= 2, "it was tried again at once");
    });
}

#[test]
fn a_container_that_somebody_removed_is_made_anew_at_its_address() {
    tell("a_container_that_somebody_removed_is_made_anew_at_its_address", async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let address = stage.until_serves(web).await.address;
        let before = stage.containers().await.remove(0);
        stage.podman.remove(&before.id).await.expect("removed");
        stage.until_runs_other_than(&before).await;
        assert_eq!(stage.until_serves(web).await.address, address);
    });
}

#[test]
fn a_container_that_somebody_put_in_its_place_goes() {
    tell("a_container_that_somebody_put_in_its_place_goes", async |stage| {
        let web = service("web", spec(RUNS));
        let id = stage.wants([web])[0];
        stage.until_serves(id).await;
        let before = stage.containers().await.remove(0);
        // With all labels, and without the limits of the real one.
        let impostor = fixture::deployment("web", spec(RUNS));
        let mut other = impostor.clone();
        let cpu_millis = Some(500);
        let resources = fluke_model::service::Resources { cpu_millis, memory: None };
        other.spec = Arc::new(ContainerSpec { resources, ..spec(RUNS) });
        let address = stage.subnet().address(77);
        let spot = Spot { network: bridge::NETWORK, address, gateway: stage.subnet().gateway() };
        let body = create_body(&other, Default::default(), spot, stage::few());
        stage.podman.remove(&before.id).await.expect("removed");
        let made = stage.podman.create(&body).await;
        stage
            .until_all_is(async |stage| {
                let containers = stage.containers().await;
                let is_real = |it: &crate::services::podman::Listed| {
                    Some(&it.id) != made.as_ref().ok() && it.state == "running"
                };
                containers.len() == 1 && is_real(&containers[0])
            })
            .await;
    });
}

#[test]
fn a_bad_image_keeps_the_old_one_serving() {
    tell("a_bad_image_keeps_the_old_one_serving", async |stage| {
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
fn an_image_that_cannot_be_had_is_on_record_once_until_somebody_asks() {
    tell("an_image_that_cannot_be_had_is_on_record_once_until_somebody_asks", async |stage| {
        let says = |text: &'static str| {
            move |report: &DeploymentReport| {
                report.note.as_deref().is_some_and(|note| note.contains(text))
            }
        };
        let bad = ContainerSpec { image: "localhost:1/none:1".into(), ..spec(RUNS) };
        let web = stage.wants([service("web", bad)])[0];
        for _ in 0..3 {
            stage.until_report(web, says("its image is asked for")).await;
            stage.until_report(web, says("Podman would not pull localhost:1/none:1")).await;
        }
        assert_eq!(stage.endings("container.web"), [Outcome::Failure]);
        let facts = stage.facts("container.web");
        assert!(matches!(&facts[0], Fact::Began { reason } if reason.contains("none:1")));
        let instruction = InstructionId { session: stage.session(), number: 7 };
        let trigger = Trigger::Manual { by: "ann".into() };
        stage.lane().inbox.settle(Settle { instruction, service: None, trigger });
        stage.until(|stage| stage.endings("container.web") == [Outcome::Failure; 2]).await;
    });
}

#[test]
fn a_successor_that_does_not_become_well_goes_and_the_old_one_stays() {
    tell("a_successor_that_does_not_become_well_goes_and_the_old_one_stays", async |stage| {
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
fn a_successor_serves_before_its_predecessor_goes() {
    tell("a_successor_serves_before_its_predecessor_goes", async |stage| {
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

#[test]
fn a_container_that_is_not_well_any_more_is_started_again() {
    tell("a_container_that_is_not_well_any_more_is_started_again", async |stage| {
        let mut well = with_health(WELL);
        let health = well.health.as_mut().expect("it has one");
        (health.interval_ms, health.retries, health.timeout_ms) = (300, 1, 1000);
        let web = stage.wants([service("web", well)])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await.remove(0);
        stage.cli(&["exec", &before.id, "busybox", "rm", "/tmp/well"]);
        let after = stage.until_runs_other_than(&before).await;
        assert_eq!(before.id, after.id, "it is the same container");
        stage.until_serves(web).await;
        let is_told =
            |fact: &Fact| matches!(fact, Fact::Began { reason } if reason.contains("not well"));
        stage.until(|stage| stage.facts("container.web").iter().any(is_told)).await;
        stage.until(|stage| stage.endings("container.web").len() == 2).await;
        assert_eq!(stage.endings("container.web"), [Outcome::Success; 2]);
    });
}

/// Listens at 3000 once somebody has made a file.
const LATE: &str = "trap 'exit 0' TERM; until test -e /tmp/go; do sleep 0.05; done; \
                    busybox httpd -p 3000 -h /tmp; sleep 1000 & wait";

#[test]
fn a_successor_without_a_health_check_serves_once_it_listens() {
    tell("a_successor_without_a_health_check_serves_once_it_listens", async |stage| {
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
    tell("one_that_listens_nowhere_serves_all_the_same_and_it_is_said", async |stage| {
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
    tell("another_value_of_this_host_starts_a_successor_first", async |stage| {
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

#[test]
fn what_is_not_wanted_any_more_goes_and_its_volume_stays() {
    tell("what_is_not_wanted_any_more_goes_and_its_volume_stays", async |stage| {
        let mut db = spec(RUNS);
        db.volumes.insert(VolumeName::new("data").expect("a name"), "/data".into());
        let id = stage.wants([service("db", db)])[0];
        stage.until_serves(id).await;
        stage.wants([]);
        stage.until_report(id, |report| report.phase == Phase::Retiring).await;
        stage.lane().inbox.release(vec![id]);
        stage.until(|stage| stage.report(id).is_none()).await;
        assert_eq!(stage.containers().await.len(), 0);
        let volumes = stage.podman.volumes().await.expect("listed");
        let names: Vec<String> = volumes.iter().map(|volume| volume.to_string()).collect();
        assert_eq!(names, ["fluke.db.data"]);
    });
}

#[test]
fn others_are_told_of_volumes_for_as_long_as_they_are_there() {
    tell("others_are_told_of_volumes_for_as_long_as_they_are_there", async |stage| {
        let data = VolumeName::new("data").expect("a name");
        let mut db = service("db", spec(RUNS));
        db.replicas = vec![Replica::Number(2)];
        let container = db.container.as_mut().expect("it has one");
        container.volumes.insert(data.clone(), "/data".into());
        let volume =
            Volume { service: db.name.clone(), replica: Replica::Number(2), name: data.clone() };
        let id = stage.wants([db])[0];
        stage.until_serves(id).await;
        let its = Some(Volumes::from([volume.clone()]));
        stage.until(|stage| stage.volumes == its).await;
        let labels =
            stage.cli(&["volume", "inspect", "--format", "{{.Labels}}", "fluke.db.data.2"]);
        assert!(labels.contains("fluke.service.name:db"), "{labels}");

        stage.wants([]);
        stage.lane().inbox.release(vec![id]);
        stage.until(|stage| stage.report(id).is_none()).await;
        assert_eq!(stage.volumes, its, "it was left");
        stage.cli(&["volume", "create", "fluke.db.data.7"]);
        let restored = Volume { replica: Replica::Number(7), ..volume };
        stage.until(|stage| stage.volumes.as_ref().is_some_and(|it| it.contains(&restored))).await;
        stage.cli(&["volume", "rm", "fluke.db.data.2", "fluke.db.data.7"]);
        stage.until(|stage| stage.volumes == Some(Volumes::new())).await;
    });
}

#[test]
fn what_somebody_else_runs_is_left_alone() {
    tell("what_somebody_else_runs_is_left_alone", async |stage| {
        let run = ["run", "-d", "--name", "theirs", "--network", "none"];
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
        let what = ["localhost/box:1", "sleep", "1000"];
        stage.cli(&[&run[..], &limits[..], &what[..]].concat());
        let before = stage.containers().await.remove(0);
        let web = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(web).await;
        stage.wants([]);
        stage.lane().inbox.release(vec![web]);
        stage.until(|stage| stage.report(web).is_none()).await;
        let after = stage.containers().await;
        assert_eq!(after, [before]);
    });
}

#[test]
fn an_agent_that_was_killed_between_making_and_starting_leaves_one_container() {
    let name = "an_agent_that_was_killed_between_making_and_starting_leaves_one_container";
    tell(name, async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let report = stage.until_serves(web).await;
        stage.crash();
        let made = stage.containers().await.remove(0);
        stage.podman.remove(&made.id).await.expect("removed");
        let address = report.address.expect("it has one");
        let spot = Spot { network: bridge::NETWORK, address, gateway: stage.subnet().gateway() };
        let deployment = fixture::deployment("web", spec(RUNS));
        let body = create_body(&deployment, Default::default(), spot, stage::few());
        let half = stage.podman.create(&body).await.expect("made");
        stage.start();
        stage.until_serves(web).await;
        let containers = stage.containers().await;
        assert_eq!(containers.len(), 1);
        assert_eq!((containers[0].id.as_str(), containers[0].state.as_str()), (&*half, "running"));
    });
}

#[test]
fn a_bridge_or_a_network_that_somebody_removed_is_put_back() {
    tell("a_bridge_or_a_network_that_somebody_removed_is_put_back", async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let address = stage.until_serves(web).await.address.expect("it has one");
        assert!(stage.answers_ping(address));
        stage::ip("link delete fluke-br0");
        stage.look_again();
        stage.until_all_is(async |stage| stage.answers_ping(address)).await;
        stage.until_serves(web).await;
        // Podman makes no network that the host still has a bridge of.
        stage.forget_network();
        stage::ip("link delete fluke-br0");
        stage.look_again();
        stage.until_all_is(async |stage| stage.answers_ping(address)).await;
        assert!(stage.podman.network(bridge::NETWORK).await.expect("asked").is_some());
    });
}

/// Podman 5 says no where it cannot tidy up after what it did.
#[test]
fn containers_end_and_go_also_when_their_network_went_before_them() {
    tell("containers_end_and_go_also_when_their_network_went_before_them", async |stage| {
        let ids = stage.wants([service("one", spec(RUNS)), service("two", spec(RUNS))]);
        for id in ids {
            stage.until_serves(id).await;
        }
        stage.crash();
        stage.forget_network();
        stage::ip("link delete fluke-br0");
        let [one, two] = stage.containers().await.try_into().expect("two of them");
        stage.podman.stop(&one.id, Duration::ZERO).await.expect("stopped");
        stage.podman.remove(&two.id).await.expect("removed");
        let left = stage.containers().await;
        assert_eq!(left.len(), 1);
        assert_eq!((&left[0].id, &*left[0].state), (&one.id, "exited"));
    });
}

#[test]
fn another_subnet_moves_everything() {
    tell("another_subnet_moves_everything", async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let before = stage.until_serves(web).await.address.expect("it has one");
        let subnet = Subnet::new(stage.subnet().number() % 1000 + 1).expect("in range");
        let claim = Claim { subnet, since: fluke_model::time::Timestamp(1) };
        stage.lane().inbox.grant(claim);
        let moved = stage
            .until_report(web, |report| report.address.is_some_and(|it| subnet.contains(it)))
            .await;
        assert_ne!(moved.address, Some(before));
        assert_eq!(stage.containers().await.len(), 1);
    });
}

#[test]
fn containers_find_each_other_by_name() {
    tell("containers_find_each_other_by_name", async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let address = stage.until_serves(web).await.address.expect("it has one");
        let names: Names =
            vec![(ServiceName::new("shop").expect("a name"), BTreeSet::from([address]))].into();
        assert_eq!(stage.lane().inbox.edit(DirectoryEdit::Names(names.whole())), None);
        let hash = names.hash();
        stage
            .until(|stage| {
                stage
                    .network()
                    .is_some_and(|it| it.names.hash == hash && it.names.problem.is_none())
            })
            .await;
        let said = stage.cli(&["exec", "-l", "nslookup", "shop.internal"]);
        assert!(said.contains(&address.to_string()), "{said}");
    });
}

#[test]
fn what_a_policy_leaves_to_a_human_waits_until_somebody_asks() {
    tell("what_a_policy_leaves_to_a_human_waits_until_somebody_asks", async |stage| {
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
    tell("each_who_asks_for_a_service_gets_that_one_and_an_answer", async |stage| {
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

#[test]
fn podman_that_is_away_is_a_problem_and_no_crash() {
    tell("podman_that_is_away_is_a_problem_and_no_crash", async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(web).await;
        stage.podman_ends();
        let says = |report: &DeploymentReport| {
            report.note.as_deref().is_some_and(|note| note.contains("Podman does not answer"))
        };
        let report = stage.until_report(web, says).await;
        assert!(report.serves, "what runs goes on");
        assert!(
            report.note.is_some_and(|note| note.contains("systemctl enable --now podman.socket"))
        );
        stage.podman_begins();
        stage.until_report(web, |report| report.note.is_none() && report.serves).await;
    });
}

#[test]
fn an_image_is_the_one_that_is_wanted_however_its_name_is_written() {
    tell("an_image_is_the_one_that_is_wanted_however_its_name_is_written", async |stage| {
        stage.cli(&["tag", "localhost/box:1", "localhost/box:latest"]);
        let image = "localhost/box".to_string();
        let web = stage.wants([service("web", ContainerSpec { image, ..spec(RUNS) })])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await.remove(0);
        let instruction = InstructionId { session: stage.session(), number: 1 };
        let trigger = Trigger::Manual { by: "ann".into() };
        stage.lane().inbox.settle(Settle { instruction, service: None, trigger });
        stage.until(|stage| stage.settled(instruction)).await;
        let after = stage.containers().await.remove(0);
        assert_eq!((before.id, before.pid), (after.id, after.pid), "it is left alone");
        assert_eq!(stage.endings("container.web"), [Outcome::Success]);
    });
}

#[test]
fn a_name_that_somebody_else_has_is_left_to_them() {
    tell("a_name_that_somebody_else_has_is_left_to_them", async |stage| {
        let web = service("web", spec(RUNS));
        let name = container_name(&fixture::deployment("web", spec(RUNS)));
        stage.cli(&["create", "--name", &name, "--network", "none", "localhost/box:1", "true"]);
        let theirs = stage.containers().await;
        let id = stage.wants([web])[0];
        let report = stage.until_serves(id).await;
        assert_eq!(report.container, Some(format!("{name}-2")));
        assert!(stage.containers().await.contains(&theirs[0]), "it is as it was");
    });
}

#[test]
fn a_container_does_not_fill_the_disk_by_talking() {
    tell("a_container_does_not_fill_the_disk_by_talking", async |stage| {
        let line = "trap 'exit 0' TERM; busybox yes a long line of a log that nobody reads | \
                    busybox head -c 60000000; touch /tmp/said; sleep 1000 & wait";
        let web = stage.wants([service("web", spec(line))])[0];
        let container = stage.until_serves(web).await.container.expect("it has one");
        let has_said = ["exec", &container, "test", "-e", "/tmp/said"];
        stage.until(|stage| stage.is_so(&has_said)).await;
        let path =
            stage.cli(&["inspect", "--format", "{{.HostConfig.LogConfig.Path}}", &container]);
        let log = std::fs::metadata(path.trim()).expect("it has a log");
        assert!(log.len() < 20_000_000, "{} bytes", log.len());
    });
}

#[test]
fn a_container_that_a_power_cut_damaged_keeps_the_others_from_nothing() {
    tell("a_container_that_a_power_cut_damaged_keeps_the_others_from_nothing", async |stage| {
        let ids = stage.wants([service("one", spec(RUNS)), service("two", spec(RUNS))]);
        for id in &ids {
            stage.until_serves(*id).await;
        }
        stage.crash();
        for container in stage.containers().await {
            stage.podman.stop(&container.id, Duration::ZERO).await.expect("stopped");
        }
        let damaged = stage.containers().await.remove(0);
        stage.podman_ends();
        stage.forget_storage_of(&damaged);
        stage.podman_begins();
        assert!(stage.podman.inspect(&damaged.id).await.is_err(), "Podman says nothing of it");
        assert_eq!(stage.containers().await.len(), 2, "and lists it all the same");
        stage.start();
        for id in ids {
            stage.until_serves(id).await;
        }
        let left = stage.containers().await;
        assert!(left.len() == 2 && left.iter().all(|it| it.id != damaged.id), "{left:?}");
    });
}

/// One that looks at nothing by itself, and says nothing to anybody.
fn asleep(dir: &std::path::Path, allow: &Allow) -> Lane {
    let (out, _said) = tokio::sync::mpsc::channel(1);
    let socket = dir.join("podman.sock");
    let podman = Podman::at(&socket).expect("a client");
    Lane::new(Start {
        host: AgentName::new(fixture::HOST).expect("a name"),
        node_type: NodeType::Worker,
        config: ServicesConfig { socket, ..ServicesConfig::default() },
        ceiling: Ceiling::of(allow),
        environment: Environment::from_pairs([("", "")]),
        clock: Arc::new(|| std::time::SystemTime::now().into()),
        folder: Folder::within(dir),
        inbox: Arc::default(),
        scribe: Scribe(out),
        podman,
    })
}

#[tokio::test]
async fn news_of_a_fleet_that_changes_all_the_time_wait_for_what_is_due_here() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    lane.inbox.release(Vec::new());
    lane.look_at = Instant::now().checked_sub(Duration::from_secs(1));
    assert_eq!(lane.wait().await, Wake::Due);
    lane.look_at = None;
    assert_eq!(lane.wait().await, Wake::Told, "whatever it was, it is heard then");
}

#[tokio::test]
async fn images_that_were_fetched_are_watched_over_only_where_they_may_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fetched = Fetched::default();
    fetched.came("web:1".into(), "one".into());
    Folder::within(dir.path()).keep_fetched(&fetched);
    for (executors, is_watchful) in [(None, true), (Some(vec!["shell".into()]), false)] {
        let allow = Allow { executors, ..Allow::default() };
        assert_eq!(asleep(dir.path(), &allow).is_watchful(), is_watchful, "{allow:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_was_told_of_others_alone_goes_on_trying() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut stage = Stage::proxy_without_podman(dir);
    // Where the new file is to be prepared, there is something in the way.
    let obstacle = stage.state("names.json.new");
    std::fs::create_dir_all(&obstacle).expect("room");
    let names: Names = vec![(ServiceName::new("shop").expect("a name"), BTreeSet::new())].into();
    stage.lane().inbox.edit(DirectoryEdit::Names(names.whole()));
    let has_problem = |stage: &Stage| stage.network().map(|it| it.names.problem.is_some());
    stage.until(|stage| has_problem(stage) == Some(true)).await;
    std::fs::remove_dir(&obstacle).expect("removed");
    stage.until(|stage| has_problem(stage) == Some(false)).await;
}

#[test]
fn what_the_hosts_own_config_refuses_is_not_begun() {
    tell("what_the_hosts_own_config_refuses_is_not_begun", async |stage| {
        stage.crash();
        stage.allows(Some(&["shell"]));
        stage.start();
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let refused = "`container` is not among `allow.executors` (agent.hcl:7)";
        let says = |report: &DeploymentReport| {
            report.note.as_deref().is_some_and(|note| note.ends_with(refused))
        };
        let report = stage.until_report(web, says).await;
        assert_eq!((report.phase, report.serves), (Phase::Missing, false));
        let instruction = InstructionId { session: stage.session(), number: 7 };
        let trigger = Trigger::Manual { by: "ann".into() };
        stage.lane().inbox.settle(Settle { instruction, service: None, trigger });
        stage.until(|stage| stage.problem_of(instruction).is_some()).await;
        let problem = stage.problem_of(instruction).unwrap_or_default();
        assert!(problem.ends_with(refused), "who asks is told at once: {problem}");
        assert_eq!(stage.containers().await.len(), 0);
        assert!(stage.podman.network(bridge::NETWORK).await.expect("told").is_none());
        assert_eq!(stage.interfaces(), ["lo"]);
        assert!(stage.facts("container.web").is_empty(), "nothing was tried");
    });
}

#[test]
fn what_runs_where_it_is_refused_now_is_left_alone_and_shown() {
    tell("what_runs_where_it_is_refused_now_is_left_alone_and_shown", async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await.remove(0);
        stage.crash();
        stage.allows(Some(&["shell"]));
        stage.start();
        let is_left = |report: &DeploymentReport| {
            report.note.as_deref().is_some_and(|note| note.ends_with("is left alone"))
        };
        let report = stage.until_report(web, is_left).await;
        assert_eq!((report.phase, report.serves), (Phase::Running, true));
        let is_refused = |part: &SectionReport| {
            part.problem.as_deref().is_some_and(|problem| problem.contains("allow.executors"))
        };
        stage
            .until(|stage| {
                stage.network().is_some_and(|it| is_refused(&it.names) && is_refused(&it.mesh))
            })
            .await;

        stage.kill(&before);
        stage.until_report(web, |report| report.phase == Phase::Stopped).await;
        stage.wants([]);
        let goes = |report: &DeploymentReport| report.phase == Phase::Retiring && is_left(report);
        stage.until_report(web, goes).await;
        let after = stage.containers().await;
        assert_eq!((after.len(), &after[0].id), (1, &before.id), "nobody touched it");

        stage.crash();
        stage.allows(None);
        stage.start();
        stage.until_all_is(async |stage| stage.containers().await.is_empty()).await;
    });
}

#[tokio::test]
async fn where_nothing_is_wanted_and_nothing_is_there_the_lane_is_silent() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut stage = Stage::without_podman(dir);
    stage.wants([]);
    stage.until(|stage| stage.has_heard_everything()).await;
    assert!(stage.is_silent());
    let none: Option<Ipv4Addr> = None;
    assert_eq!(stage.claimed(), none, "nothing is claimed");
}
