use proptest::prelude::*;

use super::*;
use crate::id::{LabelKey, LabelValue, PortName, StepAddress};
use crate::label::{Labels, Selector};
use crate::service::{Port, Replica, Traffic};
use crate::task::{ExecutorSpec, Location, OnFailure, ShellSpec};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels(
        pairs
            .iter()
            .map(|(k, v)| (LabelKey::new(k).expect("key"), LabelValue::new(v).expect("value")))
            .collect(),
    )
}

fn task(name: &str, pairs: &[(&str, &str)], commands: &[&str]) -> Arc<Task> {
    let steps = commands.iter().enumerate().map(|(n, command)| Step {
        address: StepAddress::new("shell", &format!("s{n}")).expect("address"),
        on_failure: OnFailure::Abort,
        timeout: None,
        spec: ExecutorSpec::Shell(ShellSpec {
            check: "false".into(),
            command: (*command).into(),
            working_dir: None,
            run_as: None,
            env: BTreeMap::new(),
        }),
    });
    Arc::new(Task {
        name: TaskName::new(name).expect("name"),
        description: None,
        policy: None,
        selector: Selector { match_labels: labels(pairs).0, match_expressions: vec![] },
        steps: steps.collect(),
        defined: Location { file: "a.fluke.hcl".into(), line: 1 },
    })
}

fn model(tasks: &[Arc<Task>]) -> Model {
    let tasks = tasks.iter().map(|task| (task.name.clone(), task.clone())).collect();
    Model { tasks, ..Model::default() }
}

fn compile(tasks: &[Arc<Task>], host: &[(&str, &str)]) -> Arc<Snapshot> {
    Compiler::new(&model(tasks), Policy::Remediate).snapshot(&labels(host))
}

#[test]
fn a_snapshot_holds_only_what_matches() {
    let tasks = [
        task("all", &[], &["a"]),
        task("web", &[("role", "web")], &["b", "c"]),
        task("web-prod", &[("env", "prod"), ("role", "web")], &["d"]),
        task("db", &[("role", "db")], &["e"]),
    ];
    let names = |host: &[(&str, &str)]| -> Vec<String> {
        compile(&tasks, host).tasks().iter().map(|task| task.name.to_string()).collect()
    };
    assert_eq!(names(&[]), ["all"]);
    assert_eq!(names(&[("role", "web")]), ["all", "web"]);
    assert_eq!(names(&[("role", "web"), ("env", "prod")]), ["all", "web", "web-prod"]);
    assert_eq!(names(&[("role", "db"), ("env", "prod")]), ["all", "db"]);
}

#[test]
fn what_changes_nothing_for_a_host_leaves_its_hash() {
    let web = task("web", &[("role", "web")], &["a"]);
    let host = &[("role", "web")];
    let before = compile(std::slice::from_ref(&web), host);

    let elsewhere = compile(&[web.clone(), task("db", &[("role", "db")], &["x"])], host);
    assert_eq!(before.hash(), elsewhere.hash());

    let reworded = Arc::new(Task { description: Some("why".into()), ..(*web).clone() });
    assert_eq!(before.hash(), compile(&[reworded], host).hash());

    let moved = Location { file: "b.fluke.hcl".into(), line: 9 };
    assert_eq!(
        before.hash(),
        compile(&[Arc::new(Task { defined: moved, ..(*web).clone() })], host).hash()
    );

    let changed = compile(&[task("web", &[("role", "web")], &["b"])], host);
    assert_ne!(before.hash(), changed.hash());
    let stricter = Arc::new(Task { policy: Some(Policy::AlertOnly), ..(*web).clone() });
    assert_ne!(before.hash(), compile(&[stricter], host).hash());
}

#[test]
fn a_model_that_follows_is_compiled_like_a_new_one() {
    let (a, b) = (task("a", &[], &["1"]), task("b", &[], &["2"]));
    let first = Compiler::new(&model(&[a.clone(), b]), Policy::AlertOnly);
    let next = model(&[a, task("b", &[], &["3"]), task("c", &[], &["4"])]);
    let (followed, fresh) = (first.follow(&next), Compiler::new(&next, Policy::AlertOnly));
    let host = Labels::default();
    assert_eq!(followed.snapshot(&host), fresh.snapshot(&host));
    let shared = |compiler: &Compiler| compiler.snapshot(&host).tasks()[0].clone();
    assert!(Arc::ptr_eq(&shared(&first), &shared(&followed)), "what is the same is shared");
}

fn service(name: &str, replicas: Option<u32>, pairs: &[(&str, &str)]) -> Arc<Service> {
    Arc::new(Service {
        name: ServiceName::new(name).expect("name"),
        description: None,
        policy: None,
        selector: Selector { match_labels: labels(pairs).0, match_expressions: vec![] },
        replicas,
        reschedule_after: crate::service::RESCHEDULE_AFTER,
        container: crate::service::ContainerSpec {
            image: format!("{name}:1"),
            command: None,
            env: BTreeMap::new(),
            volumes: BTreeMap::new(),
            health: None,
            resources: Default::default(),
        },
        ports: Vec::new(),
        defined: Location { file: "a.fluke.hcl".into(), line: 1 },
    })
}

fn with_services(services: &[Arc<Service>]) -> Model {
    let by_name = |service: &Arc<Service>| (service.name.clone(), service.clone());
    Model { services: services.iter().map(by_name).collect(), ..model(&[task("a", &[], &["1"])]) }
}

fn placed(name: &str, numbers: &[u32]) -> Placed {
    Placed::from([(ServiceName::new(name).expect("name"), numbers.iter().copied().collect())])
}

#[test]
fn a_host_has_the_services_that_match_and_the_replicas_that_it_was_given() {
    let services =
        [service("own", None, &[("role", "app")]), service("web", Some(3), &[("role", "app")])];
    let compiler = Compiler::new(&with_services(&services), Policy::Remediate);
    let (app, other) = (labels(&[("role", "app")]), labels(&[]));
    let has = |labels: &Labels, placed: &Placed| -> Vec<(String, Vec<Replica>)> {
        let snapshot = compiler.snapshot_with(labels, placed);
        let each = snapshot.services().iter();
        each.map(|service| (service.name.to_string(), service.replicas.clone())).collect()
    };
    let own = || ("own".to_string(), vec![Replica::Own]);
    let numbered = |numbers: &[u32]| {
        ("web".to_string(), numbers.iter().copied().map(Replica::Number).collect())
    };
    assert_eq!(has(&app, &Placed::new()), [own()]);
    assert_eq!(has(&app, &placed("web", &[0, 2])), [own(), numbered(&[0, 2])]);
    assert_eq!(has(&app, &placed("web", &[3])), [own()], "there are three");
    assert_eq!(has(&app, &placed("own", &[0])), [own()], "it has no numbers");
    assert_eq!(has(&other, &placed("web", &[0])), [], "it is not for such a host");
    assert!(compiler.has_numbered(&app) && !compiler.has_numbered(&other));
}

#[test]
fn hosts_with_the_same_labels_and_replicas_share_a_snapshot_also_after_a_commit_for_others() {
    let web = service("web", Some(3), &[("role", "app")]);
    let first = Compiler::new(&with_services(std::slice::from_ref(&web)), Policy::Remediate);
    let app = labels(&[("role", "app")]);
    let one = first.snapshot_with(&app, &placed("web", &[0]));
    assert!(Arc::ptr_eq(&one, &first.snapshot_with(&app, &placed("web", &[0, 7]))));
    assert_ne!(one.hash(), first.snapshot_with(&app, &placed("web", &[1])).hash());
    assert_ne!(one.hash(), first.snapshot(&app).hash());

    let elsewhere = service("db", None, &[("role", "db")]);
    let next = first.follow(&with_services(&[web.clone(), elsewhere]));
    // The tasks are new values that say the same.
    let after = next.snapshot_with(&app, &placed("web", &[0]));
    assert!(Arc::ptr_eq(&one, &after));
    let changed = Arc::new(Service { replicas: Some(1), ..(*web).clone() });
    let next = next.follow(&with_services(&[changed]));
    assert_eq!(next.snapshot_with(&app, &placed("web", &[0])).hash(), one.hash());
    assert_eq!(next.snapshot_with(&app, &placed("web", &[1])).services().len(), 0);
}

#[test]
fn hosts_with_replicas_of_one_service_share_what_runs_and_each_has_a_hash_of_its_own() {
    let compiler =
        Compiler::new(&with_services(&[service("web", Some(3), &[])]), Policy::Remediate);
    let of = |number: u32| {
        let snapshot = compiler.snapshot_with(&labels(&[]), &placed("web", &[number]));
        (snapshot.services()[0].clone(), snapshot.service_hashes()[0])
    };
    let ((one, hash), (other, other_hash)) = (of(0), of(1));
    let runs = |it: &SnapshotService| it.container.clone().expect("understood");
    assert!(Arc::ptr_eq(&runs(&one), &runs(&other)));
    assert_eq!((hash, other_hash), (one.hash(), other.hash()), "as whoever gets it makes it");
    assert_ne!(hash, other_hash);
}

#[test]
fn a_commit_concerns_hosts_whose_services_listen_elsewhere() {
    for replicas in [None, Some(1)] {
        let web = service("web", replicas, &[]);
        let first = Compiler::new(&with_services(std::slice::from_ref(&web)), Policy::Remediate);
        let got = |compiler: &Compiler| compiler.snapshot_with(&labels(&[]), &placed("web", &[0]));
        let before = got(&first);
        let listens = |domain: Option<&str>| {
            let traffic = Traffic::Http { domain: domain.map(str::to_string) };
            let name = PortName::new("http").expect("name");
            let ports = vec![Port { name, container: 80, traffic }];
            with_services(&[Arc::new(Service { ports, ..(*web).clone() })])
        };
        let next = first.follow(&listens(None));
        assert!(!next.says_the_same_as(&first, &labels(&[])));
        assert_eq!(got(&next).services()[0].listens, [80]);
        assert_ne!(got(&next).hash(), before.hash());
        // Who is led there is nothing to them.
        let led_to = next.follow(&listens(Some("shop.example")));
        assert!(led_to.says_the_same_as(&next, &labels(&[])));
    }
}

#[test]
fn what_hosts_use_is_shared_however_many_they_are_and_what_nobody_uses_goes() {
    let compiler = Compiler::new(&model(&[task("all", &[], &["a"])]), Policy::Remediate);
    let of = |number: usize| compiler.snapshot(&labels(&[("host", &number.to_string())]));
    let used: Vec<_> = (0..20_000).map(of).collect();
    for (number, snapshot) in used.iter().enumerate() {
        assert!(Arc::ptr_eq(snapshot, &of(number)), "{number}");
    }
    let forgotten = Arc::downgrade(&of(20_000));
    (20_001..60_002).for_each(|number| drop(of(number)));
    assert_eq!(forgotten.strong_count(), 0);
    assert!(Arc::ptr_eq(&used[19_999], &of(19_999)));
}

#[test]
fn a_commit_leaves_the_snapshots_that_it_does_not_concern() {
    let reworded = |task: &Task| Arc::new(Task { description: Some("why".into()), ..task.clone() });
    let (web, db) =
        (task("web", &[("role", "web")], &["1"]), task("db", &[("role", "db")], &["2"]));
    let first = Compiler::new(&model(&[web.clone(), db.clone()]), Policy::Remediate);
    let hosts = [labels(&[("role", "web")]), labels(&[("role", "db")]), labels(&[("x", "y")])];
    let snapshots = |compiler: &Compiler| hosts.clone().map(|host| compiler.snapshot(&host));
    let before = snapshots(&first);
    let kept = |compiler: &Compiler| {
        let after = snapshots(compiler);
        let kept = [0, 1, 2].map(|host| Arc::ptr_eq(&before[host], &after[host]));
        assert_eq!(hosts.clone().map(|host| compiler.says_the_same_as(&first, &host)), kept);
        kept
    };
    let changed = task("db", &[("role", "db")], &["3"]);
    assert_eq!(kept(&first.follow(&model(&[web.clone(), changed]))), [true, false, true]);
    assert_eq!(kept(&first.follow(&model(std::slice::from_ref(&web)))), [true, false, true]);
    let moved = task("db", &[("x", "y")], &["2"]);
    assert_eq!(kept(&first.follow(&model(&[web.clone(), moved]))), [true, false, false]);
    let added = task("all", &[], &["4"]);
    assert_eq!(kept(&first.follow(&model(&[web.clone(), db.clone(), added]))), [false; 3]);
    let same = first.follow(&model(&[reworded(&web), reworded(&db)]));
    assert_eq!(kept(&same), [true; 3]);
    // What lies between two that do not follow each other is not known.
    assert!(!same.follow(&model(&[web, db])).says_the_same_as(&first, &hosts[0]));
}

#[test]
fn steps_are_found_by_index_and_survive_json() {
    let snapshot = compile(&[task("a", &[], &["1", "2"]), task("b", &[], &["3"])], &[]);
    let seen: Vec<_> = snapshot
        .steps()
        .map(|(index, task, step)| (index.0, task.name.to_string(), step.address.to_string()))
        .collect();
    assert_eq!(
        seen,
        [
            (0, "a".to_string(), "shell.s0".to_string()),
            (1, "a".to_string(), "shell.s1".to_string()),
            (2, "b".to_string(), "shell.s0".to_string()),
        ]
    );
    assert!(snapshot.step(StepIndex(3)).is_none());
    let json = serde_json::to_string(&*snapshot).expect("plain data");
    let back: Snapshot = serde_json::from_str(&json).expect("reads back");
    assert_eq!(back, *snapshot);
}

proptest! {
    /// The index of tasks by label pair finds exactly what asking every selector would find.
    #[test]
    fn the_index_agrees_with_the_selectors(
        selectors in proptest::collection::vec(proptest::collection::btree_map(0..4u8, 0..3u8, 0..3), 0..20),
        host in proptest::collection::btree_map(0..4u8, 0..3u8, 0..4),
    ) {
        let pairs = |map: &BTreeMap<u8, u8>| -> Vec<(String, String)> {
            map.iter().map(|(k, v)| (format!("k{k}"), format!("v{v}"))).collect()
        };
        fn borrowed(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
            pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect()
        }
        let tasks: Vec<_> = selectors
            .iter()
            .enumerate()
            .map(|(n, selector)| task(&format!("t{n:03}"), &borrowed(&pairs(selector)), &["x"]))
            .collect();
        let host = pairs(&host);
        let expected: Vec<_> = tasks
            .iter()
            .filter(|task| task.selector.matches(&labels(&borrowed(&host))))
            .map(|task| task.name.clone())
            .collect();
        let snapshot = compile(&tasks, &borrowed(&host));
        let found: Vec<_> = snapshot.tasks().iter().map(|task| task.name.clone()).collect();
        prop_assert_eq!(found, expected);
    }

    /// Following a history of models comes to the same as compiling the last one.
    #[test]
    fn whatever_came_before_a_model_is_compiled_the_same(
        history in proptest::collection::vec(
            proptest::collection::btree_map(0..6u8, (0..3u8, 0..3u8), 0..6), 1..6),
    ) {
        let hosts: Vec<_> = ["v0", "v1", "v2"].iter().map(|value| labels(&[("k", value)])).collect();
        let model_of = |choice: &BTreeMap<u8, (u8, u8)>| {
            let tasks: Vec<_> = choice
                .iter()
                .map(|(name, (pair, command))| {
                    let value = format!("v{pair}");
                    let pairs = [("k", &*value)];
                    let pairs = if *pair == 2 { &[][..] } else { &pairs[..] };
                    task(&format!("t{name}"), pairs, &[&format!("{command}")])
                })
                .collect();
            model(&tasks)
        };
        let mut compiler = Compiler::new(&Model::default(), Policy::Remediate);
        let mut held = Vec::new();
        for choice in &history {
            let model = model_of(choice);
            compiler = compiler.follow(&model);
            let fresh = Compiler::new(&model, Policy::Remediate);
            for host in &hosts {
                prop_assert_eq!(compiler.snapshot(host), fresh.snapshot(host));
                held.push(compiler.snapshot(host));
            }
        }
    }
}
