//! PROCESSING: works through one snapshot, one change at a time, by the rules of `on_failure`.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fluke_model::id::InstructionId;
use fluke_model::message::Fact;
use fluke_model::policy::Trigger;
use fluke_model::snapshot::{Snapshot, SnapshotTask, StepIndex};
use fluke_model::task::OnFailure;
use fluke_model::verdict::{Drift, Outcome, Output, Verdict};

use super::{Held, Home, Waiting};

/// Why something is put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Who asked; nobody when the agent acts on its own account.
    pub instruction: Option<InstructionId>,
    /// For the record.
    pub trigger: Trigger,
}

/// Something that happened to a step, for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Which step.
    pub step: StepIndex,
    /// What.
    pub fact: Fact,
}

/// How an attempt to put things right ended.
#[must_use = "the server waits for it"]
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// Of this snapshot.
    pub held: Arc<Held>,
    /// Why it was made.
    pub cause: Cause,
    /// How each step whose turn came ended.
    pub outcomes: Vec<(StepIndex, Outcome)>,
}

/// A step's turn.
#[derive(Debug, Clone, Copy)]
struct Turn {
    step: StepIndex,
    /// Whether it was asked for, rather than following one that was.
    listed: bool,
    on_failure: OnFailure,
}

/// Works through one snapshot, one change at a time.
#[derive(Debug)]
pub struct Processing {
    held: Arc<Held>,
    cause: Cause,
    /// The rest of the task under way.
    turns: VecDeque<Turn>,
    /// Whether something of this task was applied, so that what follows has to be looked at.
    changed: bool,
    /// The tasks behind it.
    tasks: VecDeque<VecDeque<Turn>>,
    outcomes: Vec<(StepIndex, Outcome)>,
    waiting: Waiting,
}

/// What there is to do next.
#[derive(Debug)]
pub enum Next {
    /// A step's turn has come: look at it.
    Judge(Judging),
    /// Nothing is left.
    Home(Report, Home),
}

impl Processing {
    pub(super) fn new(held: Arc<Held>, cause: Cause, listed: &[StepIndex]) -> Self {
        let tasks = turns(&held.snapshot, listed);
        Self {
            held,
            cause,
            turns: VecDeque::new(),
            changed: false,
            tasks,
            outcomes: Vec::new(),
            waiting: Waiting::default(),
        }
    }

    /// The snapshot it works from.
    pub fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Why.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Hands out the next step, or the way home.
    pub fn next(mut self) -> Next {
        loop {
            match self.turns.pop_front() {
                Some(turn) if turn.listed || self.changed => {
                    return Next::Judge(Judging { processing: self, turn });
                }
                Some(_) => {}
                None => match self.tasks.pop_front() {
                    Some(turns) => (self.turns, self.changed) = (turns, false),
                    None => {
                        let (report, home) = self.go_home();
                        return Next::Home(report, home);
                    }
                },
            }
        }
    }

    fn go_home(self) -> (Report, Home) {
        let home = Home::new(self.held.clone(), self.waiting);
        (Report { held: self.held, cause: self.cause, outcomes: self.outcomes }, home)
    }

    /// Notes how a turn ended; a failure that says `abort` takes the rest of the task with it.
    fn settle(&mut self, turn: Turn, outcome: Outcome, fact: Fact) -> Vec<Told> {
        self.outcomes.push((turn.step, outcome));
        let mut told = vec![Told { step: turn.step, fact }];
        if outcome.is_failure() && turn.on_failure == OnFailure::Abort {
            let failed = self.held.name_of(turn.step).map(|(_, address)| address.to_string());
            let reason =
                format!("`{}` before it failed, and says `abort`", failed.unwrap_or_default());
            for skipped in self.turns.drain(..).filter(|turn| turn.listed) {
                self.outcomes.push((skipped.step, Outcome::Skipped));
                let fact = Fact::PassedOver { outcome: Outcome::Skipped, reason: reason.clone() };
                told.push(Told { step: skipped.step, fact });
            }
        }
        told
    }
}

/// For each task concerned, in order, its steps from the first listed one on.
fn turns(snapshot: &Snapshot, listed: &[StepIndex]) -> VecDeque<VecDeque<Turn>> {
    let listed: HashSet<StepIndex> = listed.iter().copied().collect();
    let of_task = |(position, task): (usize, &Arc<SnapshotTask>)| {
        let steps = snapshot.steps_of(position).zip(task.steps.iter());
        steps
            .map(|(step, spec)| Turn {
                step,
                listed: listed.contains(&step),
                on_failure: spec.on_failure,
            })
            .skip_while(|turn| !turn.listed)
            .collect::<VecDeque<_>>()
    };
    let tasks = snapshot.tasks().iter().enumerate().map(of_task);
    tasks.filter(|turns| !turns.is_empty()).collect()
}

/// A step is looked at just before it would be applied.
#[derive(Debug)]
pub struct Judging {
    processing: Processing,
    turn: Turn,
}

/// What a look just before an apply led to.
#[derive(Debug)]
pub enum Judged {
    /// Nothing is to be done; on to the next.
    Passed(Vec<Told>, Processing),
    /// It is to be applied; what is told comes first.
    Act(Told, Acting),
}

impl Judging {
    /// Which step.
    pub fn step(&self) -> StepIndex {
        self.turn.step
    }

    /// The snapshot it is of.
    pub fn held(&self) -> &Arc<Held> {
        &self.processing.held
    }

    /// Why its turn came.
    pub fn cause(&self) -> &Cause {
        &self.processing.cause
    }

    /// What has to wait until this is over.
    pub fn waiting(&mut self) -> &mut Waiting {
        &mut self.processing.waiting
    }

    /// The check has answered.
    pub fn found(self, verdict: Verdict) -> Judged {
        let Self { mut processing, turn } = self;
        let passed = |outcome, reason| Fact::PassedOver { outcome, reason };
        match verdict {
            Verdict::Satisfied if turn.listed => {
                let reason = "it was as it should be when its turn came".to_owned();
                let fact = passed(Outcome::Healed, reason);
                let told = processing.settle(turn, Outcome::Healed, fact);
                Judged::Passed(told, processing)
            }
            Verdict::Satisfied => Judged::Passed(Vec::new(), processing),
            Verdict::Error { reason } => {
                let fact = passed(Outcome::Failure, reason);
                let told = processing.settle(turn, Outcome::Failure, fact);
                Judged::Passed(told, processing)
            }
            Verdict::Drifted(drift) => {
                let fact = Fact::Began { reason: drift.reason.clone() };
                processing.changed = true;
                Judged::Act(Told { step: turn.step, fact }, Acting { processing, turn, drift })
            }
        }
    }

    /// The agent stops before the check has answered.
    pub fn interrupted(self) -> (Report, Home) {
        self.processing.go_home()
    }
}

/// How an apply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// Without an error.
    Done(Output),
    /// With one.
    Failed(Output),
    /// The agent stopped it.
    Interrupted(Output),
}

/// A step is being applied.
#[derive(Debug)]
pub struct Acting {
    processing: Processing,
    turn: Turn,
    drift: Drift,
}

/// What an apply led to.
#[derive(Debug)]
pub enum Acted {
    /// It has to be looked at once more.
    Verify(Verifying),
    /// It failed; on to the next.
    Over(Vec<Told>, Processing),
    /// The agent stops.
    Interrupted(Told, Report, Home),
}

impl Acting {
    /// Which step.
    pub fn step(&self) -> StepIndex {
        self.turn.step
    }

    /// The snapshot it is of.
    pub fn held(&self) -> &Arc<Held> {
        &self.processing.held
    }

    /// Why it is applied.
    pub fn drift(&self) -> &Drift {
        &self.drift
    }

    /// What has to wait until this is over.
    pub fn waiting(&mut self) -> &mut Waiting {
        &mut self.processing.waiting
    }

    /// The apply has ended, `took` after it began.
    pub fn ended(self, applied: Applied, took: Duration) -> Acted {
        let Self { mut processing, turn, .. } = self;
        match applied {
            Applied::Done(output) => Acted::Verify(Verifying { processing, turn, output }),
            Applied::Failed(output) => {
                let fact = ended(Outcome::Failure, took, output);
                let told = processing.settle(turn, Outcome::Failure, fact);
                Acted::Over(told, processing)
            }
            Applied::Interrupted(output) => interrupt(processing, turn, took, output),
        }
    }
}

/// A step was applied, and is looked at once more.
#[derive(Debug)]
pub struct Verifying {
    processing: Processing,
    turn: Turn,
    output: Output,
}

impl Verifying {
    /// Which step.
    pub fn step(&self) -> StepIndex {
        self.turn.step
    }

    /// The snapshot it is of.
    pub fn held(&self) -> &Arc<Held> {
        &self.processing.held
    }

    /// What has to wait until this is over.
    pub fn waiting(&mut self) -> &mut Waiting {
        &mut self.processing.waiting
    }

    /// The check has answered, `took` after the apply began.
    pub fn found(self, verdict: Verdict, took: Duration) -> (Vec<Told>, Processing) {
        let Self { mut processing, turn, mut output } = self;
        let outcome = match verdict {
            Verdict::Satisfied => Outcome::Success,
            Verdict::Drifted(drift) => {
                let still = "applied without error, and the check still says no";
                append(&mut output, &format!("{still}: {}", drift.reason));
                Outcome::AppliedButDrifted
            }
            Verdict::Error { reason } => {
                append(&mut output, &format!("applied, and then the check failed: {reason}"));
                Outcome::Failure
            }
        };
        let told = processing.settle(turn, outcome, ended(outcome, took, output));
        (told, processing)
    }

    /// The agent stops before the check has answered.
    pub fn interrupted(self, took: Duration) -> Acted {
        interrupt(self.processing, self.turn, took, self.output)
    }
}

fn interrupt(mut processing: Processing, turn: Turn, took: Duration, output: Output) -> Acted {
    processing.outcomes.push((turn.step, Outcome::Interrupted));
    let fact = ended(Outcome::Interrupted, took, output);
    let (report, home) = processing.go_home();
    Acted::Interrupted(Told { step: turn.step, fact }, report, home)
}

fn ended(outcome: Outcome, took: Duration, output: Output) -> Fact {
    let duration_ms = took.as_millis().try_into().unwrap_or(u64::MAX);
    Fact::Ended { outcome, duration_ms, output }
}

/// Adds a line of our own to what a command printed.
fn append(output: &mut Output, line: &str) {
    if output.tail.last().is_some_and(|last| *last != b'\n') {
        output.tail.push(b'\n');
    }
    output.tail.extend_from_slice(format!("[{line}]\n").as_bytes());
    output.trim();
}
