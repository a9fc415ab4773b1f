//! One replica of one service on this host: what is wanted there, and what is there.

use std::collections::BTreeMap;

use fluke_model::id::ServiceName;
use fluke_model::service::{Health, Replica};

use super::condition::{can_serve_again, is_well, keeps_volumes, may_yet_listen};
use super::network::Fate;
use super::report::{Said, report};
use super::upkeep::{is_drained, keep_well, pause, serve_again, watch_over};
use super::words::{
    EARLIER_ONE_RUNS, changing, for_somebody, goes, in_words, is_for_health, restless, unwell,
    was_changed,
};
use super::{
    Change, Container, Deployment, Ending, Image, Origin, Plan, Replaces, Setback, Situation,
    State, Why,
};

const MAKES_WAY: &str = "its predecessor has its volumes, and is being stopped";
const A_DOUBLE: &str = "another container of the same has its volumes, and is being removed";
pub(super) const NOT_WELL_YET: &str = "it runs, and is not well yet";
const UNSTEADY: &str = "it runs again, for too short a time to tell whether it stays up";

/// What is wanted in one place, and what is there.
pub(super) struct Place<'a> {
    wanted: Option<&'a Deployment>,
    /// Of the deployment that is wanted, the best one first.
    current: Vec<&'a Container>,
    /// Of others.
    predecessors: Vec<&'a Container>,
}

/// What holds a deployment up, or does not.
enum Readiness {
    Ready,
    Waits(String),
}

impl<'a> Place<'a> {
    /// Every place where something is wanted, or something of ours is.
    pub(super) fn all(situation: &'a Situation<'_>) -> Vec<Self> {
        let mut places: BTreeMap<(&ServiceName, Option<Replica>), Self> = BTreeMap::new();
        for wanted in situation.wanted {
            let place = places.entry((&wanted.service, Some(wanted.replica))).or_insert(Self::NONE);
            place.wanted = Some(wanted);
        }
        for container in situation.containers.iter().filter(|container| container.is_ours) {
            let Origin { deployment: Some(deployment), service: Some(service), replica } =
                &container.origin
            else {
                continue;
            };
            if situation.not_understood.contains(service) {
                continue;
            }
            let place = places.entry((service, *replica)).or_insert(Self::NONE);
            match place.wanted.is_some_and(|wanted| wanted.id == *deployment) {
                true => place.current.push(container),
                false => place.predecessors.push(container),
            }
        }
        let mut places: Vec<Self> = places.into_values().collect();
        // One that runs, then the one that was there first.
        let rank = |container: &&Container| {
            (container.state != State::Running, container.started, container.id.clone())
        };
        places.iter_mut().for_each(|place| {
            place.current.sort_by_key(rank);
            place.predecessors.sort_by_key(rank);
        });
        places
    }

    const NONE: Self = Self { wanted: None, current: Vec::new(), predecessors: Vec::new() };

    /// Adds what is to be done here, and says how it is.
    pub(super) fn plan(&self, situation: &Situation<'_>, fate: &Fate<'_>, plan: &mut Plan) {
        let mut changes = Vec::new();
        let mut note = match (self.wanted, fate) {
            (_, Fate::Emptied(how)) if self.is_in_network() => {
                self.leave_network(how, &mut changes);
                fate.waits()
            }
            (Some(wanted), Fate::Kept(why)) if self.has_any() => {
                let note = self.keep_up(wanted, situation, plan, &mut changes);
                Some(note.map_or_else(|| why.clone(), |note| format!("{note}; {why}")))
            }
            (Some(wanted), _) => self.toward(wanted, situation, fate, plan, &mut changes),
            (None, _) => {
                self.retire_all(situation, plan, &mut changes);
                None
            }
        };
        let drift = self.wanted.and_then(|wanted| match fate {
            Fate::Kept(why) if self.has_any() => Some(why.clone()),
            _ => self.drift(wanted, &changes, situation),
        });
        let may = self.wanted.is_none_or(|wanted| may_change(wanted, situation));
        let needs_leave = |change: &&Change| !may && !self.ends_what_began(change);
        if let (Some(wanted), Some(change)) = (self.wanted, changes.iter().find(needs_leave)) {
            note = Some(format!("{}; its policy is {}", in_words(change), wanted.policy.as_str()));
            changes.retain(|change| self.ends_what_began(change));
        }
        self.wait_for_those_who_do_not_listen(situation, plan);
        let held_up = changes.iter().find_map(|change| situation.holds_up(change));
        let is_hopeless = fate.is_hopeless() || held_up.is_some();
        let note = held_up.map(|setback| setback.why.clone()).or(note);
        plan.changes.extend(changes);
        let said = Said { drift, note, is_hopeless };
        plan.reports.extend(report(
            self.wanted,
            &self.current,
            &self.predecessors,
            situation,
            said,
        ));
    }

    /// Whether it is the end of what was allowed when it began: of two versions one comes to serve, also
    /// where the leave to replace the other is over by then.
    fn ends_what_began(&self, change: &Change) -> bool {
        let made_way = |it: &&&Container| it.told_to_end == Some(Ending::MakesWay);
        let mut made_way = self.predecessors.iter().filter(made_way);
        match change {
            Change::Stop { why: Why::Unwell(_), .. }
            | Change::Remove { why: Why::Unwell(_), .. } => true,
            Change::Start { container, .. } => {
                match self.current.first().filter(|it| it.id == *container) {
                    Some(current) => {
                        let is_its_turn =
                            !self.predecessors.is_empty() && self.is_its_turn(current);
                        is_its_turn || made_way.next().is_some()
                    }
                    None => made_way.any(|it| it.id == *container),
                }
            }
            change => ends_a_succession(change),
        }
    }

    /// What was made ahead has its turn, as what was in its place was stopped for it.
    fn is_its_turn(&self, current: &Container) -> bool {
        current.state == State::Created
            && !can_serve_again(current)
            && !self.predecessors.iter().any(|it| it.state == State::Running)
    }

    /// What was there before may serve once it listens, or once that is not waited for any more.
    fn wait_for_those_who_do_not_listen(&self, situation: &Situation<'_>, plan: &mut Plan) {
        let running = self.predecessors.iter().filter(|it| it.state == State::Running);
        for (_, until) in running.filter_map(|it| may_yet_listen(it, situation.now)) {
            plan.look_by(until);
        }
    }

    /// How the place differs from what is wanted there, whoever may do something about it.
    fn drift(
        &self,
        wanted: &Deployment,
        changes: &[Change],
        situation: &Situation<'_>,
    ) -> Option<String> {
        let is_other = |it: &&Change| !ends_a_succession(it);
        let Some(current) = self.current.first() else {
            let serves = self.predecessors.iter().any(|it| it.state == State::Running);
            return Some(match self.replaces() {
                Replaces::Values(how) => how,
                Replaces::Version if serves => EARLIER_ONE_RUNS.into(),
                _ => "its container is missing".into(),
            });
        };
        match current.state {
            State::Running => match changes.iter().find(is_other) {
                // What it complains of may be other words each time, and is no other drift.
                Some(change) if is_for_health(change) => Some(unwell(current).into()),
                Some(change) => Some(in_words(change)),
                // A setback is forgotten once it has been well for a while.
                None if is_well(current, wanted, situation.now) => {
                    situation.setbacks.get(&wanted.id).map(|_| UNSTEADY.into())
                }
                None if current.health == Health::Unhealthy => Some(unwell(current).into()),
                None => Some(NOT_WELL_YET.into()),
            },
            State::Changing if is_ending_unwell(current) => Some(unwell(current).into()),
            State::Changing => Some(changing(current)),
            // It was made ahead.
            State::Created if self.predecessors.iter().any(|it| it.is_up()) => {
                Some(EARLIER_ONE_RUNS.into())
            }
            State::Created | State::Exited | State::Stuck => Some(match &current.tampered {
                Some(how) => was_changed(how),
                None => "its container does not run".into(),
            }),
        }
    }

    /// What brings the place closer to what is wanted; says what it waits for.
    fn toward(
        &self,
        wanted: &Deployment,
        situation: &Situation<'_>,
        fate: &Fate<'_>,
        plan: &mut Plan,
        changes: &mut Vec<Change>,
    ) -> Option<String> {
        changes.extend(self.current.iter().skip(1).filter_map(|it| remove(it, Why::Double)));
        let Some(current) = self.current.first() else {
            return self.deploy(wanted, situation, fate, plan, changes);
        };
        if let Some(Ending::Goes(why)) = &current.told_to_end
            && current.state != State::Running
        {
            changes.extend(remove(current, Why::Unwell(why.clone())));
            return Some(why.clone());
        }
        match (&current.tampered, current.state) {
            (Some(how), _) => changes.extend(remove(current, Why::Tampered(how.clone()))),
            (None, State::Stuck) => changes.extend(remove(current, Why::Stuck)),
            (None, State::Changing) => return Some(changing(current)),
            (None, State::Created | State::Exited) => {
                return self.start(current, wanted, situation, fate, plan, changes);
            }
            (None, State::Running) if is_well(current, wanted, situation.now) => {
                self.retire_predecessors(wanted, situation, plan, changes);
                let is_unsteady = situation.setbacks.contains_key(&wanted.id);
                let silent =
                    current.silent_at.map(|port| format!("nothing listens at port {port}"));
                return silent.or(is_unsteady.then(|| UNSTEADY.into()));
            }
            (None, State::Running) => {
                let (health, may_go) = (wanted.spec.health.as_ref(), self.has_another());
                return watch_over(current, health, may_go, situation, plan, changes);
            }
        }
        None
    }

    /// It is missing: made as soon as its image is here and it may.
    fn deploy(
        &self,
        wanted: &Deployment,
        situation: &Situation<'_>,
        fate: &Fate<'_>,
        plan: &mut Plan,
        changes: &mut Vec<Change>,
    ) -> Option<String> {
        match self.readiness(wanted, situation, fate, plan) {
            Readiness::Waits(note) => {
                // What was there before serves meanwhile, also where somebody stopped it for one that
                // cannot be made.
                keep_well(&self.predecessors, situation, plan, changes);
                serve_again(&self.predecessors, wanted, situation, plan, changes);
                return Some(note);
            }
            Readiness::Ready => {}
        }
        let keeps = self.predecessors.iter().copied().filter(|it| keeps_volumes(it, wanted));
        let (up, idle): (Vec<_>, Vec<_>) = keeps.partition(|it| it.is_up());
        if !idle.is_empty() {
            changes.extend(idle.into_iter().filter_map(make_way));
            return Some(MAKES_WAY.into());
        }
        let (deployment, replaces) = (wanted.clone(), self.replaces());
        changes.push(Change::Deploy { deployment, replaces, ahead: !up.is_empty() });
        None
    }

    fn replaces(&self) -> Replaces {
        let outdated = self.predecessors.iter().find_map(|it| it.outdated.clone());
        match (outdated, self.predecessors.as_slice()) {
            (Some(how), _) => Replaces::Values(how),
            (None, []) => Replaces::Nothing,
            (None, _) => Replaces::Version,
        }
    }

    fn readiness(
        &self,
        wanted: &Deployment,
        situation: &Situation<'_>,
        fate: &Fate<'_>,
        plan: &mut Plan,
    ) -> Readiness {
        let setback = situation.setbacks.get(&wanted.id);
        if let Some(setback) = setback.filter(|it| it.is_final && self.can_go_back(situation)) {
            return Readiness::Waits(for_somebody(setback, &wanted.service));
        }
        // Nothing is fetched or waited for that a human has to ask for first.
        if !may_change(wanted, situation) {
            return Readiness::Ready;
        }
        if let Some(setback) = setback.filter(|it| it.until > situation.now) {
            plan.look_by(setback.until);
            return Readiness::Waits(setback.why.clone());
        }
        let absent = Image::Absent;
        match situation.images.get(&wanted.spec.image).unwrap_or(&absent) {
            Image::Present => fate.waits().map_or(Readiness::Ready, Readiness::Waits),
            Image::Coming(how_far) => Readiness::Waits(how_far.clone()),
            Image::Failed(why, until) if *until > situation.now => {
                plan.look_by(*until);
                Readiness::Waits(why.clone())
            }
            Image::Failed(..) | Image::Absent => {
                plan.fetch.insert(wanted.spec.image.clone());
                Readiness::Waits("its image is asked for".into())
            }
        }
    }

    /// Whether something else can serve in the place of what is wanted.
    fn has_another(&self) -> bool {
        self.predecessors.iter().any(|it| can_serve_again(it))
    }

    /// Whether something serves, or will, that would have to be stopped for another try.
    fn can_go_back(&self, situation: &Situation<'_>) -> bool {
        let all = self.predecessors.iter().copied();
        let (up, down): (Vec<_>, Vec<_>) = all.partition(|it: &&Container| it.is_up());
        match up.is_empty() {
            true => down.iter().any(|it| can_serve_again(it) && pause(it, situation).is_none()),
            false => up.iter().any(|it| it.health != Health::Unhealthy),
        }
    }

    /// Nothing is replaced, and what serves goes on; what does not is started again.
    fn keep_up(
        &self,
        wanted: &Deployment,
        situation: &Situation<'_>,
        plan: &mut Plan,
        changes: &mut Vec<Change>,
    ) -> Option<String> {
        let all = [self.current.as_slice(), &self.predecessors].concat();
        serve_again(&all, wanted, situation, plan, changes);
        let current = self.current.first().filter(|it| it.state == State::Running)?;
        let is_ill = !is_well(current, wanted, situation.now);
        let health = wanted.spec.health.as_ref();
        is_ill.then(|| watch_over(current, health, false, situation, plan, changes)).flatten()
    }

    fn start(
        &self,
        current: &Container,
        wanted: &Deployment,
        situation: &Situation<'_>,
        fate: &Fate<'_>,
        plan: &mut Plan,
        changes: &mut Vec<Change>,
    ) -> Option<String> {
        // Another one of the same that may have its volumes goes first.
        if self.current.iter().skip(1).any(|it| keeps_volumes(it, wanted)) {
            return Some(A_DOUBLE.into());
        }
        let is_left_alone = |it: &&Setback| {
            let is_over = it.is_final && !self.is_its_turn(current) && self.can_go_back(situation);
            it.until > situation.now || is_over
        };
        let setback = situation.setbacks.get(&wanted.id).filter(is_left_alone);
        let keeps = self.predecessors.iter().find(|it| keeps_volumes(it, wanted));
        match (setback, keeps) {
            // It does not stay up, and what was there before it did. Of what nobody answered for that
            // is known after its pause, in which it may still be done.
            (Some(setback), _)
                if self.has_another() && !(setback.is_unheard && setback.until > situation.now) =>
            {
                changes.extend(remove(current, Why::Unwell(goes(setback, current))))
            }
            (Some(setback), _) => {
                plan.look_by(setback.until);
                return Some(restless(setback, current));
            }
            (None, Some(predecessor)) => {
                changes.extend(make_way(predecessor));
                return Some(MAKES_WAY.into());
            }
            (None, None) => {
                let waits = fate.waits().filter(|_| may_change(wanted, situation));
                if waits.is_none() {
                    changes.push(start(current));
                }
                return waits;
            }
        }
        None
    }

    fn has_any(&self) -> bool {
        !(self.current.is_empty() && self.predecessors.is_empty())
    }

    fn is_in_network(&self) -> bool {
        self.current.iter().chain(&self.predecessors).any(|it| it.in_network)
    }

    /// Nothing can be changed about a network that something is in.
    fn leave_network(&self, how: &str, changes: &mut Vec<Change>) {
        let inside = self.current.iter().chain(&self.predecessors).filter(|it| it.in_network);
        changes.extend(inside.filter_map(|it| remove(it, Why::Tampered(how.to_owned()))));
    }

    /// What served before goes, once nothing leads to it.
    fn retire_predecessors(
        &self,
        wanted: &Deployment,
        situation: &Situation<'_>,
        plan: &mut Plan,
        changes: &mut Vec<Change>,
    ) {
        for predecessor in &self.predecessors {
            let is_idle = predecessor.state != State::Running || wanted.spec.is_stateful();
            if is_idle || is_drained(predecessor, situation, plan) {
                changes.extend(remove(predecessor, Why::Succeeded));
            }
        }
    }

    /// Nothing is wanted here any more.
    fn retire_all(&self, situation: &Situation<'_>, plan: &mut Plan, changes: &mut Vec<Change>) {
        for container in self.current.iter().chain(&self.predecessors) {
            if container.state != State::Running || is_drained(container, situation, plan) {
                changes.extend(remove(container, Why::Orphan));
            }
        }
    }
}

/// Whether anything may be done about it now.
pub(super) fn may_change(wanted: &Deployment, situation: &Situation<'_>) -> bool {
    // What is to be told cannot be told while nobody listens.
    let silently = !(situation.alone && wanted.policy.alerts());
    situation.asked.covers(&wanted.service) || (wanted.policy.remediates() && silently)
}

/// Whether it is the end of something that was allowed when the successor was made.
pub(super) fn ends_a_succession(change: &Change) -> bool {
    matches!(change, Change::Stop { why: Why::Succeeded, .. })
        || matches!(change, Change::Remove { why: Why::Succeeded, .. })
}

fn is_ending_unwell(container: &Container) -> bool {
    matches!(container.told_to_end, Some(Ending::Goes(_) | Ending::Returns(_)))
}

/// What has to be done next for a container to go; nothing while it is on its way.
pub(super) fn remove(container: &Container, why: Why) -> Option<Change> {
    let (id, origin) = (container.id.clone(), container.origin.clone());
    match container.state {
        State::Running => Some(Change::Stop { container: id, origin, why }),
        State::Changing => None,
        State::Created | State::Exited | State::Stuck => {
            Some(Change::Remove { container: id, origin, why })
        }
    }
}

/// A predecessor lets go of its volumes, and stays for the case that its successor fails.
pub(super) fn make_way(container: &Container) -> Option<Change> {
    match container.state {
        State::Running => remove(container, Why::MakesWay),
        _ => remove(container, Why::Stuck),
    }
}

pub(super) fn start(container: &Container) -> Change {
    let (id, origin) = (container.id.clone(), container.origin.clone());
    let unwell = match &container.told_to_end {
        Some(Ending::Returns(why)) => Some(why.clone()),
        Some(Ending::Goes(_) | Ending::MakesWay) | None => None,
    };
    Change::Start { container: id, origin, state: container.state, unwell }
}
