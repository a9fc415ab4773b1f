//! What befalls a swarm while it runs: connections that break, hosts that drift, containers
//! that end, so many a second.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::agent::Order;
use super::services::containers::Mishap;

/// How often it is looked what is due.
const ROUND: Duration = Duration::from_millis(10);
/// Far apart in the list, so that neighbours are not hit one after the other; a prime.
const STRIDE: usize = 7_919;

/// How much befalls a swarm, each so many times a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Weather {
    /// Connections that break without a word; their agents come back.
    pub drops: f64,
    /// Steps that are no longer as they should be.
    pub drifts: f64,
    /// Containers that end, and are started again; on hosts that keep services.
    pub deaths: f64,
    /// Containers that are not well for a moment; those that are asked.
    pub flaps: f64,
}

impl Weather {
    /// Whether nothing happens at all.
    pub fn is_calm(self) -> bool {
        [self.drops, self.drifts, self.deaths, self.flaps].iter().all(|rate| *rate <= 0.0)
    }

    /// Goes on until it is dropped.
    pub(super) async fn blows_over(self, members: Vec<mpsc::Sender<Order>>) {
        if self.is_calm() || members.is_empty() {
            return std::future::pending().await;
        }
        let mut rounds = interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let turns = |rate, next| Turns { rate, owed: 0.0, next };
        let (mut drops, mut drifts) = (turns(self.drops, 0), turns(self.drifts, members.len() / 2));
        let mut deaths = turns(self.deaths, members.len() / 3);
        let mut flaps = turns(self.flaps, members.len() / 4);
        loop {
            rounds.tick().await;
            // Who has orders waiting already is left alone.
            drops.take(&members, |member| drop(member.try_send(Order::Break)));
            drifts.take(&members, |member| drop(member.try_send(Order::Drift)));
            deaths.take(&members, |member| befalls(member, Mishap::Death));
            flaps.take(&members, |member| befalls(member, Mishap::Illness));
        }
    }
}

fn befalls(member: &mpsc::Sender<Order>, mishap: Mishap) {
    let _ = member.try_send(Order::Mishap(mishap));
}

/// Whose turn it is, and how many turns are owed.
struct Turns {
    rate: f64,
    owed: f64,
    next: usize,
}

impl Turns {
    fn take<T>(&mut self, members: &[T], mut hit: impl FnMut(&T)) {
        self.owed += self.rate * ROUND.as_secs_f64();
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            hit(&members[self.next % members.len()]);
            self.next = self.next.wrapping_add(STRIDE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_their_turn_at_the_rate_that_was_asked_for() {
        let members: Vec<usize> = (0..1000).collect();
        let mut hits = vec![0; members.len()];
        let mut turns = Turns { rate: 50.0, owed: 0.0, next: 0 };
        // Twenty seconds and a little, for rounding.
        (0..2001).for_each(|_| turns.take(&members, |member| hits[*member] += 1));
        assert!(hits.iter().all(|hits| *hits == 1), "a thousand turns, one for each");
    }
}
