//! The simulation: one server and many agents through thousands of bad nights, in simulated time
//! and on a simulated network, each night made from a seed and the same whenever it is played.
//!
//! ```text
//!  seed ─▶ schedule ─▶ play ─▶ record ─▶ laws ─▶ breaches
//!                       │
//!       real:           │  the agent's loop, state, store and journal; the server's fleet,
//!                       │  registry, sessions, machines, events; the wire between them, HTTP/2
//!                       │  and all; the language
//!       simulated:      └─ time, bytes on their way, hosts, Git, people
//! ```
//!
//! The only crate that sees both server and agent.

pub mod dice;
pub mod host;
pub mod laws;
pub mod net;
pub mod play;
pub mod repo;
pub mod schedule;
pub mod server;
pub mod trace;

use std::collections::BTreeMap;

use laws::{Breach, judge};
use schedule::Schedule;
use trace::{Record, What};

/// A night, and what was wrong with it.
#[derive(Debug)]
pub struct Night {
    /// What was to go wrong.
    pub schedule: Schedule,
    /// What happened.
    pub record: Record,
    /// What should not have.
    pub breaches: Vec<Breach>,
}

/// Plays a schedule and holds what happened against the laws.
pub fn spend(schedule: Schedule) -> Night {
    let record = play::play(&schedule);
    let breaches = judge(&record);
    Night { schedule, record, breaches }
}

/// Leaves out whatever is not needed for the first law to be broken.
pub fn shrink(night: Night) -> Night {
    let Some(law) = night.breaches.first().map(|breach| breach.law) else { return night };
    let mut smallest = night;
    let mut position = smallest.schedule.actions.len();
    while position > 0 {
        position -= 1;
        let less = spend(smallest.schedule.without(position));
        if less.breaches.iter().any(|breach| breach.law == law) {
            smallest = less;
        }
    }
    smallest
}

impl Night {
    /// How often what happened, for a look at whether nights are as bad as they should be.
    pub fn count(&self, into: &mut BTreeMap<String, u64>) {
        for entry in &self.record.entries {
            let What::Event(_, event) = &entry.what else { continue };
            let mut name = event.kind.as_str().to_owned();
            for part in [event.trigger.as_deref(), event.outcome.map(|it| it.as_str())] {
                part.into_iter().for_each(|part| name.push_str(&format!(" {part}")));
            }
            *into.entry(name).or_default() += 1;
        }
    }

    /// All that one needs to understand what went wrong; with `all`, all that happened.
    pub fn tell(&self, all: bool) -> String {
        const LAST: usize = 60;
        let mut told = format!("{}\n", self.schedule);
        let entries = &self.record.entries;
        let until = match (all, self.breaches.first()) {
            (false, Some(first)) => entries.partition_point(|entry| entry.at <= first.at),
            _ => entries.len(),
        };
        let from = if all { 0 } else { until.saturating_sub(LAST) };
        told.push_str("\nwhat happened:\n");
        for entry in &entries[from..until] {
            told.push_str(&format!("{entry}\n"));
        }
        told.push_str("\nbroken laws:\n");
        for breach in &self.breaches {
            told.push_str(&format!("{breach}\n"));
        }
        let seed = self.schedule.seed;
        told.push_str(&format!(
            "\nto play it again: cargo run --release -p fluke-sim -- --seed {seed} --trace\n"
        ));
        told
    }
}
