//! How long most and how long the slowest had to wait: a figure for half, for nine of ten, for 99 of
//! 100 and for all.

use fluke_bed::swarm::Timing;

use crate::figure::{Figure, Unit};
use crate::statistics::percentile;

/// The shares of all that a figure is told of, as they are named.
const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];

/// Seconds, by share: each of as many rounds as there were.
#[derive(Debug, Clone, Default)]
pub struct Spread([Vec<f64>; 4]);

impl Spread {
    /// Of single times, which are one round.
    pub fn of(times: &[f64]) -> Self {
        Self(SHARES.map(|(_, share)| percentile(times, share).into_iter().collect()))
    }

    /// One more round, of a swarm.
    pub fn note(&mut self, timing: Timing) {
        let shares = [timing.p50, timing.p90, timing.p99, timing.max];
        for (rounds, time) in self.0.iter_mut().zip(shares) {
            rounds.push(time.as_secs_f64());
        }
    }

    /// A figure for each share, beside the same share of the same without what disturbs it.
    pub fn figures(&self, id: &str, beside: Option<(&str, &Self)>) -> Vec<Option<Figure>> {
        let figure = |(at, (share, _)): (usize, &(&str, f64))| {
            let figure = Figure::new(&format!("{id}_{share}"), Unit::Seconds, &self.0[at]);
            figure.map(|figure| match beside {
                Some((what, calm)) => figure.beside(what, &calm.0[at]),
                None => figure,
            })
        };
        SHARES.iter().enumerate().map(figure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_share_is_a_figure_beside_the_same_share() {
        let times: Vec<f64> = (1..=100).map(f64::from).collect();
        let calm: Vec<f64> = times.iter().map(|time| time / 2.0).collect();
        let beside = Spread::of(&calm);
        let figures = Spread::of(&times).figures("call", Some(("a calm fleet", &beside)));
        let told: Vec<_> =
            figures.into_iter().flatten().map(|it| (it.id.clone(), it.ratio())).collect();
        let named = |name: &str| (format!("call_{name}"), Some(2.0));
        assert_eq!(told, ["p50", "p90", "p99", "max"].map(named));
        assert!(Spread::default().figures("call", None).iter().all(Option::is_none));
    }
}
