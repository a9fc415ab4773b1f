//! A host whose own config refuses containers.

use super::*;

#[test]
fn what_the_hosts_own_config_refuses_is_not_begun() {
    tell(async |stage| {
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
    tell(async |stage| {
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
