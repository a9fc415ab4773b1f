//! What should run runs, and what is not ours is left alone.

use super::*;

#[test]
fn a_service_is_deployed_from_nothing() {
    tell(async |stage| {
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
    tell(async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await.remove(0);
        stage.kill(&before);
        let after = stage.until_runs_other_than(&before).await;
        assert_eq!(before.id, after.id, "it is the same container");
        stage.until_serves(web).await;
    });
}

/// Why a lane does not wait for ever for somebody who changes a container.
#[test]
fn a_container_that_somebody_did_not_get_to_stop_is_stopping_for_ever_and_can_be_removed() {
    tell(async |stage| {
        let web = stage.wants([service("web", spec("trap '' TERM; sleep 1000"))])[0];
        stage.until_serves(web).await;
        stage.crash();
        let it = stage.containers().await.remove(0);
        stage.leave_half_stopped(&it).await;
        stage.podman_ends();
        stage.podman_begins();
        assert_eq!(stage.containers().await[0].state, "stopping");
        stage.podman.remove(&it.id).await.expect("removed");
        assert!(stage.containers().await.is_empty());
    });
}

/// For Podman, which only hears of ends from their monitors, it runs for ever.
#[test]
fn a_container_whose_monitor_was_killed_before_it_is_made_anew() {
    tell(async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await.remove(0);
        stage.kill_monitor(&before);
        stage.kill(&before);
        let after = stage.until_runs_other_than(&before).await;
        assert_ne!(before.id, after.id, "nothing can be made of the other");
        stage.until_serves(web).await;
        assert_eq!(stage.containers().await.len(), 1);
    });
}

#[test]
fn a_container_that_does_not_stay_up_is_not_started_without_end() {
    tell(async |stage| {
        let web = stage.wants([service("web", spec("exit 3"))])[0];
        let report = stage.until_report(web, |report| report.phase == Phase::Failed).await;
        let note = report.note.unwrap_or_default();
        assert!(note.contains("does not stay up") && note.contains("exit code 3"), "{note}");
        assert!(stage.endings("container.web").len() >= 2, "it was tried again at once");
    });
}

#[test]
fn a_container_that_somebody_removed_is_made_anew_at_its_address() {
    tell(async |stage| {
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
    tell(async |stage| {
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
        let body = create_body(&other, Default::default(), spot, few());
        stage.crash();
        stage.podman.remove(&before.id).await.expect("removed");
        let made = stage.podman.create(&body).await.expect("made");
        stage.start();
        stage
            .until_all_is(async |stage| {
                let containers = stage.containers().await;
                let is_real = |it: &Listed| it.id != made && it.state == "running";
                containers.len() == 1 && is_real(&containers[0])
            })
            .await;
    });
}

#[test]
fn one_that_somebody_made_by_hand_under_its_labels_goes() {
    tell(async |stage| {
        let id = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(id).await;
        stage.crash();
        let before = stage.containers().await.remove(0);
        stage.podman.remove(&before.id).await.expect("removed");
        let labels = [format!("fluke.deployment.id={id}"), "fluke.service.name=web".into()];
        let labels = ["--label", &labels[0], "--label", &labels[1]];
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
        let what = ["localhost/box:1", "sh", "-c", RUNS];
        let run = ["run", "--detach", "--network", bridge::NETWORK];
        stage.cli(&[&run[..], &labels[..], &limits[..], &what[..]].concat());
        let impostor = stage.containers().await.remove(0);
        stage.start();
        let is_other = async |stage: &Stage| {
            let left = stage.containers().await;
            left.iter().any(|it| it.state == "running")
                && left.iter().all(|it| it.id != impostor.id)
        };
        stage.until_all_is(is_other).await;
        let is_told =
            |fact: &Fact| matches!(fact, Fact::Began { reason } if reason.contains("by hand"));
        stage.until(|stage| stage.facts("container.web").iter().any(is_told)).await;
    });
}

/// Of a command that says nothing itself.
const COMPLAINT: &str = "it is not well: its health command ended with exit code 1";

#[test]
fn one_that_takes_its_time_to_end_is_not_restarted_without_pauses() {
    tell(async |stage| {
        // As most programs do that are the first process of a container and do not expect to be.
        let mut deaf = with_health("mkdir -p /tmp; touch /tmp/well; trap '' TERM; sleep 1000");
        let health = deaf.health.as_mut().expect("it has one");
        (health.interval_ms, health.retries, health.timeout_ms) = (300, 1, 1000);
        let web = stage.wants([service("web", deaf)])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await.remove(0);
        stage.cli(&["exec", &before.id, "busybox", "rm", "/tmp/well"]);
        stage.until_runs_other_than(&before).await;
        let report = stage.until_serves(web).await;
        let Verdict::Drifted(drift) = report.verdict else { panic!("it is steady: {report:?}") };
        assert!(drift.reason.contains("for too short a time"), "{}", drift.reason);
    });
}

#[test]
fn a_container_that_is_not_well_any_more_is_started_again() {
    tell(async |stage| {
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
            |fact: &Fact| matches!(fact, Fact::Began { reason } if reason.contains(COMPLAINT));
        stage.until(|stage| stage.facts("container.web").iter().any(is_told)).await;
        stage.until(|stage| stage.endings("container.web").len() == 2).await;
        assert_eq!(stage.endings("container.web"), [Outcome::Success; 2]);
    });
}

#[test]
fn what_is_not_wanted_any_more_goes_and_its_volume_stays() {
    tell(async |stage| {
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
    tell(async |stage| {
        let data = VolumeName::new("data").expect("a name");
        let mut db = service("db", spec(RUNS));
        db.replicas = vec![Replica::Number(2)];
        let container = db.container.as_mut().expect("it has one");
        Arc::make_mut(container).volumes.insert(data.clone(), "/data".into());
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
    tell(async |stage| {
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
    tell(async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let report = stage.until_serves(web).await;
        stage.crash();
        let made = stage.containers().await.remove(0);
        stage.podman.remove(&made.id).await.expect("removed");
        let address = report.address.expect("it has one");
        let spot = Spot { network: bridge::NETWORK, address, gateway: stage.subnet().gateway() };
        let deployment = fixture::deployment("web", spec(RUNS));
        let body = create_body(&deployment, Default::default(), spot, few());
        let half = stage.podman.create(&body).await.expect("made");
        stage.start();
        stage.until_serves(web).await;
        let containers = stage.containers().await;
        assert_eq!(containers.len(), 1);
        assert_eq!((containers[0].id.as_str(), containers[0].state.as_str()), (&*half, "running"));
    });
}

#[test]
fn a_name_that_somebody_else_has_is_left_to_them() {
    tell(async |stage| {
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
    tell(async |stage| {
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
    tell(async |stage| {
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
