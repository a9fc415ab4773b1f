//! What hosts are told of each other: real streams, agents that a test plays.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use fluke_model::bounds::{MAX_DEPLOYMENTS, MAX_REPLICAS};
use fluke_model::directory::{Claim, Names, Placements, PublicKey, Routes, Subnet, Table};
use fluke_model::message::{
    DirectoryEdit, MeshReport, NetworkReport, Section, SectionReport, ServicesReport,
};
use fluke_model::service::{DeploymentId, DeploymentReport, Phase, Replica, Service};
use fluke_model::snapshot::Snapshot;

use super::*;
use crate::services::book::{SETTLING, Word};
use crate::services::fixture::{came, deployment, name, service, take_all, web};

/// An agent, and what it holds.
struct Host {
    stream: Stream,
    snapshot: Option<Arc<Snapshot>>,
    names: Names,
    routes: Option<Routes>,
    /// How often it was told of others in the mesh.
    peers: usize,
    placements: Placements,
    subnet: Option<Claim>,
    released: BTreeSet<DeploymentId>,
    /// How many edits were told as a whole.
    wholes: usize,
    snapshots: usize,
}

impl Host {
    async fn joins(door: &Door, name: &str, node_type: NodeType) -> Self {
        Self::over(door.join_as(name, node_type, None).await)
    }

    /// One that was told before what it should be.
    async fn returns(door: &Door, name: &str) -> Self {
        let held = Some(Hash256::of(b"of another life"));
        Self::over(door.join_as(name, NodeType::Worker, held).await)
    }

    fn over(stream: Stream) -> Self {
        Self {
            stream,
            snapshot: None,
            names: Table::default(),
            routes: None,
            peers: 0,
            placements: Table::default(),
            subnet: None,
            released: BTreeSet::new(),
            wholes: 0,
            snapshots: 0,
        }
    }

    async fn says(&self, message: ToServer) {
        self.stream.outgoing.send(message).await.expect("open");
    }

    /// All that it runs.
    async fn runs(&self, deployments: Vec<DeploymentReport>) {
        let report = ServicesReport { whole: true, deployments, ..ServicesReport::default() };
        self.says(ToServer::Services(report)).await;
    }

    /// Hears until something holds.
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let hearing = async {
            while !holds(self) {
                let message = self.stream.incoming.next().await.expect("open").expect("a message");
                self.hear(message);
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(60), hearing).await;
        assert!(heard.is_ok(), "never {what}: {:?} {:?}", self.names, self.routes);
    }

    fn hear(&mut self, message: ToAgent) {
        match message {
            ToAgent::Snapshot { snapshot, .. } => {
                self.snapshot = Some(snapshot);
                self.snapshots += 1;
            }
            ToAgent::Directory(DirectoryEdit::Names(edit)) => {
                self.wholes += usize::from(edit.from.is_none());
                self.names.apply(edit).expect("it fits");
            }
            ToAgent::Directory(DirectoryEdit::Routes(edit)) => {
                self.routes.get_or_insert_default().apply(edit).expect("it fits");
            }
            ToAgent::Directory(DirectoryEdit::Peers(_)) => self.peers += 1,
            ToAgent::Directory(DirectoryEdit::Placements(edit)) => {
                self.placements.apply(edit).expect("it fits");
            }
            ToAgent::Subnet(claim) => self.subnet = Some(claim),
            ToAgent::Released(ids) => self.released.extend(ids),
            _ => {}
        }
    }

    fn addresses(&self) -> Vec<Ipv4Addr> {
        self.names.addresses(&web()).into_iter().flatten().collect()
    }

    /// The replicas that it should have.
    fn replicas(&self) -> Vec<Replica> {
        let services = self.snapshot.iter().flat_map(|snapshot| snapshot.services());
        services.flat_map(|service| service.replicas.clone()).collect()
    }

    /// Says that its proxy has loaded what it was told.
    async fn loads(&self) {
        let hash = self.routes.as_ref().map_or_else(|| Routes::default().hash(), Routes::hash);
        let section = || SectionReport { hash, problem: None, left_out: [].into() };
        let report = NetworkReport { names: section(), routes: Some(section()), mesh: section() };
        self.says(ToServer::Network(report)).await;
    }
}

impl Door {
    fn serve(&self, id: &str, service: Service) {
        let services = [(service.name.clone(), Arc::new(service))].into();
        self.put_in_force(id, Model { services, ..Model::default() });
    }
}

fn own(host: u8) -> DeploymentReport {
    deployment(&format!("own-{host}"), Replica::Own, [10, 200, host, 2])
}

fn address(host: u8) -> Ipv4Addr {
    [10, 200, host, 2].into()
}

/// How a host is reached that takes this subnet to be its own.
fn mesh(number: u16) -> ToServer {
    let claim = Subnet::new(number).map(|subnet| Claim { subnet, since: Timestamp(1) });
    let public_key = PublicKey([number as u8; 32]);
    ToServer::Mesh(MeshReport { public_key, endpoints: vec![], claim })
}

#[tokio::test]
async fn a_host_for_which_no_subnet_is_left_is_failed_and_says_what_to_do_until_one_is_free() {
    let door = Door::open().await;
    door.serve("one", service(None));
    let a = Host::joins(&door, "a", NodeType::Worker).await;
    a.runs(vec![]).await;
    a.says(mesh(7)).await;
    door.until("a has it", |it| it.desk.book().view().claims.of(&name("a")).is_some()).await;
    door.desk.arrange(take_all);
    let problem = |door: &Door| {
        let parts = door.registry.agent("b").map(|agent| agent.network).unwrap_or_default();
        parts.into_iter().find(|part| part.part == "mesh").map(|part| part.problem)
    };
    let mut b = Host::joins(&door, "b", NodeType::Worker).await;
    b.runs(vec![]).await;
    b.loads().await;
    door.until("it is well", |door| problem(door) == Some(None)).await;
    b.says(mesh(7)).await;
    let is_told = |door: &Door| {
        problem(door).flatten().is_some_and(|problem| problem.contains("`fluke forget agent NAME`"))
    };
    door.until("it is told", is_told).await;
    b.loads().await;
    b.runs(vec![own(7)]).await;
    door.until("it is failed", |door| door.agent("b").status == Status::Failed).await;
    assert!(is_told(&door), "its own word does not hide it");

    drop(a);
    door.until("a is gone", |door| !door.agent("a").connected).await;
    door.desk.forget(&name("a")).await;
    b.until("it has one", |b| b.subnet.is_some_and(|claim| claim.subnet.number() == 7)).await;
    door.until("it is over", |door| problem(door) == Some(None)).await;
}

#[tokio::test]
async fn who_goes_on_saying_what_else_it_runs_is_not_listened_to_without_end() {
    let door = Door::open().await;
    door.serve("aaa", service(None));
    let mut a = Host::joins(&door, "a", NodeType::Worker).await;
    let more = |round: u32| {
        let one = |number| deployment(&format!("{round}-{number}"), Replica::Own, [10, 200, 1, 2]);
        let deployments = (0..MAX_REPLICAS).map(one).collect();
        ToServer::Services(ServicesReport { deployments, ..ServicesReport::default() })
    };
    for round in 0..3 {
        a.says(more(round)).await;
    }
    let ended = async { while let Ok(Some(_)) = a.stream.incoming.next().await {} };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("its session ends");
    let why = "the list of this host's deployments has 30000 entries; at most 20000 are accepted";
    let refusal = ("agent_disconnected", Some(why.to_string()));
    let refused = |door: &Door| door.told().iter().filter(|it| **it == refusal).count();
    door.until("it is refused", |door| refused(door) == 1).await;
    let known =
        |door: &Door| door.desk.book().view().hosts[&name("a")].deployments.values().count();
    door.until("the rest was heard", |door| known(door) == MAX_DEPLOYMENTS).await;

    // Nor in another session; but what replaces all that was said before is heard.
    let b = Host::joins(&door, "a", NodeType::Worker).await;
    b.says(more(3)).await;
    door.until("it is refused again", |door| refused(door) == 2).await;
    assert_eq!(known(&door), MAX_DEPLOYMENTS);
    let c = Host::joins(&door, "a", NodeType::Worker).await;
    c.runs(vec![own(1)]).await;
    door.until("it is heard", |door| known(door) == 1).await;
}

#[tokio::test]
async fn what_runs_on_one_host_has_a_name_on_the_other_for_as_long_as_it_serves() {
    let door = Door::open().await;
    door.serve("aaa", service(None));
    let mut a = Host::joins(&door, "a", NodeType::Worker).await;
    let mut b = Host::joins(&door, "b", NodeType::Worker).await;
    a.until("it has its own", |a| a.replicas() == [Replica::Own]).await;
    b.runs(vec![]).await;
    a.runs(vec![own(1)]).await;
    b.until("it knows of a", |b| b.addresses() == [address(1)]).await;
    assert_eq!(b.routes, None, "a worker has no proxy");
    a.runs(vec![DeploymentReport { serves: false, phase: Phase::Stopped, ..own(1) }]).await;
    b.until("it is gone", |b| b.addresses().is_empty()).await;
    assert_eq!(b.wholes, 1, "told once as a whole, then what changed");
    b.says(ToServer::Resend(Section::Names)).await;
    b.until("told as a whole", |b| b.wholes == 2).await;
}

#[tokio::test]
async fn a_predecessor_is_released_once_every_proxy_has_loaded_routes_without_it() {
    let door = Door::open().await;
    door.serve("aaa", service(None));
    let a = Host::joins(&door, "a", NodeType::Worker).await;
    let mut proxy = Host::joins(&door, "proxy", NodeType::Proxy).await;
    proxy.runs(vec![]).await;
    a.runs(vec![own(1)]).await;
    let leads_to = |host: &Host, address: Ipv4Addr| {
        let routes = host.routes.iter().flat_map(|routes| routes.rows().values());
        routes.flat_map(|route| &route.upstreams).any(|upstream| *upstream.ip() == address)
    };
    proxy.until("it leads to a", |it| leads_to(it, address(1))).await;
    proxy.loads().await;

    let mut a = a;
    let next = deployment("next", Replica::Own, [10, 200, 1, 3]);
    let old = DeploymentReport { phase: Phase::Retiring, serves: false, ..own(1) };
    a.runs(vec![old.clone(), next.clone()]).await;
    proxy
        .until("it leads to the next", |it| {
            leads_to(it, [10, 200, 1, 3].into()) && !leads_to(it, address(1))
        })
        .await;
    assert!(a.released.is_empty());
    proxy.loads().await;
    a.until("the old one is released", |a| a.released.contains(&old.id)).await;
    assert_eq!(a.released.len(), 1);
}

#[tokio::test]
async fn an_agent_that_restarts_keeps_its_names() {
    let door = Door::open().await;
    door.serve("aaa", service(None));
    let a = Host::joins(&door, "a", NodeType::Worker).await;
    let mut b = Host::joins(&door, "b", NodeType::Worker).await;
    b.runs(vec![]).await;
    a.runs(vec![own(1)]).await;
    b.until("it knows of a", |b| b.addresses() == [address(1)]).await;
    drop(a);
    door.until("a is gone", |door| !door.agent("a").connected).await;
    // Whatever is told next is told with a's name in it.
    b.runs(vec![own(2)]).await;
    b.until("it knows of itself", |b| b.addresses().contains(&address(2))).await;
    assert_eq!(b.addresses(), [address(1), address(2)]);

    let mut a = Host::joins(&door, "a", NodeType::Worker).await;
    a.until("it has all names before it says anything", |a| a.addresses().len() == 2).await;
}

#[tokio::test]
async fn a_host_that_goes_down_is_led_to_no_more_while_its_agent_still_ends_something() {
    let door = Door::open().await;
    door.serve("aaa", service(None));
    let a = Host::joins(&door, "a", NodeType::Worker).await;
    let mut b = Host::joins(&door, "b", NodeType::Worker).await;
    a.runs(vec![own(1)]).await;
    b.runs(vec![own(2)]).await;
    b.until("it knows of both", |b| b.addresses() == [address(1), address(2)]).await;
    a.says(ToServer::GoingDown).await;
    b.until("a is gone from the names", |b| b.addresses() == [address(2)]).await;
    assert!(door.agent("a").connected);
    drop(a);
    let why = Some("the host is going down: it was shut down or rebooted".to_owned());
    door.until("it is on record why", |door| {
        door.told().contains(&("agent_disconnected", why.clone()))
    })
    .await;
    // It is booted, and whatever is told next is told without it.
    let mut a = Host::joins(&door, "a", NodeType::Worker).await;
    a.until("it is told of b", |a| a.addresses() == [address(2)]).await;
    a.runs(vec![own(1)]).await;
    b.until("it is back", |b| b.addresses() == [address(1), address(2)]).await;
}

#[tokio::test]
async fn an_agent_that_comes_back_is_told_what_changed_since_and_nothing_again() {
    let door = Door::open().await;
    door.serve("aaa", service(None));
    let a = Host::joins(&door, "a", NodeType::Worker).await;
    let mut b = Host::joins(&door, "b", NodeType::Worker).await;
    b.runs(vec![]).await;
    a.runs(vec![own(1)]).await;
    b.until("it knows of a", |b| b.addresses() == [address(1)]).await;
    let names = b.names.clone();
    drop(b);
    door.until("b is gone", |door| !door.agent("b").connected).await;
    let tables = Holdings { names: Some(names.hash()), ..Holdings::default() };
    for is_behind in [false, true] {
        if is_behind {
            a.runs(vec![own(1), deployment("other", Replica::Own, address(3))]).await;
        }
        let stream = door.join_with("b", NodeType::Worker, None, tables).await;
        let mut b = Host { names: names.clone(), ..Host::over(stream) };
        b.until("it is told what it lacks", |b| b.peers == 1).await;
        b.says(ToServer::Resend(Section::Peers)).await;
        b.until("whatever came with it came", |b| b.peers == 2).await;
        if is_behind {
            b.until("it knows of both", |b| b.addresses() == [address(1), address(3)]).await;
        }
        assert_eq!(b.wholes, 0, "it had names already");
        drop(b);
        door.until("b is gone", |door| !door.agent("b").connected).await;
    }
}

#[tokio::test]
async fn a_server_that_starts_anew_places_nothing_anew() {
    let names = ["a", "b", "c"];
    let mut placements = Placements::default();
    let mut before = BTreeMap::new();
    for life in ["first", "second"] {
        let door = Door::open().await;
        door.serve("aaa", service(Some(2)));
        let mut after = BTreeMap::new();
        // In another order each time.
        let order: Vec<&str> = match life {
            "first" => names.to_vec(),
            _ => names.iter().rev().copied().collect(),
        };
        let mut hosts = Vec::new();
        for name in order {
            let host = Host::joins(&door, name, NodeType::Worker).await;
            host.says(ToServer::Placements(placements.clone())).await;
            let runs: Option<&Vec<Replica>> = before.get(name);
            let runs = runs
                .into_iter()
                .flatten()
                .map(|replica| deployment(&format!("{replica:?}"), *replica, [10, 200, 1, 2]));
            host.runs(runs.collect()).await;
            hosts.push((name, host));
        }
        for (name, host) in &mut hosts {
            host.until("two are placed, as far as it knows", |host| {
                host.snapshot.is_some()
                    && host.placements.rows().get(&web()).is_some_and(|row| row.replicas.len() == 2)
            })
            .await;
            let host_name = AgentName::new(*name).expect("a name");
            let row = host.placements.rows()[&web()].clone();
            let numbers: Vec<Replica> = row
                .replicas
                .iter()
                .filter(|(_, at)| **at == host_name)
                .map(|(number, _)| Replica::Number(*number))
                .collect();
            host.until("its snapshot says so", |host| host.replicas() == numbers).await;
            after.insert(*name, numbers);
            placements = host.placements.clone();
        }
        if life == "second" {
            assert_eq!(before, after);
        }
        before = after;
    }
}

#[tokio::test]
async fn an_agent_that_comes_back_to_a_new_server_keeps_what_it_knows_until_others_are_back() {
    let door = Door::open().await;
    door.serve("aaa", service(Some(1)));
    let mut a = Host::returns(&door, "a").await;
    // Sent what it should be without its replica, it would stop it.
    a.runs(vec![deployment("0", Replica::Number(0), [10, 200, 1, 2])]).await;
    a.until("it has its replica", |a| a.replicas() == [Replica::Number(0)]).await;
    a.until("it knows where replicas are, which it said itself", |a| {
        !a.placements.rows().is_empty()
    })
    .await;
    assert_eq!((a.wholes, a.snapshots), (0, 1), "names may be missing that others bring");
}

/// A server that was just started, and cannot reach Git.
#[tokio::test]
async fn while_nobody_knows_what_git_says_no_host_is_told_what_to_be() {
    let door = Door::open().await;
    let mut hosts = [Host::returns(&door, "a").await, Host::returns(&door, "b").await];
    for (number, host) in hosts.iter().enumerate() {
        let replica = Replica::Number(number as u32);
        host.runs(vec![deployment(&number.to_string(), replica, [10, 200, 1, 2])]).await;
    }
    let has_heard = |door: &Door| {
        let book = door.desk.book();
        let mut hosts = book.view().hosts.values();
        hosts.len() == 2 && hosts.all(|host| host.deployments.values().count() == 1)
    };
    door.until("it is known what they run", has_heard).await;
    // Each is told once, and by then of its replica: told before, it would have stopped it.
    door.serve("aaa", service(Some(2)));
    for (number, host) in hosts.iter_mut().enumerate() {
        host.until("it is told what to be", |host| host.snapshots > 0).await;
        assert_eq!(host.replicas(), [Replica::Number(number as u32)]);
    }
}

#[tokio::test]
async fn the_earlier_claim_keeps_the_subnet() {
    let door = Door::open().await;
    door.serve("aaa", service(None));
    let claims = |key: u8, since: u64| {
        let subnet = Subnet::new(7).expect("in range");
        let claim = Some(Claim { subnet, since: Timestamp(since) });
        let public_key = PublicKey([key; 32]);
        ToServer::Mesh(MeshReport { public_key, endpoints: Vec::new(), claim })
    };
    let number = |host: &Host| host.subnet.map(|claim| claim.subnet.number());
    let mut late = Host::joins(&door, "late", NodeType::Worker).await;
    late.says(claims(1, 200)).await;
    late.until("it has what it claims", |host| number(host) == Some(7)).await;
    let mut early = Host::joins(&door, "early", NodeType::Worker).await;
    early.says(claims(2, 100)).await;
    early.until("it has what it claims", |host| number(host) == Some(7)).await;
    late.until("it has another one", |host| number(host) != Some(7)).await;
}

#[tokio::test]
async fn an_agent_that_never_speaks_of_services_is_told_nothing_of_them() {
    let door = Door::open().await;
    let mut stream = door.join("plain").await;
    door.commit("aaa", &[("a", "plain", 1)]);
    assert_eq!(hears(&mut stream, 2).await, ["snapshot", "check"]);
    let a = Host::joins(&door, "a", NodeType::Worker).await;
    a.runs(vec![own(1)]).await;
    door.commit("bbb", &[("a", "plain", 2)]);
    assert_eq!(hears(&mut stream, 2).await, ["snapshot", "check"]);
}

fn hello(host: &str, tables: Holdings) -> Hello {
    Hello {
        name: name(host),
        labels: Labels::default(),
        version: "0".into(),
        executors: ["container", "mesh"].map(Into::into).into(),
        node_type: NodeType::Worker,
        snapshot: None,
        instance: InstanceId(1),
        previous: None,
        tables,
    }
}

/// A host that attends at a desk, without a stream, so that its session can be as slow as it likes.
struct Slow {
    git: watch::Sender<Option<Arc<Desired>>>,
    desk: Desk,
    attendance: Attendance,
}

impl Slow {
    /// It has come, and says that it runs nothing.
    async fn attends() -> Self {
        let host = Self::comes(hello("a", Holdings::default())).await;
        let nothing = ServicesReport { whole: true, ..ServicesReport::default() };
        host.says("a", Word::Services(nothing)).await;
        // A server that has just started places nothing; the clock is the test's.
        tokio::time::sleep(SETTLING).await;
        host
    }

    /// It was here before, and so takes its seat before it says anything.
    async fn comes(hello: Hello) -> Self {
        let (git, wanted) = watch::channel(None);
        let desk =
            Desk::start(wanted, Arc::<Sink>::default(), Changes::default(), Clock::default());
        desk.attend(&hello.name, SessionId(1), came(Labels::default(), hello.node_type)).await;
        while !desk.knows(&hello.name) {
            tokio::task::yield_now().await;
        }
        let mut attendance = Attendance::new(desk.clone(), &hello, SessionId(2));
        attendance.begin().await;
        Self { git, desk, attendance }
    }

    /// One of them says something; it was heard to come, as itself or as another.
    async fn says(&self, host: &str, word: Word) {
        self.desk.tell(&name(host), SessionId(2), word).await;
    }

    /// Whether it is told other names than it has.
    fn is_told_names(&mut self) -> bool {
        let before = self.attendance.knows().names;
        let letters = self.attendance.lacks();
        self.attendance.knows().names != before && !letters.is_empty()
    }

    /// A commit comes into force, and the desk has said so.
    async fn commits(&mut self, number: u32, replicas: u32) -> Arc<Desired> {
        let mut web = service(Some(replicas));
        web.container.image = format!("web:{number}");
        let services = [(web.name.clone(), Arc::new(web))].into();
        let model = Model { services, ..Model::default() };
        let compiler = Compiler::new(&model, Policy::Remediate);
        let (commit, since) = (CommitId::new(number.to_string()), Timestamp(1));
        let desired = Arc::new(Desired::new(commit.clone(), since, model, compiler));
        self.git.send_replace(Some(desired.clone()));
        let is_it =
            |seen: &Option<Arc<Desired>>| seen.as_ref().is_some_and(|it| it.commit == commit);
        self.desk.desired().wait_for(is_it).await.expect("the desk is there");
        desired
    }

    /// What the host is sent by a session that has heard of this commit, and of none behind it.
    fn wanted(&mut self, heard: &Arc<Desired>) -> (String, String, usize) {
        let (Wanted { commit, snapshot }, _) =
            self.attendance.wanted(heard.clone()).expect("known");
        let [service] = snapshot.services() else { panic!("{snapshot:?}") };
        let image = service.container.as_ref().expect("understood").image.clone();
        (commit.to_string(), image, service.replicas.len())
    }
}

#[tokio::test(start_paused = true)]
async fn no_snapshot_is_made_of_one_commit_and_of_where_another_has_its_replicas() {
    let mut host = Slow::attends().await;
    let first = host.commits(1, 1).await;
    while host.attendance.wanted(first.clone()).is_none_or(|it| it.0.snapshot.services().is_empty())
    {
        host.attendance.changed().await;
    }
    assert_eq!(host.wanted(&first), ("1".into(), "web:1".into(), 1));
    let second = host.commits(2, 3).await;
    assert!(host.attendance.is_placed_anew());
    // It looks at its replicas first, as it may, with the second commit still to be heard of.
    assert_eq!(host.wanted(&first), ("2".into(), "web:2".into(), 3));
    assert_eq!(host.wanted(&second), ("2".into(), "web:2".into(), 3));
    // A commit that moves nothing is the one that holds all the same.
    let third = host.commits(3, 3).await;
    assert!(!host.attendance.is_placed_anew());
    assert_eq!(host.wanted(&third), ("3".into(), "web:3".into(), 3));
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_back_is_told_of_others_once_all_are_back_that_it_knows() {
    let mesh = |key: u8| {
        let subnet = Subnet::new(key.into()).expect("in range");
        let claim = Some(Claim { subnet, since: Timestamp(1) });
        Word::Mesh(MeshReport { public_key: PublicKey([key; 32]), endpoints: Vec::new(), claim })
    };
    let runs = |host: u8| {
        let deployments = vec![own(host)];
        Word::Services(ServicesReport { whole: true, deployments, ..ServicesReport::default() })
    };
    let mut held = Holdings::default();
    for life in ["first", "second"] {
        let snapshot = (life == "second").then(|| Hash256::of(b"of another life"));
        let mut a = Slow::comes(Hello { snapshot, ..hello("a", held) }).await;
        a.commits(1, 1).await;
        a.says("a", runs(1)).await;
        a.says("a", mesh(1)).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(a.is_told_names(), life == "first", "who comes back knows of b");

        a.desk.attend(&name("b"), SessionId(2), came(Labels::default(), NodeType::Worker)).await;
        a.says("b", mesh(2)).await;
        a.says("b", runs(2)).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(a.is_told_names(), "and is told of it long before all had time to return");
        held.peers = a.attendance.knows().peers;
    }
}
