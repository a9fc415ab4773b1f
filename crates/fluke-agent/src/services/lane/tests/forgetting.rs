//! Podman forgets a container, and something of it goes on.

use super::*;
use stage::Group;

#[test]
fn nothing_takes_the_place_of_what_podman_forgot_before_that_has_ended() {
    tell(async |stage| {
        let db = stage.wants([service("db", with_volume(spec(RUNS)))])[0];
        stage.until_serves(db).await;
        let before = stage.containers().await.remove(0);
        let mut group = Group::of(&before.id);
        group.freeze();
        stage.cli(&["rm", "--force", "--time", "0", &before.id]);
        let stays = |report: &DeploymentReport| {
            let note = report.note.as_deref();
            note.is_some_and(|note| note.contains("its processes cannot be ended: process"))
        };
        if group.is_frozen() {
            let report = stage.until_report(db, stays).await;
            assert_eq!((report.phase, report.serves), (Phase::Failed, false));
            assert_eq!(stage.containers().await.len(), 0, "nothing is made beside it");
            stage.crash();
            stage.start();
            stage.until_report(db, stays).await;
            assert_eq!(stage.containers().await.len(), 0, "nor by an agent that comes later");
            group.thaw();
        }
        stage.until_runs_other_than(&before).await;
        assert!(group.has_ended(), "it went before another one took its place");
        let is_told = |fact: Fact| match fact {
            Fact::Began { reason } => reason.contains("goes on without Podman's knowledge"),
            _ => false,
        };
        assert!(stage.facts("container.db").into_iter().any(is_told));
    });
}
