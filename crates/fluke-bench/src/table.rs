//! The table on the terminal. Pure.

use std::fmt::Write as _;

use crate::figure::Figure;
use crate::peers::grid;
use crate::record::{Outcome, Record, RowRecord};

/// The whole run.
pub fn render(record: &Record) -> String {
    let machines = record.machines();
    let mut text: String = machines.iter().map(|(machine, _)| format!("{machine}\n")).collect();
    record.rows.iter().for_each(|row| text += &render_row(row));
    if !record.peers.is_empty() {
        text += "\nothers, at the same work\n";
        text += &aligned(&grid(&record.peers));
    }
    let missed = record.missed();
    let names: Vec<_> = missed.iter().map(|(name, _)| name.as_str()).collect();
    match names.is_empty() {
        true => text += "\nevery target that was measured is reached\n",
        false => {
            let _ = writeln!(text, "\nmissed: {}", names.join(", "));
        }
    }
    text
}

/// One row: what is promised, then a line for each figure.
pub fn render_row(row: &RowRecord) -> String {
    let mut text = format!("\n{} · {} · {}\n", row.id, row.what, row.reach);
    match &row.outcome {
        Outcome::NotRun(why) => {
            let _ = writeln!(text, "  NOT RUN: {why}");
        }
        Outcome::Failed(why) => {
            let _ = writeln!(text, "  FAILED: {why}");
        }
        Outcome::Figures(figures) => {
            text += &aligned(&figures.iter().map(|it| cells(it).to_vec()).collect::<Vec<_>>());
        }
    }
    text
}

/// Lines whose columns are below each other.
fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for line in lines {
        let padded = line.iter().enumerate().map(|(column, cell)| {
            let room = width(column) - cell.chars().count();
            format!("{cell}{}", " ".repeat(room))
        });
        let _ = writeln!(text, "  {}", padded.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// What is said of a figure: name, ours, beside it, the ratio, how it stands.
fn cells(figure: &Figure) -> [String; 5] {
    let unit = figure.unit;
    let spread = |low: f64, high: f64| format!("({} – {})", unit.show(low), unit.show(high));
    let ours = &figure.ours;
    let beside = figure.beside.as_ref().map(|beside| {
        let it = &beside.measured;
        format!("{}: {} {}", beside.what, unit.show(it.median), spread(it.low, it.high))
    });
    let ratio = figure.ratio().map(|ratio| format!("{ratio:.2} ×"));
    [
        figure.id.clone(),
        format!("{} {}", unit.show(ours.median), spread(ours.low, ours.high)),
        beside.unwrap_or_default(),
        ratio.unwrap_or_default(),
        format!("{}: {}", figure.reach(), figure.verdict()),
    ]
}

#[cfg(test)]
mod tests;
