//! A host without a server goes on keeping what it may keep, and tells afterwards.

use fluke_model::event::{Event, EventKind};
use fluke_model::status::{Status, StepStatus};
use fluke_model::verdict::Outcome;

use super::support::{
    Alerts, Bed, Host, ServerOptions, alerting, applied, bed, drifts_and_is_repaired, is_repaired,
    keeps, quick,
};

/// The repairs of a task without a server that the server was told of.
fn offline(bed: &Bed, host: &Host, task: &str) -> Vec<Event> {
    let finished = bed.events_of(host.name(), EventKind::ApplyFinished).into_iter();
    let of_task = |event: &Event| event.task.as_ref().is_some_and(|name| name.as_str() == task);
    finished.filter(|e| of_task(e) && e.trigger.as_deref() == Some("offline")).collect()
}

/// One task that may be repaired without asking, and two that may not; all are there.
fn three_tasks(bed: &Bed, host: &Host) {
    bed.commit_files(&[
        ("may.fluke.hcl", &keeps("may", "remediate")),
        ("ask.fluke.hcl", &keeps("ask", "alert_only")),
        ("tell.fluke.hcl", &keeps("tell", "remediate_and_alert")),
    ]);
    bed.until("what needs a human waits for one", |bed| {
        let step = bed.agent(host.name()).step("ask/shell.file");
        step.is_some_and(|step| step.status == StepStatus::Drifted)
    });
    let by_hand = r#"{"scope":"task","name":"ask","by":"a story"}"#;
    let (status, said) =
        bed.server().post("/api/v1/reconcile", by_hand).expect("the server answers");
    assert_eq!(status, 202, "{said}");
    bed.settles();
}

#[test]
fn a_reboot_without_a_server_repairs_what_it_may_and_the_server_learns_of_it_once() {
    let Some(bed) = bed() else { return };
    let alerts = Alerts::start();
    bed.server_with(alerting(&alerts, quick()));
    let web = bed.host("web-1").joins("");
    three_tasks(&bed, &web);
    // A server that stops delivers what waits.
    bed.server().stop();
    let before = alerts.received().len();
    web.stop_agent();
    web.run("rm /srv/may /srv/ask /srv/tell");
    web.reboot();
    is_repaired(&web, "may", 2);
    // Another look: nothing that it may not repair was merely not seen yet.
    drifts_and_is_repaired(&web, "may", 3);
    for name in ["ask", "tell"] {
        assert!(!web.has(&format!("/srv/{name}")), "{name}: not in silence");
    }
    assert_eq!(alerts.received().len(), before, "nobody is there to alert");

    bed.server().start();
    bed.until("the record is handed over", |bed| offline(bed, &web, "may").len() >= 2);
    bed.until("what may be repaired loudly is, and the rest waits", |bed| {
        let seen = bed.agent("web-1");
        let is = |place: &str, status| seen.step(place).is_some_and(|step| step.status == status);
        is("tell/shell.file", StepStatus::InSync) && is("ask/shell.file", StepStatus::Drifted)
    });
    assert!(!web.has("/srv/ask"), "it waits for a human");
    assert_eq!(applied(&web, "may"), 3);
    assert_eq!(applied(&web, "tell"), 2);
    let told = offline(&bed, &web, "may");
    assert_eq!(told.len(), 2, "each repair once: {}", bed.account());
    assert!(told.iter().all(|event| event.outcome == Some(Outcome::Success)));
    assert!(told.iter().all(|event| event.commit == Some(bed.repository().head())));
    assert!(offline(&bed, &web, "ask").is_empty() && offline(&bed, &web, "tell").is_empty());
    let drift = bed.drift();
    assert_eq!(drift.len(), 1, "{drift:?}");
    assert_eq!(drift[0].owner(), Some("ask"));
    bed.until("those who want to know do", |_| {
        let told = alerts.told();
        let since = |what: &str| told[before..].iter().any(|alert| alert == what);
        since("drift_detected web-1 ask")
            && since("drift_detected web-1 tell")
            && since("drift_remediated web-1 tell")
    });

    // Handed over means handed over: neither server nor agent tells it again.
    bed.server().stop();
    web.reboot();
    bed.server().start();
    bed.until("it is back again", |bed| bed.agent("web-1").status == Status::Drifted);
    assert!(offline(&bed, &web, "may").is_empty(), "{}", bed.account());
    assert_eq!(applied(&web, "may"), 3);
}

#[test]
fn what_was_repaired_before_a_power_cut_is_told_after_it() {
    let Some(bed) = bed() else { return };
    bed.server_with(quick());
    let web = bed.host("web-1").joins("");
    bed.commit("a.fluke.hcl", &keeps("file", "remediate"));
    bed.settles();
    bed.server().kill();
    drifts_and_is_repaired(&web, "file", 2);
    drifts_and_is_repaired(&web, "file", 3);
    web.kill();
    web.start();
    bed.server().start();
    bed.settles();
    bed.until("the record is handed over", |bed| !offline(bed, &web, "file").is_empty());
    let told = offline(&bed, &web, "file");
    assert_eq!(told.len(), 2, "{}", bed.account());
    assert!(told.iter().all(|event| event.outcome == Some(Outcome::Success)), "{told:?}");
    assert_eq!(applied(&web, "file"), 3);
}

#[test]
fn a_host_that_never_met_a_server_since_its_boot_still_knows_how_often_to_look() {
    let Some(bed) = bed() else { return };
    let options = ServerOptions { poll_interval: "2s".into(), ..quick() };
    bed.server_with(options);
    let web = bed.host("web-1").joins("");
    bed.commit("a.fluke.hcl", &keeps("file", "remediate"));
    bed.settles();
    bed.server().kill();
    web.kill();
    web.start();
    drifts_and_is_repaired(&web, "file", 2);
    drifts_and_is_repaired(&web, "file", 3);
}
