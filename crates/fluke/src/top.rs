//! The dashboard of `fluke top`, as a value: what it knows, what a key does to it, and how it
//! looks. Nothing here touches a terminal or a server.

use std::collections::{BTreeMap, VecDeque};

use fluke_model::api::{Agent, AgentDetail, DriftEntry, ReconcileProgress, Source};
use fluke_model::event::Event;
use fluke_model::gather::Gather;
use fluke_model::id::AgentName;
use fluke_model::status::Status;
use fluke_model::time::Timestamp;

use crate::terminal::keys::Key;
use crate::view::fleet;

mod filter;
pub mod picture;
#[cfg(test)]
mod tests;

use filter::Filter;

/// How many events are kept to be shown.
pub const EVENTS: usize = 100;

/// Everything that the dashboard knows.
#[derive(Debug, Default)]
pub struct Top {
    server: String,
    connection: Connection,
    source: Option<Source>,
    agents: BTreeMap<AgentName, Agent>,
    drift: Vec<DriftEntry>,
    events: VecDeque<Event>,
    /// Whether the server takes changes from us, if that is known.
    may_change: Option<bool>,
    filter: String,
    /// The agents that are shown, what is wrong first; in the making until it is needed.
    order: Vec<AgentName>,
    is_unsorted: bool,
    chosen: Option<AgentName>,
    mode: Mode,
    reconcile: Option<Reconcile>,
    /// Something to say at the bottom, until the next key.
    notice: Option<String>,
    /// How many rows a page has, as it was drawn last.
    page: usize,
}

/// Whether what is shown is so now.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub enum Connection {
    /// Not yet.
    #[default]
    Connecting,
    /// Every change arrives.
    Live,
    /// It was so then.
    Lost {
        /// Since when.
        since: Timestamp,
        /// Why.
        why: String,
    },
}

/// What the keys go to.
#[derive(Debug, Default)]
enum Mode {
    /// The list of agents.
    #[default]
    List,
    /// The text that agents are filtered by.
    Filtering,
    /// The keys.
    Help,
    /// Everything about one agent.
    Detail { name: AgentName, detail: Option<Box<AgentDetail>>, scroll: usize },
    /// Whether to reconcile an agent.
    Confirm { name: AgentName },
}

/// A reconcile that was asked for here.
#[derive(Debug)]
struct Reconcile {
    name: AgentName,
    id: Option<String>,
    progress: Option<ReconcileProgress>,
}

/// Something new.
#[derive(Debug)]
pub enum Update {
    /// Of the connection.
    Connection(Connection),
    /// All agents.
    Agents(Vec<Agent>),
    /// One agent.
    Agent(Box<Agent>),
    /// An agent that is no longer known.
    Gone(AgentName),
    /// All drift.
    Drift(Vec<DriftEntry>),
    /// The newest events, newest first.
    Events(Vec<Event>),
    /// One more event.
    Event(Box<Event>),
    /// The repository.
    Source(Box<Source>),
    /// Everything about the agent that is looked at.
    Detail(Box<AgentDetail>),
    /// Whether the server takes changes from us.
    MayChange(bool),
    /// A reconcile was taken on.
    Accepted(String),
    /// How far a reconcile has come.
    Progress(Box<ReconcileProgress>),
    /// Something did not work.
    Notice(String),
    /// A reconcile was not taken on.
    Refused(String),
}

/// What has to be done outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// End.
    Quit,
    /// Fetch everything about an agent.
    Look(AgentName),
    /// Put an agent right.
    Reconcile(AgentName),
}

impl Top {
    /// Knows nothing yet but where it asks.
    pub fn new(server: String) -> Self {
        Self { server, page: 10, ..Self::default() }
    }

    /// The agent whose details are shown.
    pub fn looked_at(&self) -> Option<&AgentName> {
        match &self.mode {
            Mode::Detail { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Takes in something new.
    pub fn take(&mut self, update: Update) {
        match update {
            Update::Connection(connection) => self.connection = connection,
            Update::Agents(agents) => {
                self.agents = agents.into_iter().map(|agent| (agent.name.clone(), agent)).gather();
                self.is_unsorted = true;
            }
            Update::Agent(agent) => {
                let moved = self.agents.get(&agent.name).is_none_or(|known| {
                    known.status != agent.status || known.labels != agent.labels
                });
                self.agents.insert(agent.name.clone(), *agent);
                if moved {
                    self.is_unsorted = true;
                }
            }
            Update::Gone(name) => {
                self.agents.remove(&name);
                self.is_unsorted = true;
            }
            Update::Drift(mut drift) => {
                fleet::worst_drift_first(&mut drift);
                self.drift = drift;
            }
            Update::Events(events) => {
                self.events = events.into();
                self.events.truncate(EVENTS);
            }
            Update::Event(event) => {
                // It may have come with the others already.
                if self.events.front().is_none_or(|newest| event.id > newest.id) {
                    self.events.push_front(*event);
                    self.events.truncate(EVENTS);
                }
            }
            Update::Source(source) => self.source = Some(*source),
            Update::Detail(newer) => {
                if let Mode::Detail { name, detail, .. } = &mut self.mode
                    && *name == newer.agent.name
                {
                    *detail = Some(newer);
                }
            }
            Update::MayChange(may) => self.may_change = Some(may),
            Update::Accepted(id) => {
                if let Some(reconcile) = &mut self.reconcile {
                    reconcile.id = Some(id);
                }
            }
            Update::Progress(progress) => {
                // What was fetched may arrive after what was streamed later.
                if let Some(reconcile) = &mut self.reconcile
                    && reconcile.id.as_ref() == Some(&progress.id)
                    && !reconcile.progress.as_ref().is_some_and(|known| known.done)
                {
                    reconcile.progress = Some(*progress);
                }
            }
            Update::Notice(text) => self.notice = Some(text),
            Update::Refused(text) => {
                self.reconcile = None;
                self.notice = Some(text);
            }
        }
    }

    /// Does what a key stands for.
    pub fn press(&mut self, key: Key) -> Option<Effect> {
        self.notice = None;
        self.sort();
        match &self.mode {
            Mode::List => self.press_in_list(key),
            Mode::Filtering => {
                self.press_in_filter(key);
                None
            }
            Mode::Help => {
                self.mode = Mode::List;
                None
            }
            Mode::Detail { .. } => self.press_in_detail(key),
            Mode::Confirm { name } => {
                let name = name.clone();
                self.mode = Mode::List;
                (matches!(key, Key::Char('y' | 'Y'))).then(|| {
                    let (id, progress) = (None, None);
                    self.reconcile = Some(Reconcile { name: name.clone(), id, progress });
                    Effect::Reconcile(name)
                })
            }
        }
    }

    fn press_in_list(&mut self, key: Key) -> Option<Effect> {
        match key {
            Key::Char('q') => return Some(Effect::Quit),
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Filtering,
            Key::Up | Key::Char('k') => self.choose(-1),
            Key::Down | Key::Char('j') => self.choose(1),
            Key::PageUp => self.choose(-(self.page as isize)),
            Key::PageDown => self.choose(self.page as isize),
            Key::Home | Key::Char('g') => self.choose(isize::MIN),
            Key::End | Key::Char('G') => self.choose(isize::MAX),
            Key::Enter => {
                let name = self.chosen.clone()?;
                self.mode = Mode::Detail { name: name.clone(), detail: None, scroll: 0 };
                return Some(Effect::Look(name));
            }
            Key::Char('r') => self.ask(self.chosen.clone()?),
            // The last thing that was put over the others goes first.
            Key::Escape if self.reconcile.is_some() => self.reconcile = None,
            Key::Escape => self.set_filter(String::new()),
            _ => {}
        }
        None
    }

    fn press_in_filter(&mut self, key: Key) {
        match key {
            Key::Enter | Key::Up | Key::Down => self.mode = Mode::List,
            Key::Escape => {
                self.mode = Mode::List;
                self.set_filter(String::new());
            }
            Key::Backspace => {
                let mut text = self.filter.clone();
                text.pop();
                self.set_filter(text);
            }
            Key::Char(c) => self.set_filter(format!("{}{c}", self.filter)),
            _ => {}
        }
    }

    fn press_in_detail(&mut self, key: Key) -> Option<Effect> {
        let page = self.page;
        let Mode::Detail { name, scroll, .. } = &mut self.mode else { return None };
        match key {
            Key::Escape | Key::Enter | Key::Char('q') => self.mode = Mode::List,
            Key::Up | Key::Char('k') => *scroll = scroll.saturating_sub(1),
            Key::Down | Key::Char('j') => *scroll += 1,
            Key::PageUp => *scroll = scroll.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => *scroll += page,
            Key::Home | Key::Char('g') => *scroll = 0,
            // As far as there is something, which is found out when it is drawn.
            Key::End | Key::Char('G') => *scroll = usize::MAX / 2,
            Key::Char('r') => {
                let name = name.clone();
                self.ask(name);
            }
            _ => {}
        }
        None
    }

    fn ask(&mut self, name: AgentName) {
        let offline = self.agents.get(&name).is_some_and(|agent| !agent.connected);
        match self.may_change {
            Some(false) => {
                self.notice = Some(
                    "this server takes no changes from here: use its socket, or a token in \
                     FLUKE_API_TOKEN"
                        .into(),
                );
            }
            _ if offline => {
                self.notice = Some(format!("{name} is offline: nothing can be asked of it now"));
            }
            _ => self.mode = Mode::Confirm { name },
        }
    }

    fn set_filter(&mut self, text: String) {
        self.filter = text;
        self.is_unsorted = true;
        self.sort();
    }

    /// Puts the agents that the filter lets through in order, and keeps the chosen one if it can.
    /// Once for any number of changes: a fleet that comes back is thousands of them.
    fn sort(&mut self) {
        if !std::mem::take(&mut self.is_unsorted) {
            return;
        }
        let filter = Filter::parse(&self.filter);
        let at = self.position();
        let shown = self.agents.values().filter(|agent| filter.lets_through(agent));
        let mut order: Vec<(u8, &AgentName)> =
            shown.map(|agent| (fleet::urgency(agent.status), &agent.name)).collect();
        order.sort();
        self.order = order.into_iter().map(|(_, name)| name.clone()).collect();
        if self.position().is_none() {
            let near = at.unwrap_or(0).min(self.order.len().saturating_sub(1));
            self.chosen = self.order.get(near).cloned();
        }
    }

    /// Where the chosen one is in the list.
    fn position(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.order.iter().position(|name| name == chosen)
    }

    fn choose(&mut self, by: isize) {
        let last = self.order.len().saturating_sub(1);
        let at = self.position().unwrap_or(0).saturating_add_signed(by).min(last);
        self.chosen = self.order.get(at).cloned();
    }

    fn with_status(&self, status: Status) -> usize {
        self.agents.values().filter(|agent| agent.status == status).count()
    }
}
