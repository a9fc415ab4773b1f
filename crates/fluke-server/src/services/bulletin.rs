//! What all agents are told alike, and the circulars that tell it: those that hold the same are told
//! the same, which is written down once for all of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fluke_model::id::Hash256;
use fluke_model::message::{DirectoryEdit, Section, ToAgent};
use fluke_wire::server::Circular;

use super::book::Directory;

/// How many circulars are kept. Nearly all agents hold what was told last, and those that come
/// nothing; who holds anything else is written to by himself.
const KEPT: usize = 16;

/// One edition of the directory.
#[derive(Debug, Default)]
pub struct Bulletin {
    directory: Directory,
    circulars: Mutex<BTreeMap<(Section, Option<Hash256>), Circular>>,
}

impl From<Directory> for Bulletin {
    fn from(directory: Directory) -> Self {
        Self { directory, circulars: Mutex::default() }
    }
}

impl Bulletin {
    /// Whether it is known what Git says; before that nothing is to be told.
    pub fn is_in_force(&self) -> bool {
        self.directory.is_in_force
    }

    /// Whether nobody is missing whom somebody knows that holds these peers.
    pub fn is_whole_for(&self, peers: Option<Hash256>) -> bool {
        self.directory.is_whole_for(peers)
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
