//! The one task that knows of all hosts: hears what agents say that concerns others, keeps the
//! [`Book`], and publishes what follows from it.
//!
//! ```text
//! Git ────────▶ desk ──▶ desired: behind where replicas are, so that no host is ever sent half of it
//! sessions ──▶  │   └──▶ directory: names, routes, peers, placements, for all alike
//!               └──────▶ own: replicas, releases and the subnet of one agent
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use fluke_model::id::{AgentName, SessionId};
use tokio::sync::{mpsc, watch};

use super::book::{Book, Directory, Own, Urgency, Word};
use crate::changes::{Change, Changes};
use crate::clock::{Clock, until};
use crate::source::Desired;

/// Changes that come within so long of each other are told together, unless one cannot wait.
const TOGETHER: Duration = Duration::from_millis(50);
/// How many words may wait; whoever has more to say waits as well.
const QUEUE: usize = 1024;

/// The way to the desk, and what it publishes.
#[derive(Clone)]
pub struct Desk {
    words: mpsc::Sender<Spoken>,
    desired: watch::Receiver<Option<Arc<Desired>>>,
    directory: watch::Receiver<Arc<Directory>>,
    book: Arc<RwLock<Book>>,
}

struct Spoken {
    agent: AgentName,
    session: SessionId,
    word: Word,
    /// Where the agent is told what is its own; with its first word.
    own: Option<watch::Sender<Own>>,
}

impl Desk {
    /// Starts the desk; it ends with whoever says what Git says, or with the last who may ask.
    pub fn start(
        git: watch::Receiver<Option<Arc<Desired>>>,
        changes: Changes,
        clock: Clock,
    ) -> Self {
        let (words, heard) = mpsc::channel(QUEUE);
        let (desired, desired_seen) = watch::channel(None);
        let (directory, directory_seen) = watch::channel(Arc::default());
        let book = Arc::new(RwLock::new(Book::new(clock.read().instant)));
        let clerk = Clerk {
            book: book.clone(),
            owns: BTreeMap::new(),
            desired,
            directory,
            changes,
            clock,
            told: None,
            urgency: Urgency::None,
        };
        tokio::spawn(clerk.run(git, heard));
        Self { words, desired: desired_seen, directory: directory_seen, book }
    }

    /// What Git says, told no sooner than what follows from it for each host.
    pub fn desired(&self) -> watch::Receiver<Option<Arc<Desired>>> {
        self.desired.clone()
    }

    /// What all agents are told alike.
    pub fn directory(&self) -> watch::Receiver<Arc<Directory>> {
        self.directory.clone()
    }

    /// Everything that is known, for those who ask. Held as briefly as possible: the desk waits.
    pub fn book(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
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
    ) -> watch::Receiver<Own> {
        let (own, told) = watch::channel(Own::default());
        self.speak(agent, session, came, Some(own)).await;
        told
    }

    /// Speaks for an agent that attends.
    pub async fn tell(&self, agent: &AgentName, session: SessionId, word: Word) {
        self.speak(agent, session, word, None).await;
    }

    async fn speak(
        &self,
        agent: &AgentName,
        session: SessionId,
        word: Word,
        own: Option<watch::Sender<Own>>,
    ) {
        // A desk that is gone has stopped with its server.
        let _ = self.words.send(Spoken { agent: agent.clone(), session, word, own }).await;
    }
}

/// Who sits at the desk.
struct Clerk {
    book: Arc<RwLock<Book>>,
    owns: BTreeMap<AgentName, (SessionId, watch::Sender<Own>)>,
    desired: watch::Sender<Option<Arc<Desired>>>,
    directory: watch::Sender<Arc<Directory>>,
    changes: Changes,
    clock: Clock,
    /// When something was last published.
    told: Option<Instant>,
    /// Of what was heard since.
    urgency: Urgency,
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
            // All of these are safe to cancel: a watch, a queue, a timer.
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
                        // What is said already is told together.
                        while let Ok(spoken) = heard.try_recv() {
                            self.hear(spoken);
                        }
                    }
                    None => return,
                },
                () = until(due) => {}
            }
            let now = self.clock.read().instant;
            if self.due(now).is_some_and(|due| due <= now) {
                self.publish(now);
            }
        }
    }

    /// When to publish: what is urgent at once, the rest not too often, and what comes with time
    /// in its time.
    fn due(&self, now: Instant) -> Option<Instant> {
        let heard = match self.urgency {
            Urgency::None => None,
            Urgency::Soon => Some(self.told.map_or(now, |told| told + TOGETHER)),
            Urgency::Now => Some(now),
        };
        heard.into_iter().chain(self.book().due()).min()
    }

    fn want(&mut self, desired: Option<Arc<Desired>>) {
        let Some(desired) = desired else { return };
        self.book_mut().want(&desired.model.services);
        // Where replicas are is known first: whoever sees the commit finds its own.
        self.publish(self.clock.read().instant);
        self.desired.send_replace(Some(desired));
    }

    fn hear(&mut self, Spoken { agent, session, word, own }: Spoken) {
        let now = self.clock.read();
        match (own, &word) {
            (Some(own), _) => drop(self.owns.insert(agent.clone(), (session, own))),
            (None, Word::Left) if self.owns.get(&agent).is_some_and(|(of, _)| *of == session) => {
                self.owns.remove(&agent);
            }
            (None, _) => {}
        }
        let urgency = self.book_mut().hear(&agent, session, word, now);
        self.urgency = self.urgency.max(urgency);
    }

    fn publish(&mut self, now: Instant) {
        let mut book = self.book_mut();
        let news = book.go_through(now);
        let directory = news.directory.then(|| Arc::new(book.directory().clone()));
        drop(book);
        (self.told, self.urgency) = (Some(now), Urgency::None);
        for (agent, own) in news.owns {
            if let Some((_, told)) = self.owns.get(&agent) {
                told.send_replace(own);
            }
        }
        if let Some(directory) = directory {
            self.directory.send_replace(directory);
        }
        for service in news.services {
            self.changes.tell(Change::Service(service));
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
