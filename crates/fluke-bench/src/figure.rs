//! One figure: ours, what stands beside it, what is to be reached, and whether it is. Pure.

use serde::{Deserialize, Serialize};

use crate::statistics::{Summary, ratio};

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds of the clock on the wall.
    Seconds,
    /// Bytes.
    Bytes,
    /// Hundredths of one core's time.
    PercentOfCore,
    /// Things: processes, instructions.
    Count,
    /// How many times as much.
    Times,
}

impl Unit {
    /// A value as people read it, with three digits that count.
    pub fn show(self, value: f64) -> String {
        let (value, unit) = match self {
            Self::Seconds => scaled(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]),
            Self::Bytes => scaled(
                value,
                &[(1048576.0 * 1024.0, "GiB"), (1048576.0, "MiB"), (1024.0, "KiB"), (1.0, "B")],
            ),
            Self::PercentOfCore => (value, "%"),
            Self::Count => scaled(value, &[(1e9, "G"), (1e6, "M"), (1.0, "")]),
            Self::Times => (value, "×"),
        };
        format!("{} {unit}", digits(value)).trim_end().to_string()
    }
}

/// The value in the largest unit of which there is one, or else in the smallest.
fn scaled<'a>(value: f64, units: &[(f64, &'a str)]) -> (f64, &'a str) {
    let fits = units.iter().find(|(size, _)| value.abs() >= *size).or(units.last());
    fits.map_or((value, ""), |(size, unit)| (value / size, *unit))
}

fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        0.0..0.1 => format!("{value:.3}"),
        0.1..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// What a figure is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// At most so many times what stands beside it.
    Times(f64),
    /// At most so much more than what stands beside it.
    Over(f64),
    /// At most so much.
    AtMost(f64),
    /// Nothing is promised.
    Record,
}

/// What was measured, and what with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The floor or the peer.
    pub what: String,
    /// Its rounds.
    pub measured: Summary,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Unique within its row: `sequential`.
    pub id: String,
    /// What it counts.
    pub unit: Unit,
    /// Ours.
    pub ours: Summary,
    /// The floor or the peer, measured in turn with ours.
    pub beside: Option<Beside>,
    /// What is to be reached.
    pub target: Target,
}

/// How a figure stands to its target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It is reached, with this share of the limit.
    Reached(f64),
    /// It is missed, by this share of the limit.
    Missed(f64),
    /// Nothing was promised, or what it is promised against was not measured.
    Open,
}

impl Figure {
    /// A figure that stands for itself; none without rounds.
    pub fn new(id: &str, unit: Unit, ours: &[f64]) -> Option<Self> {
        let ours = Summary::of(ours)?;
        Some(Self { id: id.into(), unit, ours, beside: None, target: Target::Record })
    }

    /// Puts a floor or a peer beside it.
    pub fn beside(mut self, what: &str, rounds: &[f64]) -> Self {
        let beside = |measured| Beside { what: what.into(), measured };
        self.beside = Summary::of(rounds).map(beside);
        self
    }

    /// Says what is to be reached.
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// How many times what stands beside it: of medians.
    pub fn ratio(&self) -> Option<f64> {
        ratio(self.ours.median, self.beside.as_ref()?.measured.median)
    }

    /// The same of the best rounds, which other work on the machine disturbs least.
    pub fn best_ratio(&self) -> Option<f64> {
        ratio(self.ours.best, self.beside.as_ref()?.measured.best)
    }

    /// Takes over the best rounds of another measurement of the same.
    pub fn take_best_of(&mut self, other: &Self) {
        self.ours.best = self.ours.best.min(other.ours.best);
        if let (Some(beside), Some(others)) = (&mut self.beside, &other.beside) {
            beside.measured.best = beside.measured.best.min(others.measured.best);
        }
    }

    /// The value that is judged and the most that it may be; none where nothing is promised.
    pub fn judged(&self) -> Option<(f64, f64)> {
        match self.target {
            Target::Times(most) => Some((self.ratio()?, most)),
            Target::Over(most) => {
                Some((self.ours.median - self.beside.as_ref()?.measured.median, most))
            }
            Target::AtMost(most) => Some((self.ours.median, most)),
            Target::Record => None,
        }
    }

    /// Whether the target is reached.
    pub fn verdict(&self) -> Verdict {
        match self.judged() {
            None => Verdict::Open,
            Some((value, most)) if value <= most => {
                Verdict::Reached(if most > 0.0 { value.max(0.0) / most } else { 0.0 })
            }
            // Of nothing there is no share: so much too much.
            Some((value, most)) => {
                Verdict::Missed(if most > 0.0 { value / most - 1.0 } else { value })
            }
        }
    }

    /// The target in words: `≤ 1.3 ×`, `≤ 50 ms more`.
    pub fn reach(&self) -> String {
        match self.target {
            Target::Times(most) => format!("≤ {most} ×"),
            Target::Over(most) => format!("≤ {} more", self.unit.show(most)),
            Target::AtMost(most) => format!("≤ {}", self.unit.show(most)),
            Target::Record => "–".into(),
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reached(share) => write!(f, "reached ({:.0} % of it)", share * 100.0),
            Self::Missed(share) => write!(f, "MISSED by {:.0} %", (share * 100.0).max(1.0)),
            Self::Open => write!(f, "–"),
        }
    }
}

#[cfg(test)]
mod tests;
