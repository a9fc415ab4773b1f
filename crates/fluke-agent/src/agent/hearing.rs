//! What the agent does about what it hears.

use super::*;

impl<W: World, S: Fn(AgentStatus)> Agent<W, S> {
    pub(super) fn heard(&mut self, event: Event) {
        match event {
            Event::Connecting => self.tell(AgentStatus::Connecting),
            Event::Failed { reason, refused: true, retry } => {
                self.offline.unreached();
                self.tell(AgentStatus::Refused { reason, retry });
            }
            Event::Failed { reason, refused: false, retry } => {
                self.offline.unreached();
                self.tell(AgentStatus::Unreachable { reason, retry });
            }
            Event::Lost { reason } => self.lost(reason),
            Event::Connected { welcome, to_server } => {
                let server = &welcome.version;
                tracing::info!(server, records = self.store.unacknowledged().len(), "connected");
                self.tell(AgentStatus::Connected { server_version: welcome.version });
                self.store.keep_poll_interval(welcome.poll_interval);
                self.offline.connected(welcome.poll_interval, Instant::now().into_std());
                self.begin_session(Live { id: welcome.session, to_server });
            }
            Event::Message(message) => self.told(message),
        }
    }

    fn begin_session(&mut self, live: Live) {
        self.session = Some(live);
        self.reported = Reported::default();
        self.outbox.clear();
        // A server that is new looks at everything anyway.
        self.noticed.clear();
        self.say_that_host_goes_down();
        // Before anything else, what this server may not have heard of.
        self.telling_lost = self.store.lost();
        if self.telling_lost > 0 {
            let lost = ToServer::Lost { records: self.telling_lost };
            self.outbox.push_back(Out::Message(Box::new(lost)));
        }
        self.outbox.extend(self.store.unacknowledged().map(|record| Out::Record(record.id)));
        self.tell_lane_of_session();
        if let Activity::Checking(checking) = &self.activity
            && checking.instruction().is_none()
        {
            // The server decides again; it should not wait for our own look at things.
            self.abandon_checks();
        }
    }

    /// Begins anew with the server: an agent that nobody can reach is worse than one that failed.
    pub(super) fn reconnect(&mut self, ended: Result<(), JoinError>) {
        let reason = match ended {
            Ok(()) => "the connection ended by itself".to_owned(),
            Err(error) => format!("fluke itself failed: {error}; please report it"),
        };
        tracing::error!(reason, "connecting anew");
        self.lost(reason);
        self.connect(CONNECT_ANEW);
    }

    fn lost(&mut self, reason: String) {
        self.session = None;
        self.outbox.clear();
        self.tell_lane_of_session();
        self.offline.lost(Instant::now().into_std());
        // What the server was asked to look at it may not have looked at.
        self.noticed.extend(&self.watchable);
        if let Activity::Checking(checking) = &self.activity
            && checking.instruction().is_some()
        {
            // There is nobody left who wants to know.
            self.abandon_checks();
        }
        if let Some(waiting) = self.waiting() {
            waiting.forget_orders();
        }
        self.tell(AgentStatus::Lost { reason });
    }

    fn told(&mut self, message: ToAgent) {
        match message {
            ToAgent::Welcome(_) | ToAgent::Heartbeat => {}
            ToAgent::Ack { record } => {
                // What was said before a record has been heard as well.
                let lost = std::mem::take(&mut self.telling_lost);
                if lost > 0 {
                    self.store.told_lost(lost);
                }
                self.store.acknowledge(record);
            }
            ToAgent::Snapshot { commit, snapshot, is_moved } => {
                self.hold(Arc::new(Held { commit, snapshot }), is_moved);
            }
            ToAgent::Check { instruction, snapshot, steps } => {
                self.ordered(Order { instruction, snapshot, kind: OrderKind::Check(steps) });
            }
            ToAgent::Apply { instruction, snapshot, steps, trigger } => {
                let kind = OrderKind::Apply { steps, trigger };
                self.ordered(Order { instruction, snapshot, kind });
            }
            ToAgent::Directory(_)
            | ToAgent::Subnet(_)
            | ToAgent::Released(_)
            | ToAgent::Settle { .. } => self.tell_lane(message),
        }
    }

    fn hold(&mut self, held: Arc<Held>, is_moved: bool) {
        tracing::info!(
            commit = held.commit.short(),
            tasks = held.snapshot.tasks().len(),
            steps = held.snapshot.step_count(),
            "a new snapshot"
        );
        // Checks of the snapshot before tell nobody anything any more, and what was told of this one
        // earlier the server may have thrown away, if another one came in between.
        self.abandon_checks();
        self.reported = Reported::default();
        self.store.keep_held(held.clone());
        self.snapshot.send_replace(Some(held.snapshot.hash()));
        if let Some(lane) = &self.lane {
            lane.inbox.hold(held.clone(), is_moved);
        }
        match &mut self.activity {
            Activity::Idle(idle) => {
                idle.hold(held);
                self.watch_steps();
            }
            _ => {
                if let Some(waiting) = self.waiting() {
                    waiting.hold(held);
                }
            }
        }
    }

    fn ordered(&mut self, order: Order) {
        if self.is_ending() {
            return;
        }
        match self.change() {
            Activity::Idle(idle) => self.take_up(idle, order),
            busy => {
                self.activity = busy;
                if let Some(waiting) = self.waiting() {
                    waiting.take_up(order);
                }
            }
        }
    }

    /// Has what the host itself says has changed looked at: by asking the server, when nothing is
    /// under way and not faster than the network takes it; or alone.
    pub(super) fn see_to_what_changed(&mut self) {
        let Activity::Idle(idle) = &self.activity else { return };
        let Some(held) = idle.held() else { return };
        if self.noticed.is_empty() || self.is_ending() {
            return;
        }
        if self.session.is_some() && self.outbox.is_empty() {
            let snapshot = held.snapshot.hash();
            let steps = std::mem::take(&mut self.noticed).into_iter().collect();
            let look = ToServer::LookAgain { snapshot, steps };
            self.outbox.push_back(Out::Message(Box::new(look)));
        } else if self.offline.is_alone() {
            let steps = std::mem::take(&mut self.noticed).into_iter().collect();
            self.look_alone(Scope::Steps(steps));
        }
    }

    /// Watches what can be watched of the snapshot that is held now.
    pub(super) fn watch_steps(&mut self) {
        let Activity::Idle(idle) = &self.activity else { return };
        let Some(held) = idle.held() else { return };
        if self.watching.replace(held.snapshot.hash()) == Some(held.snapshot.hash()) {
            return;
        }
        self.watched.clear();
        self.watchable.clear();
        self.noticed.clear();
        for (index, _, step) in held.snapshot.steps() {
            if let Some(changes) = self.steps.watch(step) {
                self.watchable.push(index);
                self.watched.push(changes.map(move |()| index).boxed());
            }
        }
    }

    /// Where things wait while something is under way.
    fn waiting(&mut self) -> Option<&mut Waiting> {
        match &mut self.activity {
            Activity::Idle(_) | Activity::Changing => None,
            Activity::Checking(checking) => Some(checking.waiting()),
            Activity::Judging(judging) => Some(judging.waiting()),
            Activity::Acting(acting, ..) => Some(acting.waiting()),
            Activity::Verifying(verifying, ..) => Some(verifying.waiting()),
        }
    }

    pub(super) fn change(&mut self) -> Activity {
        std::mem::replace(&mut self.activity, Activity::Changing)
    }

    /// Stops looking; what was started for it goes with it.
    pub(super) fn abandon_checks(&mut self) {
        match self.change() {
            Activity::Checking(checking) => {
                self.work = JoinSet::new();
                self.go_home(checking.finish());
            }
            other => self.activity = other,
        }
    }

    /// Takes nothing up any more. What is being put right may come to its end, within bounds:
    /// half an installation is worse than a late one.
    pub(super) fn shut_down(&mut self) {
        self.ending = Some(Ending::Stop);
        self.tell(AgentStatus::Stopping);
        let world = self.world.clone();
        self.asked = async move { world.goes_down().await }.boxed().fuse();
        self.abandon_checks();
        self.end_lane();
        let is_acting = matches!(self.activity, Activity::Acting(..) | Activity::Verifying(..));
        match is_acting || self.lane_changes > 0 {
            true if !self.stop_grace.is_zero() => {
                tracing::info!(grace = ?self.stop_grace, "stopping when the command that runs has ended");
                self.hurry_at = Some(Instant::now() + self.stop_grace);
            }
            _ => self.hurry(),
        }
    }

    /// Where the host goes down others hear of it at once, whatever is still under way here.
    pub(super) fn hear_of_host(&mut self, goes_down: bool) {
        self.goes_down = goes_down;
        if goes_down {
            tracing::info!("the host goes down");
        }
        self.say_that_host_goes_down();
    }

    fn say_that_host_goes_down(&mut self) {
        if self.goes_down && self.session.is_some() {
            self.outbox.push_front(Out::Message(Box::new(ToServer::GoingDown)));
        }
    }

    /// Takes nothing up any more, and lets what is under way come to its end: a session that
    /// begins anew will be told what else there is. Only checks are given up, they cost nothing.
    /// Services are looked after for as long as that takes.
    pub(super) fn hand_over(&mut self) {
        self.ending = Some(Ending::HandOver);
        self.tell(AgentStatus::Stopping);
        self.abandon_checks();
        if !matches!(self.activity, Activity::Idle(_)) {
            tracing::info!("handing over when what is under way has ended");
        }
    }

    /// Takes running commands along.
    pub(super) fn hurry(&mut self) {
        self.hurry_at = None;
        self.stop.send_replace(true);
        self.drop_lane();
    }

    /// Whether running commands were told to stop.
    pub(super) fn is_hurried(&self) -> bool {
        *self.stop.borrow()
    }

    /// Lets the server know what it can still be told, within bounds.
    pub(super) async fn say_last_words(mut self) {
        self.drop_lane();
        if self.session.is_some() {
            let _ = timeout(LAST_WORDS, self.take_leave()).await;
        }
        self.connection.shutdown().await;
        self.store.end_run();
    }

    async fn take_leave(&mut self) {
        if self.is_stopping() && self.store.is_leaving() {
            self.outbox.push_back(Out::Message(Box::new(ToServer::Leaving)));
        }
        while send_next(self.session.as_ref(), &mut self.outbox, &self.store).await.is_some() {}
        // A connection that hears that there is nothing more to say ends by itself.
        self.session = None;
        while let Some(event) = self.events.recv().await {
            if let Event::Message(ToAgent::Ack { record }) = event {
                self.store.acknowledge(record);
            }
        }
    }
}
