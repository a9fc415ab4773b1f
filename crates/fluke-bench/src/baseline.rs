//! What ratios were when somebody last looked, and whether they got worse. Pure, but for reading.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::record::Record;
use crate::row::Trouble;

/// Ratios that are not to get worse, by figure: `checks.sequential`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Baseline(pub BTreeMap<String, Known>);

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

/// A ratio that got worse by more than its margin, or is not known any more.
#[derive(Debug, Clone, PartialEq)]
pub struct Worse {
    /// Which figure.
    pub figure: String,
    /// What it was.
    pub known: Known,
    /// What it is now; none where it was not measured.
    pub now: Option<f64>,
}

impl Worse {
    /// The row that the figure is of.
    pub fn row(&self) -> &str {
        self.figure.split('.').next().unwrap_or_default()
    }
}

impl std::fmt::Display for Worse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { figure, known, now } = self;
        let (was, most, margin) = (known.ratio, known.most(), known.margin * 100.0);
        match now {
            Some(now) => write!(
                f,
                "{figure}: {now:.2} × the floor, was {was:.2} ×; at most {most:.2} × ({margin:.0} % more)"
            ),
            None => write!(f, "{figure}: was {was:.2} × the floor, and was not measured now"),
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

    /// Only what it knows of these rows.
    pub fn of(mut self, rows: &[String]) -> Self {
        self.0.retain(|name, _| rows.iter().any(|row| name.starts_with(&format!("{row}."))));
        self
    }

    /// The rows that it knows figures of.
    pub fn rows(&self) -> Vec<&str> {
        let mut rows: Vec<_> =
            self.0.keys().filter_map(|name| name.split_once('.')).map(|(row, _)| row).collect();
        rows.dedup();
        rows
    }

    /// Everything that got worse by more than its margin.
    pub fn worse(&self, record: &Record) -> Vec<Worse> {
        let now = |name: &str| record.figure(name).and_then(|figure| figure.best_ratio());
        let all = self.0.iter().map(|(name, known)| (name, *known, now(name)));
        all.filter(|(_, known, now)| now.is_none_or(|now| now > known.most()))
            .map(|(name, known, now)| Worse { figure: name.clone(), known, now })
            .collect()
    }

    /// The same figures with the ratios that they have now.
    pub fn renewed(&self, record: &Record) -> Self {
        let renew = |(name, known): (&String, &Known)| {
            let now = record.figure(name).and_then(|figure| figure.best_ratio());
            let ratio = now.map_or(known.ratio, |now| (now * 1000.0).round() / 1000.0);
            (name.clone(), Known { ratio, margin: known.margin })
        };
        Self(self.0.iter().map(renew).collect())
    }
}

#[cfg(test)]
mod tests;
