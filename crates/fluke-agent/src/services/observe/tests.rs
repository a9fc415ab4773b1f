use std::sync::Arc;

use fluke_model::id::VolumeName;
use fluke_model::service::{HealthSpec, Resources};
use serde_json::{Value, json};

use super::*;
use crate::services::fixture;

/// As Podman 4.3 lists it.
fn listed() -> Value {
    json!({
        "Id": "efb1aad13c44", "Names": ["web-1"], "Image": "localhost/box:1", "ImageID": "868a3ed6",
        "Labels": { "fluke.service.name": "web", "fluke.deployment.id": deployment().id.to_string() },
        "State": "running", "Status": "healthy", "StartedAt": 1_794_771_445, "Exited": false,
        "Mounts": [], "Networks": ["fluke"], "Pid": 7596, "Ports": null,
    })
}

/// As Podman 4.3 shows it.
fn details() -> Value {
    json!({
        "Image": "868a3ed6", "ImageName": "localhost/box:1", "ImageDigest": "sha256:3959",
        "State": { "Status": "running", "Running": true },
        "Config": { "Env": ["LOG=info", "PATH=/bin", "container=podman"], "Cmd": ["sleep", "infinity"],
            "Healthcheck": { "Test": ["CMD-SHELL", "true"], "Retries": 3 }, "CreateCommand": [] },
        "HostConfig": { "Memory": 67_108_864, "CpuQuota": 50_000, "CpuPeriod": 100_000,
            "RestartPolicy": { "Name": "no", "MaximumRetryCount": 0 } },
        "NetworkSettings": { "Networks": { "fluke": { "IPAddress": "10.200.7.5" } } },
        "Mounts": [{ "Type": "volume", "Name": "fluke.web.data", "Destination": "/data" }],
    })
}

fn deployment() -> Deployment {
    let spec = ContainerSpec {
        command: Some(vec!["sleep".into(), "infinity".into()]),
        env: env(),
        health: Some(HealthSpec {
            command: "true".into(),
            interval_ms: 1000,
            timeout_ms: 1000,
            retries: 3,
            start_period_ms: 0,
        }),
        volumes: BTreeMap::from([(VolumeName::new("data").expect("a name"), "/data".into())]),
        resources: Resources { cpu_millis: Some(500), memory: Some(64 << 20) },
        ..fixture::spec("localhost/box:1")
    };
    fixture::deployment("web", spec)
}

fn env() -> BTreeMap<String, String> {
    BTreeMap::from([("LOG".into(), "info".into())])
}

fn seen(listed: Value, details: Value) -> Container {
    seen_with(listed, details, &deployment(), &env())
}

fn seen_with(
    listed: Value,
    details: Value,
    wanted: &Deployment,
    env: &BTreeMap<String, String>,
) -> Container {
    let listed = serde_json::from_value(listed).expect("as Podman says it");
    let details = serde_json::from_value(details).expect("as Podman says it");
    let now = Now { instant: Instant::now() + Duration::from_secs(3600), unix: 1_794_771_455 };
    container(&listed, Some(&details), Some((wanted, env)), "fluke", now)
}

#[test]
fn what_podman_says_is_understood() {
    let it = seen(listed(), details());
    assert!(it.is_ours);
    assert_eq!(it.name, "web-1");
    assert_eq!(it.origin.deployment, Some(deployment().id));
    assert_eq!(it.origin.replica, Some(Replica::Own));
    assert_eq!((it.state, it.health), (State::Running, Health::Healthy));
    assert_eq!(it.address, Some([10, 200, 7, 5].into()));
    assert_eq!(it.image, "localhost/box:1");
    assert_eq!((it.digest.as_deref(), it.tampered), (Some("sha256:3959"), None));
    assert!(it.started.is_some());
}

#[test]
fn every_way_of_tampering_is_seen() {
    for (path, value, seen_as) in [
        ("/ImageName", json!("localhost/evil:1"), "it was made from localhost/evil:1"),
        ("/Config/CreateCommand", json!(["podman", "run"]), "somebody made it by hand"),
        ("/Config/Cmd", json!(["sleep", "1"]), "it runs another command"),
        ("/Config/Cmd", json!(null), "it runs another command"),
        ("/Config/Healthcheck/Test", json!(["NONE"]), "it has another health check"),
        ("/Config/Healthcheck", json!(null), "it has another health check"),
        ("/Config/Env", json!(["LOG=debug"]), "its variable LOG has another value"),
        ("/HostConfig/Memory", json!(0), "it may use 0 bytes of memory"),
        (
            "/HostConfig/RestartPolicy/Name",
            json!("always"),
            "Podman restarts it: its policy is `always`",
        ),
        ("/HostConfig/CpuQuota", json!(-1), "it may use 0 thousandths of a core"),
        ("/NetworkSettings/Networks", json!({}), "it is not in the network fluke"),
        ("/Mounts", json!([]), "its volume data is not at /data"),
    ] {
        let mut details = details();
        *details.pointer_mut(path).expect("it is there") = value;
        assert_eq!(seen(listed(), details).tampered.as_deref(), Some(seen_as), "{path}");
    }
}

#[test]
fn what_a_spec_leaves_to_its_image_is_the_images() {
    let mut wanted = deployment();
    wanted.spec =
        Arc::new(ContainerSpec { command: None, health: None, ..wanted.spec.as_ref().clone() });
    assert_eq!(seen_with(listed(), details(), &wanted, &env()).tampered, None);
}

/// What is known of one that nobody wants any more.
fn retiring(healthcheck: Value, interval: Option<&str>) -> Container {
    let (mut listed, mut details) = (listed(), details());
    details["Config"]["Healthcheck"] = healthcheck;
    if let Some(interval) = interval {
        listed["Labels"]["fluke.health.interval_ms"] = json!(interval);
    }
    let listed = serde_json::from_value(listed).expect("as Podman says it");
    let details = serde_json::from_value(details).expect("as Podman says it");
    let now = Now { instant: Instant::now(), unix: 1_794_771_455 };
    container(&listed, Some(&details), None, "fluke", now)
}

#[test]
fn one_that_is_not_wanted_any_more_says_itself_how_it_is_asked() {
    let ours = json!({
        "Test": ["CMD-SHELL", "true"], "Timeout": 1_000_000_000, "Retries": 3,
        "StartPeriod": 2_000_000_000,
    });
    let asked = |interval_ms| HealthSpec {
        command: "true".into(),
        interval_ms,
        timeout_ms: 1000,
        retries: 3,
        start_period_ms: 2000,
    };
    assert_eq!(retiring(ours.clone(), Some("500")).check, Some(asked(500)));
    assert_eq!(retiring(ours.clone(), Some("x")).check, Some(asked(10_000)));
    let it = retiring(ours, None);
    assert_eq!((it.check, it.health), (Some(asked(10_000)), Health::Healthy));
    let its_image_s = json!({ "Test": ["CMD-SHELL", "true"], "Interval": 30_000_000_000_u64 });
    for other in [its_image_s, json!({ "Test": ["NONE"] }), json!(null)] {
        let it = retiring(other, None);
        assert_eq!((it.check, it.health), (None, Health::None));
    }
}

#[test]
fn what_was_made_with_another_value_of_this_host_is_of_something_earlier() {
    let mut wanted = deployment();
    let spec = ContainerSpec {
        env: BTreeMap::from([("LOG".into(), "$LEVEL".into())]),
        ..wanted.spec.as_ref().clone()
    };
    wanted.spec = Arc::new(spec);
    let with = |value: &str| {
        let env = BTreeMap::from([("LOG".into(), value.into())]);
        seen_with(listed(), details(), &wanted, &env)
    };
    let same = with("info");
    assert_eq!((same.outdated, same.origin.deployment), (None, Some(deployment().id)));
    let other = with("debug");
    assert_eq!(other.outdated.as_deref(), Some("its variable LOG has another value"));
    assert_eq!(other.tampered, None);
    let (id, service) = (other.origin.deployment, other.origin.service);
    assert!(id.is_some_and(|id| id != deployment().id), "it is another");
    assert_eq!((id, service), (with("debug").origin.deployment, Some(wanted.service.clone())));
    // What else is wrong with it weighs more.
    let mut details = details();
    details["ImageName"] = json!("localhost/evil:1");
    let env = BTreeMap::from([("LOG".into(), "debug".into())]);
    let it = seen_with(listed(), details, &wanted, &env);
    assert!(it.tampered.is_some() && it.outdated.is_none());
}

#[test]
fn a_container_without_our_labels_is_not_ours() {
    let mut theirs = listed();
    theirs["Labels"] = json!(null);
    let it = seen(theirs, details());
    assert!(!it.is_ours);
    let replica = Some(Replica::Own);
    assert_eq!(it.origin, Origin { replica, ..Origin::default() });
}

#[test]
fn labels_that_somebody_made_up_lead_nowhere_and_break_nothing() {
    let mut odd = listed();
    odd["Labels"] =
        json!({ "fluke.deployment.id": "x", "fluke.service.name": "Ü", "fluke.replica": "-1" });
    let it = seen(odd, details());
    assert!(it.is_ours);
    assert_eq!(it.origin, Origin::default());
}

#[test]
fn every_state_has_a_meaning() {
    for (text, expected) in [
        ("created", State::Created),
        ("configured", State::Created),
        ("running", State::Running),
        ("exited", State::Exited),
        ("stopped", State::Exited),
        ("stopping", State::Changing),
        ("removing", State::Changing),
        ("paused", State::Stuck),
        ("unknown", State::Stuck),
        ("something new", State::Stuck),
    ] {
        assert_eq!(state(text), expected, "{text}");
    }
}
