//! What the agent does: one thing after the other, as [`crate::state`] hands it out.

use super::*;

impl<W: World, S: Fn(AgentStatus)> Agent<W, S> {
    pub(super) fn take_up(&mut self, idle: Idle, order: Order) {
        match idle.take_up(order) {
            TakenUp::Checking(checking) => self.check(checking),
            TakenUp::Processing(processing) => self.go_on(processing),
            TakenUp::NotHeld(order, idle) => {
                tracing::warn!(
                    asked = %order.snapshot,
                    "asked about a snapshot that this agent does not hold; nothing is done"
                );
                self.activity = Activity::Idle(idle);
                let Order { instruction, snapshot, kind } = order;
                self.send(match kind {
                    OrderKind::Check(_) => {
                        let changes = Vec::new();
                        ToServer::Checked(Checked { instruction, snapshot, changes, checked: 0 })
                    }
                    OrderKind::Apply { .. } => ToServer::Finished { instruction },
                });
            }
        }
    }

    pub(super) fn look_around(&mut self) {
        self.look_alone(Scope::All);
    }

    /// Looks at steps on the agent's own account, if nothing else is under way.
    pub(super) fn look_alone(&mut self, scope: Scope) {
        match self.change() {
            Activity::Idle(idle) => match idle.look_at(scope) {
                Ok(checking) => self.check(checking),
                Err(idle) => {
                    self.activity = Activity::Idle(idle);
                    self.offline.looked(Instant::now().into_std());
                }
            },
            busy => self.activity = busy,
        }
    }

    fn check(&mut self, checking: Checking) {
        let alone = checking.instruction().is_none();
        self.tell(AgentStatus::Checking { steps: checking.steps().len(), alone });
        let steps = self.steps.clone();
        let held = checking.held().clone();
        let listed = checking.steps().to_vec();
        let at_once = self.parallel_checks;
        self.work.spawn(async move {
            Done::Checked(steps.check_all(&held.snapshot, &listed, at_once).await)
        });
        self.activity = Activity::Checking(checking);
    }

    fn go_on(&mut self, processing: Processing) {
        let judging = match processing.next() {
            Next::Judge(judging) => judging,
            Next::Home(report, home) => return self.finish(report, home),
        };
        self.look_at(judging.held().clone(), judging.step());
        self.activity = Activity::Judging(judging);
    }

    fn look_at(&mut self, held: Arc<Held>, step: StepIndex) {
        let steps = self.steps.clone();
        self.work.spawn(async move { Done::Judged(steps.check_at(&held.snapshot, step).await) });
    }

    fn act(&mut self, acting: Acting, cause: Cause) {
        let steps = self.steps.clone();
        let (held, index, drift) = (acting.held().clone(), acting.step(), acting.drift().clone());
        if let Some((task, step)) = held.name_of(index) {
            tracing::info!(%task, %step, reason = drift.reason, "applying");
            let alone = cause.instruction.is_none();
            self.tell(AgentStatus::Applying { task: task.clone(), step: step.clone(), alone });
        }
        self.work.spawn(async move {
            Done::Applied(match held.snapshot.step(index) {
                Some((_, step)) => steps.apply(step, &drift).await,
                None => Applied::Failed(Output::from_text("there is no such step")),
            })
        });
        self.activity = Activity::Acting(acting, cause, Instant::now());
    }

    pub(super) fn worked(&mut self, done: Result<Done, JoinError>) {
        match (self.change(), done) {
            (Activity::Checking(checking), done) => self.checked(checking, done),
            (Activity::Judging(judging), done) => self.judged(judging, verdict_of(done)),
            (Activity::Acting(acting, cause, began), done) => {
                let applied = match done {
                    Ok(Done::Applied(applied)) => applied,
                    other => Applied::Failed(Output::from_text(bug(other.err()))),
                };
                self.applied(acting, cause, began, applied);
            }
            (Activity::Verifying(verifying, cause, began), done) => {
                self.verified(verifying, cause, began, verdict_of(done));
            }
            (idle @ (Activity::Idle(_) | Activity::Changing), _) => self.activity = idle,
        }
    }

    fn checked(&mut self, checking: Checking, done: Result<Done, JoinError>) {
        let verdicts = match done {
            Ok(Done::Checked(verdicts)) => verdicts,
            other => {
                let reason = bug(other.err());
                let failed = |step: &StepIndex| (*step, Verdict::Error { reason: reason.clone() });
                checking.steps().iter().map(failed).collect()
            }
        };
        let held = checking.held().clone();
        match checking.instruction() {
            Some(instruction) => {
                let snapshot = held.snapshot.hash();
                let checked = verdicts.len() as u32;
                let changes = self.reported.news(snapshot, verdicts);
                let answer = Checked { instruction, snapshot, changes, checked };
                self.send(ToServer::Checked(answer));
                self.go_home(checking.finish());
            }
            None => {
                if checking.is_of_everything() {
                    self.offline.looked(Instant::now().into_std());
                }
                self.looked_around(&held, checking.finish(), &verdicts);
            }
        }
    }

    /// Puts right what may be put right without a server, unless it is back.
    fn looked_around(&mut self, held: &Held, home: Home, verdicts: &[(StepIndex, Verdict)]) {
        let now = Instant::now().into_std();
        let repairs = self.offline.repairs(&held.snapshot, verdicts, now);
        if home.next.is_some() || self.is_ending() {
            return self.go_home(home);
        }
        match home.idle.repair(&repairs) {
            Ok(processing) => {
                tracing::info!(steps = repairs.len(), "repairing while the server is away");
                self.go_on(processing);
            }
            Err(idle) => self.go_home(Home { idle, next: None }),
        }
    }

    fn judged(&mut self, judging: Judging, verdict: Verdict) {
        if self.is_stopping() {
            let (report, home) = judging.interrupted();
            return self.interrupted(report, home);
        }
        let (held, cause) = (judging.held().clone(), judging.cause().clone());
        match judging.found(verdict) {
            Judged::Passed(facts, processing) => {
                self.record(&held, &cause, facts);
                self.go_on(processing);
            }
            Judged::Act(fact, acting) => {
                self.record(&held, &cause, [fact]);
                self.act(acting, cause);
            }
        }
    }

    fn applied(&mut self, acting: Acting, cause: Cause, began: Instant, applied: Applied) {
        let held = acting.held().clone();
        match acting.ended(applied, began.elapsed()) {
            Acted::Verify(verifying) if self.is_hurried() => {
                self.acted(&held, &cause, verifying.interrupted(began.elapsed()));
            }
            Acted::Verify(verifying) => {
                self.look_at(held, verifying.step());
                self.activity = Activity::Verifying(verifying, cause, began);
            }
            over => self.acted(&held, &cause, over),
        }
    }

    fn verified(&mut self, verifying: Verifying, cause: Cause, began: Instant, verdict: Verdict) {
        let held = verifying.held().clone();
        let took = began.elapsed();
        if self.is_hurried() {
            return self.acted(&held, &cause, verifying.interrupted(took));
        }
        let (facts, processing) = verifying.found(verdict, took);
        self.acted(&held, &cause, Acted::Over(facts, processing));
    }

    fn acted(&mut self, held: &Held, cause: &Cause, acted: Acted) {
        match acted {
            Acted::Over(facts, processing) => {
                self.record(held, cause, facts);
                self.go_on(processing);
            }
            Acted::Interrupted(fact, report, home) => {
                self.record(held, cause, [fact]);
                self.interrupted(report, home);
            }
            Acted::Verify(verifying) => {
                self.activity = Activity::Verifying(verifying, cause.clone(), Instant::now());
            }
        }
    }

    /// Takes facts down, and tells the server.
    fn record(&mut self, held: &Held, cause: &Cause, facts: impl IntoIterator<Item = Told>) {
        for Told { step: index, fact } in facts {
            let Some((task, step)) = held.name_of(index) else { continue };
            let outcome = match &fact {
                Fact::Began { .. } => None,
                Fact::Ended { outcome, .. } | Fact::PassedOver { outcome, .. } => Some(*outcome),
            };
            if let Some(outcome) = outcome {
                tracing::info!(%task, %step, outcome = outcome.as_str(), "ended");
                self.reported.forget(held.snapshot.hash(), index);
            }
            let id = self.store.record(Entry {
                at: self.world.now(),
                instruction: cause.instruction,
                snapshot: held.snapshot.hash(),
                commit: held.commit.clone(),
                subject: Subject::Step { task: task.clone(), step: step.clone(), index },
                trigger: cause.trigger.clone(),
                fact,
            });
            if self.session.is_some() {
                self.outbox.push_back(Out::Record(id));
            }
        }
    }

    fn finish(&mut self, report: Report, home: Home) {
        self.offline.learn(&report, Instant::now().into_std());
        // A session that is over waits for nothing.
        if let Some(instruction) = report.cause.instruction
            && self.session.as_ref().is_some_and(|live| live.id == instruction.session)
        {
            self.send(ToServer::Finished { instruction });
        }
        self.go_home(home);
    }

    /// The agent stops: its server, which still waits, learns it from the records and the end.
    fn interrupted(&mut self, report: Report, home: Home) {
        tracing::info!(done = report.outcomes.len(), "interrupted, because the agent stops");
        self.activity = Activity::Idle(home.idle);
    }

    pub(super) fn go_home(&mut self, home: Home) {
        match home.next {
            Some(order) if !self.is_ending() => {
                self.activity = Activity::Idle(home.idle);
                self.watch_steps();
                if let Activity::Idle(idle) = self.change() {
                    self.take_up(idle, order);
                }
            }
            _ => {
                self.activity = Activity::Idle(home.idle);
                self.watch_steps();
                self.tell(AgentStatus::Idle);
            }
        }
    }

    fn send(&mut self, message: ToServer) {
        if self.session.is_some() {
            self.outbox.push_back(Out::Message(Box::new(message)));
        }
    }
}

fn verdict_of(done: Result<Done, JoinError>) -> Verdict {
    match done {
        Ok(Done::Judged(verdict)) => verdict,
        other => Verdict::Error { reason: bug(other.err()) },
    }
}

/// A fault of our own must not take the agent down.
fn bug(error: Option<JoinError>) -> String {
    let error = error.map_or_else(|| "unexpected work".to_owned(), |error| error.to_string());
    tracing::error!(error, "a bug in fluke");
    format!("a bug in fluke made this fail: {error}; please report it")
}
