//! A host without a server goes on keeping what it may keep, and tells afterwards.

use fluke_model::event::{Event, EventKind};
use fluke_model::status::{Status, StepStatus};
use fluke_model::verdict::Outcome;

use super::support::{Bed, Host, applied, bed, keeps, quick};

/// The applies of a task that the server was told of: trigger and outcome.
fn told(bed: &Bed, host: &Host, task: &str) -> Vec<(String, Option<Outcome>)> {
    let events = bed.events(host.name()).into_iter();
    let of_task = |event: &Event| event.task.as_ref().is_some_and(|name| name.as_str() == task);
    events
        .filter(|event| event.kind == EventKind::ApplyFinished && of_task(event))
        .map(|event| (event.trigger.unwrap_or_default(), event.outcome))
        .collect()
}

fn offline() -> (String, Option<Outcome>) {
    ("offline".into(), Some(Outcome::Success))
}

#[test]
fn a_reboot_without_a_server_repairs_what_it_may_and_the_server_learns_of_it() {
    let Some(bed) = bed() else { return };
    bed.server_with(quick());
    let web = bed.host("web-1").joins("");
    bed.commit_files(&[
        ("may.fluke.hcl", &keeps("may", "remediate")),
        ("ask.fluke.hcl", &keeps("ask", "alert_only")),
    ]);
    bed.until("the one is there, and the other is waited for", |bed| {
        let seen = bed.agent("web-1");
        let status = |place: &str| seen.step(place).map(|step| step.status);
        status("may/shell.file") == Some(StepStatus::InSync)
            && status("ask/shell.file") == Some(StepStatus::Drifted)
    });
    let (status, _) = bed
        .server()
        .post("/api/v1/reconcile", r#"{"scope":"task","name":"ask","by":"a story"}"#)
        .expect("the server answers");
    assert_eq!(status, 202);
    bed.settles();
    let before = (told(&bed, &web, "may"), told(&bed, &web, "ask"));

    bed.server().stop();
    web.run("rm /srv/may /srv/ask");
    web.reboot();
    web.until("test -f /srv/may");
    web.until("test -f /srv/may.applied && test $(wc -l < /srv/may.applied) = 2");
    assert!(!web.has("/srv/ask"), "nobody was asked");

    bed.server().start();
    bed.until("it is back, and what may not be repaired is drifted", |bed| {
        bed.agent("web-1").status == Status::Drifted
    });
    bed.until("the record is handed over", |bed| told(bed, &web, "may").contains(&offline()));
    assert!(!web.has("/srv/ask"), "the server may not repair it either");
    assert_eq!(applied(&web, "may"), 2);
    // A server that was stopped has no history of before: what it knows, it was told on return.
    assert_eq!(told(&bed, &web, "may"), [offline()], "before: {before:?}\n{}", bed.account());
    assert_eq!(told(&bed, &web, "ask"), []);
    let drift = bed.drift();
    assert_eq!(drift.len(), 1, "{drift:?}");
    assert_eq!(drift[0].task.as_str(), "ask");

    // Handed over means handed over: another return brings nothing new.
    bed.server().restart();
    bed.until("it is back again", |bed| bed.agent("web-1").status == Status::Drifted);
    assert_eq!(told(&bed, &web, "may"), []);
    assert_eq!(applied(&web, "may"), 2);
}
