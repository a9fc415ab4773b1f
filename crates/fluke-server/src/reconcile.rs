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

mod board;
mod notice;
mod view;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::api::ReconcileStep;
use fluke_model::event::{Event, EventKind};
use fluke_model::id::{AgentName, CommitId, Hash256, InstructionId, SessionId, TaskName};
use fluke_model::message::{Checked, Fact, Hello, Record, RecordId, Scope, ToAgent, ToServer};
use fluke_model::policy::{self, Decision, Finding, Trigger};
use fluke_model::snapshot::{Snapshot, StepIndex};
use fluke_model::time::Timestamp;
use fluke_model::verdict::{Drift, Outcome, Verdict};

use crate::alert::{Alert, RemediationStatus};
use board::{ApplyMark, Board, StepState, TaskState};

/// How many manual reconciles may wait for one agent.
const MAX_REQUESTS: usize = 64;

/// A reading of both clocks: one to measure by, one to show.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Never jumps.
    pub instant: Instant,
    /// What people read.
    pub wall: Timestamp,
}

impl Now {
    /// Reads the clocks; only the doing side calls this.
    pub fn read() -> Self {
        Self { instant: Instant::now(), wall: Timestamp::from(std::time::SystemTime::now()) }
    }
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
    /// The [`Machine::deadline`] has come, or something waits to be begun.
    Wake,
    /// Its stream closed.
    Disconnected {
        /// In words.
        why: String,
    },
}

/// A manual reconcile, as far as one agent is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which one.
    pub id: String,
    /// Who asked.
    pub by: String,
    /// Only this task.
    pub task: Option<TaskName>,
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

/// How far a manual reconcile has come on this agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Checks run.
    Checking,
    /// Steps are being applied.
    Applying,
    /// A step began or ended.
    Step(ReconcileStep),
    /// It is over.
    Ended {
        /// Set where something is not as it should be.
        error: Option<String>,
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
        }
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
        self.last_seen = now.wall;
    }

    /// When the machine was last heard of.
    pub fn last_seen(&self) -> Timestamp {
        self.last_seen
    }

    /// Takes a manual reconcile, which the next step begins or queues; false if too many wait.
    pub fn ask(&mut self, request: Request) -> bool {
        let room = self.waiting.requests.len() < MAX_REQUESTS;
        if room {
            self.waiting.requests.push_back(request);
        }
        room
    }

    /// When to wake it with [`Input::Wake`]; none while it waits for the agent.
    pub fn deadline(&self) -> Option<Instant> {
        let (Phase::Resting, Some(_), Some(board)) = (&self.phase, &self.session, &self.board)
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
            // Another installation under this name counts its records anew.
            self.newest_record = RecordId(0);
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
            Phase::Checking { cycle, .. } | Phase::Applying { cycle, .. } => cycle.request,
            Phase::Resting => None,
        };
        for request in under_way.into_iter().chain(std::mem::take(&mut self.waiting).requests) {
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
                effects.push(Effect::Alert(self.resolved(name, now)));
            }
        }
    }

    fn hear(&mut self, message: ToServer, now: Now, effects: &mut Vec<Effect>) {
        self.seen(now);
        match message {
            ToServer::Hello(_) | ToServer::Heartbeat => {}
            ToServer::Checked(checked) => self.checked(checked, now, effects),
            ToServer::Record(record) => self.recorded(record, now, effects),
            ToServer::Finished { instruction } => self.finished(instruction, now, effects),
            ToServer::LookAgain { snapshot, steps } => self.look_again(snapshot, steps),
        }
    }

    fn look_again(&mut self, snapshot: Hash256, steps: Vec<StepIndex>) {
        let Some(board) = &self.board else { return };
        if board.snapshot.hash() == snapshot {
            let known = steps.into_iter().filter(|index| board.snapshot.step(*index).is_some());
            self.waiting.steps.extend(known);
        }
    }

    /// Starts the next cycle, if the machine rests and something wants one.
    fn begin_what_waits(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.session.is_some() && self.board.is_none() {
            // Whoever asked should not wait for a commit that may never come.
            let why = "no commit is in force yet; `fluke get source` tells why";
            let requests = self.waiting.requests.drain(..);
            effects.extend(requests.map(|request| ended(request, Some(why.into()))));
        }
        while self.session.is_some() && matches!(self.phase, Phase::Resting) {
            let Some(cycle) = self.next_cycle(now) else { return };
            self.begin(cycle, now, effects);
        }
    }

    fn next_cycle(&mut self, now: Now) -> Option<Cycle> {
        let board = self.board.as_ref()?;
        let waiting = &mut self.waiting;
        if std::mem::take(&mut waiting.connect) {
            (waiting.commit, waiting.everything) = (false, false);
            waiting.steps.clear();
            return Some(Cycle { trigger: Trigger::Connect, scope: Scope::All, request: None });
        }
        if std::mem::take(&mut waiting.commit) {
            let everything = std::mem::take(&mut waiting.everything);
            let scope = if everything { Scope::All } else { new_or_failing(board) };
            return Some(Cycle { trigger: Trigger::Commit, scope, request: None });
        }
        if let Some(request) = waiting.requests.pop_front() {
            let scope = match &request.task {
                None => Scope::All,
                Some(task) => Scope::Steps(
                    board.snapshot.task(task).map_or_else(Vec::new, |(position, _)| {
                        board.snapshot.steps_of(position).collect()
                    }),
                ),
            };
            let trigger = Trigger::Manual { by: request.by.clone() };
            return Some(Cycle { trigger, scope, request: Some(request) });
        }
        // What comes with time goes before what the host asks for, which may be without end.
        if self.next_poll.is_some_and(|at| at <= now.instant) {
            waiting.steps.clear();
            return Some(Cycle { trigger: Trigger::Poll, scope: Scope::All, request: None });
        }
        let due = |task: &usize| board.tasks[*task].retry.is_some_and(|(at, _)| at <= now.instant);
        let retries: Vec<_> = (0..board.tasks.len())
            .filter(due)
            .flat_map(|task| board.snapshot.steps_of(task))
            .collect();
        if !retries.is_empty() {
            let scope = Scope::Steps(retries);
            return Some(Cycle { trigger: Trigger::Retry, scope, request: None });
        }
        if waiting.steps.is_empty() {
            return None;
        }
        let scope = Scope::Steps(std::mem::take(&mut waiting.steps).into_iter().collect());
        Some(Cycle { trigger: Trigger::Watch, scope, request: None })
    }

    fn begin(&mut self, cycle: Cycle, now: Now, effects: &mut Vec<Effect>) {
        let (Some(board), Some(session)) = (&mut self.board, &mut self.session) else { return };
        if matches!(cycle.scope, Scope::All) {
            self.next_poll = Some(now.instant + spread_over(self.poll_interval, &mut self.spread));
        }
        for task in tasks_in(&board.snapshot, &cycle.scope) {
            // What is tried now need not be tried again for its own sake.
            if board.tasks[task].retry.is_some_and(|(at, _)| at <= now.instant) {
                board.tasks[task].retry = None;
            }
        }
        let snapshot = board.snapshot.hash();
        if session.held != Some(snapshot) {
            session.held = Some(snapshot);
            let (commit, snapshot) = (board.commit.clone(), board.snapshot.clone());
            effects.push(Effect::Send(ToAgent::Snapshot { commit, snapshot }));
        }
        if indices(&board.snapshot, &cycle.scope).is_empty() {
            cycle.request.into_iter().for_each(|request| effects.push(ended(request, None)));
            return;
        }
        let instruction = session.instruct();
        let steps = cycle.scope.clone();
        effects.push(Effect::Send(ToAgent::Check { instruction, snapshot, steps }));
        if let Some(request) = &cycle.request {
            effects.push(progress(request, Progress::Checking));
        }
        self.phase = Phase::Checking { instruction, cycle };
    }

    fn checked(&mut self, checked: Checked, now: Now, effects: &mut Vec<Effect>) {
        let (Phase::Checking { instruction, .. }, Some(board)) = (&self.phase, &self.board) else {
            return;
        };
        // An answer to a check that a newer snapshot has replaced says nothing any more.
        if *instruction != checked.instruction || board.snapshot.hash() != checked.snapshot {
            return;
        }
        let Phase::Checking { cycle, .. } = std::mem::replace(&mut self.phase, Phase::Resting)
        else {
            return;
        };
        self.take_verdicts(checked, &cycle, now, effects);
        self.decide(cycle, now, effects);
    }

    fn take_verdicts(
        &mut self,
        checked: Checked,
        cycle: &Cycle,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some(board) = &mut self.board else { return };
        for index in indices(&board.snapshot, &cycle.scope) {
            if let Some(state) = board.step_mut(index) {
                state.last_checked = Some(now.wall);
                // An agent does one thing at a time: one that answers a check applies nothing.
                state.update(now.wall, StepState::stop_applying);
            }
        }
        let mut turned = Vec::new();
        for report in checked.changes {
            let Some(state) = board.step_mut(report.step) else { continue };
            let before = state.finding();
            state.update(now.wall, |state| state.verdict = Some(report.verdict));
            let turn = turn(before, state.finding());
            turned.extend(turn.map(|kind| (report.step, kind, state.reason())));
        }
        for (index, kind, reason) in turned {
            let mut event = self.step_event(kind, index, &cycle.trigger, now);
            event.output = reason;
            effects.push(Effect::Record(event));
        }
    }

    fn decide(&mut self, cycle: Cycle, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &self.board else { return };
        let manual = cycle.trigger.is_manual();
        let mut due = Vec::new();
        let mut tasks = Vec::new();
        let mut told = Vec::new();
        for task in tasks_in(&board.snapshot, &cycle.scope) {
            let policy = board.snapshot.tasks()[task].policy;
            let paused = board.tasks[task].retry.is_some();
            let decision = policy::decide(policy, manual, paused, board.findings(task));
            told.push((task, decision.clone()));
            if let Decision::Apply(positions) = decision {
                let first = board.snapshot.steps_of(task).next().map_or(0, |index| index.0);
                let open = positions.iter().map(|at| StepIndex(first + *at as u32));
                let open: BTreeSet<_> = open.collect();
                due.extend(open.iter().copied());
                tasks.push(ApplyingTask { task, open, failed: false });
            }
        }
        told.into_iter().for_each(|(task, decision)| self.tell(task, &decision, now, effects));
        match due.is_empty() {
            true => self.end_request(cycle.request, effects),
            false => self.apply(cycle, due, tasks, now, effects),
        }
    }

    /// Tells people of a drift once, and of its going away by itself.
    fn tell(&mut self, task: usize, decision: &Decision, now: Now, effects: &mut Vec<Effect>) {
        let status = match decision {
            Decision::Nothing => return self.tell_of_peace(task, now, effects),
            Decision::AwaitHuman | Decision::Blocked => RemediationStatus::PendingManual,
            Decision::Apply(_) | Decision::HoldOff => RemediationStatus::InProgress,
        };
        let Some(board) = &mut self.board else { return };
        let alerts = board.snapshot.tasks()[task].policy.alerts();
        if alerts && !std::mem::replace(&mut board.tasks[task].drift_told, true) {
            effects.extend(self.drifted(task, status, now).map(Effect::Alert));
        }
    }

    fn tell_of_peace(&mut self, task: usize, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &mut self.board else { return };
        if board.findings(task).any(|(finding, _)| finding != Finding::Satisfied) {
            return;
        }
        if std::mem::take(&mut board.tasks[task]).drift_told {
            let name = board.snapshot.tasks()[task].name.clone();
            effects.push(Effect::Alert(self.resolved(&name, now)));
        }
    }

    fn apply(
        &mut self,
        cycle: Cycle,
        due: Vec<StepIndex>,
        tasks: Vec<ApplyingTask>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let (Some(board), Some(session)) = (&mut self.board, &mut self.session) else { return };
        for index in &due {
            if let Some(state) = board.step_mut(*index) {
                state.update(now.wall, |state| state.apply = ApplyMark::Applying);
            }
        }
        let instruction = session.instruct();
        effects.push(Effect::Send(ToAgent::Apply {
            instruction,
            snapshot: board.snapshot.hash(),
            steps: due,
            trigger: cycle.trigger.clone(),
        }));
        if let Some(request) = &cycle.request {
            effects.push(progress(request, Progress::Applying));
        }
        self.phase = Phase::Applying { instruction, cycle, tasks };
    }

    fn recorded(&mut self, record: Record, now: Now, effects: &mut Vec<Effect>) {
        effects.push(Effect::Send(ToAgent::Ack { record: record.id }));
        // An agent repeats what was not acknowledged; what is known already is not told twice.
        if record.id <= self.newest_record {
            return;
        }
        self.newest_record = record.id;
        effects.push(Effect::Record(self.record_event(&record)));
        self.progress_of(&record, effects);
        self.note_in_phase(&record);
        let Some(board) = &mut self.board else { return };
        if board.snapshot.hash() != record.snapshot {
            return;
        }
        let Some(state) = board.step_mut(record.index) else { return };
        state.update(now.wall, |state| take_fact(state, &record));
    }

    fn note_in_phase(&mut self, record: &Record) {
        let Phase::Applying { instruction, tasks, .. } = &mut self.phase else { return };
        let (Some(board), Some(of)) = (&self.board, record.instruction) else { return };
        let Some((position, _)) = board.snapshot.step(record.index) else { return };
        if *instruction != of || board.snapshot.hash() != record.snapshot {
            return;
        }
        if let Some(task) = tasks.iter_mut().find(|task| task.task == position) {
            match &record.fact {
                Fact::Began { .. } => {}
                Fact::Ended { outcome, .. } | Fact::PassedOver { outcome, .. } => {
                    task.open.remove(&record.index);
                    task.failed |= outcome.is_failure();
                }
            }
        }
    }

    fn progress_of(&self, record: &Record, effects: &mut Vec<Effect>) {
        let Phase::Applying { cycle: Cycle { request: Some(request), .. }, .. } = &self.phase
        else {
            return;
        };
        let (outcome, output) = match &record.fact {
            Fact::Began { .. } => (None, None),
            Fact::Ended { outcome, output, .. } => (Some(*outcome), Some(output.text())),
            Fact::PassedOver { outcome, reason } => (Some(*outcome), Some(reason.clone())),
        };
        let (task, step) = (record.task.clone(), record.step.clone());
        let step = ReconcileStep { task, step, outcome, output };
        effects.push(progress(request, Progress::Step(step)));
    }

    fn finished(&mut self, of: InstructionId, now: Now, effects: &mut Vec<Effect>) {
        match &self.phase {
            Phase::Applying { instruction, .. } if *instruction == of => {}
            _ => return,
        }
        let Phase::Applying { cycle, tasks, .. } =
            std::mem::replace(&mut self.phase, Phase::Resting)
        else {
            return;
        };
        for task in tasks {
            self.settle(task, now, effects);
        }
        self.end_request(cycle.request, effects);
        if let Some(newer) = self.newer.take() {
            self.adopt(newer, now, effects);
        }
    }

    /// Draws the line under one task's apply: pause or peace, told once.
    fn settle(&mut self, applied: ApplyingTask, now: Now, effects: &mut Vec<Effect>) {
        let Some(board) = &mut self.board else { return };
        for index in &applied.open {
            // The agent says it is done and never spoke of this step.
            if let Some(state) = board.step_mut(*index) {
                state.update(now.wall, |state| {
                    state.apply = ApplyMark::Failed("the agent did not report how it ended".into());
                });
            }
        }
        let entry = &board.snapshot.tasks()[applied.task];
        let (name, policy) = (entry.name.clone(), entry.policy);
        let failed = applied.failed || !applied.open.is_empty();
        let state = &mut board.tasks[applied.task];
        let tell = if failed {
            state.failures += 1;
            let pause = policy::pause_after(state.failures);
            state.retry = policy.remediates().then(|| (now.instant + pause, now.wall.after(pause)));
            !std::mem::replace(&mut state.failure_told, true)
        } else {
            let told = state.drift_told || state.failure_told;
            *state = TaskState::default();
            told
        };
        if tell && policy.alerts() {
            effects.push(Effect::Alert(self.remediated(&name, !failed, now)));
        }
    }

    /// Tells whoever asked how it ended: well only if everything in scope is as it should be.
    fn end_request(&self, request: Option<Request>, effects: &mut Vec<Effect>) {
        let (Some(request), Some(board)) = (request, &self.board) else { return };
        let in_scope = |task: &TaskName| request.task.as_ref().is_none_or(|only| only == task);
        let wrong: Vec<String> = board
            .snapshot
            .steps()
            .filter(|(_, task, _)| in_scope(&task.name))
            .filter_map(|(index, task, step)| {
                let state = &board.steps[index.0 as usize];
                let reason = state.reason()?;
                Some(format!("{}/{}: {reason}", task.name, step.address))
            })
            .collect();
        effects.push(ended(request, (!wrong.is_empty()).then(|| wrong.join("\n"))));
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

    fn record_event(&self, record: &Record) -> Event {
        let (kind, outcome, duration_ms, output) = match &record.fact {
            Fact::Began { reason } => (EventKind::ApplyStarted, None, None, reason.clone()),
            Fact::Ended { outcome, duration_ms, output } => {
                (EventKind::ApplyFinished, Some(*outcome), Some(*duration_ms), output.text())
            }
            Fact::PassedOver { outcome, reason } => {
                (EventKind::ApplySkipped, Some(*outcome), None, reason.clone())
            }
        };
        Event {
            agent: Some(self.name.clone()),
            task: Some(record.task.clone()),
            step: Some(record.step.clone()),
            trigger: Some(record.trigger.as_str().to_string()),
            by: record.trigger.by().map(str::to_string),
            commit: Some(record.commit.clone()),
            outcome,
            duration_ms,
            output: Some(output),
            ..Event::new(kind, record.at)
        }
    }
}

impl Session {
    fn instruct(&mut self) -> InstructionId {
        self.instructions += 1;
        InstructionId { session: self.id, number: self.instructions }
    }
}

/// The steps that a commit is about: never checked, or of a task that failed before.
fn new_or_failing(board: &Board) -> Scope {
    let failing = |task: usize| board.tasks[task].failures > 0;
    let steps: Vec<_> = (0..board.tasks.len())
        .flat_map(|task| board.snapshot.steps_of(task).map(move |index| (task, index)))
        .filter(|(task, index)| board.steps[index.0 as usize].verdict.is_none() || failing(*task))
        .map(|(_, index)| index)
        .collect();
    match steps.len() == board.steps.len() {
        true => Scope::All,
        false => Scope::Steps(steps),
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

/// The event, if any, that a check's new answer is.
fn turn(before: Finding, after: Finding) -> Option<EventKind> {
    match (before, after) {
        (Finding::Error, Finding::Error) | (Finding::Drifted, Finding::Drifted) => None,
        (_, Finding::Error) => Some(EventKind::CheckFailed),
        (_, Finding::Drifted) => Some(EventKind::DriftDetected),
        (Finding::Drifted, Finding::Satisfied) => Some(EventKind::DriftResolved),
        (Finding::Error, Finding::Satisfied) => Some(EventKind::CheckRecovered),
        _ => None,
    }
}

fn take_fact(state: &mut StepState, record: &Record) {
    match &record.fact {
        Fact::Began { reason } => {
            state.apply = ApplyMark::Applying;
            state.verdict = Some(Verdict::Drifted(Drift::because(reason.clone())));
        }
        Fact::Ended { outcome, output, .. } => {
            state.last_applied = Some(record.at);
            match outcome {
                Outcome::Success | Outcome::Healed => {
                    state.apply = ApplyMark::None;
                    state.verdict = Some(Verdict::Satisfied);
                }
                Outcome::AppliedButDrifted => state.apply = ApplyMark::StillDrifted,
                Outcome::Failure | Outcome::Skipped | Outcome::Interrupted => {
                    let why = last_lines(&output.text(), outcome.as_str());
                    state.apply = ApplyMark::Failed(why.into());
                }
            }
        }
        Fact::PassedOver { outcome: Outcome::Healed | Outcome::Success, .. } => {
            state.apply = ApplyMark::None;
            state.verdict = Some(Verdict::Satisfied);
        }
        Fact::PassedOver { outcome: Outcome::Skipped, .. } => state.apply = ApplyMark::None,
        Fact::PassedOver { reason, .. } => {
            state.apply = ApplyMark::None;
            state.verdict = Some(Verdict::Error { reason: reason.clone() });
        }
    }
}

/// The end of an output is where programs say what went wrong, and agents how they ended.
fn last_lines(output: &str, otherwise: &str) -> String {
    let mut lines: Vec<_> =
        output.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
    lines.reverse();
    if lines.is_empty() { otherwise.to_string() } else { lines.join(" ") }
}

/// Between 85 and 100 % of the interval, another share each time, so that agents spread out
/// and none is ever late.
fn spread_over(interval: Duration, state: &mut u64) -> Duration {
    // A linear congruential step (Knuth's constants): spreading needs no better randomness.
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let share = (*state >> 40) as f64 / (1u64 << 24) as f64;
    interval.mul_f64(1.0 - 0.15 * share)
}

fn progress(request: &Request, progress: Progress) -> Effect {
    Effect::Progress { id: request.id.clone(), progress }
}

fn ended(request: Request, error: Option<String>) -> Effect {
    Effect::Progress { id: request.id, progress: Progress::Ended { error } }
}

#[cfg(test)]
mod tests;
