//! What is told of: each thing, and what the API says of it now.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use fluke_model::api;
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, ServiceName};
use fluke_model::policy::Policy;
use serde::Serialize;
use tokio::sync::watch;

use super::message::{LARGE, Messages};
use crate::events::EventLog;
use crate::reconciles::Reconciles;
use crate::registry::Registry;
use crate::services::desk;
use crate::services::listing::{self, Looking};

/// Something whose latest state is told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    Agent(AgentName),
    Service(ServiceName),
    Source,
    Reconcile(String),
}

impl Topic {
    /// Whether there may be thousands of its kind that change at once.
    pub fn is_one_of_many(&self) -> bool {
        matches!(self, Self::Agent(_) | Self::Service(_))
    }
}

/// Where states are looked up.
#[derive(Clone)]
pub struct World {
    pub registry: Arc<Registry>,
    pub reconciles: Arc<Reconciles>,
    pub source: watch::Receiver<api::Source>,
    pub services: desk::Desk,
    pub default_policy: Policy,
    pub events: Arc<EventLog>,
}

impl World {
    /// Adds what the API says of it now.
    pub fn render(&self, topic: &Topic, messages: &mut Messages) {
        match topic {
            Topic::Agent(name) => match self.registry.view(name.as_str()) {
                Some(agent) => messages.add("agent", None, &agent),
                None => messages.add("agent", None, &Gone { name, gone: true }),
            },
            Topic::Service(name) => {
                let looking = Looking {
                    default_policy: self.default_policy,
                    now: Instant::now(),
                    idle: &|selector| self.registry.idle(selector),
                };
                // The desk does not wait for it to be written down.
                let seen = listing::service(&self.services.book(), name.as_str(), looking);
                match seen {
                    Some(service) => messages.add("service", None, &service),
                    None => messages.add("service", None, &Gone { name, gone: true }),
                }
            }
            Topic::Source => messages.add("source", None, &*self.source.borrow()),
            Topic::Reconcile(id) => {
                if let Some(progress) = self.reconciles.told(id, LARGE) {
                    messages.add_reconcile(progress);
                }
            }
        }
    }

    /// Everything that there is.
    pub fn topics(&self) -> BTreeSet<Topic> {
        let agents = self.registry.names().into_iter().map(Topic::Agent);
        let reconciles = self.reconciles.ids().into_iter().map(Topic::Reconcile);
        let services: Vec<Topic> =
            self.services.book().services().keys().cloned().map(Topic::Service).collect();
        agents.chain(reconciles).chain(services).chain([Topic::Source]).gather()
    }
}

/// An agent or a service that is no longer known.
#[derive(Serialize)]
struct Gone<'a, Name> {
    name: &'a Name,
    gone: bool,
}
