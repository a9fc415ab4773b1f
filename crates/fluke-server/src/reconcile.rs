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
//! (checks are read-only). During an apply the agent has it at once for its services, and its steps
//! wait for the apply to end. Nothing here sends, stores or sleeps: the session does what
//! [`Machine::step`] returns and wakes it at [`Machine::deadline`].

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
mod wanting;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::event::{Event, EventKind};
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, CommitId, Hash256, InstructionId, SessionId};
use fluke_model::message::{Hello, Record, RecordId, Scope, ToAgent, ToServer};
use fluke_model::policy::Trigger;
use fluke_model::snapshot::{Snapshot, StepIndex};
use fluke_model::time::Timestamp;

use crate::alert::Alert;
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
    /// A check that was replaced though its steps are what they were.
    again: Option<Cycle>,
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
        self.adopt_newer(now, effects);
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
            | ToServer::Leaving
            | ToServer::GoingDown => {}
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

    /// What the agent is sent so that it holds this, if it does not.
    fn hold(&mut self, board: &Board) -> Option<Effect> {
        let (commit, snapshot) = board.newest();
        let is_held = self.held.replace(snapshot.hash()) == Some(snapshot.hash());
        (!is_held).then(|| {
            let (commit, snapshot) = (commit.clone(), snapshot.clone());
            Effect::Send(ToAgent::Snapshot { commit, snapshot, is_moved: board.is_moved })
        })
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
        Scope::All => (0..snapshot.tasks().len()).gather(),
        Scope::Steps(steps) => {
            steps.iter().filter_map(|index| snapshot.step(*index)).map(|(task, _)| task).gather()
        }
    }
}

#[cfg(test)]
mod tests;
