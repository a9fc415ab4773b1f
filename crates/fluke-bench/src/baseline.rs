//! What ratios were when somebody last looked, and whether they got worse; which counts have to be as
//! promised. Pure, but for reading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::figure::{Figure, Verdict};
use crate::record::Record;
use crate::row::Trouble;

/// What must not get worse, by figure: `checks.sequential`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Ratios that may get worse by their margin alone.
    pub ratios: BTreeMap<String, Known>,
    /// Counts, which no busy machine changes: each has to be what is promised of it.
    pub counts: BTreeSet<String>,
}

/// A ratio of best rounds, and how much worse it may get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// How many times the floor.
    pub ratio: f64,
    /// By which share of that it may be exceeded.
    pub margin: f64,
}

impl Known {
    /// The most that the ratio may be.
    pub fn most(self) -> f64 {
        self.ratio * (1.0 + self.margin)
    }
}

/// A figure that is not as it has to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Worse {
    /// Which figure.
    pub figure: String,
    /// What is wrong with it.
    pub why: Why,
}

/// What is wrong with a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// Its ratio got worse by more than its margin.
    Ratio {
        /// What it was.
        known: Known,
        /// What it is.
        now: f64,
    },
    /// It is more than is promised.
    Count {
        /// What it is.
        now: f64,
        /// What is promised.
        most: f64,
    },
    /// It was not measured, or has no floor or no promise any more.
    Unknown,
}

impl Worse {
    /// The row that the figure is of.
    pub fn row(&self) -> &str {
        row_of(&self.figure)
    }
}

impl std::fmt::Display for Worse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.figure)?;
        match self.why {
            Why::Ratio { known, now } => {
                let (was, most, margin) = (known.ratio, known.most(), known.margin * 100.0);
                write!(
                    f,
                    "{now:.2} × the floor, was {was:.2} ×; at most {most:.2} × ({margin:.0} % more)"
                )
            }
            Why::Count { now, most } => write!(f, "{now}; at most {most} is promised"),
            Why::Unknown => write!(f, "the baseline has it, and it was not measured now"),
        }
    }
}

impl Baseline {
    /// Reads the one that is committed.
    pub fn read(path: &Path) -> Result<Self, Trouble> {
        let doing = || format!("read the baseline {}", path.display());
        let text = std::fs::read(path).map_err(|error| Trouble::failed(doing(), error))?;
        serde_json::from_slice(&text).map_err(|error| Trouble::failed(doing(), error))
    }

    /// Keeps it, to be committed.
    pub fn write(&self, path: &Path) -> Result<(), Trouble> {
        let doing = || format!("write the baseline {}", path.display());
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| Trouble::failed(doing(), error))?;
        std::fs::write(path, text + "\n").map_err(|error| Trouble::failed(doing(), error))
    }

    /// Only what it knows of these rows, or all of it where none is named; fails with the first that
    /// it knows nothing of.
    pub fn of(mut self, rows: &[String]) -> Result<Self, String> {
        if let Some(unknown) = rows.iter().find(|row| !self.rows().contains(row.as_str())) {
            let known: Vec<_> = self.rows().into_iter().collect();
            let known = known.join(", ");
            return Err(format!("the baseline knows nothing of `{unknown}`, but of {known}"));
        }
        let is_meant =
            |name: &String| rows.is_empty() || rows.iter().any(|row| row == row_of(name));
        self.ratios.retain(|name, _| is_meant(name));
        self.counts.retain(is_meant);
        Ok(self)
    }

    /// The rows that it knows figures of.
    pub fn rows(&self) -> BTreeSet<&str> {
        self.ratios.keys().chain(&self.counts).map(|name| row_of(name)).collect()
    }

    /// Everything that is not as it has to be.
    pub fn worse(&self, record: &Record) -> Vec<Worse> {
        let ratio = |(name, known): (&String, &Known)| (name.clone(), ratio(record, name, *known));
        let count = |name: &String| (name.clone(), count(record, name));
        let all = self.ratios.iter().map(ratio).chain(self.counts.iter().map(count));
        all.filter_map(|(figure, why)| Some(Worse { figure, why: why? })).collect()
    }

    /// The same figures with the ratios that they have now.
    pub fn renewed(&self, record: &Record) -> Self {
        let renew = |(name, known): (&String, &Known)| {
            let now = record.figure(name).and_then(|figure| figure.best_ratio());
            let ratio = now.map_or(known.ratio, |now| (now * 1000.0).round() / 1000.0);
            (name.clone(), Known { ratio, margin: known.margin })
        };
        Self { ratios: self.ratios.iter().map(renew).collect(), counts: self.counts.clone() }
    }
}

/// What is wrong with a ratio, if anything is.
fn ratio(record: &Record, name: &str, known: Known) -> Option<Why> {
    match record.figure(name).and_then(Figure::best_ratio) {
        None => Some(Why::Unknown),
        Some(now) => (now > known.most()).then_some(Why::Ratio { known, now }),
    }
}

/// What is wrong with a count, if anything is.
fn count(record: &Record, name: &str) -> Option<Why> {
    let figure = record.figure(name);
    match figure.and_then(Figure::judged).zip(figure.map(Figure::verdict)) {
        None => Some(Why::Unknown),
        Some(((now, most), Verdict::Missed(_))) => Some(Why::Count { now, most }),
        Some(_) => None,
    }
}

fn row_of(figure: &str) -> &str {
    figure.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
