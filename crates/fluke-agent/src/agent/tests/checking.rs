use super::*;

#[tokio::test]
async fn an_agent_says_who_it_is() {
    let mut hall = Hall::open().await;
    let _host = Host::running(hall.address);
    let hello = hall.next_guest().await.hello;
    assert_eq!((hello.name.as_str(), hello.version.as_str()), ("web-01", "1.2.3"));
    assert_eq!(hello.executors, ["mise", "shell", "systemd"]);
    assert_eq!(hello.snapshot, None);
}

#[tokio::test]
async fn the_server_is_told_what_changed_and_nothing_else() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let marker = host.path("marker");
    let snapshot = one_task(vec![step("fine", "true", "true"), file(&marker)]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;

    let checked = guest.check(&snapshot).await;
    assert_eq!((checked.checked, checked.snapshot), (2, snapshot.hash()));
    assert_eq!(verdicts(&checked), [(0, "ok"), (1, "drifted")]);
    assert_eq!(checked.changes[1].verdict, Verdict::Drifted(Drift::because("check exited 1")));
    assert_eq!(verdicts(&guest.check(&snapshot).await), []);

    std::fs::write(&marker, "").expect("room");
    assert_eq!(verdicts(&guest.check(&snapshot).await), [(1, "ok")]);

    drop(guest);
    let mut guest = hall.next_guest().await;
    assert_eq!(guest.hello.snapshot, Some(snapshot.hash()));
    assert_eq!(verdicts(&guest.check(&snapshot).await), [(0, "ok"), (1, "ok")], "a new session");
}

#[tokio::test]
async fn a_snapshot_that_comes_back_is_told_of_anew() {
    let mut hall = Hall::open().await;
    let _host = Host::running(hall.address);
    let one = one_task(vec![step("fine", "true", "true")]);
    let other = snapshot(vec![]);
    let mut guest = hall.next_guest().await;
    guest.give(&one).await;
    guest.check(&one).await;
    guest.give(&other).await;
    guest.give(&one).await;
    // For the server the first answer came too late to count.
    assert_eq!(verdicts(&guest.check(&one).await), [(0, "ok")]);
}

#[tokio::test]
async fn only_the_steps_that_were_asked_for_are_looked_at() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let touched = host.path("touched");
    let nosy = step("nosy", &format!("touch {}", touched.display()), "true");
    let snapshot = one_task(vec![nosy, step("fine", "true", "true")]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    let instruction = guest.order_check(&Snapshot::default()).await;
    let ToServer::Checked(checked) = guest.next().await else { panic!("an answer") };
    assert_eq!((checked.instruction, checked.checked), (instruction, 0), "a foreign snapshot");

    let order = ToAgent::Check {
        instruction,
        snapshot: snapshot.hash(),
        steps: Scope::Steps(vec![StepIndex(1)]),
    };
    guest.send(order).await;
    let ToServer::Checked(checked) = guest.next().await else { panic!("an answer") };
    assert_eq!(verdicts(&checked), [(1, "ok")]);
    assert!(!touched.exists());
}

#[tokio::test]
async fn checks_run_side_by_side() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let (one, other) = (host.path("one"), host.path("other"));
    hall::pipe(&one);
    hall::pipe(&other);
    // Each waits for the other; one after the other they would wait for ever.
    let (one, other) = (one.display(), other.display());
    let first = step("first", &format!("echo x > {one}; read y < {other}"), "true");
    let second = step("second", &format!("read y < {one}; echo x > {other}"), "true");
    let snapshot = one_task(vec![first, second]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    assert_eq!(verdicts(&guest.check(&snapshot).await), [(0, "ok"), (1, "ok")]);
}

#[tokio::test]
async fn a_check_that_nobody_waits_for_any_more_is_given_up() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let begun = host.path("begun");
    let hung = step("hung", &format!("touch {}; sleep 1000", begun.display()), "true");
    let snapshot = one_task(vec![hung]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.order_check(&snapshot).await;
    hall::appears(&begun).await;
    drop(guest);

    let mut guest = hall.next_guest().await;
    let fine = one_task(vec![step("fine", "true", "true")]);
    guest.give(&fine).await;
    assert_eq!(verdicts(&guest.check(&fine).await), [(0, "ok")]);
}

#[tokio::test]
async fn a_new_snapshot_does_not_wait_for_a_check_of_the_old_one() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let begun = host.path("begun");
    let hung = step("hung", &format!("touch {}; sleep 1000", begun.display()), "true");
    let old = one_task(vec![hung]);
    let mut guest = hall.next_guest().await;
    guest.give(&old).await;
    guest.order_check(&old).await;
    hall::appears(&begun).await;
    let new = one_task(vec![step("fine", "true", "true")]);
    guest.give(&new).await;
    assert_eq!(verdicts(&guest.check(&new).await), [(0, "ok")]);
}
