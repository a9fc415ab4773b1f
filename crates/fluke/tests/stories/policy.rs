//! What happens on drift, by policy, and who is told.

use std::time::Duration;

use fluke_model::event::EventKind;
use fluke_model::policy::Policy;
use fluke_model::status::StepStatus;

use super::support::{AlertReceiver, Fleet, Options};

const OFTEN: Duration = Duration::from_millis(250);

fn certificates(root: &str, policy: &str) -> String {
    format!(
        r#"
task "certs" {{
  drift {{
    policy = "{policy}"
  }}
  selector {{
    match_labels = {{}}
  }}
  shell "renew" {{
    check   = "test -f {root}/cert"
    command = "touch {root}/cert"
  }}
}}
"#
    )
}

async fn alerted(receiver: &AlertReceiver) -> Fleet {
    let alert_webhook = Some(receiver.url());
    Fleet::with(Options { poll_interval: OFTEN, alert_webhook, ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_only_task_waits_for_a_human() {
    let receiver = AlertReceiver::start().await;
    let fleet = alerted(&receiver).await;
    let host = fleet.join("web-1", "role=web").await;
    fleet.commit("certificates", &certificates(&fleet.root("web-1"), "alert_only")).await;
    fleet.settles().await;
    receiver.arrive(1).await;
    assert_eq!(fleet.agent("web-1").step("certs/shell.renew"), StepStatus::Drifted);
    assert!(!host.has("cert"), "policy says look, not touch");
    let alert = &receiver.received()[0];
    assert_eq!(alert["event"], "drift_detected");
    assert_eq!(alert["agent"]["name"], "web-1");
    assert_eq!(alert["agent"]["labels"]["role"], "web");
    assert_eq!((&alert["task"], &alert["policy"]), (&"certs".into(), &"alert_only".into()));
    assert_eq!(alert["remediation_status"], "pending_manual");

    let reconcile = fleet.fluke(&["reconcile", "task", "certs"]).await;
    assert_eq!(reconcile.code, 0, "{reconcile:?}");
    assert!(host.has("cert"));
    receiver.arrive(2).await;
    assert_eq!(receiver.told(), ["drift_detected pending_manual", "drift_remediated success"]);
    let finished = fleet.events(&[EventKind::ApplyFinished]).await;
    assert_eq!(finished[0].trigger.as_deref(), Some("manual"));
    let by = finished[0].by.clone().unwrap_or_default();
    assert!(by.contains("via socket"), "its event names who asked: {by}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drift_is_told_once_however_many_cycles_see_it() {
    let receiver = AlertReceiver::start().await;
    let fleet = alerted(&receiver).await;
    let host = fleet.join("web-1", "").await;
    fleet.commit("certificates", &certificates(&fleet.root("web-1"), "alert_only")).await;
    receiver.arrive(1).await;
    for _ in 0..4 {
        let before = fleet.last_checked("web-1");
        fleet.until("another cycle has passed", |fleet| fleet.last_checked("web-1") > before).await;
    }
    assert_eq!(receiver.told(), ["drift_detected pending_manual"]);
    host.write("cert", "by hand");
    receiver.arrive(2).await;
    assert_eq!(receiver.told()[1], "drift_resolved", "it healed by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn remediate_and_alert_puts_right_and_tells() {
    let receiver = AlertReceiver::start().await;
    let fleet = alerted(&receiver).await;
    let host = fleet.join("web-1", "").await;
    fleet.commit("certificates", &certificates(&fleet.root("web-1"), "remediate_and_alert")).await;
    receiver.arrive(2).await;
    assert!(host.has("cert"));
    assert_eq!(receiver.told(), ["drift_detected in_progress", "drift_remediated success"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn remediate_is_silent() {
    let receiver = AlertReceiver::start().await;
    let fleet = alerted(&receiver).await;
    let host = fleet.join("web-1", "").await;
    fleet.commit("certificates", &certificates(&fleet.root("web-1"), "remediate")).await;
    fleet.settles().await;
    assert!(host.has("cert"));
    assert_eq!(receiver.told(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_without_a_policy_has_the_servers() {
    let receiver = AlertReceiver::start().await;
    let fleet = Fleet::with(Options {
        default_policy: Policy::AlertOnly,
        alert_webhook: Some(receiver.url()),
        ..Options::default()
    })
    .await;
    let host = fleet.join("web-1", "").await;
    let manifest = certificates(&fleet.root("web-1"), "x");
    let bare = manifest.replace("  drift {\n    policy = \"x\"\n  }\n", "");
    fleet.commit("certificates", &bare).await;
    receiver.arrive(1).await;
    fleet.settles().await;
    assert!(!host.has("cert"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_down_loses_nothing() {
    let receiver = AlertReceiver::start().await;
    receiver.refuse(2);
    let fleet = alerted(&receiver).await;
    let _host = fleet.join("web-1", "").await;
    fleet.commit("certificates", &certificates(&fleet.root("web-1"), "remediate_and_alert")).await;
    receiver.arrive(2).await;
    assert_eq!(receiver.told(), ["drift_detected in_progress", "drift_remediated success"]);
    assert!(!fleet.events(&[EventKind::AlertFailed]).await.is_empty(), "the outage is on record");
}
