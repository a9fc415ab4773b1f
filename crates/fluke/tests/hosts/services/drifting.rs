//! Drift of services is told and listed as that of tasks is, and their policies are kept to.

use fluke_model::event::{Event, EventKind};
use fluke_model::status::{Status, StepStatus};
use fluke_model::verdict::Outcome;

use super::support::{asks, containers, has_image, running, runs_one, service};
use crate::hosts::support::{Alerts, Bed, alerting, bed, quick};

const ALERT_ONLY: &str = "drift {\n    policy = \"alert_only\"\n  }";
const TELLS: &str = "drift {\n    policy = \"remediate_and_alert\"\n  }";

/// How often this was told of `web`.
fn told(alerts: &Alerts, what: &str) -> usize {
    alerts.told().iter().filter(|alert| **alert == format!("{what} app-1 web")).count()
}

fn is_listed(bed: &Bed, status: StepStatus) -> bool {
    let drift = bed.drift();
    drift.len() == 1
        && drift[0].owner() == Some("web")
        && drift[0].step.to_string() == "container.web"
        && drift[0].status == status
}

#[test]
fn what_waits_for_a_human_stays_down_is_told_once_and_is_put_right_when_somebody_asks() {
    let Some(bed) = bed() else { return };
    let alerts = Alerts::start();
    bed.server_with(alerting(&alerts, quick()));
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    bed.commit("web.fluke.hcl", &service("web", "1", ALERT_ONLY));
    // A commit is no human either.
    bed.until("it waits", |bed| is_listed(bed, StepStatus::Drifted));
    assert!(containers(&host, "web").is_empty());
    asks(&bed, r#"{"scope":"agent","name":"app-1"}"#);
    let container = runs_one(&bed, &host, "web");
    bed.until("it is over", |_| told(&alerts, "drift_remediated") == 1);
    bed.settles();

    host.run(&format!("podman kill {container}"));
    bed.until("it is listed", |bed| is_listed(bed, StepStatus::Drifted));
    bed.until("people know", |_| told(&alerts, "drift_detected") == 2);
    assert_eq!(bed.agent("app-1").status, Status::Drifted);
    // The agent looks again and again, and leaves it; neither does it tell again.
    host.run("podman restart --time 0 $(podman run --detach localhost/web:1)");
    host.stop_agent();
    host.start_agent();
    bed.until("it is back", |bed| bed.agent("app-1").status == Status::Drifted);
    assert!(running(&host, "web").is_empty(), "it waits for a human");
    assert_eq!(told(&alerts, "drift_detected"), 2, "{:?}", alerts.told());

    // By name, and no other that waits.
    bed.commit("db.fluke.hcl", &service("db", "1", ALERT_ONLY));
    bed.until("it waits as well", |bed| bed.drift().len() == 2);
    let progress = asks(&bed, r#"{"scope":"service","name":"web","by":"ann"}"#);
    assert_eq!(running(&host, "web"), [container], "the same one runs again");
    assert!(running(&host, "db").is_empty(), "nobody asked for it");
    let [app] = &progress.agents[..] else { panic!("{progress:?}") };
    let done: Vec<_> =
        app.steps.iter().map(|step| (step.owner(), step.step.to_string(), step.outcome)).collect();
    assert_eq!(done, [(Some("web"), "container.web".into(), Some(Outcome::Success))]);
    bed.commit("db.fluke.hcl", "");
    bed.settles();
    bed.until("people know", |_| told(&alerts, "drift_remediated") == 2);
    let of_web = alerts.told().iter().filter(|alert| alert.ends_with(" web")).count();
    assert_eq!(of_web, 4, "{:?}", alerts.told());
    assert!(bed.drift().is_empty());
    let is_of_web = |event: &Event| event.service.as_ref().is_some_and(|it| it.as_str() == "web");
    let mut found = bed.events_of("app-1", EventKind::DriftDetected);
    found.retain(is_of_web);
    assert_eq!(found.len(), 2, "{}", bed.account());
    let ended = bed.events_of("app-1", EventKind::ApplyFinished);
    let last = ended.iter().rfind(|event| is_of_web(event)).expect("it was put right");
    assert_eq!((last.trigger.as_deref(), last.outcome), (Some("manual"), Some(Outcome::Success)));
    assert!(last.by.as_deref().is_some_and(|by| by.starts_with("ann via")), "{last:?}");
}

#[test]
fn what_does_not_stay_up_is_told_once_until_it_does() {
    let Some(bed) = bed() else { return };
    let alerts = Alerts::start();
    bed.server_with(alerting(&alerts, quick()));
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    let volume = "volume \"data\" {\n    path = \"/data\"\n  }";
    // It ends at once for as long as nobody has written that it may run.
    let command = "command = [\"sh\", \"-c\", \"test -f /data/may && exec sleep 100000\"]";
    let lines = format!("{TELLS}\n  {volume}\n  {command}");
    bed.commit("web.fluke.hcl", &service("web", "1", &lines));
    bed.until("it does not stay up", |bed| is_listed(bed, StepStatus::Failed));
    // Before it was known for what it is, it may have been seen to run, and to have ended.
    let ended_with = |outcome: &str| {
        let told = alerts.received();
        told.iter().filter(|alert| alert["outcome"] == *outcome).count()
    };
    bed.until("people know", |_| ended_with("failure") == 1);
    let (known, well) = (alerts.received().len(), ended_with("success"));
    let started = || {
        let events = bed.events_of("app-1", EventKind::ApplyStarted);
        events.iter().filter(|event| event.service.is_some()).count()
    };
    let before = started();
    bed.until("it is tried again and again", |_| started() > before + 1);
    assert_eq!(alerts.received().len(), known, "{:?}", alerts.told());
    host.run(
        "touch $(podman volume inspect --format '{{.Mountpoint}}' $(podman volume ls -q))/may",
    );
    bed.until("it is over", |_| ended_with("success") == well + 1);
    assert_eq!(alerts.received().len(), known + 1, "{:?}", alerts.told());
    bed.settles();
}
