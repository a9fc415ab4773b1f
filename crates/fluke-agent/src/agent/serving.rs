//! The agent and its services' lane: what the server says goes in, what the lane says goes out.

use super::*;
use crate::host::environment::Environment;
use crate::services::Note;
use crate::services::inbox::Settle;

/// How long to wait before a lane that failed in itself is begun anew.
const OPEN_ANEW: Duration = Duration::from_secs(1);

impl<W: World, S: Fn(AgentStatus)> Agent<W, S> {
    /// Has services looked after from now on, if this agent does that.
    pub(super) fn open_lane(&mut self, after: Duration) {
        let Some(config) = self.services.clone() else { return };
        let world = self.world.clone();
        self.lane = Services::start(Opening {
            host: self.hello.name.clone(),
            node_type: self.hello.node_type,
            config,
            ceiling: self.ceiling.clone(),
            environment: Environment::of_this_process(self.target.token.expose()),
            clock: Arc::new(move || world.now()),
            state_dir: self.store.dir(),
            held: self.store.held().cloned(),
            after,
        });
        self.tell_lane_of_session();
        self.note_tables();
    }

    /// What is held is told to the next server that the agent speaks to.
    fn note_tables(&self) {
        let tables = self.lane.as_ref().map(|lane| lane.inbox.tables().holdings());
        self.tables.send_replace(tables.unwrap_or_default());
    }

    /// A fault of our own must not leave services alone.
    pub(super) fn reopen_lane(&mut self) {
        tracing::error!("a bug in fluke ended the services' lane; beginning anew");
        self.lane = None;
        self.lane_changes = 0;
        if !self.is_stopping() {
            self.open_lane(OPEN_ANEW);
        }
    }

    /// The lane begins nothing new.
    pub(super) fn end_lane(&mut self) {
        if let Some(lane) = &self.lane {
            lane.inbox.end();
        }
    }

    /// It ends last where nothing keeps it from going on: somebody else goes on from there at once.
    pub(super) fn end_lane_if_it_is_the_last(&mut self) {
        let is_last = self.is_ending() && matches!(self.activity, Activity::Idle(_));
        if is_last && self.lane.as_ref().is_some_and(|lane| !lane.inbox.is_ending()) {
            self.end_lane();
        }
    }

    /// The lane is gone, whatever it did; what it has said already is heard.
    pub(super) fn drop_lane(&mut self) {
        let Some(mut lane) = self.lane.take() else { return };
        lane.abort();
        while let Some(said) = lane.try_next() {
            self.heard_lane(said);
        }
        self.lane_changes = 0;
    }

    pub(super) fn tell_lane_of_session(&self) {
        if let Some(lane) = &self.lane {
            lane.inbox.session(self.session.as_ref().map(|live| live.id));
        }
    }

    /// Passes on what is for the lane alone.
    pub(super) fn tell_lane(&mut self, message: ToAgent) {
        let Some(lane) = &self.lane else {
            return self.answer_for_lane(message);
        };
        match message {
            ToAgent::Directory(edit) => {
                let needed = lane.inbox.edit(edit);
                self.note_tables();
                if let Some(section) = needed {
                    self.outbox.push_back(Out::Message(Box::new(ToServer::Resend(section))));
                }
            }
            ToAgent::Subnet(claim) => lane.inbox.grant(claim),
            ToAgent::Released(deployments) => lane.inbox.release(deployments),
            ToAgent::Settle { instruction, service, trigger } => {
                let is_taken = lane.inbox.settle(Settle { instruction, service, trigger });
                if !is_taken {
                    self.refuse_to_settle(instruction, "too many reconciles wait on this host");
                }
            }
            _ => {}
        }
    }

    /// Nobody shall wait for what nobody does.
    fn answer_for_lane(&mut self, message: ToAgent) {
        if let ToAgent::Settle { instruction, .. } = message {
            self.refuse_to_settle(instruction, "this agent does not look after services");
        }
    }

    fn refuse_to_settle(&mut self, instruction: InstructionId, why: &str) {
        let settled = ToServer::Settled { instruction, problem: Some(why.to_owned()) };
        self.outbox.push_back(Out::Message(Box::new(settled)));
    }

    pub(super) fn heard_lane(&mut self, said: FromLane) {
        match said {
            FromLane::Say(message) => {
                // Containers that end with their host are no news.
                if self.session.is_some() && !self.goes_down {
                    self.outbox.push_back(Out::Message(message));
                }
            }
            FromLane::Record(note, written) => {
                self.take_down(*note);
                // A lane that is gone does not wait.
                let _ = written.send(());
            }
        }
    }

    fn take_down(&mut self, note: Note) {
        let Note { cause, held, subject, fact } = note;
        match fact {
            Fact::Began { .. } => self.lane_changes += 1,
            Fact::Ended { .. } => self.lane_changes = self.lane_changes.saturating_sub(1),
            Fact::PassedOver { .. } => {}
        }
        let id = self.store.record(Entry {
            at: self.world.now(),
            instruction: cause.instruction,
            snapshot: held.snapshot.hash(),
            commit: held.commit.clone(),
            subject,
            trigger: cause.trigger,
            fact,
        });
        if self.session.is_some() {
            self.outbox.push_back(Out::Record(id));
        }
    }
}

/// What the lane says; where there is none, nothing.
pub(super) async fn hear_lane(lane: Option<&mut Services>) -> Option<FromLane> {
    match lane {
        Some(lane) => lane.next().await,
        None => std::future::pending().await,
    }
}
