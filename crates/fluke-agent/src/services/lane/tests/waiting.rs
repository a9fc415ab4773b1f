//! What the lane waits for, and that it waits at all.

use fluke_model::id::CommitId;
use fluke_model::message::ToServer;

use super::*;
use crate::services::FromLane;
use crate::state::Held;

#[test]
fn podman_that_is_away_is_a_problem_and_no_crash() {
    tell(async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(web).await;
        stage.podman_ends();
        let says = |report: &DeploymentReport| {
            report.note.as_deref().is_some_and(|note| note.contains("Podman does not answer"))
        };
        let report = stage.until_report(web, says).await;
        assert!(report.serves, "what runs goes on");
        assert!(
            report.note.is_some_and(|note| note.contains("systemctl enable --now podman.socket"))
        );
        stage.podman_begins();
        stage.until_report(web, |report| report.note.is_none() && report.serves).await;
    });
}

/// Neither Podman nor the kernel says anything to the lane: only who looks finds it.
#[test]
fn what_nobody_tells_of_is_found_and_put_right_all_the_same() {
    tell(async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let address = stage.until_serves(web).await.address.expect("it has one");
        stage.until(|stage| stage.endings("container.web").len() == 1).await;
        ip(&format!("link set {} nomaster", stage.port_of_bridge()));
        assert!(!stage.answers_ping(address), "nothing leads to it any more");
        let is_told = |report: &DeploymentReport| match &report.verdict {
            Verdict::Drifted(drift) => drift.reason.contains("it is cut off from its network"),
            _ => false,
        };
        stage.until_report(web, is_told).await;
        stage.until_all_is(async |stage| stage.answers_ping(address)).await;
    });
}

#[tokio::test]
async fn where_nobody_says_anything_the_lane_looks_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    lane.looked = Instant::now().checked_sub(SAFETY);
    assert_eq!(lane.wait().await, Wake::Safety);
}

#[tokio::test]
async fn news_of_a_fleet_that_changes_all_the_time_wait_for_what_is_due_here() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    lane.inbox.release(Vec::new());
    lane.look_at = Instant::now().checked_sub(Duration::from_secs(1));
    assert_eq!(lane.wait().await, Wake::Due);
    lane.look_at = None;
    assert_eq!(lane.wait().await, Wake::Told, "whatever it was, it is heard then");
}

#[tokio::test]
async fn what_names_become_while_a_change_takes_long_is_told_before_it_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, mut said) = tokio::sync::mpsc::channel(16);
    let mut lane = asleep(dir.path(), &Allow::default());
    (lane.scribe, lane.config.dns_port) = (Scribe(out), 0);
    lane.inbox.session(Some(SessionId(1)));
    lane.has_containers = true;
    let shop = ServiceName::new("shop").expect("a name");
    let names: Names = NameKey::rows(&shop, []).collect();
    lane.inbox.edit(DirectoryEdit::Names(names.whole()));
    let is_told = async {
        loop {
            if let Some(FromLane::Say(message)) = said.recv().await
                && let ToServer::Network(report) = *message
                && report.names.hash == names.hash()
            {
                return;
            }
        }
    };
    let held = Arc::new(Held { commit: CommitId::new("c1"), snapshot: Arc::default() });
    let cause = Cause { instruction: None, trigger: Trigger::Watch };
    let work = tokio::time::timeout(Duration::from_secs(60), is_told);
    let done = lane.meanwhile(&Account { cause, held }, work).await;
    done.expect("it is told while the change is under way");
}

#[tokio::test]
async fn a_server_that_comes_back_while_a_change_takes_long_is_told_of_everything_before_it_ends() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, mut said) = tokio::sync::mpsc::channel(16);
    let mut lane = asleep(dir.path(), &Allow::default());
    (lane.scribe, lane.config.dns_port) = (Scribe(out), 0);
    lane.has_containers = true;
    let held = Arc::new(Held { commit: CommitId::new("c1"), snapshot: Arc::default() });
    let cause = Cause { instruction: None, trigger: Trigger::Watch };
    let account = Account { cause, held };
    let mut told = async |lane: &mut Lane, session: u64| {
        lane.inbox.session(Some(SessionId(session)));
        let mut whole = None;
        let is_told = async {
            loop {
                match said.recv().await {
                    Some(FromLane::Say(message)) => match *message {
                        ToServer::Services(report) => whole = Some(report.whole),
                        ToServer::Network(_) => return,
                        _ => {}
                    },
                    _ => return,
                }
            }
        };
        let work = tokio::time::timeout(Duration::from_secs(60), is_told);
        lane.meanwhile(&account, work).await.expect("it is told while the change is under way");
        whole
    };
    assert_eq!(told(&mut lane, 1).await, None, "nobody has looked at containers yet");
    lane.reports = Some(Vec::new());
    assert_eq!(told(&mut lane, 2).await, Some(true));
}

#[tokio::test]
async fn a_proxy_that_was_told_of_others_alone_goes_on_trying() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut stage = Stage::proxy_without_podman(dir);
    // Where the new file is to be prepared, there is something in the way.
    let obstacle = stage.state("names.json.new");
    std::fs::create_dir_all(&obstacle).expect("room");
    let shop = ServiceName::new("shop").expect("a name");
    let names: Names = NameKey::rows(&shop, []).collect();
    stage.lane().inbox.edit(DirectoryEdit::Names(names.whole()));
    let has_problem = |stage: &Stage| stage.network().map(|it| it.names.problem.is_some());
    stage.until(|stage| has_problem(stage) == Some(true)).await;
    std::fs::remove_dir(&obstacle).expect("removed");
    stage.until(|stage| has_problem(stage) == Some(false)).await;
}

#[tokio::test]
async fn where_nothing_is_wanted_and_nothing_is_there_the_lane_is_silent() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut stage = Stage::without_podman(dir);
    stage.wants([]);
    stage.until(|stage| stage.has_heard_everything()).await;
    assert!(stage.is_silent());
    let none: Option<Ipv4Addr> = None;
    assert_eq!(stage.claimed(), none, "nothing is claimed");
}
