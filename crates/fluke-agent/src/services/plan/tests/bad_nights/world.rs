//! What happens to a host, and a Podman of the mind to which it does.

use std::net::Ipv4Addr;
use std::sync::LazyLock;

use fluke_model::service::Replica;
use proptest::prelude::*;

use super::*;
use crate::services::lane::doors::Doors;
use crate::services::lane::rounds::Rounds;
use crate::services::lane::since::Since;
use crate::services::setback::Setbacks;

/// Something that happens to a host.
#[derive(Debug, Clone)]
pub(super) enum Night {
    /// Git says something else: for each of three services, which version, if any.
    Commit([Option<u8>; 3]),
    /// The host is given these replicas of another one, in a version.
    Placed(u8, [bool; 2]),
    /// A container dies.
    Dies(usize),
    /// The host is started anew: of whatever ran an older Podman says that it was made.
    Reboots,
    /// Somebody begins to stop or to remove one, and does not get to the end of it.
    Abandoned(usize),
    /// Podman would not stop or remove one, and is left alone with it.
    HeldUp(usize),
    /// Somebody removes one.
    Vanishes(usize),
    /// Somebody changes one.
    Tampered(usize),
    /// An image turns out not to be well.
    Ill(u8),
    /// ... or to be well after all.
    Well(u8),
    /// Podman makes no container of an image.
    Refused(u8),
    /// ... or makes one, and cannot start it.
    Unstartable(u8),
    /// ... or does both after all.
    Accepted(u8),
    /// An image cannot be had.
    NoImage(u8),
    /// ... or can, after all.
    Image(u8),
    /// Podman does not answer when it is next told to make or to start something, and does it all the
    /// same, or does not.
    Unheard(bool),
    /// The server goes away, or comes back: what is to be told waits meanwhile.
    Alone(bool),
    /// The agent ends, and the next one begins.
    Restarts,
    /// The agent works, and is killed after so many changes, in the middle of the next.
    Works(usize),
    /// The server finds that nothing leads to what retires.
    Released,
    /// Time passes.
    Passes(u64),
    /// Somebody removes the network.
    NoNetwork,
    /// Another one is wanted.
    OtherNetwork,
}

pub(super) fn night() -> impl Strategy<Value = Night> {
    prop_oneof![
        prop::array::uniform3(prop::option::of(0u8..4)).prop_map(Night::Commit),
        (0u8..4, any::<[bool; 2]>()).prop_map(|(version, which)| Night::Placed(version, which)),
        any::<usize>().prop_map(Night::Dies),
        Just(Night::Reboots),
        any::<usize>().prop_map(Night::Abandoned),
        any::<usize>().prop_map(Night::HeldUp),
        any::<usize>().prop_map(Night::Vanishes),
        any::<usize>().prop_map(Night::Tampered),
        (0u8..4).prop_map(Night::Ill),
        (0u8..4).prop_map(Night::Well),
        (0u8..4).prop_map(Night::Refused),
        (0u8..4).prop_map(Night::Unstartable),
        (0u8..4).prop_map(Night::Accepted),
        (0u8..4).prop_map(Night::NoImage),
        (0u8..4).prop_map(Night::Image),
        any::<bool>().prop_map(Night::Unheard),
        any::<bool>().prop_map(Night::Alone),
        Just(Night::Restarts),
        (0usize..6).prop_map(Night::Works),
        Just(Night::Released),
        (0u64..60).prop_map(Night::Passes),
        Just(Night::NoNetwork),
        Just(Night::OtherNetwork),
    ]
}

/// What may happen to a host whose Podman is late.
pub(super) fn late_night() -> impl Strategy<Value = Night> {
    prop_oneof![
        any::<bool>().prop_map(Night::Unheard),
        any::<usize>().prop_map(Night::Dies),
        Just(Night::Ill(0)),
        Just(Night::Well(0)),
        Just(Night::Restarts),
        (0u64..10).prop_map(Night::Passes),
    ]
}

/// Where everything listens, some time after it was started.
const PORT: u16 = 3000;

/// The host, and what only the world knows.
pub(super) struct World {
    pub(super) host: Host,
    pub(super) setbacks: Setbacks<DeploymentId>,
    since: Since,
    doors: Doors,
    /// Those that listen, in the life that they have.
    pub(super) listening: BTreeSet<String>,
    lives: i32,
    /// What is changed by somebody who never ends.
    abandoned: BTreeSet<String>,
    /// Those among it that ran, and do so until they are removed, whatever is said of them.
    pub(super) alive: BTreeSet<String>,
    ill: BTreeSet<String>,
    refused: BTreeSet<String>,
    unstartable: BTreeSet<String>,
    /// Whether it is done all the same.
    unheard: Option<bool>,
    made: usize,
    /// What the server has said to be released, as long as it thinks so.
    told: BTreeSet<DeploymentId>,
    /// When each was last led to.
    served: BTreeMap<DeploymentId, Instant>,
}

/// `d` has what `c` has, and its replicas are numbered: each has a volume of its own.
fn placed(version: u8, which: [bool; 2]) -> Vec<Deployment> {
    let numbers =
        which.into_iter().zip(0..).filter_map(|(is_here, number)| is_here.then_some(number));
    let each = numbers.map(|number| {
        let spec = with_both(&format!("image:{version}"));
        Deployment { listens: vec![PORT], ..replica("d", Replica::Number(number), spec) }
    });
    each.collect()
}

fn is_stateful(origin: &Origin) -> bool {
    origin.service.as_ref().is_some_and(|it| ["c", "d"].contains(&it.as_str()))
}

/// `a` has no health check, `b` has one, `c` has a volume as well. What is done to `b` and `c` is told.
fn wanted(versions: [Option<u8>; 3]) -> Vec<Deployment> {
    type Make = fn(&str) -> ContainerSpec;
    let makers: [(&str, Make); 3] = [("a", spec), ("b", with_health), ("c", with_both)];
    let each = makers.into_iter().zip(versions).filter_map(|((name, make), version)| {
        let it = deployment(name, make(&format!("image:{}", version?)));
        let policy = if name == "a" { Policy::Remediate } else { Policy::RemediateAndAlert };
        Some(Deployment { listens: vec![PORT], policy, ..it })
    });
    each.collect()
}

impl World {
    pub(super) fn new() -> Self {
        let mut host = Host::new().having(somebody_elses("theirs"));
        for version in 0..4 {
            host.images.insert(format!("image:{version}"), Image::Present);
        }
        Self {
            host,
            setbacks: Setbacks::default(),
            since: Since::default(),
            doors: Doors::default(),
            listening: BTreeSet::new(),
            lives: 0,
            abandoned: BTreeSet::new(),
            alive: BTreeSet::new(),
            ill: BTreeSet::new(),
            refused: BTreeSet::new(),
            unstartable: BTreeSet::new(),
            unheard: None,
            made: 0,
            told: BTreeSet::new(),
            served: BTreeMap::new(),
        }
    }

    pub(super) fn happens(&mut self, night: Night) {
        match night {
            Night::Commit(versions) => {
                self.host.wanted.retain(|it| it.replica != Replica::Own);
                self.is_to_have(wanted(versions));
            }
            Night::Placed(version, which) => {
                self.host.wanted.retain(|it| it.replica == Replica::Own);
                self.is_to_have(placed(version, which));
            }
            Night::Dies(which) => {
                if let Some(it) = self.one(which) {
                    it.state = State::Exited;
                    let id = it.id.clone();
                    self.alive.remove(&id);
                }
            }
            Night::Reboots => self.reboots(),
            Night::Abandoned(which) => {
                if let Some(it) = self.one(which) {
                    let ran = std::mem::replace(&mut it.state, State::Changing) == State::Running;
                    let id = it.id.clone();
                    self.alive.extend(ran.then(|| id.clone()));
                    self.abandoned.insert(id);
                }
            }
            Night::HeldUp(which) => {
                let until = self.host.now + Duration::from_secs(600);
                if let Some(id) = self.one(which).map(|it| it.id.clone()) {
                    self.host.held_up.insert(id, setback("it would not end", until));
                }
            }
            Night::Vanishes(which) => {
                let ours: Vec<_> = self.ours().collect();
                if let Some(at) = which.checked_rem(ours.len()).map(|at| ours[at]) {
                    self.host.containers.remove(at);
                }
            }
            Night::Tampered(which) => {
                self.one(which).into_iter().for_each(|it| it.tampered = Some("so".into()));
            }
            Night::Ill(version) => drop(self.ill.insert(format!("image:{version}"))),
            Night::Well(version) => drop(self.ill.remove(&format!("image:{version}"))),
            Night::Refused(version) => drop(self.refused.insert(format!("image:{version}"))),
            Night::Unstartable(version) => {
                self.unstartable.insert(format!("image:{version}"));
            }
            Night::Accepted(version) => {
                self.refused.remove(&format!("image:{version}"));
                self.unstartable.remove(&format!("image:{version}"));
            }
            Night::NoImage(version) => {
                let failed =
                    Image::Failed("none".into(), self.host.now + Duration::from_secs(3600));
                self.host.images.insert(format!("image:{version}"), failed);
            }
            Night::Image(version) => {
                self.host.images.insert(format!("image:{version}"), Image::Present);
            }
            Night::Unheard(is_done) => self.unheard = Some(is_done),
            Night::Alone(alone) => self.host.alone = alone,
            Night::Restarts => self.is_restarted(),
            Night::Works(changes) => self.works(changes),
            Night::Released => self.released(),
            Night::Passes(seconds) => self.host.now += Duration::from_secs(seconds),
            Night::NoNetwork => self.host.network = Network::Missing,
            Night::OtherNetwork => self.host.network = Network::Other("so".into()),
        }
        self.ends_what_was_told_to();
        self.health_is_asked();
    }

    /// A new snapshot is tried at once, but for what only a change of it does.
    fn is_to_have(&mut self, more: Vec<Deployment>) {
        self.host.wanted.extend(more);
        self.host.held_up.clear();
        self.setbacks.forgive();
    }

    pub(super) fn ours(&self) -> impl Iterator<Item = usize> {
        let containers = self.host.containers.iter().enumerate();
        containers.filter(|(_, it)| it.is_ours).map(|(at, _)| at)
    }

    fn one(&mut self, which: usize) -> Option<&mut Container> {
        let ours: Vec<_> = self.ours().collect();
        let at = which.checked_rem(ours.len()).map(|at| ours[at])?;
        self.host.containers.get_mut(at)
    }

    /// Does so many changes, and half of another.
    fn works(&mut self, changes: usize) {
        for _ in 0..changes {
            let Some(change) = self.next() else { return };
            self.applies(change, true);
        }
        if let Some(change) = self.next() {
            self.applies(change, false);
            self.is_restarted();
        }
    }

    /// The agent was killed. The next one knows what was given up for good, and is told the rest anew.
    fn is_restarted(&mut self) {
        let (given_up, now) = (self.setbacks.given_up(), self.host.now);
        (self.setbacks, self.since) = (Setbacks::default(), Since::default());
        self.doors = Doors::default();
        for (id, why) in given_up {
            self.setbacks.gave_up_for_good(id, why, now);
        }
        self.host.released.clear();
        self.told.clear();
        let told = self.host.containers.iter_mut().map(|it| &mut it.told_to_end);
        told.filter(|it| **it != Some(Ending::MakesWay)).for_each(|it| *it = None);
    }

    /// Nothing runs any more, and when each was started is still known.
    fn reboots(&mut self) {
        for it in self.host.containers.iter_mut().filter(|it| it.is_ours) {
            (it.state, it.process) = (State::Created, None);
        }
        self.abandoned.clear();
        self.alive.clear();
        self.is_restarted();
    }

    pub(super) fn next(&mut self) -> Option<Change> {
        self.looks().changes.into_iter().next()
    }

    /// What the agent finds, which the server is told.
    pub(super) fn looks(&mut self) -> Plan {
        self.host.setbacks.clone_from(self.setbacks.marks());
        self.since.see(&self.host.containers, |_| false, self.host.now);
        let (since, now) = (&self.since, self.host.now);
        let left = self.host.containers.iter_mut().filter(|it| since.is_abandoned(&it.id, now));
        left.for_each(|it| it.state = State::Stuck);
        let plan = self.host.plan();
        let Host { wanted, released, .. } = &mut self.host;
        let is_wanted = |id: &DeploymentId| wanted.iter().any(|wanted| wanted.id == *id);
        released.retain(|id, _| !is_wanted(id) && !plan.leads_again_to(*id));
        let over = self.is_over(&plan);
        self.told.retain(|id| over.contains(id));
        let serving = plan.reports.iter().filter(|it| it.serves).map(|it| it.id);
        self.served.extend(serving.map(|id| (id, self.host.now)));
        plan
    }

    pub(super) fn applies(&mut self, change: Change, wholly: bool) {
        let host = &mut self.host;
        match change {
            Change::MakeNetwork { .. } => host.network = Network::Ready,
            Change::Remove { container, origin, why } => {
                let it = host.containers.iter().position(|it| it.id == container);
                let it = it.expect("only what is there is removed");
                assert!(host.containers[it].is_ours || host.exclusive, "{container} is not ours");
                assert_ne!(host.containers[it].state, State::Running, "it has its time to end");
                if wholly {
                    host.containers.remove(it);
                }
                match (why, origin.deployment) {
                    (Why::Unwell(why), Some(id)) if is_stateful(&origin) => {
                        self.setbacks.gave_up_for_good(id, why, host.now);
                    }
                    (Why::Unwell(why), Some(id)) => self.setbacks.gave_up(id, why, host.now),
                    _ => {}
                }
            }
            Change::Stop { container, origin, why } => {
                let it = host.containers.iter_mut().find(|it| it.id == container);
                let it = it.expect("only what is there is stopped");
                assert!(it.is_ours || host.exclusive, "{container} is not ours");
                let served = origin.deployment.and_then(|id| self.served.get(&id));
                let drains = !is_stateful(&origin);
                if let (Why::Succeeded, Some(served), true) = (&why, served, drains) {
                    assert!(*served + DRAIN <= host.now, "it has no time for what is under way");
                }
                // Half of it: it was told, and takes its time.
                it.state = if wholly { State::Exited } else { State::Changing };
                match (why, origin.deployment) {
                    (Why::MakesWay, _) => it.told_to_end = Some(Ending::MakesWay),
                    (Why::Unwell(why), _) => it.told_to_end = Some(Ending::Goes(why)),
                    (Why::Restarted(why), Some(id)) => {
                        it.told_to_end = Some(Ending::Returns(why));
                        self.setbacks.did_not_last(&id, host.now);
                    }
                    _ => {}
                }
            }
            Change::Start { container, origin, .. } => {
                let now = host.now;
                let it = host.containers.iter_mut().find(|it| it.id == container);
                let it = it.expect("only what is there is started");
                if let Some(is_done) = self.unheard.take() {
                    let unheard = |id| self.setbacks.was_unheard(id, "late".into(), now);
                    origin.deployment.into_iter().for_each(unheard);
                    if is_done {
                        self.begins(&container);
                    }
                    return;
                }
                if self.unstartable.contains(&it.image) {
                    let failed = |id| self.setbacks.gave_up(id, "cannot".into(), now);
                    return origin.deployment.into_iter().for_each(failed);
                }
                origin.deployment.into_iter().for_each(|id| self.setbacks.done(id, now));
                self.begins(&container);
            }
            Change::Deploy { deployment, ahead, .. } => {
                let Deployment { id, spec, .. } = &deployment;
                if self.refused.contains(&spec.image) {
                    return self.setbacks.gave_up(*id, "refused".into(), host.now);
                }
                let unheard = self.unheard.take();
                if unheard.is_some() {
                    self.setbacks.was_unheard(*id, "late".into(), host.now);
                }
                if unheard == Some(false) {
                    return;
                }
                self.made += 1;
                let is_startable = !self.unstartable.contains(&spec.image);
                // Half of it: it is made, and was not started.
                let is_started = wholly && is_startable && !ahead && unheard.is_none();
                match is_startable {
                    _ if ahead || unheard.is_some() => {}
                    true => self.setbacks.done(*id, host.now),
                    false => self.setbacks.gave_up(*id, "cannot".into(), host.now),
                }
                let id = format!("c{:04}", self.made);
                let mut it = container(&id, &deployment, State::Created);
                it.address = Some(Ipv4Addr::LOCALHOST);
                host.containers.push(it);
                if is_started {
                    self.begins(&id);
                }
            }
        }
        self.no_volume_is_shared();
        self.stands_before_doors();
    }

    /// Another life: it does not listen yet, and nobody has asked it anything.
    fn begins(&mut self, container: &str) {
        self.lives += 1;
        self.listening.remove(container);
        let started = self.host.containers.iter_mut().filter(|it| it.id == container);
        for it in started {
            (it.state, it.started) = (State::Running, Some(self.host.now));
            it.told_to_end = None;
            it.asked_since = it.started;
            it.process = Some(self.lives);
            it.health = it.check.as_ref().map_or(Health::None, |_| Health::Starting);
        }
    }

    /// What the lane knows of who listens.
    fn stands_before_doors(&mut self) {
        let Host { containers, wanted, now, .. } = &mut self.host;
        self.doors.see(containers, wanted, *now);
        containers.iter_mut().for_each(|it| it.silent_at = self.doors.silent_at(&it.id));
    }

    fn knocks(&mut self) {
        self.stands_before_doors();
        for knock in self.doors.due(self.host.now) {
            let listens = self.listening.contains(&knock.container);
            self.doors.answered(&knock, (!listens).then_some(PORT), self.host.now);
        }
        self.stands_before_doors();
    }

    fn no_volume_is_shared(&self) {
        let run = |it: &&Container| it.state == State::Running || self.alive.contains(&it.id);
        let running = self.host.containers.iter().filter(run);
        let with_volumes = running.map(|it| &it.origin).filter(|it| is_stateful(it));
        let mut seen = BTreeSet::new();
        for Origin { service, replica, .. } in with_volumes {
            assert!(seen.insert((service, replica)), "two containers run with one volume");
        }
    }

    /// Whoever was told to end does so some time.
    fn ends_what_was_told_to(&mut self) {
        let changing = self.host.containers.iter_mut().filter(|it| it.state == State::Changing);
        let ends = changing.filter(|it| !self.abandoned.contains(&it.id));
        ends.for_each(|it| it.state = State::Exited);
    }

    /// Nobody is known to be well who is not asked.
    fn who_is_asked(&self) -> BTreeSet<String> {
        let (mut rounds, now) = (Rounds::default(), self.host.now);
        rounds.see(self.host.containers.iter(), now);
        rounds.due(now).into_iter().map(|question| question.container).collect()
    }

    pub(super) fn health_is_asked(&mut self) {
        // Names are hashes: made once, however often anybody is asked.
        static BY_ID: LazyLock<BTreeMap<DeploymentId, Deployment>> = LazyLock::new(|| {
            let all = |version| [wanted([Some(version); 3]), placed(version, [true; 2])].concat();
            (0..4).flat_map(all).map(|it| (it.id, it)).collect()
        });
        let asked = self.who_is_asked();
        for it in self.host.containers.iter_mut().filter(|it| it.state == State::Running) {
            let Some(of) = it.origin.deployment.and_then(|id| BY_ID.get(&id)) else { continue };
            let is_ill = self.ill.contains(&of.spec.image);
            self.listening.extend((!is_ill).then(|| it.id.clone()));
            it.health = match &of.spec.health {
                None => Health::None,
                Some(_) if !asked.contains(&it.id) => it.health,
                Some(_) if is_ill => Health::Unhealthy,
                Some(_) => Health::Healthy,
            };
        }
        self.knocks();
        for it in &self.host.containers {
            let Some(of) = it.origin.deployment.and_then(|id| BY_ID.get(&id)) else { continue };
            if is_well(it, of, self.host.now) {
                self.setbacks.is_well(&of.id, self.host.now);
            }
        }
    }

    /// What the server thinks need not be waited for: a host knows best what serves in a place.
    fn is_over(&self, plan: &Plan) -> BTreeSet<DeploymentId> {
        let is_wanted = |it: &DeploymentReport| {
            let mut wanted = self.host.wanted.iter();
            wanted.any(|wanted| (&wanted.service, wanted.replica) == (&it.service, it.replica))
        };
        let retiring = plan.reports.iter().filter(|it| it.phase == Phase::Retiring);
        retiring.filter(|it| !it.serves || !is_wanted(it)).map(|it| it.id).collect()
    }

    /// No proxy leads there any more, which is told once.
    pub(super) fn released(&mut self) {
        let plan = self.looks();
        let (over, now) = (self.is_over(&plan), self.host.now);
        self.host.released.extend(over.difference(&self.told).map(|id| (*id, now)));
        self.told = over;
    }

    /// Nothing goes wrong any more.
    pub(super) fn calms_down(&mut self) {
        self.ill.clear();
        self.refused.clear();
        self.unstartable.clear();
        self.host.images.values_mut().for_each(|it| *it = Image::Present);
        self.unheard = None;
        self.host.alone = false;
        self.setbacks.forget_all();
        self.host.held_up.clear();
        // Twice nothing to do, with time to drain in between, is the end.
        let mut idle = 0;
        for _ in 0..200 {
            match self.next() {
                Some(change) => {
                    idle = 0;
                    self.applies(change, true);
                }
                None if idle == 2 => return,
                None => {
                    idle += 1;
                    // Somebody asks for what was given up in the last moment.
                    self.setbacks.forget_all();
                    self.released();
                    self.host.now += Duration::from_secs(60);
                }
            }
            self.health_is_asked();
        }
        panic!("it does not come to rest");
    }
}
