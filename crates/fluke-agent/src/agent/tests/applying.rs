use super::*;

#[tokio::test]
async fn what_drifted_is_put_right_and_told_as_it_happens() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let marker = host.path("marker");
    let snapshot = one_task(vec![step("fine", "true", "true"), file(&marker)]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.check(&snapshot).await;

    let records = guest.apply(&snapshot, &[1]).await;
    assert_eq!(facts(&records), ["file began", "file ended success"]);
    assert_eq!(records.iter().map(|record| record.id.0).collect::<Vec<_>>(), [1, 2]);
    let record = &records[1];
    assert_eq!(record.subject.names().0.map(TaskName::as_str), Some("t"));
    assert_eq!(record.subject.index(), Some(StepIndex(1)));
    assert_eq!((record.snapshot, record.commit.as_str()), (snapshot.hash(), "c0ffee"));
    assert_eq!(record.trigger, Trigger::Poll);
    assert!(marker.exists());
    assert_eq!(verdicts(&guest.check(&snapshot).await), [(1, "ok")], "after an apply it is news");
    assert_eq!(verdicts(&guest.check(&snapshot).await), []);

    let again = guest.apply(&snapshot, &[1]).await;
    assert_eq!(facts(&again), ["file passed over healed"]);
}

#[tokio::test]
async fn a_failure_ends_its_task_and_no_other() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let other = host.path("other");
    let never = step("never", "false", &format!("touch {}", host.path("never").display()));
    let snapshot = snapshot(vec![
        task("a", Policy::Remediate, vec![step("bad", "false", "echo no; exit 3"), never]),
        task("b", Policy::Remediate, vec![file(&other)]),
    ]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.check(&snapshot).await;
    let records = guest.apply(&snapshot, &[0, 1, 2]).await;
    let expected = [
        "bad began",
        "bad ended failure",
        "never passed over skipped",
        "file began",
        "file ended success",
    ];
    assert_eq!(facts(&records), expected);
    let Fact::Ended { output, .. } = &records[1].fact else { panic!("ended") };
    assert_eq!(output.text(), "no\n[command exited 3]\n");
    assert_eq!((host.path("never").exists(), other.exists()), (false, true));
    let after = guest.check(&snapshot).await;
    assert_eq!(
        verdicts(&after),
        [(0, "drifted"), (1, "drifted"), (2, "ok")],
        "all that had its turn"
    );
}

#[tokio::test]
async fn what_arrives_during_an_apply_waits_and_only_the_newest_is_kept() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let (gate, old) = (host.path("gate"), slow(&host));
    let mut guest = hall.next_guest().await;
    guest.give(&old).await;
    guest.order_apply(&old, &[0]).await;
    assert_eq!(facts(&[guest.record().await]), ["slow began"]);

    let newer = one_task(vec![step("newer", "true", "true")]);
    let newest = one_task(vec![step("newest", "false", "true")]);
    guest.give(&newer).await;
    guest.give(&newest).await;
    guest.order_check(&newest).await;
    hall::release(&gate).await;

    let ended = guest.record().await;
    assert_eq!(facts(std::slice::from_ref(&ended)), ["slow ended success"]);
    assert_eq!(ended.snapshot, old.hash());
    assert!(matches!(guest.next().await, ToServer::Finished { .. }));
    let ToServer::Checked(checked) = guest.next().await else { panic!("an answer") };
    assert_eq!((checked.snapshot, verdicts(&checked)), (newest.hash(), vec![(0, "drifted")]));
}

#[tokio::test]
async fn a_long_apply_keeps_nobody_from_hearing_that_the_agent_lives() {
    let mut hall = Hall::open().await;
    hall.rule(|rules| rules.heartbeat = Duration::from_millis(300));
    let host = Host::running(hall.address);
    let (gate, snapshot) = (host.path("gate"), slow(&host));
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.order_apply(&snapshot, &[0]).await;
    let mut beats = 0;
    while beats < 5 {
        match guest.link.incoming.next().await.expect("no error").expect("still there") {
            ToServer::Heartbeat => {
                beats += 1;
                guest.send(ToAgent::Heartbeat).await;
            }
            ToServer::Record(_) => {}
            other => panic!("{other:?}"),
        }
    }
    hall::release(&gate).await;
    let ended = guest.record().await;
    assert_eq!(facts(&[ended]), ["slow ended success"]);
}
