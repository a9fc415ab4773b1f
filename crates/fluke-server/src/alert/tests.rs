use serde_json::json;

use super::*;

fn name(text: &str) -> AgentName {
    AgentName::new(text).expect("name")
}

fn task(text: &str) -> TaskName {
    TaskName::new(text).expect("name")
}

fn step(text: &str) -> StepAddress {
    StepAddress::try_from(text.to_string()).expect("address")
}

fn detected(policy: Policy) -> Alert {
    Alert::DriftDetected {
        at: Timestamp(1_767_323_045_999),
        agent: name("web-01"),
        labels: Labels([Labels::parse_pair("role=web").expect("label")].into()),
        task: task("certs"),
        policy,
        remediation: RemediationStatus::under(policy),
        commit: None,
        steps: Vec::new(),
        reason: None,
    }
}

#[test]
fn a_drift_reads_as_documented_byte_for_byte() {
    let json = serde_json::to_string(&detected(Policy::AlertOnly).payload()).expect("plain data");
    assert_eq!(
        json,
        r#"{"event":"drift_detected","timestamp":"2026-01-02T03:04:05Z","agent":{"name":"web-01","labels":{"role":"web"}},"task":"certs","policy":"alert_only","remediation_status":"pending_manual","text":"web-01: certs has drifted; it waits for `fluke reconcile task certs`"}"#
    );
}

#[test]
fn everything_that_is_known_follows() {
    let mut alert = detected(Policy::RemediateAndAlert);
    if let Alert::DriftDetected { commit, steps, reason, .. } = &mut alert {
        *commit = Some(CommitId::new("abc123"));
        *steps = ["shell.a", "shell.b", "shell.c", "shell.d"].map(step).to_vec();
        *reason = Some("exit code 1\nand more".into());
    }
    assert_eq!(
        serde_json::to_value(alert.payload()).expect("plain data"),
        json!({
            "event": "drift_detected",
            "timestamp": "2026-01-02T03:04:05Z",
            "agent": {"name": "web-01", "labels": {"role": "web"}},
            "task": "certs",
            "policy": "remediate_and_alert",
            "remediation_status": "in_progress",
            "commit": "abc123",
            "step": "shell.a",
            "steps": ["shell.a", "shell.b", "shell.c", "shell.d"],
            "reason": "exit code 1\nand more",
            "text": "web-01: certs has drifted (shell.a, shell.b, shell.c, 1 more: exit code 1); it is being put right",
        })
    );
}

#[test]
fn the_end_of_a_drift_reads_as_documented() {
    let remediated = |outcome, reason: Option<&str>| Alert::DriftRemediated {
        at: Timestamp(0),
        agent: name("web-01"),
        task: task("certs"),
        outcome,
        commit: None,
        steps: Vec::new(),
        reason: reason.map(Into::into),
    };
    let resolved = Alert::DriftResolved {
        at: Timestamp(0),
        agent: name("web-01"),
        task: task("certs"),
        commit: None,
    };
    for (alert, expected) in [
        (
            remediated(Remediation::Success, None),
            json!({"event": "drift_remediated", "timestamp": "1970-01-01T00:00:00Z",
                "agent": {"name": "web-01"}, "task": "certs", "outcome": "success",
                "text": "web-01: certs has been put right"}),
        ),
        (
            remediated(Remediation::Failure, Some("disk full")),
            json!({"event": "drift_remediated", "timestamp": "1970-01-01T00:00:00Z",
                "agent": {"name": "web-01"}, "task": "certs", "outcome": "failure",
                "reason": "disk full",
                "text": "web-01: certs could not be put right (disk full)"}),
        ),
        (
            resolved,
            json!({"event": "drift_resolved", "timestamp": "1970-01-01T00:00:00Z",
                "agent": {"name": "web-01"}, "task": "certs",
                "text": "web-01: certs is as it should be again, by itself"}),
        ),
    ] {
        assert_eq!(serde_json::to_value(alert.payload()).expect("plain data"), expected);
    }
}

#[test]
fn a_reason_of_any_length_stays_small() {
    let mut alert = detected(Policy::AlertOnly);
    if let Alert::DriftDetected { reason, .. } = &mut alert {
        *reason = Some("é".repeat(100_000));
    }
    let json = serde_json::to_string(&alert.payload()).expect("plain data");
    assert!(json.len() < 4096, "{}", json.len());
}
