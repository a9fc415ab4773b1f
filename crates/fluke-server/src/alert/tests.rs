use serde_json::json;

use super::*;

fn alert(news: News, reason: Option<&str>) -> Alert {
    Alert {
        at: Timestamp(1_767_323_045_999),
        agent: AgentName::new("web-01").expect("name"),
        labels: Labels([Labels::parse_pair("role=web").expect("label")].into()),
        of: Owner::Task(TaskName::new("certs").expect("name")),
        commit: None,
        reason: reason.map(Into::into),
        news,
    }
}

const DETECTED: News = News::DriftDetected {
    policy: Policy::AlertOnly,
    remediation_status: RemediationStatus::PendingManual,
};

#[test]
fn a_drift_reads_as_documented_byte_for_byte() {
    let json = serde_json::to_string(&alert(DETECTED, None).payload()).expect("plain data");
    assert_eq!(
        json,
        r#"{"event":"drift_detected","timestamp":"2026-01-02T03:04:05Z","agent":{"name":"web-01","labels":{"role":"web"}},"task":"certs","policy":"alert_only","remediation_status":"pending_manual","text":"web-01: certs has drifted; it waits for `fluke reconcile task certs`"}"#
    );
}

#[test]
fn every_alert_reads_as_documented() {
    let in_progress = News::DriftDetected {
        policy: Policy::RemediateAndAlert,
        remediation_status: RemediationStatus::InProgress,
    };
    for (mut alert, expected) in [
        (
            alert(in_progress, Some("shell.a: exit code 1\nand more")),
            json!({"event": "drift_detected", "timestamp": "2026-01-02T03:04:05Z",
                "agent": {"name": "web-01", "labels": {"role": "web"}}, "task": "certs",
                "policy": "remediate_and_alert", "remediation_status": "in_progress",
                "commit": "abc123", "reason": "shell.a: exit code 1\nand more",
                "text": "web-01: certs has drifted (shell.a: exit code 1); it is being put right"}),
        ),
        (
            alert(News::DriftRemediated { success: true }, None),
            json!({"event": "drift_remediated", "timestamp": "2026-01-02T03:04:05Z",
                "agent": {"name": "web-01"}, "task": "certs", "outcome": "success",
                "commit": "abc123", "text": "web-01: certs has been put right"}),
        ),
        (
            alert(News::DriftRemediated { success: false }, Some("disk full")),
            json!({"event": "drift_remediated", "timestamp": "2026-01-02T03:04:05Z",
                "agent": {"name": "web-01"}, "task": "certs", "outcome": "failure",
                "commit": "abc123", "reason": "disk full",
                "text": "web-01: certs could not be put right (disk full)"}),
        ),
        (
            alert(News::DriftResolved, None),
            json!({"event": "drift_resolved", "timestamp": "2026-01-02T03:04:05Z",
                "agent": {"name": "web-01"}, "task": "certs", "commit": "abc123",
                "text": "web-01: certs is as it should be again, by itself"}),
        ),
    ] {
        alert.commit = Some(CommitId::new("abc123"));
        assert_eq!(serde_json::to_value(alert.payload()).expect("plain data"), expected);
    }
}

#[test]
fn a_service_is_named_in_place_of_a_task() {
    let of = Owner::Service(ServiceName::new("web").expect("name"));
    let alert = Alert { of, ..alert(DETECTED, Some("its container is missing")) };
    assert_eq!(
        serde_json::to_value(alert.payload()).expect("plain data"),
        json!({"event": "drift_detected", "timestamp": "2026-01-02T03:04:05Z",
            "agent": {"name": "web-01", "labels": {"role": "web"}}, "service": "web",
            "policy": "alert_only", "remediation_status": "pending_manual",
            "reason": "its container is missing",
            "text": "web-01: web has drifted (its container is missing); \
                     it waits for `fluke reconcile service web`"})
    );
}

#[test]
fn a_reason_of_any_length_stays_small() {
    let alert = alert(DETECTED, Some(&"é".repeat(100_000)));
    let json = serde_json::to_string(&alert.payload()).expect("plain data");
    assert!(json.len() < 4096, "{}", json.len());
}
