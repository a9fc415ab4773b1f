//! A container is to have what this host's environment does not have.

use super::*;

fn greeting_with(name: &str, mut spec: ContainerSpec) -> ContainerSpec {
    spec.env.insert("TEXT".into(), format!("{name}, world"));
    spec
}

/// Whether it is said what is missing, and what to do.
fn says_what_to_set(report: &DeploymentReport) -> bool {
    let note = report.note.as_deref().unwrap_or_default();
    note.contains("env `TEXT` refers to `$FAREWELL`, which is not set")
        && note.contains("set it there (in /etc/fluke/agent.env, then")
}

#[test]
fn nothing_is_started_without_a_variable_that_is_not_set() {
    tell(async |stage| {
        let web = stage.wants([service("web", greeting_with("$FAREWELL", spec(RUNS)))])[0];
        let report = stage.until_report(web, says_what_to_set).await;
        assert_eq!((report.phase, report.serves), (Phase::Failed, false));
        assert_eq!(stage.containers().await, []);
        assert!(stage.endings("container.web").contains(&Outcome::Failure));
    });
}

#[test]
fn what_runs_goes_on_when_its_variable_is_not_set_any_more() {
    tell(async |stage| {
        let web = stage.wants([service("web", greeting_with("$GREETING", spec(RUNS)))])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await;
        stage.crash();
        stage.greets(None);
        stage.start();
        stage.until_serves(web).await;
        let trigger = Trigger::Manual { by: "ann".into() };
        let instruction = InstructionId { session: stage.session(), number: 7 };
        stage.lane().inbox.settle(Settle { instruction, service: None, trigger });
        stage.until(|stage| stage.settled(instruction)).await;
        assert_eq!(stage.containers().await, before, "also when somebody asks");
    });
}

#[test]
fn what_has_a_volume_is_not_stopped_for_a_version_whose_variable_is_not_set() {
    tell(async |stage| {
        let old = stage.wants([service("db", with_volume(spec(RUNS)))])[0];
        stage.until_serves(old).await;
        let before = stage.containers().await;
        let new = with_volume(greeting_with("$FAREWELL", spec(RUNS)));
        let new = stage.wants([service("db", new)])[0];
        let report = stage.until_report(new, says_what_to_set).await;
        assert_eq!((report.phase, report.serves), (Phase::Failed, false));
        assert!(stage.report(old).is_some_and(|report| report.serves));
        assert_eq!(stage.containers().await, before);
    });
}
