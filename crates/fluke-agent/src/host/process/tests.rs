use super::*;

const LONG: Duration = Duration::from_secs(60);

fn bash(script: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let environment = Environment::from_pairs([("PATH", path)]);
    Command::new("/bin/bash", "/", &environment).args(["-c", script])
}

pub(super) async fn nobody() -> Arc<Identity> {
    let nobody = crate::host::users::look_up("nobody").await;
    Arc::new(nobody.expect("every system has nobody"))
}

pub(super) fn limits() -> Limits {
    Limits { timeout: LONG, grace: Duration::from_secs(5), leftovers: Leftovers::Kill }
}

async fn run_with(script: &str, limits: Limits) -> Finished {
    let (_switch, stop) = Stop::new();
    run(bash(script), limits, stop).await.expect("bash runs")
}

async fn run_it(script: &str) -> Finished {
    run_with(script, limits()).await
}

/// Waits until no process has `mark` on its command line (a zombie has none any more).
async fn all_gone(mark: &str) {
    while running(mark) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn started(mark: &str, count: usize) {
    while running(mark) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn running(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("proc is mounted").flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    // The mark stands as an argument of its own: `sleep MARK`.
    lines.filter(|line| line.split(|b| *b == 0).any(|arg| arg == mark.as_bytes())).count()
}

/// A number of seconds that no other test sleeps.
fn unique_sleep() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:06}", 1000 + NEXT.fetch_add(1, Ordering::Relaxed), std::process::id())
}

/// Children of this process, of whichever thread, that nobody has waited for.
fn zombies() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("proc is mounted").flatten();
    let children = threads.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let is_zombie = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
    };
    children.map(|pids| pids.split_whitespace().filter(|pid| is_zombie(pid)).count()).sum()
}

#[tokio::test]
async fn what_is_printed_comes_back_in_order() {
    let finished = run_it("echo one; echo two >&2; echo three; exit 3").await;
    assert_eq!(finished.end, End::Exited(3));
    assert_eq!(finished.output.text(), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn bytes_that_are_no_text_survive() {
    let finished = run_it(r"printf '\x00\xff\xfe\n'").await;
    assert_eq!(finished.output.tail, b"\x00\xff\xfe\n");
}

#[tokio::test]
async fn nothing_can_be_read_from_standard_input() {
    assert_eq!(run_it("read line").await.end, End::Exited(1));
}

#[tokio::test]
async fn a_signal_is_told_from_an_exit() {
    assert_eq!(run_it("kill -USR1 $$").await.end, End::Signalled(10));
    assert_eq!(run_it("kill -40 $$").await.end, End::Signalled(40), "one without a name");
}

#[tokio::test]
async fn a_flood_of_output_is_bounded() {
    let finished = run_it("head -c 1000000000 /dev/zero; echo end").await;
    assert_eq!(finished.end, End::Exited(0));
    assert_eq!(finished.output.tail.len(), fluke_model::verdict::MAX_OUTPUT);
    assert_eq!(finished.output.dropped + finished.output.tail.len() as u64, 1_000_000_004);
    assert!(finished.output.tail.ends_with(b"\0end\n"));
}

#[tokio::test]
async fn past_its_timeout_a_command_goes_with_its_childrens_children() {
    let mark = unique_sleep();
    let script = format!("(bash -c 'sleep {mark} & sleep {mark}') & wait");
    let short = Limits { timeout: Duration::from_millis(300), ..limits() };
    let finished = run_with(&script, short).await;
    assert_eq!(finished.end, End::TimedOut);
    all_gone(&mark).await;
}

#[tokio::test]
async fn what_ignores_term_is_killed_after_the_grace() {
    let mark = unique_sleep();
    let script = format!("trap '' TERM; sleep {mark} & echo ready; while :; do sleep {mark}; done");
    let timeout = Duration::from_millis(300);
    let short = Limits { timeout, grace: Duration::from_millis(200), ..limits() };
    assert_eq!(run_with(&script, short).await.end, End::TimedOut);
    all_gone(&mark).await;
}

#[tokio::test]
async fn a_child_that_outlives_its_leaders_term_is_killed_after_the_grace() {
    let mark = unique_sleep();
    // The leader goes at TERM; what it started ignores it.
    let script = format!("(trap '' TERM; sleep {mark}) & wait");
    let timeout = Duration::from_millis(300);
    let short = Limits { timeout, grace: Duration::from_millis(200), ..limits() };
    assert_eq!(run_with(&script, short).await.end, End::TimedOut);
    all_gone(&mark).await;
}

#[tokio::test]
async fn a_command_has_time_to_clean_up_when_it_is_stopped() {
    let mark = unique_sleep();
    let (switch, stop) = Stop::new();
    let script = format!("trap 'echo cleaned; exit 0' TERM; sleep {mark} & wait");
    let running = tokio::spawn(run(bash(&script), limits(), stop));
    started(&mark, 1).await;
    switch.send(true).expect("the command listens");
    let finished = running.await.expect("no panic").expect("bash runs");
    assert_eq!((finished.end, &*finished.output.text()), (End::Stopped, "cleaned\n"));
    all_gone(&mark).await;
}

#[tokio::test]
async fn a_check_leaves_nothing_behind() {
    let mark = unique_sleep();
    let finished = run_it(&format!("sleep {mark} & exit 0")).await;
    assert_eq!(finished.end, End::Exited(0));
    all_gone(&mark).await;
}

#[tokio::test]
async fn a_daemon_that_keeps_the_output_open_delays_nothing_and_may_live() {
    let mark = unique_sleep();
    let lenient = Limits { leftovers: Leftovers::Leave, ..limits() };
    let finished = run_with(&format!("sleep {mark} & echo $!"), lenient).await;
    assert_eq!(finished.end, End::Exited(0));
    let daemon: i32 = finished.output.text().trim().parse().expect("a pid was printed");
    started(&mark, 1).await;
    let daemon = nix::unistd::Pid::from_raw(daemon);
    nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGKILL).expect("the daemon lives");
    all_gone(&mark).await;
}

#[tokio::test]
async fn a_dropped_command_goes_with_all_its_group() {
    let mark = unique_sleep();
    let (_switch, stop) = Stop::new();
    let script = format!("trap '' TERM; sleep {mark} & sleep {mark}");
    let running = tokio::spawn(run(bash(&script), limits(), stop));
    started(&mark, 2).await;
    running.abort();
    all_gone(&mark).await;
}

#[tokio::test]
async fn stopping_the_agent_stops_its_commands() {
    let mark = unique_sleep();
    let (switch, stop) = Stop::new();
    let running = tokio::spawn(run(bash(&format!("echo so far; sleep {mark}")), limits(), stop));
    started(&mark, 1).await;
    switch.send(true).expect("the command listens");
    let finished = running.await.expect("no panic").expect("bash runs");
    assert_eq!(finished.end, End::Stopped);
    assert_eq!(finished.output.text(), "so far\n");
    all_gone(&mark).await;
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let (_switch, stop) = Stop::new();
    for (program, dir, message) in [
        ("/bin/bash", "/no/such/dir", "the working directory /no/such/dir does not exist"),
        ("/bin/bash", "/etc/passwd", "the working directory /etc/passwd is not a directory"),
        ("/no/shell", "/", "could not run /no/shell: No such file or directory (os error 2)"),
        ("/etc/passwd", "/", "could not run /etc/passwd: Permission denied (os error 13)"),
    ] {
        let command = Command::new(program, dir, &Environment::default());
        let error = run(command, limits(), stop.clone()).await.expect_err("cannot start");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_host_without_room_is_named_as_such() {
    let error = io::Error::from_raw_os_error(nix::libc::EAGAIN);
    let message = explain(&bash("true"), error).to_string();
    assert!(message.starts_with("this host has no room to start /bin/bash"), "{message}");
}

#[tokio::test]
async fn no_zombies_are_left() {
    for _ in 0..20 {
        run_it("true").await;
    }
    let (_switch, stop) = Stop::new();
    drop(tokio::time::timeout(Duration::ZERO, run(bash("sleep 50"), limits(), stop)).await);
    // Other tests run beside this one, so theirs may be seen for a moment.
    while zombies() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn another_user_brings_his_own_groups_and_nothing_of_ours() {
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    let nobody = nobody().await;
    let (_switch, stop) = Stop::new();
    let command = bash("id -un; id -G; cat /etc/shadow").identity(nobody.clone());
    let finished = run(command, limits(), stop).await.expect("runs");
    let text = finished.output.text();
    let groups: Vec<String> = nobody.groups.iter().map(ToString::to_string).collect();
    assert!(text.starts_with(&format!("nobody\n{}\n", groups.join(" "))), "{text}");
    assert!(text.contains("Permission denied"), "{text}");
}
