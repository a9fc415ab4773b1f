use super::*;

/// An agent that can be told more than to stop.
struct Heir {
    endings: mpsc::UnboundedSender<Ending>,
    task: tokio::task::JoinHandle<Result<Ending, AgentError>>,
    statuses: mpsc::UnboundedReceiver<AgentStatus>,
}

impl Heir {
    fn start(host: &Host) -> Self {
        let (endings, told) = mpsc::unbounded_channel();
        let (says, statuses) = mpsc::unbounded_channel();
        let told = stream::unfold(told, async |mut told| Some((told.recv().await?, told)));
        let config = host.config.clone();
        let task = tokio::spawn(async move {
            run_until(config, told, move |status| drop(says.send(status))).await
        });
        Self { endings, task, statuses }
    }

    fn tell(&self, ending: Ending) {
        self.endings.send(ending).expect("it listens");
    }

    async fn until(&mut self, wanted: impl Fn(&AgentStatus) -> bool) {
        while !wanted(&self.statuses.recv().await.expect("it runs")) {}
    }

    async fn end(self) -> Ending {
        self.task.await.expect("no panic").expect("no error")
    }
}

/// Two steps: one that waits at the gate, and one behind it.
fn two_steps(host: &Host) -> Arc<Snapshot> {
    let (gate, marker) = (host.path("gate"), host.path("marker"));
    hall::pipe(&gate);
    let (gate, marker) = (gate.display(), marker.display());
    let command = format!("read go < {gate}; touch {marker}");
    let first = step("first", &format!("test -f {marker}"), &command);
    one_task(vec![first, file(&host.path("second"))])
}

#[tokio::test]
async fn the_order_under_way_comes_to_its_end_and_no_other_is_taken_up() {
    let mut hall = Hall::open().await;
    let host = Host::new(hall.address);
    let mut heir = Heir::start(&host);
    let snapshot = two_steps(&host);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    let asked = guest.order_apply(&snapshot, &[0, 1]).await;
    heir.until(|status| matches!(status, AgentStatus::Applying { .. })).await;
    heir.tell(Ending::HandOver);
    heir.until(|status| *status == AgentStatus::Stopping).await;
    // Nobody answers this one: the session that follows decides anew.
    guest.order_check(&snapshot).await;
    hall::release(&host.path("gate")).await;
    let mut records = Vec::new();
    loop {
        match guest.next().await {
            ToServer::Record(record) => records.push(record),
            ToServer::Finished { instruction } => break assert_eq!(instruction, asked),
            other => panic!("not about the apply: {other:?}"),
        }
    }
    let all = ["first began", "first ended success", "file began", "file ended success"];
    assert_eq!(facts(&records), all);
    assert!(guest.link.incoming.next().await.expect("no error").is_none(), "it has left");
    drop(guest);
    assert_eq!(heir.end().await, Ending::HandOver);
    assert!(!host.config.state_dir.join("run").exists(), "nothing is left for others to end");

    // What was not acknowledged is told by the successor.
    let heir = Heir::start(&host);
    let mut guest = hall.next_guest().await;
    let mut told = Vec::new();
    for _ in all {
        told.push(guest.record().await);
    }
    assert_eq!(facts(&told), all);
    heir.tell(Ending::Stop);
    drop(guest);
    assert_eq!(heir.end().await, Ending::Stop);
}

#[tokio::test]
async fn an_agent_that_is_idle_makes_way_at_once() {
    let mut hall = Hall::open().await;
    let host = Host::new(hall.address);
    let heir = Heir::start(&host);
    let guest = hall.next_guest().await;
    heir.tell(Ending::HandOver);
    drop(guest);
    assert_eq!(heir.end().await, Ending::HandOver);
}

#[tokio::test]
async fn a_stop_is_not_kept_waiting_by_a_hand_over() {
    let mut hall = Hall::open().await;
    let host = Host::new(hall.address);
    let mut heir = Heir::start(&host);
    let snapshot = two_steps(&host);
    let mut guest = hall.next_guest().await;
    guest.give(&snapshot).await;
    guest.order_apply(&snapshot, &[0, 1]).await;
    assert_eq!(facts(&[guest.record().await]), ["first began"]);
    heir.until(|status| matches!(status, AgentStatus::Applying { .. })).await;
    heir.tell(Ending::HandOver);
    heir.until(|status| *status == AgentStatus::Stopping).await;
    heir.tell(Ending::Stop);
    assert_eq!(facts(&[guest.record().await]), ["first ended interrupted"]);
    drop(guest);
    assert_eq!(heir.end().await, Ending::Stop);
}

/// One that looks after services, and to which happens what a test says.
fn with_services(host: &Host) -> Agent<ThisHost, fn(AgentStatus)> {
    let socket = host.path("podman.sock");
    let services = Some(ServicesConfig { socket, ..ServicesConfig::default() });
    let config = AgentConfig { services, ..host.config.clone() };
    let store = Store::open(&config.state_dir, ThisHost.now()).expect("a directory");
    Agent::new(ThisHost, config, store, |_| ())
}

/// Whether there is a lane that may begin something.
fn looks_after_services(agent: &Agent<ThisHost, fn(AgentStatus)>) -> bool {
    agent.lane.as_ref().is_some_and(|lane| !lane.inbox.is_ending())
}

#[tokio::test]
async fn services_are_looked_after_until_what_is_under_way_has_ended() {
    let hall = Hall::open().await;
    let host = Host::new(hall.address);
    let mut agent = with_services(&host);
    let idle = std::mem::replace(&mut agent.activity, Activity::Changing);
    agent.handle(Happening::ToldToEnd(Ending::HandOver));
    assert!(looks_after_services(&agent), "that may take long");
    agent.handle(Happening::Lane(None));
    assert!(looks_after_services(&agent), "by another lane where one failed");
    agent.activity = idle;
    agent.handle(Happening::Sent);
    assert!(agent.lane.is_some(), "what it has begun comes to its end");
    assert!(!looks_after_services(&agent), "and nothing else is begun");
}

#[tokio::test]
async fn services_are_not_looked_after_by_an_agent_that_stops() {
    let hall = Hall::open().await;
    let host = Host::new(hall.address);
    let mut agent = with_services(&host);
    assert!(looks_after_services(&agent));
    agent.handle(Happening::ToldToEnd(Ending::Stop));
    assert!(!looks_after_services(&agent), "it begins nothing");
    agent.handle(Happening::Lane(None));
    assert!(agent.lane.is_none(), "nor does another lane");
}
