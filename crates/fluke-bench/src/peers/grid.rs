//! Everybody beside everybody: a line for each peer, a column for each work. Pure.

use super::PeerFigure;
use crate::figure::Unit;
use crate::statistics::{Summary, ratio};

/// The head with the works, then a line for each peer; ours is the first.
pub fn grid(figures: &[PeerFigure]) -> Vec<Vec<String>> {
    let mut works: Vec<&str> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for figure in figures {
        if !works.contains(&&*figure.work) {
            works.push(&figure.work);
        }
        if !names.contains(&&*figure.peer) {
            names.push(&figure.peer);
        }
    }
    let of = |name: &str, work: &str| {
        figures.iter().find(|figure| figure.peer == name && figure.work == work)
    };
    let ours = |work: &str| names.first().and_then(|name| of(name, work)?.measured);
    let head = std::iter::once("").chain(works.iter().copied()).map(str::to_string).collect();
    let line = |name: &&str| {
        let cells = works
            .iter()
            .map(|work| of(name, work).map_or(String::new(), |figure| cell(figure, ours(work))));
        std::iter::once(name.to_string()).chain(cells).collect()
    };
    std::iter::once(head).chain(names.iter().map(line)).collect()
}

fn cell(figure: &PeerFigure, ours: Option<Summary>) -> String {
    let Some(measured) = figure.measured else { return figure.note.clone() };
    let shown = Unit::Seconds.show(measured.median);
    let times = ours.and_then(|ours| ratio(measured.median, ours.median));
    match times.filter(|times| (times - 1.0).abs() > f64::EPSILON) {
        Some(times) if times < 10.0 => format!("{shown} ({times:.1} ×)"),
        Some(times) => format!("{shown} ({times:.0} ×)"),
        None => shown,
    }
}
