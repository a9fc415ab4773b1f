//! Where what comes of a session goes: events, alerts, progress, changes.

use std::sync::Arc;

use fluke_model::id::AgentName;
use fluke_model::message::ToAgent;
use fluke_model::time::Timestamp;

use crate::alert::AlertSink;
use crate::changes::{Change, Changes};
use crate::events::EventSink;
use crate::meter::Meter;
use crate::reconcile::Effect;
use crate::reconciles::Reconciles;

/// Where what comes of a session goes.
#[derive(Clone)]
pub struct Outlets {
    /// What happened.
    pub events: Arc<dyn EventSink>,
    /// Whom to tell, if anybody.
    pub alerts: Option<Arc<dyn AlertSink>>,
    /// Who asked.
    pub reconciles: Arc<Reconciles>,
    /// Who watches.
    pub changes: Changes,
    /// What is measured.
    pub meter: Arc<Meter>,
}

impl Outlets {
    /// Hands everything on but what is to be sent to the agent, which is given back.
    pub fn take(&self, agent: &AgentName, effects: Vec<Effect>, now: Timestamp) -> Vec<ToAgent> {
        let mut messages = Vec::new();
        let mut changed = false;
        for effect in effects {
            match effect {
                Effect::Send(message) => {
                    // A check that begins is no news: a fleet at rest is silent.
                    changed |= matches!(message, ToAgent::Apply { .. });
                    messages.push(message);
                }
                Effect::Record(event) => {
                    changed = true;
                    self.meter.note(&event);
                    self.events.record(event);
                }
                Effect::Alert(alert) => {
                    self.alerts.iter().for_each(|alerts| alerts.send(alert.clone()));
                }
                Effect::Progress { id, progress } => {
                    changed = true;
                    self.reconciles.note(&id, agent, progress, now);
                }
            }
        }
        if changed {
            self.changes.tell(Change::Agent(agent.clone()));
        }
        messages
    }
}

#[cfg(test)]
mod tests;
