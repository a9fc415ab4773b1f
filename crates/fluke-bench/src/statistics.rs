//! What many rounds of one measurement come to. Pure.

use serde::{Deserialize, Serialize};

/// A measurement's rounds, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many rounds there were.
    pub rounds: usize,
    /// Half of them were no more than this.
    pub median: f64,
    /// One of ten was no more than this; the least where there are fewer than ten.
    pub low: f64,
    /// Nine of ten were no more than this; the most where there are fewer than ten.
    pub high: f64,
    /// The least: what the machine can do when nothing comes between.
    pub best: f64,
}

impl Summary {
    /// Sums up; none without a round, or where one is no number.
    pub fn of(rounds: &[f64]) -> Option<Self> {
        if rounds.is_empty() || !rounds.iter().all(|round| round.is_finite()) {
            return None;
        }
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            rounds: sorted.len(),
            median: middle(&sorted),
            low: share(&sorted, 0.1),
            high: share(&sorted, 0.9),
            best: sorted[0],
        })
    }
}

/// The median of what is sorted and not empty.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[half - 1], sorted[half]),
        _ => sorted[half],
    }
}

/// The value that this share of what is sorted does not exceed: the nearest rank, and the ends where
/// there are too few to leave any out.
fn share(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    let rank = share * last as f64;
    let rank = if share < 0.5 { rank.floor() } else { rank.ceil() };
    sorted[(rank as usize).min(last)]
}

/// The value that this share of the rounds does not exceed; none without rounds.
pub fn percentile(rounds: &[f64], at: f64) -> Option<f64> {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| share(&sorted, at))
}

/// How many times `other` this is; none where there is nothing to compare with.
pub fn ratio(this: f64, other: f64) -> Option<f64> {
    Some(this / other).filter(|ratio| ratio.is_finite() && other > 0.0)
}

#[cfg(test)]
mod tests;
