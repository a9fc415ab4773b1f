//! The one task that knows of all hosts: hears what agents say that concerns others, keeps the
//! [`Book`], and publishes what follows from it.
//!
//! ```text
//! Git ────────▶ desk ──▶ desired: behind where replicas are, so that no host is ever sent half of it
//! sessions ──▶  │   └──▶ bulletin: names, routes, peers, placements, for all alike
//!               └──────▶ lot: replicas, releases and the subnet of one agent, and the commit for
//!                        which that was decided: one value, so that commits are never mixed
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use fluke_model::event::Event;
use fluke_model::id::{AgentName, SessionId};
use tokio::sync::{mpsc, watch};

use super::book::{Book, Own, Urgency, Word};
use super::bulletin::Bulletin;
use super::claims::NONE_LEFT;
use super::host::HostView;
use crate::changes::{Change, Changes};
use crate::clock::{Clock, until};
use crate::events::EventSink;
use crate::session::pulse::Pulses;
use crate::source::Desired;

/// Changes that come within so long of each other are told together, unless one cannot wait.
const TOGETHER: Duration = Duration::from_millis(50);
/// While many have something to say, what is told to all is told again after so long for each of
/// them: what that costs does not grow with how many they are. To tell one host of something takes
/// some fifty microseconds here and as much there, so a thousand are told of what is gone ten times a
/// second, and of what is new three times.
const OF_WHAT_IS_GONE: Duration = Duration::from_micros(100);
const OF_WHAT_IS_NEW: Duration = Duration::from_micros(300);
/// What nothing leads to any more goes on for longer than that.
const LONGEST: Duration = Duration::from_secs(3);
/// How many words may wait; whoever has more to say waits as well.
const QUEUE: usize = 1024;

/// Of words that no agent says.
const NOBODYS: SessionId = SessionId(0);

/// The way to the desk, and what it publishes.
#[derive(Clone)]
pub struct Desk {
    words: mpsc::Sender<Spoken>,
    desired: watch::Receiver<Option<Arc<Desired>>>,
    bulletin: watch::Receiver<Arc<Bulletin>>,
    book: Arc<RwLock<Book>>,
    pulses: Pulses,
}

/// What is one agent's, and the commit for which that was decided.
#[derive(Clone, Default)]
pub struct Lot {
    /// None before there is one.
    pub desired: Option<Arc<Desired>>,
    /// Decided for it, and for no other.
    pub own: Own,
}

struct Spoken {
    agent: AgentName,
    session: SessionId,
    word: Word,
    /// Where the agent is told what is its own; with its first word.
    lot: Option<watch::Sender<Lot>>,
}

impl Desk {
    /// Starts the desk; it ends with whoever says what Git says, or with the last who may ask.
    pub fn start(
        git: watch::Receiver<Option<Arc<Desired>>>,
        events: Arc<dyn EventSink>,
        changes: Changes,
        clock: Clock,
    ) -> Self {
        let (words, heard) = mpsc::channel(QUEUE);
        let (desired, desired_seen) = watch::channel(None);
        let (bulletin, bulletin_seen) = watch::channel(Arc::default());
        let book = Arc::new(RwLock::new(Book::new(clock.read().instant)));
        let clerk = Clerk {
            book: book.clone(),
            lots: BTreeMap::new(),
            desired,
            bulletin,
            events,
            changes,
            clock,
            told: Told::default(),
            urgency: Urgency::None,
            untold: Urgency::None,
        };
        tokio::spawn(clerk.run(git, heard));
        let pulses = Pulses::start();
        Self { words, desired: desired_seen, bulletin: bulletin_seen, book, pulses }
    }

    /// What Git says, told no sooner than what follows from it for each host.
    pub fn desired(&self) -> watch::Receiver<Option<Arc<Desired>>> {
        self.desired.clone()
    }

    /// What all agents are told alike.
    pub fn bulletin(&self) -> watch::Receiver<Arc<Bulletin>> {
        self.bulletin.clone()
    }

    /// Where it is noticed that a machine falls silent.
    pub(crate) fn pulses(&self) -> &Pulses {
        &self.pulses
    }

    /// Everything that is known, for those who ask. Held as briefly as possible: the desk waits.
    pub fn book(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose subnet is whose, to be arranged.
    #[cfg(test)]
    pub(crate) fn arrange(&self, arrange: impl FnOnce(&mut super::claims::Claims)) {
        arrange(self.book.write().expect("unpoisoned").claims_mut());
    }

    /// Whether a host has to do with services, as far as is known.
    pub fn knows(&self, agent: &AgentName) -> bool {
        self.book().view().hosts.contains_key(agent)
    }

    /// Speaks for an agent for the first time in its session; what it is to be told comes out.
    pub async fn attend(
        &self,
        agent: &AgentName,
        session: SessionId,
        came: Word,
    ) -> watch::Receiver<Lot> {
        let (lot, told) = watch::channel(Lot::default());
        self.speak(agent, session, came, Some(lot)).await;
        told
    }

    /// Speaks for an agent that attends.
    pub async fn tell(&self, agent: &AgentName, session: SessionId, word: Word) {
        self.speak(agent, session, word, None).await;
    }

    /// Has nobody wait for a host any more; says which volumes were waited for, if it was known.
    pub async fn forget(&self, agent: &AgentName) -> Option<Vec<String>> {
        let volumes = self.book().view().hosts.get(agent).map(HostView::volume_names);
        self.tell(agent, NOBODYS, Word::Forgotten).await;
        volumes
    }

    async fn speak(
        &self,
        agent: &AgentName,
        session: SessionId,
        word: Word,
        lot: Option<watch::Sender<Lot>>,
    ) {
        // A desk that is gone has stopped with its server.
        let _ = self.words.send(Spoken { agent: agent.clone(), session, word, lot }).await;
    }
}

/// Who sits at the desk.
struct Clerk {
    book: Arc<RwLock<Book>>,
    lots: BTreeMap<AgentName, (SessionId, watch::Sender<Lot>)>,
    desired: watch::Sender<Option<Arc<Desired>>>,
    bulletin: watch::Sender<Arc<Bulletin>>,
    events: Arc<dyn EventSink>,
    changes: Changes,
    clock: Clock,
    told: Told,
    /// Of what was heard and not gone through.
    urgency: Urgency,
    /// Of what was gone through and not told to all.
    untold: Urgency,
}

/// When something was last published.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// Whatever it was.
    anything: Option<Instant>,
    /// What all are told alike.
    to_all: Option<Instant>,
    /// How long it took to find out what to publish.
    took: Duration,
}

impl Told {
    /// When to go through what was heard: what is urgent at once, the rest together with what comes
    /// next.
    fn next(self, urgency: Urgency, now: Instant) -> Option<Instant> {
        match urgency {
            Urgency::None => None,
            Urgency::Soon => Some(self.anything.map_or(now, |told| told + TOGETHER)),
            // While many have something to say, most of it is gone through together.
            Urgency::Own | Urgency::Now => {
                Some(self.anything.map_or(now, |told| now.max(told + self.took * 2)))
            }
        }
    }

    /// When to tell so many hosts what came of it. Those who hold the same are told the same, so all
    /// are told one thing before the next, unless that takes too long.
    fn next_to_all(
        self,
        urgency: Urgency,
        hosts: usize,
        are_told: bool,
        now: Instant,
    ) -> Option<Instant> {
        let pause = match urgency {
            Urgency::None => return None,
            Urgency::Soon | Urgency::Own => OF_WHAT_IS_NEW,
            Urgency::Now => OF_WHAT_IS_GONE,
        };
        let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
        let pause = if are_told { pause.saturating_mul(hosts).min(LONGEST) } else { LONGEST };
        Some(self.to_all.map_or(now, |told| now.max(told + pause)))
    }
}

impl Clerk {
    async fn run(
        mut self,
        mut git: watch::Receiver<Option<Arc<Desired>>>,
        mut heard: mpsc::Receiver<Spoken>,
    ) {
        git.mark_changed();
        loop {
            let due = self.due(self.clock.read().instant);
            let bulletin = self.bulletin.borrow().clone();
            // All of these are safe to cancel: a watch, a queue, a notice, a timer.
            tokio::select! {
                biased;
                changed = git.changed() => match changed {
                    Ok(()) => {
                        let desired = git.borrow_and_update().clone();
                        self.want(desired);
                    }
                    Err(_) => return,
                },
                spoken = heard.recv() => match spoken {
                    Some(spoken) => {
                        self.hear(spoken);
                        // What is said already is told together; those who go on talking do not
                        // keep it from being told.
                        for spoken in std::iter::from_fn(|| heard.try_recv().ok()).take(QUEUE) {
                            self.hear(spoken);
                        }
                    }
                    None => return,
                },
                () = bulletin.until_told_to_all(), if self.untold != Urgency::None => {}
                () = until(due) => {}
            }
            let now = self.clock.read().instant;
            if self.is_to_go_through_at(now).is_some_and(|due| due <= now) {
                let desired = self.desired.borrow().clone();
                self.publish(desired, now);
            }
            if self.is_to_tell_all_at(now).is_some_and(|due| due <= now) {
                self.tell_all(now);
            }
        }
    }

    /// When there is something to do though nobody says anything.
    fn due(&self, now: Instant) -> Option<Instant> {
        self.is_to_go_through_at(now).into_iter().chain(self.is_to_tell_all_at(now)).min()
    }

    /// When to go through what was heard, or what comes with time.
    fn is_to_go_through_at(&self, now: Instant) -> Option<Instant> {
        self.told.next(self.urgency, now).into_iter().chain(self.book().due()).min()
    }

    /// When to tell all what came of it.
    fn is_to_tell_all_at(&self, now: Instant) -> Option<Instant> {
        let hosts = self.lots.len();
        let are_told = self.bulletin.borrow().is_told_to_all();
        self.told.next_to_all(self.untold, hosts, are_told, now)
    }

    fn want(&mut self, desired: Option<Arc<Desired>>) {
        let Some(desired) = desired else { return };
        let before = self.desired.borrow().clone();
        if let Some(before) = &before {
            desired.repeat(before);
        }
        self.book_mut().want(&desired.model.services);
        // Where replicas are is known first: whoever sees the commit finds its own.
        let now = self.clock.read().instant;
        self.publish(Some(desired.clone()), now);
        self.tell_all(now);
        for (_, lot) in self.lots.values() {
            // What is nobody's news is known without a word: the commit itself is told below.
            lot.send_if_modified(|lot| {
                lot.desired = Some(desired.clone());
                false
            });
        }
        self.desired.send_replace(Some(desired));
        // Those of whom it says nothing new are not woken.
        before.iter().for_each(|before| before.end());
        // Whoever shows what they are held to looks again.
        self.changes.tell(Change::Source);
    }

    fn hear(&mut self, Spoken { agent, session, word, lot }: Spoken) {
        let now = self.clock.read();
        match (lot, &word) {
            (Some(lot), _) => drop(self.lots.insert(agent.clone(), (session, lot))),
            (None, Word::Left) if self.lots.get(&agent).is_some_and(|(of, _)| *of == session) => {
                self.lots.remove(&agent);
            }
            (None, _) => {}
        }
        let urgency = self.book_mut().hear(&agent, session, word, now);
        self.urgency = self.urgency.max(urgency);
    }

    /// Tells each what is its own, as follows from what is known now and from this commit.
    fn publish(&mut self, desired: Option<Arc<Desired>>, now: Instant) {
        let news = self.book_mut().go_through(now);
        let heard = std::mem::replace(&mut self.urgency, Urgency::None);
        self.told.anything = Some(now);
        if news.directory {
            // What comes with time is somebody who stayed away.
            let is_late = news.is_late || heard == Urgency::None;
            let urgency = if is_late { Urgency::Now } else { heard };
            self.untold = self.untold.max(urgency);
        }
        for (agent, own) in news.owns {
            if let Some((_, lot)) = self.lots.get(&agent) {
                lot.send_replace(Lot { desired: desired.clone(), own });
            }
        }
        for service in news.services {
            self.changes.tell(Change::Service(service));
        }
        let (commit, time) = (desired.map(|it| it.commit.clone()), self.clock.read().wall);
        for agent in news.without_subnet {
            tracing::warn!(%agent, "{NONE_LEFT}");
        }
        for it in news.moves {
            self.events.record(Event { commit: commit.clone(), ..it.event(time) });
        }
        self.told.took = self.clock.read().instant.saturating_duration_since(now);
    }

    /// Tells all what they are told alike, if that is something else than before.
    fn tell_all(&mut self, now: Instant) {
        if std::mem::replace(&mut self.untold, Urgency::None) != Urgency::None {
            self.told.to_all = Some(now);
            let directory = self.book().directory().clone();
            self.bulletin.send_replace(Arc::new(Bulletin::new(directory, self.lots.len())));
        }
    }

    fn book(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn book_mut(&self) -> RwLockWriteGuard<'_, Book> {
        // Tables are made anew as a whole; one that was left half done is made again.
        self.book.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Clerk {
    /// Nothing more is said, which those learn who wait for it.
    fn drop(&mut self) {
        self.desired.borrow().iter().for_each(|desired| desired.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_urgent_is_told_at_once_and_while_much_is_so_less_often_the_more_there_are() {
        let now = Instant::now();
        let ago = |ms| Some(now - Duration::from_millis(ms));
        for (to_all, hosts, urgency, waits) in [
            (None, 10_000, Urgency::Now, 0),
            (ago(1000), 10_000, Urgency::Now, 0),
            (ago(0), 1, Urgency::Now, 0),
            (ago(0), 1000, Urgency::Now, 100),
            (ago(50), 10_000, Urgency::Now, 950),
            (ago(20), 1, Urgency::Soon, 0),
            (ago(100), 1000, Urgency::Soon, 200),
            (ago(100), 10_000, Urgency::Own, 2900),
        ] {
            let told = Told { to_all, ..Told::default() };
            let due = told.next_to_all(urgency, hosts, true, now);
            let due = due.map(|due| due.saturating_duration_since(now).as_millis());
            assert_eq!(due, Some(waits), "{hosts} hosts, {urgency:?}, {to_all:?}");
        }
        assert_eq!(Told::default().next_to_all(Urgency::None, 1, true, now), None);
    }

    #[test]
    fn all_are_told_one_thing_before_the_next_unless_that_takes_too_long() {
        let now = Instant::now();
        let told = Told { to_all: Some(now), ..Told::default() };
        assert_eq!(told.next_to_all(Urgency::Now, 10, false, now), Some(now + LONGEST));
        assert_eq!(told.next_to_all(Urgency::Now, 10, false, now + LONGEST), Some(now + LONGEST));
    }

    #[test]
    fn what_may_wait_is_gone_through_with_what_comes_next() {
        let now = Instant::now();
        let told = Told { anything: Some(now), ..Told::default() };
        assert_eq!(told.next(Urgency::Soon, now), Some(now + TOGETHER));
        assert_eq!(Told::default().next(Urgency::Soon, now), Some(now));
        for urgency in [Urgency::Own, Urgency::Now] {
            assert_eq!(told.next(urgency, now), Some(now));
        }
        assert_eq!(told.next(Urgency::None, now), None);
        let busy = Told { took: TOGETHER, ..told };
        assert_eq!(busy.next(Urgency::Now, now), Some(now + 2 * TOGETHER));
    }
}
