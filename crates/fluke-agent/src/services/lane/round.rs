//! One pass: look, decide, change, look again, until nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use fluke_model::gather::Gather;
use fluke_model::id::SessionId;
use fluke_model::message::Fact;
use fluke_model::service::Health;
use fluke_model::verdict::{Outcome, Output};

use super::aftermath::Made;
use super::desired::Desired;
use super::doing::{self, Room};
use super::forgotten;
use super::hearing::News;
use super::look::{Look, Seen};
use super::saying::Note;
use super::state::{Cause, Idle, Next, Processing};
use super::watch::{self, Watch};
use super::{Account, Lane, Wake};
use crate::services::addresses;
use crate::services::plan::{
    Change, Container, Deployment, Ending, Image, Plan, Situation, State, THE_NETWORK, is_well,
    plan,
};
use crate::services::podman::PodmanError;
use crate::session::told;

impl Lane {
    /// Makes everything as `desired` says, as far as that can be done now.
    pub(super) async fn work_through(
        &mut self,
        idle: Idle,
        desired: Arc<Desired>,
        cause: Cause,
    ) -> Idle {
        let mut processing = idle.begin(desired.held.clone(), cause, Instant::now());
        let mut account = account(&processing);
        let (mut made, mut session) = (None, self.session);
        let leaving = loop {
            self.catch_up();
            self.hear_of_session().await;
            let seen = self.look(&desired, &account).await;
            self.renew(&mut account, &mut session);
            self.keep_own().await;
            self.verify(made.take(), seen.as_ref()).await;
            self.tell_of_stops().await;
            let plan = match seen {
                Ok(seen) => {
                    self.tell_of_images(&desired, &seen).await;
                    self.decide(&desired, &seen, &account)
                }
                Err(error) => {
                    self.in_the_dark(&desired, &error);
                    self.say_how_containers_are().await;
                    self.answer_all(&told(&error)).await;
                    break processing.give_up();
                }
            };
            self.ask_around();
            self.say_how_containers_are().await;
            self.settle_sections(Some(&account)).await;
            // Before anything serves here, others know how this host is reached.
            self.say_how_sections_are().await;
            if self.answer_who_asked(&plan, &desired).await {
                continue;
            }
            match processing.next(self.allowed(plan.changes), Instant::now()) {
                Next::Home(leaving) => break leaving,
                Next::Change(change, rest) => {
                    made = self.make(change, &desired, &account).await;
                    self.known.doubt();
                    processing = rest;
                }
            }
        };
        self.settle_sections(Some(&account)).await;
        self.say_how_sections_are().await;
        leaving.reported()
    }

    /// A session that began or ended in the middle of a round is why the rest is done.
    pub(super) fn renew(&self, account: &mut Account, session: &mut Option<SessionId>) {
        if std::mem::replace(session, self.session) != self.session {
            account.cause = self.cause(Wake::Told, News::Session);
        }
    }

    /// Takes note of what came to its end while something was changed.
    fn catch_up(&mut self) {
        while let Some(done) = self.jobs.try_next() {
            if self.ended(done) {
                self.known.doubt();
            }
        }
    }

    /// An agent that ends begins nothing new.
    fn allowed(&self, changes: Vec<Change>) -> Vec<Change> {
        if self.inbox.is_ending() { Vec::new() } else { changes }
    }

    async fn look(
        &mut self,
        desired: &Arc<Desired>,
        account: &Account,
    ) -> Result<Seen, PodmanError> {
        let (podman, interfaces) = (self.podman.clone(), self.interfaces.clone());
        let (subnet, time) = (self.subnet(), (self.clock)());
        self.sight_podman();
        let mut known = std::mem::take(&mut self.known);
        let lives = std::mem::take(&mut self.lives);
        let mut forgotten = std::mem::take(&mut self.forgotten);
        // Where nothing may be made, nobody needs Podman.
        let is_absent = self.refusal().is_some() && !watch::is_there(&self.config.socket);
        let look = async {
            if is_absent {
                return Ok(Seen::nothing());
            }
            let desired = desired.as_ref();
            let (podman, interfaces, lives) = (&podman, &interfaces, &lives);
            let look = Look { podman, desired, subnet, interfaces, lives, time };
            let mut seen = look.around(&mut known).await?;
            let beside = forgotten.beside(&seen.containers, podman, interfaces).await;
            seen.containers.extend(beside);
            Ok(seen)
        };
        let seen = self.meanwhile(account, look).await;
        (self.known, self.lives, self.forgotten) = (known, lives, forgotten);
        self.looked = Some(Instant::now());
        if let Ok(seen) = &seen {
            self.lives.see(&seen.processes);
            self.let_images_go(desired, &seen.used);
            self.names = seen.containers.iter().map(|it| it.name.clone()).gather();
            if seen.volumes.is_some() {
                self.volumes.clone_from(&seen.volumes);
            }
        }
        seen
    }

    fn decide(&mut self, desired: &Desired, seen: &Seen, account: &Account) -> Plan {
        let now = Instant::now();
        self.is_in_the_light();
        self.doors.see(&seen.containers, self.looked_after(desired), now);
        self.since.see(&seen.containers, |id| self.jobs.is_stopping(id), now);
        let mut seen = Seen {
            containers: seen.containers.iter().map(|it| self.known(it, now)).collect(),
            present: seen.present.clone(),
            network: seen.network.clone(),
            used: BTreeSet::new(),
            processes: BTreeSet::new(),
            volumes: None,
        };
        self.take_note(desired, &seen, now);
        for it in &mut seen.containers {
            it.asked_since = self.rounds.since(&it.id, it.process);
        }
        let images = self.images(desired, &seen);
        let plan = self.plan(desired, &seen, &images);
        self.fetch(desired, &plan.fetch, account);
        self.released.retain(|id, _| !plan.leads_again_to(*id));
        self.look_at = plan.look_at;
        (self.reports, self.has_looked) = (Some(plan.reports.clone()), true);
        if let Some(problem) = &plan.network_problem {
            tracing::warn!(problem, "the network of containers cannot be made");
        }
        plan
    }

    /// What is tried whether it listens: where containers are refused, they are left alone.
    fn looked_after<'d>(&self, desired: &'d Desired) -> &'d [Deployment] {
        if self.refusal().is_some() { &[] } else { &desired.wanted }
    }

    /// What only the lane knows of a container is added to what Podman says.
    pub(super) fn known(&self, seen: &Container, now: Instant) -> Container {
        let mut container = seen.clone();
        container.state = match container.state {
            State::Running if self.jobs.is_stopping(&container.id) => State::Changing,
            // It has ended, and Podman still clears up after it: to start it now would be in the way.
            State::Exited if self.is_ending(&container.id) => State::Changing,
            State::Changing if self.since.is_abandoned(&container.id, now) => State::Stuck,
            state => state,
        };
        if container.origin.deployment.is_some_and(|id| self.misplaced.contains(&id)) {
            container.tampered.get_or_insert("its address is somebody else's".into());
        }
        container.told_to_end = self.told_to_end.get(&container.id).cloned();
        container.started = self.since.started(&container);
        container.silent_at = self.doors.silent_at(&container.id);
        container.complaint = self.rounds.complaint(&container.id).map(str::to_owned);
        if self.rounds.is_silent(&container.id) && container.state == State::Running {
            container.health = Health::Unhealthy;
        }
        container
    }

    /// Whether it was told to end for its own sake, and that is not over yet. Nobody waits for the rest
    /// of one that makes way for another.
    fn is_ending(&self, container: &str) -> bool {
        let ending = self.told_to_end.get(container);
        ending.is_some_and(|it| *it != Ending::MakesWay) && self.jobs.is_stopping(container)
    }

    pub(super) fn take_note(&mut self, desired: &Desired, seen: &Seen, now: Instant) {
        let is_there = |id: &_| seen.containers.iter().any(|it| it.origin.deployment == Some(*id));
        let is_wanted = |id: &_| desired.deployment(*id).is_some();
        let needs = |image: &str| desired.wanted.iter().any(|it| it.spec.image == image);
        let lacks = |image: &str| {
            desired.wanted.iter().any(|it| it.spec.image == image && !is_there(&it.id))
        };
        self.has_containers = seen.containers.iter().any(|it| it.is_ours);
        let is_refused = self.refusal().is_some();
        let may_ask = |it: &&Container| !is_refused && desired.understands(it);
        self.rounds.see(seen.containers.iter().filter(may_ask), now);
        self.released.retain(|id, _| is_there(id) && !is_wanted(id));
        self.deployments.retain(|id| is_wanted(id) || is_there(id));
        let is_object = |id: &str| seen.containers.iter().any(|it| it.id == id);
        self.see_who_has_ended(seen);
        self.containers.retain(|id| id == THE_NETWORK || is_object(id));
        let runs =
            |id: &str| seen.containers.iter().any(|it| it.id == id && it.state == State::Running);
        self.told_to_end.retain(|id, _| is_object(id) && !runs(id));
        self.rest(desired, seen, now);
        self.images.retain(|image| lacks(image) && !seen.present.contains(image));
        self.jobs.give_up_but(needs);
        self.unkept.addresses |= self.addresses.retain(|id| is_wanted(id) || is_there(id));
        self.misplaced.retain(|id| is_wanted(id) || is_there(id));
        if self.is_watchful() && self.watch.is_none() {
            self.watch = Some(Watch::begin(self.podman.clone(), self.config.exclusive));
        }
    }

    /// What could not be done to a container that ran may be done now that it has ended.
    fn see_who_has_ended(&mut self, seen: &Seen) {
        let has_ended = |it: &&Container| matches!(it.state, State::Created | State::Exited);
        let (ended, up): (Vec<_>, Vec<_>) = seen.containers.iter().partition(has_ended);
        for it in ended.into_iter().filter(|it| self.up.contains(&it.id)) {
            self.containers.forget(&it.id);
        }
        self.up = up.into_iter().map(|it| it.id.clone()).gather();
    }

    /// What serves, and has done so for a while, did work out.
    fn rest(&mut self, desired: &Desired, seen: &Seen, now: Instant) {
        for wanted in &desired.wanted {
            let mut of_it =
                seen.containers.iter().filter(|it| it.origin.deployment == Some(wanted.id));
            if of_it.any(|it| is_well(it, wanted, now)) {
                self.deployments.is_well(&wanted.id, now);
            }
        }
        // What came before them is kept well, too.
        let is_healthy = |it: &&Container| it.is_up() && it.health == Health::Healthy;
        for id in seen.containers.iter().filter(is_healthy).filter_map(|it| it.origin.deployment) {
            if desired.deployment(id).is_none() {
                self.deployments.is_well(&id, now);
            }
        }
    }

    pub(super) fn plan(
        &self,
        desired: &Desired,
        seen: &Seen,
        images: &BTreeMap<String, Image>,
    ) -> Plan {
        plan(&Situation {
            wanted: &desired.wanted,
            not_understood: &desired.not_understood,
            containers: &seen.containers,
            images,
            network: &seen.network,
            setbacks: self.deployments.marks(),
            held_up: self.containers.marks(),
            released: &self.released,
            exclusive: self.config.exclusive,
            refused: self.refusal(),
            asked: &self.asked(),
            alone: self.session.is_none(),
            drain: self.config.drain,
            now: Instant::now(),
        })
    }

    /// Makes one change; what was made is looked at next.
    async fn make(
        &mut self,
        change: Change,
        desired: &Arc<Desired>,
        begun: &Account,
    ) -> Option<Made> {
        if let Change::Stop { .. } = &change {
            self.stop(&change, begun);
            return None;
        }
        let began = Instant::now();
        let account = self.account_of(change.service(), begun);
        let left = change.object().and_then(|object| self.forgotten.remains(object));
        let was_forgotten = left.is_some();
        let reason = match (&left, change.object()) {
            (Some(_), Some(object)) => forgotten::reason(object),
            _ => doing::reason(&change),
        };
        tracing::info!(reason, "changing");
        self.record(&change, &account, Fact::Began { reason }).await;
        let room = self.room(&change);
        // An address is kept before it is used.
        self.keep_own().await;
        self.remember_start(&change);
        let (podman, known, wanted) = (self.podman.clone(), change.clone(), desired.clone());
        let interfaces = self.interfaces.clone();
        let work = async move {
            match (&known, left) {
                (Change::Remove { container, .. }, Some(links)) => {
                    let ended = forgotten::end(container, links, &interfaces).await;
                    ended.map(|()| Some(container.clone()))
                }
                (known, _) => doing::change(podman, known, &wanted, room).await,
            }
        };
        let done = self.meanwhile(begun, work).await;
        self.remember_end(&change, was_forgotten, done.as_ref().map(Option::as_deref));
        match done {
            Ok(container) => Some(Made { change, container, began, account }),
            Err(error) => {
                self.learn_from(&error, &change);
                self.failed(&change, &error, began, &account).await;
                None
            }
        }
    }

    fn room(&mut self, change: &Change) -> Room {
        let names = self.names.union(&self.refused).cloned().gather();
        Room { subnet: self.subnet(), address: self.address(change), names }
    }

    /// The address of what is to be made.
    fn address(&mut self, change: &Change) -> Option<u8> {
        let Change::Deploy { deployment, .. } = change else { return None };
        let subnet = self.subnet();
        let used = self.reports.iter().flatten().filter_map(|report| report.address);
        let mut taken = addresses::last_bytes(subnet, used);
        taken.extend(&self.unusable);
        let before = self.addresses.clone();
        let (id, service) = (deployment.id, &deployment.service);
        let address = self.addresses.give(id, service, deployment.replica, &taken);
        self.misplaced.remove(&id);
        self.unkept.addresses |= self.addresses != before;
        address
    }

    pub(super) async fn record(&self, change: &Change, account: &Account, fact: Fact) {
        let Some(subject) = doing::subject(change) else { return };
        let Account { cause, held } = account.clone();
        self.scribe.record(Note { cause, held, subject, fact }).await;
    }
}

fn account(processing: &Processing) -> Account {
    Account { cause: processing.cause().clone(), held: processing.held().clone() }
}

pub(super) fn end(outcome: Outcome, began: Instant, text: String) -> Fact {
    let duration_ms = began.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    Fact::Ended { outcome, duration_ms, output: Output::from_text(text) }
}
