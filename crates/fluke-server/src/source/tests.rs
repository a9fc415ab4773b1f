mod remotes;

use fluke_manifest::DEFAULT_GLOB;
use fluke_model::id::TaskName;
use fluke_model::label::Labels;

use super::*;
use crate::git::fixture::Repository;

/// A manifest with one task of this name; `broken` has a mistake.
pub(super) fn manifest(name: &str) -> String {
    let mistake = if name == "broken" { "nonsense = 1" } else { "" };
    format!(
        "task \"{name}\" {{\n{mistake}\n  selector {{\n    match_labels = {{}}\n  }}\n  \
         systemd \"x\" {{\n    unit = \"x.service\"\n  }}\n}}\n"
    )
}

/// A manifest with one service of this name.
fn serving(name: &str) -> String {
    format!(
        "service \"{name}\" {{\n  image = \"{name}:1\"\n  selector {{\n    match_labels = {{}}\n  \
         }}\n}}\n"
    )
}

fn repository(path: &str, name: &str) -> Repository {
    Repository::with(path, &manifest(name))
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
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const NEVER: Duration = Duration::from_secs(3600);

fn follow(repository: &Repository, poll_interval: Duration) -> Running {
    start(SourceConfig::Git { git: Box::new(repository.config()), poll_interval }, DEFAULT_GLOB)
}

fn start(config: SourceConfig, glob: &str) -> Running {
    let events = Arc::<Recorded>::default();
    let loader = Loader::new(glob).expect("a pattern");
    let (source, handle) = Source::new(config, loader, Policy::Remediate, events.clone());
    Running { handle, events, task: tokio::spawn(source.run()) }
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
    let repository = repository("a.fluke.hcl", "one");
    let source = follow(&repository, NEVER);
    let first = source.in_force(repository.head()).await;
    assert_eq!((tasks(&first), &first.commit), (vec!["one"], &repository.head()));
    assert_eq!(first.compiler.snapshot(&Labels::default()).tasks().len(), 1);

    repository.commit("a.fluke.hcl", &manifest("two"));
    source.handle.poke();
    assert_eq!(tasks(&*source.in_force(repository.head()).await), ["two"]);
    assert_eq!(source.told(), ["commit_accepted", "commit_accepted"]);
    assert!(source.last_event().output.expect("a word").contains("follows"));
}

#[tokio::test]
async fn polls_alone_find_a_new_commit() {
    let repository = repository("a.fluke.hcl", "one");
    let source = follow(&repository, Duration::from_millis(20));
    source.in_force(repository.head()).await;
    repository.commit("a.fluke.hcl", &manifest("two"));
    source.in_force(repository.head()).await;
}

#[tokio::test]
async fn an_unchanged_branch_only_moves_the_time_of_the_last_poll() {
    let repository = repository("a.fluke.hcl", "one");
    let source = follow(&repository, Duration::from_millis(20));
    let desired = source.in_force(repository.head()).await;
    let first = source.handle.status.borrow().last_poll;
    for _ in 0..3 {
        let last = source.handle.status.borrow().last_poll;
        source.until("polled", |status| status.last_poll > last).await;
    }
    assert!(source.handle.status.borrow().last_poll > first);
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("still there")));
    assert_eq!(source.told(), ["commit_accepted"]);
}

#[tokio::test]
async fn a_bad_commit_changes_nothing_and_is_judged_once() {
    let repository = repository("a.fluke.hcl", "one");
    let good = repository.head();
    let source = follow(&repository, Duration::from_millis(20));
    let desired = source.in_force(good.clone()).await;
    let bad = repository.commit("a.fluke.hcl", &manifest("broken"));
    let status = source.until("rejected", |status| status.rejected).await;
    assert_eq!((status.commit, status.last_seen), (Some(good), Some(bad.clone())));
    assert!(status.diagnostics[0].message.contains("nonsense"), "{:?}", status.diagnostics);
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("still there")));
    source.until("polled", |now| now.last_poll > status.last_poll).await;
    source.handle.poke();
    let polled = source.handle.status.borrow().last_poll;
    source.until("polled", |now| now.last_poll > polled).await;
    assert_eq!(source.told(), ["commit_accepted", "commit_rejected"]);
    let event = source.last_event();
    assert_eq!((event.commit, event.diagnostics.len()), (Some(bad), 1));

    repository.commit("a.fluke.hcl", &manifest("three"));
    assert_eq!(tasks(&*source.in_force(repository.head()).await), ["three"]);
    assert!(!source.handle.status.borrow().rejected);
}

#[tokio::test]
async fn a_commit_after_which_nothing_is_left_of_a_kind_is_warned_of_with_what_follows() {
    let repository = Repository::with("a.fluke.hcl", &manifest("one"));
    let source = follow(&repository, NEVER);
    let write = |name: &str, text: &str| {
        std::fs::write(repository.path().join(name), text).expect("a file");
    };
    let both = || {
        write("a.fluke.hcl", &manifest("one"));
        write("b.fluke.hcl", &format!("{}{}", serving("web"), serving("db")));
    };
    let follows = async || {
        let commit = repository.commit_all();
        source.handle.poke();
        source.in_force(commit).await;
        let said = source.last_event().diagnostics.into_iter().map(|it| it.message);
        said.collect::<Vec<_>>()
    };
    both();
    assert_eq!(follows().await, [] as [&str; 0]);
    let tasks = "no task is left of 1: what they kept is kept no more, and nothing is undone";
    let services =
        "no service is left of 2: their containers are stopped and removed, volumes stay";
    let advice = "if that is not meant, look at `manifest_glob` and at what the commit deletes";

    write("b.fluke.hcl", "");
    assert_eq!(follows().await, [format!("{services}; {advice}")], "tasks are left");
    both();
    follows().await;
    write("a.fluke.hcl", "");
    assert_eq!(follows().await, [format!("{tasks}; {advice}")], "services are left");
    both();
    follows().await;
    write("a.fluke.hcl", "");
    write("b.fluke.hcl", "");
    assert_eq!(follows().await, [format!("{tasks}; {services}; {advice}")]);
    write("c.fluke.hcl", "");
    assert_eq!(follows().await, [] as [&str; 0], "that is nothing new");
}

#[tokio::test]
async fn a_repository_that_is_not_there_yet_is_found_when_it_comes() {
    let repository = repository("a.fluke.hcl", "one");
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
    let repository = repository("a.fluke.hcl", "one");
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
    let repository = repository("a.fluke.hcl", "one");
    let first = repository.head();
    let source = follow(&repository, NEVER);
    source.in_force(first.clone()).await;
    let second = repository.commit("a.fluke.hcl", &manifest("two"));
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
    let repository = repository("a.fluke.hcl", "one");
    let source = follow(&repository, NEVER);
    source.in_force(repository.head()).await;
    repository.commit("a.fluke.hcl", &manifest("two"));
    (0..100).for_each(|_| source.handle.poke());
    source.in_force(repository.head()).await;
    assert_eq!(source.told(), ["commit_accepted"; 2]);
}

#[tokio::test]
async fn a_push_to_the_branch_is_looked_at_and_another_is_not() {
    let repository = repository("a.fluke.hcl", "one");
    let source = follow(&repository, NEVER);
    source.in_force(repository.head()).await;
    let commit = Some(repository.commit("a.fluke.hcl", &manifest("two")));
    assert!(!source.handle.pushed(&Push { branch: "other".into(), commit: commit.clone() }));
    assert!(source.handle.pushed(&Push { branch: "main".into(), commit }));
    source.in_force(repository.head()).await;
}

#[tokio::test]
async fn a_file_that_is_missing_from_the_mirror_is_the_mirrors_fault() {
    let repository = repository("a.fluke.hcl", "one");
    let source = follow(&repository, NEVER);
    source.in_force(repository.head()).await;
    // No manifest, so it is read only while manifests are evaluated.
    repository.write("name.txt", "two");
    let named = manifest("one").replace("x.service", "${file(\"name.txt\")}.service");
    repository.commit("a.fluke.hcl", &named);
    let blob = repository.git(&["rev-parse", "HEAD:name.txt"]);
    let (directory, file) = blob.trim().split_at(2);
    let object = repository.cache().join("mirror.git/objects").join(directory).join(file);
    std::fs::create_dir_all(object.parent().expect("a parent")).expect("a directory");
    std::fs::write(object, "damaged").expect("written");
    source.handle.poke();
    assert_eq!(tasks(&*source.in_force(repository.head()).await), ["one"]);
    assert_eq!(source.told(), ["commit_accepted"; 2], "the commit was never blamed");
}

#[tokio::test]
async fn a_folder_is_followed_as_it_changes() {
    let repository = Repository::empty();
    let path = repository.beside("folder");
    let source = start(SourceConfig::Folder { path: path.clone() }, DEFAULT_GLOB);
    source.until("failed", |status| status.error.is_some()).await;
    std::fs::create_dir(&path).expect("a directory");
    std::fs::write(path.join("a.fluke.hcl"), manifest("one")).expect("written");
    let named = |name: &'static str| {
        let desired = source.handle.desired.clone();
        move |_: &api::Source| desired.borrow().as_ref().is_some_and(|d| tasks(d) == [name])
    };
    let status = source.until("one", named("one")).await;
    assert_eq!((status.branch, status.error), (None, None));
    std::fs::write(path.join("a.fluke.hcl"), manifest("two")).expect("written");
    source.until("two", named("two")).await;
    std::fs::write(path.join("a.fluke.hcl"), manifest("broken")).expect("written");
    source.until("rejected", |status| status.rejected).await;
    std::fs::write(path.join("a.fluke.hcl"), manifest("three")).expect("written");
    source.until("three", named("three")).await;
}
