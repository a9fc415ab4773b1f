//! One agent's place at the desk: what it says goes there, and what it lacks comes from there.
//!
//! An agent that never speaks of services has none, and costs nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fluke_model::directory::Claim;
use fluke_model::id::{AgentName, Hash256, SessionId};
use fluke_model::message::{Hello, Holdings, NodeType, Section, ToAgent, ToServer};
use fluke_model::service::{DeploymentId, ServiceExecutor};
use fluke_model::snapshot::Placed;
use fluke_wire::server::{Circular, Letter, Link};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::pulse::Felt;
use crate::clock::until;
use crate::reconcile::Wanted;
use crate::services::book::{Own, SETTLING, Word};
use crate::services::bulletin::{Bulletin, Spread};
use crate::services::claims::NONE_LEFT;
use crate::services::desk::{Desk, Lot};
use crate::services::view::Came;
use crate::source::{Desired, Said};

/// How long a host that may have replicas is waited for to say so: sent half of what it should be,
/// it would stop the rest. A little longer than for the desk to take others' word for it.
const PATIENCE: Duration = SETTLING.saturating_add(Duration::from_secs(1));
/// How long the connection may take to hand out its socket.
const SOCKET_WITHIN: Duration = Duration::from_secs(1);

/// What a session has to do with services.
pub struct Attendance {
    desk: Desk,
    agent: AgentName,
    session: SessionId,
    came: Came,
    /// What the agent held when it came.
    held: Holdings,
    seat: Option<Seat>,
    /// Until when it is not told what hosts know of each other, unless all are back that it knows of
    /// before: it knows better. Where replicas and their volumes are it is told as soon as it has
    /// said what it knows of that.
    knows_better_until: Option<Instant>,
    /// Until when the agent is waited for.
    waits_until: Instant,
    is_waiting: bool,
}

/// What an agent that attends was told, and where there is more.
struct Seat {
    lot: watch::Receiver<Lot>,
    bulletin: watch::Receiver<Arc<Bulletin>>,
    told: Told,
    /// How far that has come which it is told now, or was last.
    spread: Arc<Spread>,
    is_counted: bool,
    /// The replicas that it was last held to.
    placed: Option<Placed>,
    pulse: Option<Felt>,
    has_asked: bool,
    /// Whether the agent has said what it has, which it does behind what it knows of others.
    has_spoken: bool,
    /// Whether there was no subnet for it when it was last said how its network is.
    is_without_subnet: bool,
}

/// What the agent knows: what it held when it came, and what this session has told it.
#[derive(Default)]
struct Told {
    /// The tables that the agent has by now.
    tables: Holdings,
    subnet: Option<Claim>,
    released: BTreeSet<DeploymentId>,
    /// See [`Own::resumed`].
    resumed: u64,
}

impl Attendance {
    pub(crate) fn new(desk: Desk, hello: &Hello, session: SessionId) -> Self {
        let now = Instant::now();
        let complete = Instant::from_std(desk.book().is_complete_from());
        // One that holds a snapshot was told of others before.
        let knows_better = hello.snapshot.is_some() && complete > now;
        Self {
            desk,
            agent: hello.name.clone(),
            session,
            came: Came {
                labels: hello.labels.clone(),
                node_type: hello.node_type,
                executors: ServiceExecutor::among(&hello.executors),
            },
            held: hello.tables,
            seat: None,
            knows_better_until: knows_better.then_some(complete),
            // One that was never told what to be has nothing to lose.
            waits_until: if hello.snapshot.is_some() { now + PATIENCE } else { now },
            is_waiting: false,
        }
    }

    /// Takes the seat at once where the host is known to have to do with services.
    pub(super) async fn begin(&mut self) {
        if self.desk.knows(&self.agent) {
            self.attend().await;
        }
    }

    async fn attend(&mut self) {
        let came = Word::Came(self.came.clone());
        self.seat = Some(Seat {
            lot: self.desk.attend(&self.agent, self.session, came).await,
            bulletin: self.desk.bulletin(),
            told: Told { tables: self.held, ..Told::default() },
            spread: Arc::default(),
            is_counted: true,
            placed: None,
            pulse: None,
            has_asked: false,
            has_spoken: false,
            is_without_subnet: false,
        });
    }

    /// Takes what the agent says, if it concerns others.
    pub(super) async fn hear(&mut self, message: &ToServer, link: &Link) {
        let word = match message {
            ToServer::Services(report) => Word::Services(report.clone()),
            ToServer::Network(report) => Word::Network(report.clone()),
            ToServer::Mesh(report) => Word::Mesh(report.clone()),
            ToServer::Placements(known) => Word::Placements(known.clone()),
            ToServer::Resend(section) => return self.forget(*section),
            // One that never spoke of services has nothing to take leave of.
            ToServer::Leaving if self.seat.is_some() => Word::Departs,
            ToServer::GoingDown if self.seat.is_some() => Word::GoesDown,
            _ => return,
        };
        if self.seat.is_none() {
            self.attend().await;
        }
        let runs_something =
            matches!(&word, Word::Services(report) if !report.deployments.is_empty());
        if let (Some(seat), Word::Services(_)) = (&mut self.seat, &word)
            && !std::mem::replace(&mut seat.has_spoken, true)
        {
            seat.bulletin.mark_changed();
        }
        self.desk.tell(&self.agent, self.session, word).await;
        if runs_something {
            self.feel_pulse(link).await;
        }
    }

    /// What the agent says, with what it cannot know: that there is no subnet for it.
    pub(super) fn complete(&mut self, mut message: ToServer) -> ToServer {
        if let (ToServer::Network(report), Some(seat)) = (&mut message, &mut self.seat) {
            seat.is_without_subnet = seat.lot.borrow().own.is_without_subnet;
            if seat.is_without_subnet {
                report.mesh.problem = Some(NONE_LEFT.into());
            }
        }
        message
    }

    /// How its network is, where there is no subnet for it any more, or is one again.
    pub(super) fn network_anew(&mut self) -> Option<ToServer> {
        let seat = self.seat.as_mut()?;
        if seat.lot.borrow().own.is_without_subnet == seat.is_without_subnet {
            return None;
        }
        let report = self.desk.book().view().hosts.get(&self.agent)?.network.clone()?;
        // There may be more to do.
        seat.lot.mark_changed();
        Some(self.complete(ToServer::Network(report)))
    }

    /// The agent does not have what it was told.
    fn forget(&mut self, section: Section) {
        let Some(seat) = &mut self.seat else { return };
        *held(&mut seat.told.tables, section) = None;
        seat.bulletin.mark_changed();
    }

    /// From now on it is noticed at once when the agent's machine falls silent.
    async fn feel_pulse(&mut self, link: &Link) {
        let Some(seat) = &mut self.seat else { return };
        if std::mem::replace(&mut seat.has_asked, true) {
            return;
        }
        let Ok(Some(socket)) = timeout(SOCKET_WITHIN, link.socket()).await else { return };
        match self.desk.pulses().feel(socket) {
            Ok(felt) => seat.pulse = Some(felt),
            Err(error) => {
                tracing::warn!(agent = %self.agent, %error, "a host that dies is noticed late");
            }
        }
    }

    /// Waits until there may be something to say or to do. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        let waiting = self.is_waiting.then_some(self.waits_until);
        let Some(seat) = &mut self.seat else { return until(waiting).await };
        let waiting = waiting.into_iter().chain(self.knows_better_until).min();
        let pulse = &mut seat.pulse;
        // Watches and timers lose nothing when dropped. A desk that is gone has nothing more to say.
        tokio::select! {
            Ok(()) = seat.lot.changed() => {}
            Ok(()) = seat.bulletin.changed() => {}
            () = falls_silent_or_answers(pulse) => {}
            () = until(waiting) => {}
        }
    }

    /// Says so, where the agent's machine has fallen silent or answers again.
    pub(super) async fn look(&mut self) {
        let pulse = self.seat.as_mut().and_then(|seat| seat.pulse.as_mut());
        if let Some(is_silent) = pulse.and_then(Felt::news) {
            let word = if is_silent { Word::Silent } else { Word::Answers };
            self.desk.tell(&self.agent, self.session, word).await;
        }
    }

    /// What the agent has not been told yet; each in the order in which it can be used.
    pub(super) fn lacks(&mut self) -> Vec<Letter> {
        let now = Instant::now();
        self.knows_better_until = self.knows_better_until.filter(|until| *until > now);
        let Some(seat) = &mut self.seat else { return Vec::new() };
        let told = &mut seat.told;
        let (subnet, released) = told.lacks_of_its_own(&seat.lot.borrow_and_update().own);
        let bulletin = seat.bulletin.borrow_and_update().clone();
        if bulletin.is_whole_for(self.held.peers) {
            self.knows_better_until = None;
        }
        let mut sections: Vec<Section> = Vec::new();
        if self.knows_better_until.is_none() {
            sections.extend([Section::Peers, Section::Names]);
            sections.extend((self.came.node_type == NodeType::Proxy).then_some(Section::Routes));
        }
        if seat.has_spoken || self.knows_better_until.is_none() {
            sections.push(Section::Placements);
        }
        sections.retain(|_| bulletin.is_in_force());
        let subnet = subnet.map(ToAgent::Subnet).map(Letter::from);
        let edits = sections.into_iter().filter_map(|section| told.lacks(section, &bulletin));
        let released = (!released.is_empty()).then_some(ToAgent::Released(released));
        let letters = subnet
            .into_iter()
            .chain(edits.map(Letter::from))
            .chain(released.map(Letter::from))
            .collect();
        if !Arc::ptr_eq(&seat.spread, bulletin.spread()) {
            (seat.spread, seat.is_counted) = (bulletin.spread().clone(), false);
        }
        letters
    }

    /// The agent has been told what it lacked.
    pub(super) fn is_told(&mut self) {
        if let Some(seat) = &mut self.seat
            && !std::mem::replace(&mut seat.is_counted, true)
        {
            seat.spread.reaches_one_more();
        }
    }

    /// The tables that the agent has by now.
    #[cfg(test)]
    pub(super) fn knows(&self) -> Holdings {
        self.seat.as_ref().map_or(self.held, |seat| seat.told.tables)
    }

    /// Whether the host has other replicas than it is held to.
    pub(super) fn is_placed_anew(&self) -> bool {
        let is_over = self.is_waiting && self.waits_until <= Instant::now();
        let is_other = |seat: &Seat| seat.lot.borrow().own.placed != seat.placed;
        is_over || self.seat.as_ref().is_some_and(is_other)
    }

    /// What the host should be; none for as long as that depends on what it has to say yet. Its
    /// replicas come with the commit for which they were placed, which `desired` may be about to be.
    pub(super) fn wanted(&mut self, desired: Arc<Desired>) -> Option<(Wanted, Said)> {
        let lot = self.seat.as_ref().map(|seat| seat.lot.borrow().clone()).unwrap_or_default();
        if let Some(seat) = &mut self.seat {
            seat.placed.clone_from(&lot.own.placed);
        }
        let (desired, placed) = match (lot.desired, lot.own.placed) {
            (Some(of), Some(placed)) => (of, Some(placed)),
            _ => (desired, None),
        };
        let must_wait = placed.is_none() && self.waits_until > Instant::now();
        self.is_waiting = must_wait && desired.compiler.has_numbered(&self.came.labels);
        let snapshot = match &placed {
            _ if self.is_waiting => return None,
            Some(placed) => desired.compiler.snapshot_with(&self.came.labels, placed),
            None => desired.compiler.snapshot(&self.came.labels),
        };
        let said = desired.say_to(&self.came.labels);
        Some((Wanted { commit: desired.commit.clone(), snapshot }, said))
    }

    /// Takes leave. A machine that fell silent while it was spoken to does not come back in a moment.
    pub(super) async fn end(&mut self) {
        self.look().await;
        if self.seat.is_some() {
            self.desk.tell(&self.agent, self.session, Word::Left).await;
        }
    }
}

/// Cancel-safe; never, where the machine is not looked at.
async fn falls_silent_or_answers(pulse: &mut Option<Felt>) {
    match pulse {
        Some(felt) => felt.changed().await,
        None => std::future::pending().await,
    }
}

impl Told {
    /// What is new in what is the agent's own; told from now on.
    fn lacks_of_its_own(&mut self, own: &Own) -> (Option<Claim>, Vec<DeploymentId>) {
        let subnet = own.subnet.filter(|subnet| self.subnet != Some(*subnet));
        self.subnet = subnet.or(self.subnet);
        if std::mem::replace(&mut self.resumed, own.resumed) != own.resumed {
            self.released.clear();
        }
        let released = own.released.difference(&self.released).copied().collect();
        if self.released != own.released {
            self.released.clone_from(&own.released);
        }
        (subnet, released)
    }

    /// What is new in a table; told from now on.
    fn lacks(&mut self, section: Section, bulletin: &Bulletin) -> Option<Circular> {
        let held = held(&mut self.tables, section).replace(bulletin.hash(section));
        bulletin.circular(section, held)
    }
}

/// Where it stands which table somebody holds.
fn held(tables: &mut Holdings, section: Section) -> &mut Option<Hash256> {
    match section {
        Section::Names => &mut tables.names,
        Section::Routes => &mut tables.routes,
        Section::Peers => &mut tables.peers,
        Section::Placements => &mut tables.placements,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_told_once_and_again_when_what_was_released_has_served() {
        let mut told = Told::default();
        let released = BTreeSet::from([DeploymentId(Hash256::of(b"old"))]);
        let mut own = Own { released: released.clone(), ..Own::default() };
        let mut lacks = |own: &Own| BTreeSet::from_iter(told.lacks_of_its_own(own).1);
        assert_eq!(lacks(&own), released);
        assert!(lacks(&own).is_empty(), "it knows");
        own.resumed += 1;
        assert_eq!(lacks(&own), released);
        assert!(lacks(&own).is_empty(), "it knows");
    }
}
