use std::future::ready;

use fluke_model::time::Timestamp;
use fluke_wire::client::{ConnectError, Session};
use tokio::sync::oneshot;

use super::*;

/// Whether a process has `mark` as one of its arguments.
fn running(mark: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("proc is mounted").flatten();
    let mut lines = processes.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    lines.any(|line| line.split(|byte| *byte == 0).any(|arg| arg == mark.as_bytes()))
}

async fn until(mark: &str, wanted: bool) {
    while running(mark) != wanted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A step whose apply sleeps in a way that can be found.
fn sleeping(mark: &str) -> Arc<Snapshot> {
    one_task(vec![step("slow", "false", &format!("echo so far; sleep {mark}; true"))])
}

#[tokio::test]
async fn an_agent_that_stops_takes_its_command_along_and_says_so() {
    let mut hall = Hall::open().await;
    let mut host = Host::running(hall.address);
    let mark = format!("5555.{}1", std::process::id());
    let snapshot = sleeping(&mark);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.order_apply(&snapshot, &[0]).await;
    guest.record().await;
    until(&mark, true).await;
    let (ended, ()) = tokio::join!(guest.record(), host.stop());
    assert_eq!(facts(std::slice::from_ref(&ended)), ["slow ended interrupted"]);
    let Fact::Ended { output, .. } = &ended.fact else { panic!("ended") };
    assert!(output.text().starts_with("so far\n"), "{}", output.text());
    assert!(!running(&mark));

    // Nobody acknowledged it, so it is told again.
    drop(guest);
    host.start();
    let mut guest = hall.next_guest().await;
    assert_eq!(guest.hello.snapshot, Some(snapshot.hash()));
    let told = [guest.record().await, guest.record().await];
    assert_eq!(facts(&told), ["slow began", "slow ended interrupted"]);
}

#[tokio::test]
async fn what_is_being_put_right_may_come_to_its_end_first() {
    let mut hall = Hall::open().await;
    let mut host = Host::new(hall.address);
    host.config.stop_grace = Duration::from_secs(60);
    host.start();
    let (go, done) = (host.dir.path().join("go"), host.dir.path().join("done"));
    let waits =
        format!("until test -f {}; do sleep 0.01; done; touch {}", go.display(), done.display());
    let snapshot = one_task(vec![step("slow", &format!("test -f {}", done.display()), &waits)]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.order_apply(&snapshot, &[0]).await;
    guest.record().await;
    host.until(|status| matches!(status, AgentStatus::Applying { .. })).await;
    let go_on = async {
        let ended = guest.record().await;
        assert_eq!(facts(std::slice::from_ref(&ended)), ["slow ended success"]);
    };
    let stop = async {
        tokio::join!(host.stop(), async { std::fs::write(&go, "").expect("written") });
    };
    tokio::join!(go_on, stop);
}

#[tokio::test]
async fn an_agent_that_dies_leaves_no_process_and_its_successor_tells() {
    let mut hall = Hall::open().await;
    let mut host = Host::running(hall.address);
    let mark = format!("5556.{}1", std::process::id());
    let snapshot = sleeping(&mark);
    let mut guest = hall.next_guest().await;
    let instance = guest.hello.instance;
    guest.give(&snapshot).await;
    guest.order_apply(&snapshot, &[0]).await;
    let began = guest.record().await;
    guest.send(ToAgent::Ack { record: began.id }).await;
    until(&mark, true).await;
    host.crash().await;
    until(&mark, false).await;
    host.start();
    let mut guest = hall.next_guest().await;
    assert_eq!(guest.hello.instance, instance);
    let mut told = guest.record().await;
    if told.id == began.id {
        // The acknowledgement may not have been heard, or not be on disk.
        told = guest.record().await;
    }
    assert_eq!(facts(std::slice::from_ref(&told)), ["slow ended interrupted"]);
    assert_eq!(told.instruction, began.instruction);
    assert!(matches!(told.fact, Fact::Ended { outcome: Outcome::Interrupted, .. }));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_outlived_a_killed_agent_is_ended_by_its_successor() {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    let mut host = Host::running(([127, 0, 0, 1], 1).into());
    host.until(|status| matches!(status, AgentStatus::Unreachable { .. })).await;
    host.crash().await;
    let run = std::fs::read_to_string(host.config.state_dir.join("run")).expect("noted");
    let mut command = std::process::Command::new("/bin/bash");
    command.args(["-c", "sleep 60; true"]).env("FLUKE_RUN", run).process_group(0);
    let mut left = command.spawn().expect("bash");
    host.start();
    host.until(|status| matches!(status, AgentStatus::Connecting)).await;
    assert_eq!(left.wait().expect("ours").signal(), Some(9));
    host.stop().await;
    assert!(!host.config.state_dir.join("run").exists(), "nothing to look for next time");
}

#[tokio::test]
async fn an_agent_without_a_server_stops_at_once() {
    let mut host = Host::running(([127, 0, 0, 1], 1).into());
    host.until(|status| matches!(status, AgentStatus::Unreachable { .. })).await;
    host.stop().await;
}

#[tokio::test]
async fn two_agents_cannot_share_a_state_directory() {
    let hall = Hall::open().await;
    let mut host = Host::running(hall.address);
    host.until(|_| true).await;
    let error = run(host.config.clone(), std::future::pending::<()>(), |_| {}).await;
    let error = error.expect_err("taken");
    assert!(error.to_string().starts_with("another agent uses the state directory"), "{error}");
}

#[tokio::test]
async fn an_agent_that_goes_for_good_says_so_and_one_that_restarts_does_not() {
    let mut hall = Hall::open().await;
    let mut host = Host::running(hall.address);
    let mark = Store::mark_of_leaving(&host.config.state_dir);
    for is_leaving in [false, true, false] {
        let mut guest = hall.next_guest().await;
        host.until(|status| matches!(status, AgentStatus::Connected { .. })).await;
        assert!(!mark.exists(), "an agent that begins does not leave");
        if is_leaving {
            std::fs::write(&mark, "").expect("written");
        }
        let heard = async {
            let mut heard = Vec::new();
            while let Ok(Some(message)) = guest.link.incoming.next().await {
                heard.push(message);
            }
            heard
        };
        let (heard, ()) = tokio::join!(heard, host.stop());
        assert_eq!(heard.contains(&ToServer::Leaving), is_leaving, "{heard:?}");
        drop(guest);
        host.start();
    }
}

/// This host, while it is told to shut down.
struct ShutDown;

impl World for ShutDown {
    type Steps = Executors;

    fn now(&self) -> Timestamp {
        ThisHost.now()
    }

    fn random(&self) -> u64 {
        ThisHost.random()
    }

    async fn connect(&self, target: &Target, hello: Hello) -> Result<Session, ConnectError> {
        ThisHost.connect(target, hello).await
    }

    async fn end_left_behind(&self, mark: &str) -> usize {
        ThisHost.end_left_behind(mark).await
    }

    fn goes_down(&self) -> impl Future<Output = bool> + Send {
        ready(true)
    }

    fn steps(&self, config: &AgentConfig, mark: &str, stop: Stop) -> Executors {
        ThisHost.steps(config, mark, stop)
    }
}

#[tokio::test]
async fn an_agent_whose_host_goes_down_says_so_before_its_command_has_ended() {
    let mut hall = Hall::open().await;
    let mut host = Host::new(hall.address);
    host.config.stop_grace = Duration::from_secs(60);
    let (stop, stopped) = oneshot::channel::<()>();
    let endings = stream::once(async {
        let _ = stopped.await;
        Ending::Stop
    });
    let config = host.config.clone();
    let agent = tokio::spawn(async { run_in(ShutDown, config, endings, |_| {}).await });
    let mut guest = hall.next_guest().await;
    let snapshot = slow(&host);
    guest.give(&snapshot).await;
    guest.order_apply(&snapshot, &[0]).await;
    assert_eq!(facts(&[guest.record().await]), ["slow began"]);
    drop(stop);
    assert_eq!(guest.next().await, ToServer::GoingDown);

    // One that it comes back to meanwhile has not heard it.
    drop(guest);
    let mut guest = hall.next_guest().await;
    assert_eq!(guest.next().await, ToServer::GoingDown);
    hall::release(&host.path("gate")).await;
    let told = [guest.record().await, guest.record().await];
    assert_eq!(facts(&told), ["slow began", "slow ended success"]);
    drop(guest);
    assert_eq!(agent.await.expect("no panic").expect("no error"), Ending::Stop);
}
