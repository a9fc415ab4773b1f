mod bad_nights;
mod connecting;
mod drifting;
mod refusing;
mod replacing;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fluke_model::id::{ServiceName, VolumeName};
use fluke_model::policy::Policy;
use fluke_model::service::{ContainerSpec, DeploymentId, Health, HealthSpec, Phase};
use fluke_model::verdict::Verdict;

use super::*;
use crate::services::fixture::{container, deployment, replica, service, spec};

const DRAIN: Duration = Duration::from_secs(5);

fn setback(why: &str, until: Instant) -> Setback {
    Setback::new(why.into(), until)
}

/// One host in the mind of a test.
#[derive(Debug, Clone)]
struct Host {
    wanted: Vec<Deployment>,
    not_understood: BTreeSet<ServiceName>,
    containers: Vec<Container>,
    images: BTreeMap<String, Image>,
    setbacks: BTreeMap<DeploymentId, Setback>,
    released: BTreeMap<DeploymentId, Instant>,
    network: Network,
    held_up: BTreeMap<String, Setback>,
    exclusive: bool,
    refused: Option<&'static str>,
    asked: Asked,
    alone: bool,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        Self {
            wanted: Vec::new(),
            not_understood: BTreeSet::new(),
            containers: Vec::new(),
            images: BTreeMap::new(),
            setbacks: BTreeMap::new(),
            released: BTreeMap::new(),
            network: Network::Ready,
            held_up: BTreeMap::new(),
            exclusive: false,
            refused: None,
            asked: Asked::Nobody,
            alone: false,
            now: Instant::now(),
        }
    }

    fn wanting(deployment: Deployment) -> Self {
        let mut host = Self::new();
        host.images.insert(deployment.spec.image.clone(), Image::Present);
        host.wanted.push(deployment);
        host
    }

    fn having(mut self, container: Container) -> Self {
        self.containers.push(container);
        self
    }

    fn plan(&self) -> Plan {
        let plan = self.decide();
        // Nobody would do anything else, for ever.
        assert!(plan.look_at.is_none_or(|at| at > self.now), "it waits for what is over");
        plan
    }

    fn decide(&self) -> Plan {
        plan(&Situation {
            wanted: &self.wanted,
            not_understood: &self.not_understood,
            containers: &self.containers,
            images: &self.images,
            setbacks: &self.setbacks,
            released: &self.released,
            network: &self.network,
            held_up: &self.held_up,
            exclusive: self.exclusive,
            refused: self.refused,
            asked: &self.asked,
            alone: self.alone,
            drain: DRAIN,
            now: self.now,
        })
    }

    /// What would be done, in short.
    fn changes(&self) -> Vec<String> {
        let in_short = |why: &Why| match why {
            Why::Tampered(_) => "tampered".into(),
            Why::Unwell(_) => "unwell".into(),
            Why::Restarted(_) => "to be started again".into(),
            why => format!("{why:?}").to_lowercase(),
        };
        let short = |change: &Change| match change {
            Change::MakeNetwork { replaces } => format!("make the network, replacing: {replaces}"),
            Change::Remove { container, why, .. } => {
                format!("remove {container}: {}", in_short(why))
            }
            Change::Stop { container, why, .. } => format!("stop {container}: {}", in_short(why)),
            Change::Start { container, .. } => format!("start {container}"),
            Change::Deploy { deployment, replaces, ahead } => {
                let how = match replaces {
                    _ if *ahead => "make ahead",
                    Replaces::Nothing => "deploy",
                    Replaces::Version => "replace by",
                    Replaces::Values(_) => "make anew",
                };
                format!("{how} {}", deployment.spec.image)
            }
        };
        self.plan().changes.iter().map(short).collect()
    }

    /// How what is wanted differs from what is there.
    fn drift(&self) -> Vec<String> {
        let reports = self.plan().reports;
        let how = |report: &DeploymentReport| match &report.verdict {
            Verdict::Satisfied => None,
            Verdict::Drifted(drift) => Some(drift.reason.clone()),
            Verdict::Error { reason } => panic!("a plan can tell: {reason}"),
        };
        reports.iter().filter_map(how).collect()
    }

    fn phases(&self) -> Vec<(Phase, bool)> {
        self.plan().reports.iter().map(|report| (report.phase, report.serves)).collect()
    }
}

fn with_volume(image: &str) -> ContainerSpec {
    let name = VolumeName::new("data").expect("a name");
    ContainerSpec { volumes: BTreeMap::from([(name, "/data".into())]), ..spec(image) }
}

fn with_health(image: &str) -> ContainerSpec {
    let health = HealthSpec {
        command: "true".into(),
        interval_ms: 1000,
        timeout_ms: 1000,
        retries: 2,
        start_period_ms: 4000,
    };
    ContainerSpec { health: Some(health), ..spec(image) }
}

fn with_both(image: &str) -> ContainerSpec {
    ContainerSpec { volumes: with_volume(image).volumes, ..with_health(image) }
}

fn somebody_elses(id: &str) -> Container {
    let web = deployment("web", spec("web:1"));
    let origin = Origin::default();
    let theirs = container(id, &web, State::Running);
    Container { is_ours: false, in_network: false, origin, ..theirs }
}

#[test]
fn what_is_missing_is_deployed_once_its_image_is_here() {
    let mut host = Host::wanting(deployment("web", spec("web:1")));
    assert_eq!(host.changes(), ["deploy web:1"]);
    host.images.clear();
    assert_eq!(host.changes(), [""; 0]);
    assert!(host.plan().fetch.contains("web:1"));
    host.images.insert("web:1".into(), Image::Coming("3 of 5 layers".into()));
    let plan = host.plan();
    assert!(plan.changes.is_empty() && plan.fetch.is_empty());
    assert_eq!(plan.reports[0].phase, Phase::Pulling);
    assert_eq!(plan.reports[0].note.as_deref(), Some("3 of 5 layers"));
}

#[test]
fn what_stands_still_is_started() {
    let web = deployment("web", spec("web:1"));
    for state in [State::Created, State::Exited] {
        let host = Host::wanting(web.clone()).having(container("c", &web, state));
        assert_eq!(host.changes(), ["start c"]);
    }
    let host = Host::wanting(web.clone()).having(container("c", &web, State::Running));
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.phases(), [(Phase::Running, true)]);
}

#[test]
fn what_somebody_else_runs_is_left_alone_unless_the_host_is_ours() {
    let mut host = Host::new().having(somebody_elses("theirs"));
    assert_eq!(host.changes(), [""; 0]);
    host.exclusive = true;
    assert_eq!(host.changes(), ["stop theirs: orphan"]);
}

#[test]
fn a_container_of_ours_that_does_not_say_whose_it_is_goes() {
    let lost = Container { is_ours: true, ..somebody_elses("lost") };
    assert_eq!(Host::new().having(lost).changes(), ["stop lost: orphan"]);
}

#[test]
fn an_orphan_goes_when_nothing_leads_to_it_any_more() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::new().having(container("c", &web, State::Running));
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.phases(), [(Phase::Retiring, true)]);
    host.released.insert(web.id, host.now);
    assert_eq!(host.changes(), [""; 0], "it drains");
    assert_eq!(host.plan().look_at, Some(host.now + DRAIN));
    host.now += DRAIN;
    assert_eq!(host.changes(), ["stop c: orphan"]);
    host.containers[0].state = State::Changing;
    assert_eq!(host.changes(), [""; 0], "it has its time");
    // Nothing leads to what does not run.
    let host = Host::new().having(container("c", &web, State::Exited));
    assert_eq!(host.changes(), ["remove c: orphan"]);
}

#[test]
fn what_a_newer_server_says_in_words_that_are_not_known_is_left_alone() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::new().having(container("c", &web, State::Exited));
    host.not_understood.insert(web.service);
    assert_eq!(host.changes(), [""; 0]);
}

#[test]
fn one_that_is_not_well_and_alone_is_started_again() {
    let web = deployment("web", with_health("web:1"));
    let mut host = Host::wanting(web.clone()).having(container("c", &web, State::Running));
    (host.containers[0].health, host.containers[0].asked_since) =
        (Health::Unhealthy, Some(host.now));
    // It has its time after each start, whatever it was found to be before.
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.plan().look_at, Some(host.now + Duration::from_secs(10)));
    assert_eq!(host.phases(), [(Phase::Failed, false)]);
    host.now += Duration::from_secs(10);
    assert_eq!(host.changes(), ["stop c: to be started again"]);
    let until = host.now + DRAIN;
    host.setbacks.insert(web.id, setback("it does not last", until));
    assert_eq!(host.changes(), [""; 0], "it may become well in the pause");
    assert_eq!(host.plan().look_at, Some(until));
    host.now = until;

    host.containers[0].told_to_end = Some(Ending::Returns("it is not well".into()));
    host.containers[0].state = State::Changing;
    assert_eq!(host.changes(), [""; 0], "it has its time to end");
    host.containers[0].state = State::Exited;
    assert_eq!(host.changes(), ["start c"]);
}

#[test]
fn one_that_does_not_become_well_in_time_is_started_again_too() {
    let web = deployment("web", with_health("web:1"));
    let mut host = Host::wanting(web.clone()).having(container("c", &web, State::Running));
    host.containers[0].health = Health::Starting;
    host.containers[0].started = host.now.checked_sub(Duration::from_secs(3600));
    assert_eq!(host.changes(), [""; 0], "nobody has asked it for an hour");
    host.containers[0].asked_since = Some(host.now);
    assert_eq!(host.changes(), [""; 0]);
    host.now += Duration::from_secs(10);
    assert_eq!(host.changes(), ["stop c: to be started again"]);
}

#[test]
fn two_containers_never_run_with_one_volume() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone()).having(container("old", &old, State::Running));
    assert_eq!(host.changes(), ["make ahead db:2"]);
    host.containers.push(container("new", &new, State::Created));
    assert_eq!(host.drift(), ["a container of an earlier version runs"]);
    assert_eq!(host.changes(), ["stop old: makesway"]);
    host.containers[0].state = State::Changing;
    assert_eq!(host.changes(), [""; 0], "it has its time to end");
    host.containers[0].state = State::Exited;
    assert_eq!(host.changes(), ["start new"]);
    host.containers[1].state = State::Running;
    assert_eq!(host.changes(), ["remove old: succeeded"]);
    // Does not come up: the old one is there to go back to.
    host.containers.pop();
    let setback = setback("it did not", host.now + DRAIN);
    host.setbacks.insert(new.id, setback);
    assert_eq!(host.changes(), ["start old"]);
}

#[test]
fn of_two_of_one_deployment_the_one_that_serves_stays() {
    let web = deployment("web", spec("web:1"));
    let host = Host::wanting(web.clone())
        .having(container("a", &web, State::Exited))
        .having(container("b", &web, State::Running));
    assert_eq!(host.changes(), ["remove a: double"]);
}

#[test]
fn what_was_tampered_with_is_made_anew() {
    let web = deployment("web", spec("web:1"));
    let tampered = Some("its image is another".into());
    let it = Container { tampered, ..container("c", &web, State::Running) };
    assert_eq!(Host::wanting(web).having(it).changes(), ["stop c: tampered"]);
}

#[test]
fn the_network_comes_before_what_is_in_it() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::wanting(web.clone());
    host.network = Network::Missing;
    assert_eq!(host.changes(), ["make the network, replacing: false"]);
    host.containers.push(container("c", &web, State::Exited));
    assert_eq!(host.changes(), ["make the network, replacing: false"]);
    host.network = Network::Ready;
    assert_eq!(host.changes(), ["start c"]);
    let nobody = Host { wanted: Vec::new(), network: Network::Missing, ..Host::new() };
    assert_eq!(nobody.changes(), [""; 0], "nobody needs one");
}

#[test]
fn a_network_is_made_anew_once_nothing_is_in_it() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", spec("web:2")));
    let mut host = Host::wanting(new).having(container("old", &old, State::Running));
    host.network = Network::Other("its subnet is another".into());
    assert_eq!(host.changes(), ["stop old: tampered"]);
    host.containers[0].state = State::Exited;
    assert_eq!(host.changes(), ["remove old: tampered"]);
    host.containers[0] = somebody_elses("theirs");
    assert_eq!(host.changes(), ["make the network, replacing: true"]);
    host.containers[0].in_network = true;
    assert_eq!(host.changes(), [""; 0]);
    assert!(host.plan().network_problem.is_some_and(|problem| problem.contains("theirs")));
}

#[test]
fn what_could_not_be_changed_holds_up_nothing_else() {
    let web = deployment("web", spec("web:1"));
    let mut host = Host::new().having(container("a", &web, State::Exited)).having(container(
        "b",
        &web,
        State::Exited,
    ));
    let until = host.now + DRAIN;
    host.held_up.insert("a".into(), setback("it would not", until));
    assert_eq!(host.changes(), ["remove b: orphan"]);
    assert_eq!(host.plan().look_at, Some(until));
    host.now = until;
    assert_eq!(host.changes(), ["remove a: orphan", "remove b: orphan"]);
}

#[test]
fn changes_come_in_their_order() {
    let names = ["a", "b", "c", "d"].map(|name| deployment(name, spec("x:1")));
    let [missing, stopped, changed, _] = names.clone();
    let old = deployment("c", spec("x:0"));
    let gone = deployment("e", spec("x:1"));
    let mut host = Host::new()
        .having(container("gone", &gone, State::Exited))
        .having(container("stopped", &stopped, State::Exited))
        .having(container("old", &old, State::Running));
    host.images.insert("x:1".into(), Image::Present);
    host.wanted = vec![changed, missing, stopped];
    let expected = ["remove gone: orphan", "start stopped", "deploy x:1", "replace by x:1"];
    assert_eq!(host.changes(), expected);
}
