//! What one address may take: requests, connections, streams, bodies. Whoever wants more waits, and
//! nobody else does.
//!
//! Many people can stand behind one address (a router, a proxy), so the bounds are wide: two
//! hundred dashboards that all start at once fit in. Those among them who have a token or a session
//! have a share of their own, which strangers behind the same address cannot spend.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests that may come at once.
const BURST: f64 = 5000.0;
/// Requests a second, for as long as it takes.
const RATE: f64 = 200.0;
/// Addresses that are told apart; for those beyond, the bounds for everybody are all there is.
const REMEMBERED: usize = 10_000;
/// How often it is looked for addresses that can be forgotten.
const TIDIED: Duration = Duration::from_secs(1);

/// What every address has taken.
#[derive(Debug, Clone, Default)]
pub struct Crowd(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    guests: HashMap<IpAddr, Guest>,
    tidied: Option<Instant>,
}

#[derive(Debug)]
struct Guest {
    /// For each of [`Shows`].
    shares: [Share; 4],
    /// By [`Holding`].
    held: [u32; 4],
}

/// What a request shows for itself: by this the requests of one address are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// Nothing, or nobody asks for anything.
    Nothing,
    /// A token or a session that is not valid: perhaps a guess.
    Wrong,
    /// A valid token.
    Token,
    /// A valid session, which nobody guesses: it is signed.
    Session,
}

/// Requests that may come.
#[derive(Debug, Clone, Copy)]
struct Share {
    /// Now, as of `at`.
    left: f64,
    at: Instant,
}

/// What is held, and given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// An open connection.
    Connection,
    /// A request that is under way.
    Request,
    /// A live stream.
    Stream,
    /// A body that is read of whoever sends one.
    Body,
}

impl Holding {
    /// All of them.
    #[cfg(test)]
    pub const ALL: [Self; 4] = [Self::Connection, Self::Request, Self::Stream, Self::Body];

    /// How many one address may hold.
    pub fn most(self) -> u32 {
        match self {
            Self::Connection => 512,
            Self::Request => 128,
            Self::Stream => 256,
            Self::Body => 8,
        }
    }
}

/// Gives back what it stands for when it is dropped.
#[derive(Debug)]
pub struct Held {
    crowd: Crowd,
    from: IpAddr,
    what: Holding,
}

impl Crowd {
    /// Whether another request may come from there now.
    pub fn admits(&self, from: IpAddr, shows: Shows, now: Instant) -> bool {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.guest(from, now).is_none_or(|guest| guest.ask(shows, now))
    }

    /// Takes one of what an address may hold, if there is one left.
    pub fn hold(&self, from: IpAddr, what: Holding, now: Instant) -> Option<Held> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = table.guest(from, now) {
            let held = &mut guest.held[what as usize];
            if *held >= what.most() {
                return None;
            }
            *held += 1;
        }
        Some(Held { crowd: self.clone(), from, what })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = self.crowd.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = table.guests.get_mut(&neighbourhood(self.from)) {
            let held = &mut guest.held[self.what as usize];
            *held = held.saturating_sub(1);
        }
    }
}

impl Table {
    /// None if there is no room to tell one more apart.
    fn guest(&mut self, from: IpAddr, now: Instant) -> Option<&mut Guest> {
        let from = neighbourhood(from);
        if self.guests.len() >= REMEMBERED && !self.guests.contains_key(&from) {
            self.tidy(now);
            if self.guests.len() >= REMEMBERED {
                return None;
            }
        }
        let new = || Guest { shares: [Share::whole(now); 4], held: [0; 4] };
        Some(self.guests.entry(from).or_insert_with(new))
    }

    fn tidy(&mut self, now: Instant) {
        if self.tidied.is_some_and(|last| now.duration_since(last) < TIDIED) {
            return;
        }
        self.tidied = Some(now);
        self.guests.retain(|_, guest| !guest.is_as_new(now));
    }
}

impl Share {
    fn whole(now: Instant) -> Self {
        Self { left: BURST, at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        *self = Self { left: self.left_at(now), at: now };
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }

    fn left_at(&self, now: Instant) -> f64 {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * RATE;
        (self.left + earned).min(BURST)
    }
}

impl Guest {
    fn ask(&mut self, shows: Shows, now: Instant) -> bool {
        // Whoever guesses too often is not told either when a token was right.
        let may_know = self.shares[Shows::Wrong as usize].left_at(now) >= 1.0;
        (shows != Shows::Token || may_know) && self.shares[shows as usize].take(now)
    }

    fn is_as_new(&self, now: Instant) -> bool {
        let is_whole = |share: &Share| share.left_at(now) >= BURST;
        self.held == [0; 4] && self.shares.iter().all(is_whole)
    }
}

/// Those who are counted together: whoever has one address of a /64 has all of them.
pub(crate) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests;
