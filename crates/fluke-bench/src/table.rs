//! The table on the terminal. Pure.

use std::fmt::Write as _;

use crate::figure::Figure;
use crate::record::{Outcome, Record, RowRecord};

/// The whole run.
pub fn render(record: &Record) -> String {
    let mut text = format!("{}\n", record.machine);
    record.rows.iter().for_each(|row| text += &render_row(row));
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
            let lines: Vec<_> = figures.iter().map(cells).collect();
            let width = |column: usize| {
                lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0)
            };
            let widths: [usize; 5] = std::array::from_fn(width);
            for line in &lines {
                let padded = line.iter().zip(widths).map(|(cell, width)| {
                    let room = width - cell.chars().count();
                    format!("{cell}{}", " ".repeat(room))
                });
                let _ = writeln!(text, "  {}", padded.collect::<Vec<_>>().join("  ").trim_end());
            }
        }
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
