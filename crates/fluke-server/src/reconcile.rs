//! One agent's reconciliation, as a pure machine: inputs in, effects out, the time an argument.
//!
//! ```text
//!            Desired, Wake, Manual, LookAgain          Checked: something is due
//!   Resting ─────────────────────────────────▶ Checking ────────────────────────▶ Applying
//!      ▲                                          │ nothing is due                   │
//!      └──────────────────────────────────────────┴──────────────────────────────────┘
//! ```
//!
//! At most one instruction is under way. A newer snapshot replaces a check that is under way
//! (checks are read-only) and waits for an apply to end. Nothing here sends, stores or sleeps:
//! the session does what [`Machine::step`] returns and wakes it at [`Machine::deadline`].

mod applying;
mod approval;
mod board;
mod cycle;
mod deciding;
mod notice;
mod request;
mod services;
mod standing;
mod view;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, CommitId, Hash256, InstructionId, SessionId};
use fluke_model::message::{Hello, Record, RecordId, Scope, ToAgent, ToServer};
use fluke_model::policy::Trigger;
use fluke_model::snapshot::{Snapshot, StepIndex};
use fluke_model::time::Timestamp;

use crate::alert::{Alert, Owner};
use board::{Board, StepState};
use request::ended;

pub use approval::Approval;
pub use request::{Progress, Request, What};
pub use services::status_of;
pub use view::Census;

/// A reading of both clocks: one to measure by, one to show.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Never jumps.
    pub instant: Instant,
    /// What people read.
    pub wall: Timestamp,
}

/// What a host should be, and which commit says so.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The commit in force.
    pub commit: CommitId,
    /// All that the host should be.
    pub snapshot: Arc<Snapshot>,
}

/// Something that happened to an agent.
#[derive(Debug)]
pub enum Input {
    /// Its stream opened; `wanted` is none before the first good commit.
    Connected {
        /// What it says of itself.
        hello: Hello,
        /// The stream.
        session: SessionId,
        /// What Git says of it.
        wanted: Option<Wanted>,
    },
    /// A commit came into force.
    Wanted(Wanted),
    /// It said something.
    Message(ToServer),
    /// The snapshot that it was to be sent is too large for any agent.
    Unsendable {
        /// In words.
        why: String,
    },
    /// The [`Machine::deadline`] has come, or something waits to be begun.
    Wake,
    /// Its stream closed.
    Disconnected {
        /// In words.
        why: String,
    },
}

/// Something to be done.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Tell the agent.
    Send(ToAgent),
    /// Write it down.
    Record(Event),
    /// Tell people.
    Alert(Alert),
    /// Tell whoever asked.
    Progress {
        /// Which request.
        id: String,
        /// What is new.
        progress: Progress,
    },
}

/// One agent, known since it first connected.
#[derive(Debug)]
pub struct Machine {
    name: AgentName,
    hello: Hello,
    session: Option<Session>,
    last_seen: Timestamp,
    poll_interval: Duration,
    /// Spreads agents over the interval; fixed per agent.
    spread: u64,
    /// The newest word of Git; equal to the board's unless an apply is under way.
    newer: Option<Wanted>,
    board: Option<Board>,
    phase: Phase,
    waiting: Waiting,
    next_poll: Option<Instant>,
    newest_record: RecordId,
    /// The applies that began and have not ended, as far as the agent told: one of a step, one of
    /// services at most.
    under_way: Vec<Record>,
    /// None of an agent that never spoke of any.
    services: Option<Box<services::Services>>,
    /// As `last_seen`, by the clock that never jumps.
    heard: Instant,
    /// The snapshot that cannot be sent, and why.
    unsendable: Option<(Hash256, Box<str>)>,
}

#[derive(Debug)]
struct Session {
    id: SessionId,
    since: Timestamp,
    /// What the agent holds, as far as was said.
    held: Option<Hash256>,
    instructions: u64,
}

#[derive(Debug)]
enum Phase {
    Resting,
    Checking { instruction: InstructionId, cycle: Cycle },
    Applying { instruction: InstructionId, cycle: Cycle, tasks: Vec<ApplyingTask> },
}

/// Why a cycle runs, and over what.
#[derive(Debug, Clone)]
struct Cycle {
    trigger: Trigger,
    scope: Scope,
    request: Option<Request>,
}

#[derive(Debug)]
struct ApplyingTask {
    task: usize,
    /// Listed steps that have not come to an end yet.
    open: BTreeSet<StepIndex>,
    failed: bool,
}

/// What wants a cycle as soon as the machine rests.
#[derive(Debug, Default)]
struct Waiting {
    connect: bool,
    commit: bool,
    /// The commit's cycle looks at everything, not only at what the commit changed.
    everything: bool,
    steps: BTreeSet<StepIndex>,
    requests: VecDeque<Request>,
}

impl Machine {
    /// An agent that was never heard of before.
    pub fn new(hello: Hello, poll_interval: Duration, now: Now) -> Self {
        let digest = Hash256::of(hello.name.as_str().as_bytes());
        let spread =
            digest.as_bytes().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Self {
            name: hello.name.clone(),
            hello,
            session: None,
            last_seen: now.wall,
            poll_interval,
            spread,
            newer: None,
            board: None,
            phase: Phase::Resting,
            waiting: Waiting::default(),
            next_poll: None,
            newest_record: RecordId(0),
            under_way: Vec::new(),
            services: None,
            heard: now.instant,
            unsendable: None,
        }
    }

    /// The same agent, as if it had never been heard of.
    pub fn anew(&self, now: Now) -> Self {
        Self::new(self.hello.clone(), self.poll_interval, now)
    }

    /// The agent's name.
    pub fn name(&self) -> &AgentName {
        &self.name
    }

    /// What the agent said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The session that owns this machine, if the agent is connected.
    pub fn session(&self) -> Option<SessionId> {
        self.session.as_ref().map(|session| session.id)
    }

    /// Notes that the agent is alive.
    pub fn seen(&mut self, now: Now) {
        (self.last_seen, self.heard) = (now.wall, now.instant);
    }

    /// How long nothing was heard of the agent.
    pub fn silent_for(&self, now: Now) -> Duration {
        now.instant.saturating_duration_since(self.heard)
    }

    /// When to wake it with [`Input::Wake`]; none while it waits for the agent.
    pub fn deadline(&self) -> Option<Instant> {
        let (Phase::Resting, Some(_), Some(board), None) =
            (&self.phase, &self.session, &self.board, &self.unsendable)
        else {
            return None;
        };
        let retries = board.tasks.iter().filter_map(|task| task.retry.map(|(at, _)| at));
        retries.chain(self.next_poll).min()
    }

    /// Takes something that happened, and says what to do about it.
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        match input {
            Input::Connected { hello, session, wanted } => {
                self.connected(hello, session, wanted, now, &mut effects);
            }
            Input::Wanted(wanted) => self.want(wanted, now, &mut effects),
            Input::Message(message) => self.hear(message, now, &mut effects),
            Input::Unsendable { why } => self.cannot_send(why, now, &mut effects),
            Input::Wake => {}
            Input::Disconnected { why } => self.disconnected(&why, now, &mut effects),
        }
        self.begin_what_waits(now, &mut effects);
        effects
    }

    fn connected(
        &mut self,
        hello: Hello,
        session: SessionId,
        wanted: Option<Wanted>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        if self.hello.instance != hello.instance {
            // Another installation under this name counts its records anew, and knows of no others.
            self.newest_record = RecordId(0);
            self.close_under_way(|_| true, now, effects);
        }
        let held = hello.snapshot;
        self.hello = hello;
        self.session = Some(Session { id: session, since: now.wall, held, instructions: 0 });
        self.phase = Phase::Resting;
        self.waiting.connect = true;
        self.seen(now);
        let mut event = self.event(EventKind::AgentConnected, now);
        event.output =
            Some(format!("version {}, labels {}", self.hello.version, self.hello.labels));
        effects.push(Effect::Record(event));
        if let Some(wanted) = wanted {
            self.want(wanted, now, effects);
        }
    }

    fn disconnected(&mut self, why: &str, now: Now, effects: &mut Vec<Effect>) {
        if self.session.take().is_none() {
            return;
        }
        let mut event = self.event(EventKind::AgentDisconnected, now);
        event.output = Some(why.to_string());
        effects.push(Effect::Record(event));
        let phase = std::mem::replace(&mut self.phase, Phase::Resting);
        let under_way = match phase {
            Phase::Applying { cycle, tasks, .. } => {
                self.settle_what_ended(tasks, now, effects);
                cycle.request
            }
            Phase::Checking { cycle, .. } => cycle.request,
            Phase::Resting => None,
        };
        let settling = self.services_left();
        let waiting = std::mem::take(&mut self.waiting).requests;
        for request in under_way.into_iter().chain(settling).chain(waiting) {
            effects.push(ended(request, Some("the agent's connection was lost".into())));
        }
        for state in self.board.iter_mut().flat_map(|board| &mut board.steps) {
            // Its end is in the agent's journal, and comes when it is back.
            state.update(now.wall, StepState::stop_applying);
        }
        if let Some(newer) = self.newer.take() {
            self.adopt(newer, now, effects);
        }
    }

    /// Takes the newest word of Git, at once or, while an apply is under way, after it.
    fn want(&mut self, wanted: Wanted, now: Now, effects: &mut Vec<Effect>) {
        match &self.phase {
            Phase::Applying { .. } => self.newer = Some(wanted),
            Phase::Resting | Phase::Checking { .. } => self.adopt(wanted, now, effects),
        }
    }

    fn adopt(&mut self, wanted: Wanted, now: Now, effects: &mut Vec<Effect>) {
        let Wanted { commit, snapshot } = wanted;
        let can_be_sent = self.unsendable.take_if(|(hash, _)| *hash != snapshot.hash()).is_some();
        match &mut self.board {
            Some(board) if board.snapshot.hash() == snapshot.hash() => {
                board.commit = commit;
                return;
            }
            Some(board) => {
                let next = board.succeed(commit, snapshot);
                let before = std::mem::replace(board, next);
                self.say_what_is_gone(&before, now, effects);
            }
            None => self.board = Some(Board::new(commit, snapshot)),
        }
        self.judge_services_anew(now, effects);
        if can_be_sent {
            effects.push(Effect::Record(self.event(EventKind::CheckRecovered, now)));
        }
        self.waiting.commit = true;
        // What was to be looked at has other numbers now, or none.
        self.waiting.everything |= !std::mem::take(&mut self.waiting.steps).is_empty();
        if let Phase::Checking { cycle, .. } = std::mem::replace(&mut self.phase, Phase::Resting) {
            // The check that was under way speaks of a snapshot that no longer counts.
            match cycle.trigger {
                Trigger::Connect => self.waiting.connect = true,
                Trigger::Poll | Trigger::Watch => self.waiting.everything = true,
                Trigger::Commit => self.waiting.everything |= matches!(cycle.scope, Scope::All),
                // Asked for again below, or failing and so of interest to the commit's cycle.
                Trigger::Manual { .. } | Trigger::Retry | Trigger::Offline => {}
            }
            cycle.request.into_iter().for_each(|request| self.waiting.requests.push_front(request));
        }
    }

    /// Nothing can be asked of the agent before another snapshot comes; it keeps what it has.
    fn cannot_send(&mut self, why: String, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &self.board else { return };
        self.unsendable = Some((board.snapshot.hash(), why.as_str().into()));
        if let Some(session) = &mut self.session {
            session.held = None;
        }
        if let Phase::Checking { cycle, .. } = std::mem::replace(&mut self.phase, Phase::Resting)
            && let Some(request) = cycle.request
        {
            effects.push(ended(request, Some(why.clone())));
        }
        let mut event = self.event(EventKind::CheckFailed, now);
        event.output = Some(why);
        effects.push(Effect::Record(event));
    }

    /// Why nothing can be asked of the agent, if that is so.
    pub fn error(&self) -> Option<&str> {
        self.unsendable.as_ref().map(|(_, why)| &**why)
    }

    /// A drift whose task is gone is over, as far as fluke goes, and is taken back if it was told.
    fn say_what_is_gone(&self, before: &Board, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &self.board else { return };
        for task in before.gone_from(board) {
            let name = &before.snapshot.tasks()[task].name;
            if before.is_drifted(task) {
                let why = match board.snapshot.task(name) {
                    Some(_) => "the task was changed",
                    None => "the task no longer applies to this host",
                };
                let mut event = self.event(EventKind::DriftResolved, now);
                event.task = Some(name.clone());
                event.output = Some(why.to_string());
                effects.push(Effect::Record(event));
            }
            if before.tasks[task].drift_told {
                effects.push(Effect::Alert(self.resolved(Owner::Task(name.clone()), now)));
            }
        }
    }

    fn hear(&mut self, message: ToServer, now: Now, effects: &mut Vec<Effect>) {
        self.seen(now);
        match message {
            ToServer::Hello(_) | ToServer::Heartbeat => {}
            ToServer::Checked(checked) => {
                // Agents check when nothing is under way, and tell first what they know of before.
                self.close_under_way(|subject| subject.index().is_some(), now, effects);
                self.checked(checked, now, effects);
            }
            ToServer::Record(record) => self.recorded(record, now, effects),
            ToServer::Finished { instruction } => self.finished(instruction, now, effects),
            ToServer::LookAgain { snapshot, steps } => self.look_again(snapshot, steps),
            ToServer::Lost { records } => {
                let mut event = self.event(EventKind::EventsLost, now);
                event.output = Some(format!(
                    "{records} records of this host were lost: too many waited for a server that \
                     was away. The host was looked after all the while."
                ));
                effects.push(Effect::Record(event));
            }
            ToServer::Services(report) => self.services_reported(report, now, effects),
            ToServer::Network(report) => self.network_reported(report, now),
            ToServer::Settled { instruction, problem } => {
                self.settled(instruction, problem, effects);
            }
            // What all hosts must know of each other is not for the machine of one.
            ToServer::Mesh(_)
            | ToServer::Placements(_)
            | ToServer::Resend(_)
            | ToServer::Leaving => {}
        }
    }

    fn look_again(&mut self, snapshot: Hash256, steps: Vec<StepIndex>) {
        let Some(board) = &self.board else { return };
        if board.snapshot.hash() == snapshot {
            let known = steps.into_iter().filter(|index| board.snapshot.step(*index).is_some());
            self.waiting.steps.extend(known);
        }
    }

    fn event(&self, kind: EventKind, now: Now) -> Event {
        let commit = self.board.as_ref().map(|board| board.commit.clone());
        Event { agent: Some(self.name.clone()), commit, ..Event::new(kind, now.wall) }
    }

    fn step_event(&self, kind: EventKind, index: StepIndex, trigger: &Trigger, now: Now) -> Event {
        let mut event = self.event(kind, now);
        event.trigger = Some(trigger.as_str().to_string());
        event.by = trigger.by().map(str::to_string);
        if let Some(board) = &self.board
            && let Some((task, step)) = board.snapshot.step(index)
        {
            event.task = Some(board.snapshot.tasks()[task].name.clone());
            event.step = Some(step.address.clone());
        }
        event
    }
}

impl Session {
    fn instruct(&mut self) -> InstructionId {
        self.instructions += 1;
        InstructionId { session: self.id, number: self.instructions }
    }
}

fn indices(snapshot: &Snapshot, scope: &Scope) -> Vec<StepIndex> {
    match scope {
        Scope::All => (0..snapshot.step_count() as u32).map(StepIndex).collect(),
        Scope::Steps(steps) => steps.clone(),
    }
}

fn tasks_in(snapshot: &Snapshot, scope: &Scope) -> BTreeSet<usize> {
    match scope {
        Scope::All => (0..snapshot.tasks().len()).collect(),
        Scope::Steps(steps) => {
            steps.iter().filter_map(|index| snapshot.step(*index)).map(|(task, _)| task).collect()
        }
    }
}

#[cfg(test)]
mod tests;
