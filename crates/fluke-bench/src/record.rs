//! What a run found, as it is kept: JSON, and the report is made of it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::figure::{Figure, Verdict};
use crate::machine::{Machine, Taken};
use crate::peers::PeerFigure;
use crate::row::{Row, Trouble};

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was found, in the order of the table.
    pub rows: Vec<RowRecord>,
    /// What others need for the same work, where they were asked.
    #[serde(default)]
    pub peers: Vec<PeerFigure>,
}

/// What was found of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowRecord {
    /// Its id.
    pub id: String,
    /// What is promised.
    pub what: String,
    /// What is to be reached.
    pub reach: String,
    /// How it is measured.
    pub how: String,
    /// When, and of what.
    pub taken: Taken,
    /// The figures, or why there are none.
    pub outcome: Outcome,
}

/// What came of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was measured.
    Figures(Vec<Figure>),
    /// It could not be measured here.
    NotRun(String),
    /// It should have been, and was not.
    Failed(String),
}

impl RowRecord {
    /// Notes what came of a row.
    pub fn of(row: &Row, taken: Taken, measured: Result<Vec<Figure>, Trouble>) -> Self {
        let outcome = match measured {
            Ok(figures) => Outcome::Figures(figures),
            Err(Trouble::NotRun(why)) => Outcome::NotRun(why),
            Err(trouble) => Outcome::Failed(trouble.to_string()),
        };
        Self {
            id: row.id.into(),
            what: row.what.into(),
            reach: row.reach.into(),
            how: row.how.into(),
            taken,
            outcome,
        }
    }

    /// Its figures; none where there are none.
    pub fn figures(&self) -> &[Figure] {
        match &self.outcome {
            Outcome::Figures(figures) => figures,
            _ => &[],
        }
    }
}

impl Record {
    /// The figure of that name: `checks.sequential`.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        let (row, id) = name.split_once('.')?;
        let row = self.rows.iter().find(|known| known.id == row)?;
        row.figures().iter().find(|figure| figure.id == id)
    }

    /// The machines that it comes from, each with its rows, in the order of the table.
    pub fn machines(&self) -> Vec<(&Machine, Vec<&str>)> {
        let mut machines: Vec<(&Machine, Vec<&str>)> = Vec::new();
        for row in &self.rows {
            match machines.iter_mut().find(|(machine, _)| *machine == &row.taken.machine) {
                Some((_, rows)) => rows.push(&row.id),
                None => machines.push((&row.taken.machine, vec![&row.id])),
            }
        }
        machines
    }

    /// The rows that failed, by id.
    pub fn failed(&self) -> Vec<&str> {
        let failed = self.rows.iter().filter(|row| matches!(row.outcome, Outcome::Failed(_)));
        failed.map(|row| row.id.as_str()).collect()
    }

    /// The figures that miss their target: `checks.sequential`, and by how much.
    pub fn missed(&self) -> Vec<(String, Verdict)> {
        let all = self.rows.iter().flat_map(|row| row.figures().iter().map(move |it| (row, it)));
        let missed = all.filter(|(_, figure)| matches!(figure.verdict(), Verdict::Missed(_)));
        missed
            .map(|(row, figure)| (format!("{}.{}", row.id, figure.id), figure.verdict()))
            .collect()
    }

    /// Takes over what `earlier` knows of rows and peers that were not measured this time, and puts
    /// rows in the order of `ids`; what has no id any more is forgotten.
    pub fn completed(mut self, earlier: Record, ids: &[&str]) -> Self {
        let known: Vec<_> = self.rows.iter().map(|row| row.id.clone()).collect();
        self.rows.extend(earlier.rows.into_iter().filter(|row| !known.contains(&row.id)));
        let place = |id: &str| ids.iter().position(|known| *known == id);
        self.rows.retain(|row| place(&row.id).is_some());
        self.rows.sort_by_key(|row| place(&row.id));
        let anew: Vec<_> = self.peers.iter().map(|it| it.work.clone()).collect();
        let kept = earlier.peers.into_iter().filter(|it| !anew.contains(&it.work));
        self.peers = kept.chain(self.peers).collect();
        self
    }

    /// Adds what was measured again: the best rounds of all count.
    pub fn again(mut self, again: Record) -> Self {
        for new in again.rows {
            let Some(row) = self.rows.iter_mut().find(|row| row.id == new.id) else {
                self.rows.push(new);
                continue;
            };
            match (&mut row.outcome, &new.outcome) {
                (Outcome::Figures(figures), Outcome::Figures(anew)) => {
                    for figure in figures {
                        let same = anew.iter().find(|other| other.id == figure.id);
                        same.inspect(|other| figure.take_best_of(other));
                    }
                }
                (Outcome::Figures(_), _) => {}
                _ => *row = new,
            }
        }
        self
    }

    /// Reads one that was kept.
    pub fn read(path: &Path) -> Result<Self, Trouble> {
        let doing = || format!("read {}", path.display());
        let text = std::fs::read(path).map_err(|error| Trouble::failed(doing(), error))?;
        serde_json::from_slice(&text).map_err(|error| Trouble::failed(doing(), error))
    }

    /// Keeps it.
    pub fn write(&self, path: &Path) -> Result<(), Trouble> {
        let doing = || format!("write {}", path.display());
        let mut text =
            serde_json::to_string_pretty(self).map_err(|error| Trouble::failed(doing(), error))?;
        text.push('\n');
        std::fs::write(path, text).map_err(|error| Trouble::failed(doing(), error))
    }
}

#[cfg(test)]
mod tests;
