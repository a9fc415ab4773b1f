mod bad_nights;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluke_model::id::{AgentName, ServiceName, VolumeName};
use fluke_model::policy::Policy;
use fluke_model::service::{
    ContainerSpec, DeploymentId, Health, HealthSpec, Phase, Replica, Resources,
};

use super::*;

const DRAIN: Duration = Duration::from_secs(5);

/// One host in the mind of a test.
#[derive(Debug, Clone)]
struct Host {
    wanted: Vec<Deployment>,
    not_understood: BTreeSet<ServiceName>,
    containers: Vec<Container>,
    images: BTreeMap<String, Image>,
    setbacks: BTreeMap<DeploymentId, Setback>,
    released: BTreeMap<DeploymentId, Instant>,
    exclusive: bool,
    manual: bool,
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
            exclusive: false,
            manual: false,
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
        plan(&Situation {
            wanted: &self.wanted,
            not_understood: &self.not_understood,
            containers: &self.containers,
            images: &self.images,
            setbacks: &self.setbacks,
            released: &self.released,
            exclusive: self.exclusive,
            manual: self.manual,
            drain: DRAIN,
            now: self.now,
        })
    }

    /// What would be done, in short.
    fn changes(&self) -> Vec<String> {
        let short = |change: &Change| match change {
            Change::Remove { container, why, .. } => match why {
                Why::Tampered(_) => format!("remove {container}: tampered"),
                Why::Unwell(_) => format!("remove {container}: unwell"),
                why => format!("remove {container}: {why:?}").to_lowercase(),
            },
            Change::Stop { container, .. } => format!("stop {container}"),
            Change::Start { container, .. } => format!("start {container}"),
            Change::Deploy { deployment, replaces } => {
                let how = if *replaces { "replace by" } else { "deploy" };
                format!("{how} {}", deployment.spec.image)
            }
        };
        self.plan().changes.iter().map(short).collect()
    }

    fn phases(&self) -> Vec<(Phase, bool)> {
        self.plan().reports.iter().map(|report| (report.phase, report.serves)).collect()
    }
}

fn service(name: &str) -> ServiceName {
    ServiceName::new(name).expect("a name")
}

fn spec(image: &str) -> ContainerSpec {
    ContainerSpec {
        image: image.into(),
        command: None,
        env: BTreeMap::new(),
        volumes: BTreeMap::new(),
        health: None,
        resources: Resources::default(),
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

fn deployment(name: &str, spec: ContainerSpec) -> Deployment {
    let (service, host) = (service(name), AgentName::new("h1").expect("a name"));
    let id = DeploymentId::of(&service, &spec, Replica::Own, &host);
    let policy = Policy::Remediate;
    Deployment { id, service, replica: Replica::Own, policy, spec: Arc::new(spec) }
}

fn container(id: &str, of: &Deployment, state: State) -> Container {
    Container {
        id: id.into(),
        name: id.into(),
        is_ours: true,
        origin: Origin {
            deployment: Some(of.id),
            service: Some(of.service.clone()),
            replica: Some(of.replica),
        },
        state,
        health: Health::None,
        tampered: None,
        address: None,
        digest: None,
        started: None,
    }
}

fn somebody_elses(id: &str) -> Container {
    let web = deployment("web", spec("web:1"));
    let origin = Origin::default();
    Container { is_ours: false, origin, ..container(id, &web, State::Running) }
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
    assert_eq!(host.changes(), ["remove theirs: orphan"]);
}

#[test]
fn a_container_of_ours_that_does_not_say_whose_it_is_goes() {
    let lost = Container { is_ours: true, ..somebody_elses("lost") };
    assert_eq!(Host::new().having(lost).changes(), ["remove lost: orphan"]);
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
    assert_eq!(host.changes(), ["remove c: orphan"]);
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
fn a_successor_starts_first_and_serves_before_its_predecessor_goes() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", with_health("web:2")));
    let mut host = Host::wanting(new.clone()).having(container("old", &old, State::Running));
    assert_eq!(host.changes(), ["replace by web:2"]);
    assert_eq!(host.phases(), [(Phase::Missing, false), (Phase::Retiring, true)]);

    host.containers.push(container("new", &new, State::Running));
    host.containers[1].started = Some(host.now);
    assert_eq!(host.changes(), [""; 0]);
    assert_eq!(host.phases(), [(Phase::Starting, false), (Phase::Retiring, true)]);

    host.containers[1].health = Health::Healthy;
    assert_eq!(host.phases(), [(Phase::Running, true), (Phase::Retiring, false)]);
    assert_eq!(host.changes(), [""; 0], "something may still lead to it");
    host.released.insert(old.id, host.now - DRAIN);
    assert_eq!(host.changes(), ["remove old: succeeded"]);
}

#[test]
fn a_successor_that_does_not_become_well_goes_and_its_predecessor_stays() {
    let (old, new) = (deployment("web", spec("web:1")), deployment("web", with_health("web:2")));
    let mut host = Host::wanting(new.clone())
        .having(container("old", &old, State::Running))
        .having(container("new", &new, State::Running));
    host.containers[1].started = Some(host.now);
    // 4 s to start, and three rounds of at most 2 s.
    assert_eq!(host.plan().look_at, Some(host.now + Duration::from_secs(10)));
    host.now += Duration::from_secs(10);
    assert_eq!(host.changes(), ["remove new: unwell"]);
    host.containers.pop();
    let setback = Setback { why: "it did not".into(), until: host.now + DRAIN };
    host.setbacks.insert(new.id, setback);
    assert_eq!(host.changes(), [""; 0], "not at once");
    assert_eq!(host.phases(), [(Phase::Failed, false), (Phase::Retiring, true)]);
    host.now += DRAIN;
    assert_eq!(host.changes(), ["replace by web:2"]);
}

#[test]
fn two_containers_never_have_one_volume() {
    let (old, new) = (deployment("db", with_volume("db:1")), deployment("db", with_volume("db:2")));
    let mut host = Host::wanting(new.clone()).having(container("old", &old, State::Running));
    assert_eq!(host.changes(), ["stop old"]);
    host.containers[0].state = State::Exited;
    assert_eq!(host.changes(), ["replace by db:2"]);
    host.containers.push(container("new", &new, State::Running));
    assert_eq!(host.changes(), ["remove old: succeeded"]);
    // Does not come up: the old one is there to go back to.
    host.containers.pop();
    let setback = Setback { why: "it did not".into(), until: host.now + DRAIN };
    host.setbacks.insert(new.id, setback);
    assert_eq!(host.changes(), ["start old"]);
}

#[test]
fn the_predecessor_goes_on_while_the_image_cannot_be_had() {
    for make in [spec, with_volume] {
        let (old, new) = (deployment("web", make("web:1")), deployment("web", make("web:2")));
        let mut host = Host::wanting(new).having(container("old", &old, State::Running));
        let until = host.now + DRAIN;
        host.images.insert("web:2".into(), Image::Failed("no such image".into(), until));
        assert_eq!(host.changes(), [""; 0]);
        assert_eq!(host.phases(), [(Phase::Failed, false), (Phase::Retiring, true)]);
    }
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
    assert_eq!(Host::wanting(web).having(it).changes(), ["remove c: tampered"]);
}

#[test]
fn what_a_policy_leaves_to_a_human_waits_for_one() {
    let web = Deployment { policy: Policy::AlertOnly, ..deployment("web", spec("web:1")) };
    let mut host = Host::wanting(web);
    let plan = host.plan();
    assert!(plan.changes.is_empty());
    assert_eq!(plan.awaits_human, [(service("web"), "its container is missing".to_string())]);
    host.manual = true;
    assert_eq!(host.changes(), ["deploy web:1"]);
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
