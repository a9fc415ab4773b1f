//! Images that are named, fetched, and cannot be had.

use super::*;

#[test]
fn an_image_that_cannot_be_had_is_on_record_once_until_somebody_asks() {
    tell(async |stage| {
        let says = |text: &'static str| {
            move |report: &DeploymentReport| {
                report.note.as_deref().is_some_and(|note| note.contains(text))
            }
        };
        let bad = ContainerSpec { image: "localhost:1/none:1".into(), ..spec(RUNS) };
        let web = stage.wants([service("web", bad)])[0];
        for _ in 0..3 {
            stage.until_report(web, says("its image is asked for")).await;
            stage.until_report(web, says("Podman would not pull localhost:1/none:1")).await;
        }
        assert_eq!(stage.endings("container.web"), [Outcome::Failure]);
        let facts = stage.facts("container.web");
        assert!(matches!(&facts[0], Fact::Began { reason } if reason.contains("none:1")));
        let instruction = InstructionId { session: stage.session(), number: 7 };
        let trigger = Trigger::Manual { by: "ann".into() };
        stage.lane().inbox.settle(Settle { instruction, service: None, trigger });
        stage.until(|stage| stage.endings("container.web") == [Outcome::Failure; 2]).await;
    });
}

#[test]
fn an_image_is_the_one_that_is_wanted_however_its_name_is_written() {
    tell(async |stage| {
        stage.cli(&["tag", "localhost/box:1", "localhost/box:latest"]);
        let image = "localhost/box".to_string();
        let web = stage.wants([service("web", ContainerSpec { image, ..spec(RUNS) })])[0];
        stage.until_serves(web).await;
        let before = stage.containers().await.remove(0);
        let instruction = InstructionId { session: stage.session(), number: 1 };
        let trigger = Trigger::Manual { by: "ann".into() };
        stage.lane().inbox.settle(Settle { instruction, service: None, trigger });
        stage.until(|stage| stage.settled(instruction)).await;
        let after = stage.containers().await.remove(0);
        assert_eq!((before.id, before.pid), (after.id, after.pid), "it is left alone");
        assert_eq!(stage.endings("container.web"), [Outcome::Success]);
    });
}

#[test]
fn what_an_image_asks_its_containers_is_not_asked_where_the_manifest_asks_nothing() {
    tell(async |stage| {
        stage.has_image_with_a_check("localhost/checked:1", "false");
        let checked = ContainerSpec { image: "localhost/checked:1".into(), ..spec(RUNS) };
        let old = stage.wants([service("web", checked)])[0];
        assert_eq!(stage.until_serves(old).await.health, Health::None);
        let container = stage.containers().await.remove(0);
        // Podman 5 has a word for one that is never asked.
        assert!(matches!(&*container.status, "" | "reset"), "{}", container.status);
        let details = stage.podman.inspect(&container.id).await.expect("it is there");
        assert_eq!(details.config.healthcheck.expect("it is said").test, ["NONE"]);
        let bad = ContainerSpec { image: "localhost:1/none:1".into(), ..spec(RUNS) };
        let new = stage.wants([service("web", bad)])[0];
        stage.until_report(new, |report| report.phase == Phase::Failed).await;
        assert!(stage.report(old).is_some_and(|report| report.serves));
    });
}

#[tokio::test]
async fn images_that_were_fetched_are_watched_over_only_where_they_may_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut fetched = Fetched::default();
    fetched.came("web:1".into(), "one".into());
    Folder::within(dir.path()).keep_fetched(&fetched);
    for (executors, is_watchful) in [(None, true), (Some(vec!["shell".into()]), false)] {
        let allow = Allow { executors, ..Allow::default() };
        assert_eq!(asleep(dir.path(), &allow).is_watchful(), is_watchful, "{allow:?}");
    }
}
