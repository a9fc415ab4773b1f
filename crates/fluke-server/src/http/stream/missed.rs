//! What a listener that comes back is told before anything new, made piece by piece when its turn
//! comes: a crowd that comes back at once, or reads slowly, takes no memory for it.

use std::sync::Arc;
use std::vec::IntoIter;

use fluke_model::event::{Event, EventId};

use super::frame::Frame;
use super::hub::Hub;
use super::message::Messages;
use super::world::{Topic, World};

/// So many states go into one piece at most.
const TOGETHER: usize = 64;
/// A piece of so many bytes is large enough.
const LARGE: usize = 64 << 10;

/// What is left to be told. States come first: they have no id, and whoever breaks off among the
/// events that follow has them all.
pub struct Missed {
    after: EventId,
    states: States,
    /// Oldest first.
    events: IntoIter<Arc<Event>>,
}

enum States {
    /// Those behind this one are left.
    Behind(Option<Topic>),
    Told,
}

/// What comes next of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// This.
    Made(Frame),
    /// Nothing more.
    End,
    /// It is no longer known what was missed.
    Lost,
}

impl Missed {
    /// Everything that has changed since `after`, and these events, oldest first.
    pub fn new(after: EventId, events: Vec<Arc<Event>>) -> Self {
        Self { after, states: States::Behind(None), events: events.into_iter() }
    }

    /// Makes the next piece.
    pub fn next(&mut self, hub: &Hub, world: &World) -> Piece {
        loop {
            let mut messages = Messages::default();
            match &self.states {
                States::Behind(topic) => {
                    let topics = hub.changed_since(self.after, topic.as_ref(), TOGETHER);
                    let Some(topics) = topics else { return Piece::Lost };
                    self.states = tell(topics, world, &mut messages);
                }
                States::Told if self.events.as_slice().is_empty() => return Piece::End,
                States::Told => {
                    while messages.len() < LARGE
                        && let Some(event) = self.events.next()
                    {
                        messages.add_event(&event);
                    }
                }
            }
            // What is forgotten has no state.
            if messages.len() > 0 {
                return Piece::Made(messages.into_frame());
            }
        }
    }
}

/// Tells of the first few; says what is left.
fn tell(topics: Vec<Topic>, world: &World, messages: &mut Messages) -> States {
    let mut last = None;
    for topic in topics {
        if messages.len() >= LARGE {
            return States::Behind(last);
        }
        world.render(&topic, messages);
        last = Some(topic);
    }
    match last {
        None => States::Told,
        last => States::Behind(last),
    }
}
