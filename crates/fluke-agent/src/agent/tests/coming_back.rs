use fluke_wire::Refusal;

use super::*;

#[tokio::test]
async fn records_are_sent_again_until_they_are_acknowledged() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let snapshot = one_task(vec![file(&host.path("marker"))]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    assert_eq!(guest.apply(&snapshot, &[0]).await.len(), 2);
    drop(guest);

    let mut guest = hall.next_guest().await;
    // Even if the server is first to speak.
    guest.order_check(&snapshot).await;
    let again = [guest.record().await, guest.record().await];
    assert_eq!(facts(&again), ["file began", "file ended success"]);
    assert!(matches!(guest.next().await, ToServer::Checked(_)));
    guest.send(ToAgent::Ack { record: RecordId(1) }).await;
    guest.check(&snapshot).await;
    drop(guest);

    let mut guest = hall.next_guest().await;
    assert_eq!(guest.record().await.id, RecordId(2));
    guest.send(ToAgent::Ack { record: RecordId(2) }).await;
    guest.check(&snapshot).await;
    drop(guest);
    hall.next_guest().await.check(&snapshot).await;
}

#[tokio::test]
async fn an_apply_outlives_its_server() {
    let mut hall = Hall::open().await;
    let host = Host::running(hall.address);
    let (gate, snapshot) = (host.path("gate"), slow(&host));
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.order_apply(&snapshot, &[0]).await;
    guest.record().await;
    drop(guest);
    let address = hall.crash().await;

    let mut hall = Hall::open_at(address).await;
    let mut guest = hall.next_guest().await;
    assert_eq!(facts(&[guest.record().await]), ["slow began"]);
    // What the new session asks for waits for what the old one asked for.
    guest.order_check(&snapshot).await;
    hall::release(&gate).await;
    assert_eq!(facts(&[guest.record().await]), ["slow ended success"]);
    let ToServer::Checked(checked) = guest.next().await else { panic!("not of the old session") };
    assert_eq!(verdicts(&checked), [(0, "ok")]);
}

#[tokio::test]
async fn after_a_clean_restart_the_agent_is_back_at_once() {
    let mut hall = Hall::open().await;
    let mut host = Host::running(hall.address);
    let _guest = hall.next_guest().await;
    let ((), address) = tokio::join!(
        async {
            let lost = host.until(|status| matches!(status, AgentStatus::Lost { .. })).await;
            let AgentStatus::Lost { reason } = lost else { unreachable!() };
            assert!(reason.starts_with("the server ended the session"), "{reason}");
        },
        hall.stop()
    );
    let mut hall = Hall::open_at(address).await;
    hall.next_guest().await;
}

#[tokio::test]
async fn an_agent_that_is_refused_says_why_and_comes_back() {
    let mut hall = Hall::open().await;
    let reason = "`web-01` is connected from 10.0.0.1";
    hall.rule(|rules| rules.refuse = Some(Refusal::NameTaken(reason.into())));
    let mut host = Host::running(hall.address);
    let refused = host.until(|status| matches!(status, AgentStatus::Refused { .. })).await;
    assert!(format!("{refused:?}").contains(reason), "{refused:?}");
    hall.rule(|rules| rules.refuse = None);
    let _guest = hall.next_guest().await;
    host.until(|status| matches!(status, AgentStatus::Connected { .. })).await;
}

#[tokio::test]
async fn an_agent_with_a_wrong_token_is_told_so() {
    let hall = Hall::open().await;
    let mut host = Host::new(hall.address);
    host.config.target.token = fluke_wire::Secret::new("guessed");
    host.start();
    let refused = host.until(|status| matches!(status, AgentStatus::Refused { .. })).await;
    assert!(format!("{refused:?}").contains("does not accept the token"), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_is_silent_for_three_heartbeats_is_gone() {
    let mut hall = Hall::open().await;
    hall.rule(|rules| rules.heartbeat = Duration::from_millis(100));
    let mut host = Host::running(hall.address);
    let _silent = hall.next_guest().await;
    let lost = host.until(|status| matches!(status, AgentStatus::Lost { .. })).await;
    assert_eq!(lost, AgentStatus::Lost { reason: "the server said nothing for 0.3 s".into() });
    hall.next_guest().await;
}

#[tokio::test]
async fn while_the_server_is_away_the_agent_repairs_what_it_may_and_tells_later() {
    let mut hall = Hall::open().await;
    hall.rule(|rules| rules.poll_interval = Duration::from_millis(300));
    let mut host = Host::running(hall.address);
    let (silent, human) = (host.path("silent"), host.path("human"));
    let snapshot = snapshot(vec![
        task("a", Policy::Remediate, vec![file(&silent)]),
        task("b", Policy::AlertOnly, vec![file(&human)]),
    ]);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.check(&snapshot).await;
    drop(guest);
    let address = hall.crash().await;
    let applying = host.until(|status| matches!(status, AgentStatus::Applying { .. })).await;
    assert!(matches!(applying, AgentStatus::Applying { alone: true, .. }), "{applying:?}");
    // It looks again and again, also after a restart without a server.
    host.until(|status| matches!(status, AgentStatus::Checking { alone: true, .. })).await;
    host.stop().await;
    std::fs::remove_file(&silent).expect("it was repaired");
    host.start();
    host.until(|status| matches!(status, AgentStatus::Applying { alone: true, .. })).await;
    host.until(|status| matches!(status, AgentStatus::Idle)).await;
    assert_eq!((silent.exists(), human.exists()), (true, false), "one is left to a human");

    let mut hall = Hall::open_at(address).await;
    let mut guest = hall.next_guest().await;
    let mut records = Vec::new();
    for _ in 0..4 {
        records.push(guest.record().await);
    }
    assert_eq!(facts(&records[..2]), ["file began", "file ended success"]);
    assert_eq!(facts(&records[2..]), ["file began", "file ended success"]);
    assert!(records.iter().all(|record| record.instruction.is_none()));
    assert!(records.iter().all(|record| record.trigger == Trigger::Offline));
}

#[tokio::test]
async fn a_connection_that_fails_in_itself_is_begun_anew() {
    let mut hall = Hall::open().await;
    let host = Host::new(hall.address);
    let store = Store::open(&host.config.state_dir, ThisHost.now()).expect("a store");
    let mut agent = Agent::new(ThisHost, host.config.clone(), store, |_| {});
    let turn = async |agent: &mut Agent<_, _>| {
        let happening = agent.wait(std::pin::pin!(futures_util::stream::pending())).await;
        agent.handle(happening);
    };
    let mut sessions = Vec::new();
    for _ in 0..2 {
        while agent.session.is_none() {
            turn(&mut agent).await;
        }
        sessions.push(hall.next_guest().await);
        // As a panic in there would.
        agent.connection.abort_all();
        while agent.session.is_some() {
            turn(&mut agent).await;
        }
    }
    assert_eq!(sessions.len(), 2);
}
