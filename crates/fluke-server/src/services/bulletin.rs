//! What all agents are told alike, and the circulars that tell it: those that hold the same are told
//! the same, which is written down once for all of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fluke_model::id::Hash256;
use fluke_model::message::{DirectoryEdit, Section, ToAgent};
use fluke_wire::server::Circular;
use tokio::sync::Notify;

use super::book::Directory;

/// How many circulars are kept. Nearly all agents hold what was told last, and those that come
/// nothing; who holds anything else is written to by himself.
const KEPT: usize = 32;

/// One edition of the directory.
#[derive(Debug, Default)]
pub struct Bulletin {
    directory: Directory,
    circulars: Mutex<BTreeMap<(Section, Option<Hash256>), Circular>>,
    spread: Arc<Spread>,
}

/// How far an edition has come.
#[derive(Debug, Default)]
pub struct Spread {
    /// How many are to be told before nearly all are.
    left: AtomicUsize,
    is_wide: Notify,
}

impl Spread {
    /// Among so many. Those who do not keep up are written to by themselves, and not waited for.
    fn among(hosts: usize) -> Self {
        Self { left: hosts.saturating_sub(KEPT + hosts / 8).into(), ..Self::default() }
    }

    /// One more agent was told what it lacked of it.
    pub fn reaches_one_more(&self) {
        let fewer = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) == Ok(1) {
            self.is_wide.notify_one();
        }
    }
}

impl Bulletin {
    /// For so many hosts.
    pub fn new(directory: Directory, hosts: usize) -> Self {
        Self { directory, spread: Arc::new(Spread::among(hosts)), ..Self::default() }
    }

    /// Whether it is known what Git says; before that nothing is to be told.
    pub fn is_in_force(&self) -> bool {
        self.directory.is_in_force
    }

    /// Whether nobody is missing whom somebody knows that holds these peers.
    pub fn is_whole_for(&self, peers: Option<Hash256>) -> bool {
        self.directory.is_whole_for(peers)
    }

    /// How far it has come.
    pub fn spread(&self) -> &Arc<Spread> {
        &self.spread
    }

    /// Whether nearly all were told.
    pub fn is_told_to_all(&self) -> bool {
        self.spread.left.load(Ordering::Relaxed) == 0
    }

    /// Waits for that; for one who waits, once. Cancel-safe.
    pub async fn until_told_to_all(&self) {
        self.spread.is_wide.notified().await;
    }

    /// Which table this is.
    pub fn hash(&self, section: Section) -> Hash256 {
        match section {
            Section::Names => self.directory.names.hash(),
            Section::Routes => self.directory.routes.hash(),
            Section::Peers => self.directory.peers.hash(),
            Section::Placements => self.directory.placements.hash(),
        }
    }

    /// What somebody lacks who holds this table; none where that is nothing.
    pub fn circular(&self, section: Section, held: Option<Hash256>) -> Option<Circular> {
        if held == Some(self.hash(section)) {
            return None;
        }
        // Written while others wait: they are about to want the same.
        let mut circulars = self.circulars.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(circular) = circulars.get(&(section, held)) {
            return Some(circular.clone());
        }
        let circular = Circular::of(ToAgent::Directory(self.edit(section, held)?));
        if circulars.len() < KEPT {
            circulars.insert((section, held), circular.clone());
        }
        Some(circular)
    }

    fn edit(&self, section: Section, held: Option<Hash256>) -> Option<DirectoryEdit> {
        let Directory { names, routes, peers, placements, .. } = &self.directory;
        match section {
            Section::Names => names.edit_for(held).map(DirectoryEdit::Names),
            Section::Routes => routes.edit_for(held).map(DirectoryEdit::Routes),
            Section::Peers => peers.edit_for(held).map(DirectoryEdit::Peers),
            Section::Placements => placements.edit_for(held).map(DirectoryEdit::Placements),
        }
    }
}
