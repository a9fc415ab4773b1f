//! What the agent does next: IDLE and PROCESSING, as values.
//!
//! Pure: no clock, no I/O, no async. States are moved, so that a rule is a type: only [`Idle`] takes
//! anything up, only a drift that was just found can be applied, and the one way home from
//! [`Processing`] carries a [`Report`].
//!
//! ```text
//!  Idle ─▶ Checking ────────────────────────────────────────────▶ Home { Idle, next }
//!   │
//!   └────▶ Processing ─▶ Judging ─▶ Acting ─▶ Verifying ─▶ Processing ─▶ … ─▶ Home + Report
//! ```
//!
//! What arrives while something is under way waits, and only the newest of it is kept.

use std::sync::Arc;

use fluke_model::id::{CommitId, Hash256, InstructionId, StepAddress, TaskName};
use fluke_model::message::Scope;
use fluke_model::policy::Trigger;
use fluke_model::snapshot::{Snapshot, StepIndex};
use serde::{Deserialize, Serialize};

pub mod offline;
pub mod processing;
pub mod reported;

use processing::{Cause, Processing};

/// All that the host should be, and who said so first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The commit that first said so.
    pub commit: CommitId,
    /// What it said.
    pub snapshot: Arc<Snapshot>,
}

impl Held {
    /// Task and address of a step.
    pub fn name_of(&self, index: StepIndex) -> Option<(&TaskName, &StepAddress)> {
        let (task, step) = self.snapshot.step(index)?;
        Some((&self.snapshot.tasks()[task].name, &step.address))
    }
}

/// What the server asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// To be named in the answer.
    pub instruction: InstructionId,
    /// About this snapshot.
    pub snapshot: Hash256,
    /// What to do.
    pub kind: OrderKind,
}

/// What an order is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderKind {
    /// Look at these steps.
    Check(Scope),
    /// Put these steps right.
    Apply {
        /// Those that drifted.
        steps: Vec<StepIndex>,
        /// Why.
        trigger: Trigger,
    },
}

/// What arrived while something was under way; only the newest is kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    held: Option<Arc<Held>>,
    order: Option<Order>,
}

impl Waiting {
    /// Keeps a newer snapshot.
    pub fn hold(&mut self, held: Arc<Held>) {
        self.held = Some(held);
    }

    /// Keeps an order.
    pub fn take_up(&mut self, order: Order) {
        self.order = Some(order);
    }

    /// The session is over: nobody waits for its orders any more.
    pub fn forget_orders(&mut self) {
        self.order = None;
    }
}

/// Nothing is under way. The only state that takes anything up.
#[derive(Debug, PartialEq, Eq)]
pub struct Idle {
    held: Option<Arc<Held>>,
}

/// What became of an order.
#[derive(Debug)]
pub enum TakenUp {
    /// Steps are to be looked at.
    Checking(Checking),
    /// Steps are to be put right.
    Processing(Processing),
    /// The order is about a snapshot that is not held; answered with nothing done.
    NotHeld(Order, Idle),
}

impl Idle {
    /// An agent that holds this.
    pub fn new(held: Option<Arc<Held>>) -> Self {
        Self { held }
    }

    /// What the host should be, as far as it is known.
    pub fn held(&self) -> Option<&Arc<Held>> {
        self.held.as_ref()
    }

    /// Takes a snapshot as what the host should be from now on.
    pub fn hold(&mut self, held: Arc<Held>) {
        self.held = Some(held);
    }

    /// Begins what the server asks for.
    pub fn take_up(self, order: Order) -> TakenUp {
        let held = match self.held {
            Some(held) if held.snapshot.hash() == order.snapshot => held,
            held => return TakenUp::NotHeld(order, Self { held }),
        };
        let instruction = Some(order.instruction);
        match order.kind {
            OrderKind::Check(scope) => TakenUp::Checking(Checking::new(held, instruction, scope)),
            OrderKind::Apply { steps, trigger } => {
                TakenUp::Processing(Processing::new(held, Cause { instruction, trigger }, &steps))
            }
        }
    }

    /// Looks at steps on the agent's own account.
    pub fn look_at(self, scope: Scope) -> Result<Checking, Idle> {
        match self.held {
            Some(held) => Ok(Checking::new(held, None, scope)),
            None => Err(self),
        }
    }

    /// Puts steps right on the agent's own account.
    pub fn repair(self, steps: &[StepIndex]) -> Result<Processing, Idle> {
        match self.held {
            Some(held) if !steps.is_empty() => {
                let cause = Cause { instruction: None, trigger: Trigger::Offline };
                Ok(Processing::new(held, cause, steps))
            }
            held => Err(Self { held }),
        }
    }
}

/// Idle again, and what has waited for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Home {
    /// Holds the newest snapshot that came.
    pub idle: Idle,
    /// To be taken up now.
    pub next: Option<Order>,
}

impl Home {
    fn new(held: Arc<Held>, waiting: Waiting) -> Self {
        let idle = Idle::new(Some(waiting.held.unwrap_or(held)));
        Self { idle, next: waiting.order }
    }
}

/// Steps are being looked at.
#[derive(Debug)]
pub struct Checking {
    held: Arc<Held>,
    instruction: Option<InstructionId>,
    steps: Vec<StepIndex>,
    waiting: Waiting,
}

impl Checking {
    fn new(held: Arc<Held>, instruction: Option<InstructionId>, scope: Scope) -> Self {
        let count = held.snapshot.step_count();
        let steps = match scope {
            Scope::All => (0..count as u32).map(StepIndex).collect(),
            Scope::Steps(mut steps) => {
                steps.retain(|step| (step.0 as usize) < count);
                steps.sort_unstable();
                steps.dedup();
                steps
            }
        };
        Self { held, instruction, steps, waiting: Waiting::default() }
    }

    /// The snapshot they are of.
    pub fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Who asked; nobody when the agent looks on its own account.
    pub fn instruction(&self) -> Option<InstructionId> {
        self.instruction
    }

    /// Which steps.
    pub fn steps(&self) -> &[StepIndex] {
        &self.steps
    }

    /// Whether it is all of them.
    pub fn is_of_everything(&self) -> bool {
        self.steps.len() == self.held.snapshot.step_count()
    }

    /// What has to wait until this is over.
    pub fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    /// Every step was looked at, or nobody wants to know any more.
    pub fn finish(self) -> Home {
        Home::new(self.held, self.waiting)
    }
}

#[cfg(test)]
mod tests;
