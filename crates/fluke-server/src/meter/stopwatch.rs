//! Times one agent's checks and cycles by what is said between the two sides.

use std::time::Instant;

use fluke_model::id::InstructionId;
use fluke_model::message::{ToAgent, ToServer};

use super::Meter;

/// What an agent said, as far as it ends something.
#[derive(Debug, Clone, Copy)]
pub enum Heard {
    /// So many steps were looked at.
    Checked(InstructionId, u32),
    /// What was due is applied.
    Finished(InstructionId),
}

impl Heard {
    /// What a message ends.
    pub fn of(message: &ToServer) -> Option<Self> {
        match message {
            ToServer::Checked(checked) => Some(Self::Checked(checked.instruction, checked.checked)),
            ToServer::Finished { instruction } => Some(Self::Finished(*instruction)),
            _ => None,
        }
    }
}

/// Runs from a cycle's first instruction to its last answer.
#[derive(Debug, Default)]
pub struct Stopwatch(Option<Cycle>);

#[derive(Debug)]
struct Cycle {
    began: Instant,
    check: InstructionId,
    is_checked: bool,
    apply: Option<InstructionId>,
}

impl Stopwatch {
    /// Takes what was heard and what was said to it. A check that nobody answers counts nowhere:
    /// a newer one has taken its place.
    pub fn observe(&mut self, heard: Option<Heard>, said: &[ToAgent], now: Instant, meter: &Meter) {
        if let Some(heard) = heard {
            self.hear(heard, now, meter);
        }
        for message in said {
            match message {
                ToAgent::Apply { instruction, .. } => {
                    let cycle = self.0.as_mut().filter(|cycle| cycle.is_checked);
                    cycle.into_iter().for_each(|cycle| cycle.apply = Some(*instruction));
                }
                ToAgent::Check { instruction, .. } => {
                    self.end_if_quiet(now, meter);
                    let check = *instruction;
                    self.0 = Some(Cycle { began: now, check, is_checked: false, apply: None });
                }
                _ => {}
            }
        }
        self.end_if_quiet(now, meter);
    }

    fn hear(&mut self, heard: Heard, now: Instant, meter: &Meter) {
        let Some(cycle) = &mut self.0 else { return };
        match heard {
            Heard::Checked(instruction, steps) if instruction == cycle.check => {
                cycle.is_checked = true;
                meter.checks.record(now.saturating_duration_since(cycle.began));
                meter.steps_checked.add(u64::from(steps));
            }
            Heard::Finished(instruction) if Some(instruction) == cycle.apply => {
                meter.applying_cycles.record(now.saturating_duration_since(cycle.began));
                self.0 = None;
            }
            Heard::Checked(..) | Heard::Finished(_) => {}
        }
    }

    /// A check that nothing followed was the whole cycle.
    fn end_if_quiet(&mut self, now: Instant, meter: &Meter) {
        if let Some(cycle) = self.0.take_if(|cycle| cycle.is_checked && cycle.apply.is_none()) {
            meter.quiet_cycles.record(now.saturating_duration_since(cycle.began));
        }
    }
}
