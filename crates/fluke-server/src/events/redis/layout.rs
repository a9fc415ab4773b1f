//! Which keys there are in Redis, and what is in them. Nothing here talks to Redis.
//!
//! ```text
//! {fluke}:events          sorted set: an entry for every event
//! {fluke}:agent:web-1     sorted set: the entries of one agent
//! {fluke}:event:ID.WRITER string: the event as JSON, as the API gives it; expires
//! {fluke}:holder:web-1    string: the token that an agent's name is known under; expires
//! ```
//!
//! All scores are zero, so that entries are in the order of their bytes: that of ids. The braces
//! are Redis Cluster's: keys with the same text in them are in the same slot, so that a batch can
//! be added in one transaction.

use fluke_model::event::{Event, EventId};
use fluke_model::id::AgentName;

use crate::events::EventQuery;

/// Names of keys.
#[derive(Debug, Clone)]
pub struct Layout {
    tag: String,
}

impl Layout {
    /// Of keys that begin with `prefix`.
    pub fn new(prefix: &str) -> Self {
        Self { tag: format!("{{{prefix}}}") }
    }

    /// The index of all events.
    pub fn all(&self) -> String {
        format!("{}:events", self.tag)
    }

    /// The index of an agent's events.
    pub fn of_agent(&self, agent: &str) -> String {
        format!("{}:agent:{agent}", self.tag)
    }

    /// The index that answers `query`.
    pub fn index(&self, query: &EventQuery) -> String {
        match &query.agent {
            Some(agent) => self.of_agent(agent.as_str()),
            None => self.all(),
        }
    }

    /// The event itself.
    pub fn event(&self, entry: &Entry<'_>) -> String {
        format!("{}:event:{:020}.{}", self.tag, entry.id.0, entry.writer)
    }

    /// Which token an agent's name is known under.
    pub fn holder(&self, agent: &AgentName) -> String {
        format!("{}:holder:{agent}", self.tag)
    }
}

/// A line of an index: enough of an event to tell whether it is wanted.
///
/// `ID KIND AGENT TASK WRITER`, separated by one space each; the id has twenty digits, and what an
/// event does not have is empty. A newer version may add more at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    pub id: EventId,
    pub kind: &'a str,
    pub agent: Option<&'a str>,
    pub task: Option<&'a str>,
    /// Who gave the id: two servers may give the same one.
    pub writer: &'a str,
}

impl<'a> Entry<'a> {
    /// What stands for `event` in an index.
    pub fn of(event: &'a Event, writer: &'a str) -> Self {
        Self {
            id: event.id,
            kind: event.kind.as_str(),
            agent: event.agent.as_ref().map(|name| name.as_str()),
            task: event.task.as_ref().map(|name| name.as_str()),
            writer,
        }
    }

    /// Reads a line; none if it is not one.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(' ');
        let id = EventId(fields.next()?.parse().ok()?);
        let kind = fields.next()?;
        let mut name = || fields.next().map(|name| Some(name).filter(|name| !name.is_empty()));
        let (agent, task) = (name()?, name()?);
        Some(Self { id, kind, agent, task, writer: fields.next()? })
    }

    /// The line.
    pub fn line(&self) -> String {
        let (agent, task) = (self.agent.unwrap_or_default(), self.task.unwrap_or_default());
        format!("{:020} {} {agent} {task} {}", self.id.0, self.kind, self.writer)
    }

    /// Whether `query` asks for the event, ids and limit aside.
    pub fn is_wanted(&self, query: &EventQuery) -> bool {
        let name = |name: Option<&'a str>| name.unwrap_or_default();
        query.kind.is_none_or(|kind| kind.as_str() == self.kind)
            && query.agent.as_ref().is_none_or(|agent| agent.as_str() == name(self.agent))
            && query.task.as_ref().is_none_or(|task| task.as_str() == name(self.task))
    }
}

/// The bound that every line of an older event is below, for `ZREVRANGEBYLEX`.
pub fn below(before: Option<EventId>) -> String {
    // A line begins with its id and goes on, so that it is above its own id.
    before.map_or("+".into(), |id| format!("({:020}", id.0))
}

/// The bound that every line of a newer event is above.
pub fn above(after: Option<EventId>) -> String {
    // `~` comes after the space that follows every id.
    after.map_or("-".into(), |id| format!("({:020}~", id.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluke_model::event::EventKind;
    use fluke_model::id::TaskName;
    use fluke_model::time::Timestamp;
    use proptest::prelude::*;

    fn event(id: u64, agent: Option<&str>, task: Option<&str>) -> Event {
        let mut event = Event::new(EventKind::DriftDetected, Timestamp(0));
        event.id = EventId(id);
        event.agent = agent.map(|name| AgentName::new(name).expect("name"));
        event.task = task.map(|name| TaskName::new(name).expect("name"));
        event
    }

    #[test]
    fn a_line_says_what_filters_ask() {
        let of = event(1_763_208_000_000_001, Some("web-1"), Some("certs"));
        let line = Entry::of(&of, "c0ffee").line();
        assert_eq!(line, "00001763208000000001 drift_detected web-1 certs c0ffee");
        assert_eq!(Entry::parse(&line), Some(Entry::of(&of, "c0ffee")));
        let line = Entry::of(&event(7, None, None), "a").line();
        assert_eq!(line, "00000000000000000007 drift_detected   a");
        assert_eq!(Entry::parse(&line), Some(Entry::of(&event(7, None, None), "a")));
    }

    #[test]
    fn a_line_of_a_newer_version_is_understood_as_far_as_it_goes() {
        let line = "00000000000000000007 host_adopted web-1  a more=1";
        let entry = Entry::parse(line).expect("a line");
        assert_eq!((entry.kind, entry.agent, entry.task), ("host_adopted", Some("web-1"), None));
        for wrong in ["", "x", "x a b c d", "7 a b", "-7 a b c d"] {
            assert_eq!(Entry::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn all_keys_are_in_one_slot() {
        let layout = Layout::new("fluke");
        let of = event(7, Some("web-1"), None);
        assert_eq!(layout.all(), "{fluke}:events");
        assert_eq!(layout.of_agent("web-1"), "{fluke}:agent:web-1");
        let entry = Entry::of(&of, "c0ffee");
        assert_eq!(layout.event(&entry), "{fluke}:event:00000000000000000007.c0ffee");
    }

    proptest! {
        /// What Redis does with bounds: compares bytes.
        #[test]
        fn bounds_are_those_of_ids(id: u64, bound: u64, near in -2i64..3) {
            for bound in [bound, id.saturating_add_signed(near)] {
                let line = Entry::of(&event(id, Some("a"), None), "w").line();
                prop_assert_eq!(line.as_str() < &below(Some(EventId(bound)))[1..], id < bound);
                prop_assert_eq!(line.as_str() > &above(Some(EventId(bound)))[1..], id > bound);
            }
        }
    }
}
