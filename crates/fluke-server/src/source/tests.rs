mod latency;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use fluke_model::id::{StepAddress, TaskName};
use fluke_model::label::{Labels, Selector};
use fluke_model::task::{ExecutorSpec, Location, OnFailure, Step, SystemdSpec, Task, UnitState};

use super::*;
use crate::git::fixture::Repository;

/// One task a manifest, named by its content; `broken` is a mistake, `crash` is ours.
#[derive(Default)]
struct Plain {
    loads: Arc<AtomicUsize>,
}

impl Compile for Plain {
    fn load(&mut self, tree: &dyn Tree) -> Loaded {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let mut model = Model { tasks: BTreeMap::new() };
        let mut diagnostics = Vec::new();
        for entry in tree.entries().iter().filter(|entry| entry.path.ends_with(".fluke.hcl")) {
            let name = match tree.read(&entry.path) {
                Ok(content) => String::from_utf8_lossy(&content).into_owned(),
                Err(error) => format!("{error}"),
            };
            assert!(name != "crash", "a bug in the parser");
            match TaskName::new(&name) {
                Ok(task) if name != "broken" => {
                    model.tasks.insert(task.clone(), Arc::new(plain_task(task)));
                }
                _ => diagnostics.push(about_file(&entry.path, Severity::Error, name)),
            }
        }
        Loaded { model: diagnostics.is_empty().then_some(model), diagnostics }
    }
}

fn plain_task(name: TaskName) -> Task {
    let spec = SystemdSpec { unit: "x.service".into(), state: UnitState::Running, enabled: true };
    let step = Step {
        address: StepAddress::new("systemd", "x").expect("an address"),
        on_failure: OnFailure::default(),
        timeout: None,
        spec: ExecutorSpec::Systemd(spec),
    };
    let defined = Location { file: "a.fluke.hcl".into(), line: 1 };
    let (selector, steps) = (Selector::default(), vec![step]);
    Task { name, description: None, policy: None, selector, steps, defined }
}

#[derive(Default)]
struct Recorded(Mutex<Vec<Event>>);

impl EventSink for Recorded {
    fn record(&self, event: Event) {
        self.0.lock().expect("unpoisoned").push(event);
    }
}

/// A running source that is told of changes; polls come only where a test asks for them.
struct Running {
    handle: SourceHandle,
    events: Arc<Recorded>,
    loads: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const NEVER: Duration = Duration::from_secs(3600);

fn follow(repository: &Repository, poll_interval: Duration) -> Running {
    let git = repository.config();
    start(SourceConfig::Git { git, poll_interval, manifest_glob: "**/*.fluke.hcl".into() })
}

fn start(config: SourceConfig) -> Running {
    let events = Arc::<Recorded>::default();
    let compile = Plain::default();
    let loads = compile.loads.clone();
    let (source, handle) =
        Source::new(config, compile, Policy::Remediate, events.clone()).expect("a source");
    Running { handle, events, loads, task: tokio::spawn(source.run()) }
}

impl Running {
    /// Waits for a state, and fails a test that would wait forever.
    async fn until(&self, what: &str, reached: impl FnMut(&api::Source) -> bool) -> api::Source {
        let mut status = self.handle.status.clone();
        let waited = tokio::time::timeout(Duration::from_secs(30), status.wait_for(reached)).await;
        match waited {
            Ok(status) => status.expect("the source runs").clone(),
            Err(_) => panic!("never {what}: {:?}", self.handle.status.borrow()),
        }
    }

    async fn in_force(&self, commit: CommitId) -> Arc<Desired> {
        self.until("in force", |status| status.commit.as_ref() == Some(&commit)).await;
        self.desired().expect("something in force")
    }

    fn desired(&self) -> Option<Arc<Desired>> {
        self.handle.desired.borrow().clone()
    }

    fn told(&self) -> Vec<&'static str> {
        self.events.0.lock().expect("unpoisoned").iter().map(|event| event.kind.as_str()).collect()
    }

    fn last_event(&self) -> Event {
        self.events.0.lock().expect("unpoisoned").last().expect("an event").clone()
    }
}

fn tasks(desired: &Desired) -> Vec<&str> {
    desired.model.tasks.keys().map(TaskName::as_str).collect()
}

#[tokio::test]
async fn the_newest_commit_comes_into_force() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let source = follow(&repository, NEVER);
    let first = source.in_force(repository.head()).await;
    assert_eq!((tasks(&first), &first.commit), (vec!["one"], &repository.head()));
    assert_eq!(first.compiler.snapshot(&Labels::default()).tasks().len(), 1);

    repository.commit("a.fluke.hcl", "two");
    source.handle.poke();
    assert_eq!(tasks(&*source.in_force(repository.head()).await), ["two"]);
    assert_eq!(source.told(), ["commit_accepted", "commit_accepted"]);
    assert!(source.last_event().output.expect("a word").contains("follows"));
}

#[tokio::test]
async fn polls_alone_find_a_new_commit() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let source = follow(&repository, Duration::from_millis(20));
    source.in_force(repository.head()).await;
    repository.commit("a.fluke.hcl", "two");
    source.in_force(repository.head()).await;
}

#[tokio::test]
async fn an_unchanged_branch_only_moves_the_time_of_the_last_poll() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let source = follow(&repository, Duration::from_millis(20));
    let desired = source.in_force(repository.head()).await;
    let first = source.handle.status.borrow().last_poll;
    for _ in 0..3 {
        let last = source.handle.status.borrow().last_poll;
        source.until("polled", |status| status.last_poll > last).await;
    }
    assert!(source.handle.status.borrow().last_poll > first);
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("still there")));
    assert_eq!((source.told(), source.loads.load(Ordering::SeqCst)), (vec!["commit_accepted"], 1));
}

#[tokio::test]
async fn a_bad_commit_changes_nothing_and_is_judged_once() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let good = repository.head();
    let source = follow(&repository, Duration::from_millis(20));
    let desired = source.in_force(good.clone()).await;
    let bad = repository.commit("a.fluke.hcl", "broken");
    let status = source.until("rejected", |status| status.rejected).await;
    assert_eq!((status.commit, status.last_seen), (Some(good), Some(bad.clone())));
    assert_eq!(status.diagnostics[0].message, "broken");
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("still there")));
    source.until("polled", |now| now.last_poll > status.last_poll).await;
    source.handle.poke();
    let polled = source.handle.status.borrow().last_poll;
    source.until("polled", |now| now.last_poll > polled).await;
    assert_eq!(source.loads.load(Ordering::SeqCst), 2);
    assert_eq!(source.told(), ["commit_accepted", "commit_rejected"]);
    let event = source.last_event();
    assert_eq!((event.commit, event.diagnostics.len()), (Some(bad), 1));

    repository.commit("a.fluke.hcl", "three");
    assert_eq!(tasks(&*source.in_force(repository.head()).await), ["three"]);
    assert!(!source.handle.status.borrow().rejected);
}

#[tokio::test]
async fn a_parser_that_crashes_rejects_the_commit_and_lives_on() {
    let repository = Repository::with("a.fluke.hcl", "crash");
    let source = follow(&repository, NEVER);
    source.until("rejected", |status| status.rejected).await;
    assert!(source.desired().is_none());
    repository.commit("a.fluke.hcl", "two");
    source.handle.poke();
    source.in_force(repository.head()).await;
}

#[tokio::test]
async fn a_repository_that_is_not_there_yet_is_found_when_it_comes() {
    let repository = Repository::with("a.fluke.hcl", "one");
    repository.hide();
    let source = follow(&repository, Duration::from_millis(20));
    let status = source.until("failed", |status| status.error.is_some()).await;
    assert!(status.next_poll.is_some() && status.last_poll.is_none());
    assert!(source.desired().is_none());
    repository.show();
    source.in_force(repository.head()).await;
    assert_eq!(source.told(), ["source_unreachable", "source_recovered", "commit_accepted"]);
}

#[tokio::test]
async fn an_outage_leaves_the_commit_in_force_and_is_told_once() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let source = follow(&repository, Duration::from_millis(20));
    let desired = source.in_force(repository.head()).await;
    repository.hide();
    let failed = source.until("failed", |status| status.error.is_some()).await;
    let failed_again = |now: &api::Source| now.error.is_some() && now.next_poll > failed.next_poll;
    source.until("failed again", failed_again).await;
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("still there")));
    repository.show();
    source.until("recovered", |status| status.error.is_none()).await;
    assert_eq!(source.told(), ["commit_accepted", "source_unreachable", "source_recovered"]);

    repository.git(&["branch", "--move", "main", "trunk"]);
    let status = source.until("without branch", |status| status.error.is_some()).await;
    assert!(status.error.expect("an error").contains("no branch `main`"));
}

#[tokio::test]
async fn a_force_push_is_followed_and_names_both_commits() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let first = repository.head();
    let source = follow(&repository, NEVER);
    source.in_force(first.clone()).await;
    let second = repository.commit("a.fluke.hcl", "two");
    source.handle.poke();
    source.in_force(second.clone()).await;
    repository.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    source.handle.poke();
    assert_eq!(tasks(&*source.in_force(first.clone()).await), ["one"]);
    let output = source.last_event().output.expect("a word");
    assert!(output.contains(first.short()) && output.contains(second.short()), "{output}");
    assert!(output.contains("set back"), "{output}");
}

#[tokio::test]
async fn many_pokes_are_one_look() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let source = follow(&repository, NEVER);
    source.in_force(repository.head()).await;
    let mut looks = source.handle.status.clone();
    looks.mark_unchanged();
    repository.commit("a.fluke.hcl", "two");
    (0..100).for_each(|_| source.handle.poke());
    source.in_force(repository.head()).await;
    assert_eq!(source.loads.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_push_to_the_branch_is_looked_at_and_another_is_not() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let source = follow(&repository, NEVER);
    source.in_force(repository.head()).await;
    let commit = Some(repository.commit("a.fluke.hcl", "two"));
    assert!(!source.handle.pushed(&Push { branch: "other".into(), commit: commit.clone() }));
    assert!(source.handle.pushed(&Push { branch: "main".into(), commit }));
    source.in_force(repository.head()).await;
}

#[tokio::test]
async fn a_file_that_is_missing_from_the_mirror_is_the_mirrors_fault() {
    let repository = Repository::with("a.fluke.hcl", "one");
    // Not matched by the glob, so it is read only while parsing.
    let git = repository.config();
    let glob = "nothing".to_string();
    let config = SourceConfig::Git { git, poll_interval: NEVER, manifest_glob: glob };
    let source = start(config);
    source.in_force(repository.head()).await;
    repository.commit("b.fluke.hcl", "two");
    let blob = repository.git(&["rev-parse", "HEAD:b.fluke.hcl"]);
    let (directory, file) = blob.trim().split_at(2);
    let object = repository.cache().join("mirror.git/objects").join(directory).join(file);
    std::fs::create_dir_all(object.parent().expect("a parent")).expect("a directory");
    std::fs::write(object, "damaged").expect("written");
    source.handle.poke();
    assert_eq!(tasks(&*source.in_force(repository.head()).await), ["one", "two"]);
}

#[tokio::test]
async fn a_folder_is_followed_as_it_changes() {
    let repository = Repository::empty();
    let path = repository.beside("folder");
    let source = start(SourceConfig::Folder { path: path.clone() });
    source.until("failed", |status| status.error.is_some()).await;
    std::fs::create_dir(&path).expect("a directory");
    std::fs::write(path.join("a.fluke.hcl"), "one").expect("written");
    let named = |name: &'static str| {
        let desired = source.handle.desired.clone();
        move |_: &api::Source| desired.borrow().as_ref().is_some_and(|d| tasks(d) == [name])
    };
    let status = source.until("one", named("one")).await;
    assert_eq!((status.branch, status.error), (None, None));
    std::fs::write(path.join("a.fluke.hcl"), "two").expect("written");
    source.until("two", named("two")).await;
    std::fs::write(path.join("a.fluke.hcl"), "broken").expect("written");
    source.until("rejected", |status| status.rejected).await;
    std::fs::write(path.join("a.fluke.hcl"), "three").expect("written");
    source.until("three", named("three")).await;
}
