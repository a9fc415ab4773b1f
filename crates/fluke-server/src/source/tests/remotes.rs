//! Remotes over HTTP: what a look costs, and what becomes of one that goes wrong.

use super::*;
use crate::git::fixture::forge::{Forge, Mood};

/// Short enough to wait for, long enough for a machine that is busy.
const TIMEOUT: Duration = Duration::from_millis(700);

async fn follow_over(forge: &Forge, repository: &Repository, poll_interval: Duration) -> Running {
    let git = Box::new(forge.config(repository, "right"));
    start(SourceConfig::Git { git, poll_interval }, DEFAULT_GLOB)
}

impl Running {
    async fn polls(&self, times: usize) {
        for _ in 0..times {
            let last = self.handle.status.borrow().last_poll;
            self.until("polled", |status| status.last_poll > last).await;
        }
    }
}

#[tokio::test]
async fn a_poll_without_news_is_one_listing_of_refs_and_nothing_else() {
    let repository = repository("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let source = follow_over(&forge, &repository, Duration::from_millis(20)).await;
    let desired = source.in_force(repository.head()).await;
    source.polls(1).await;
    forge.asked();
    source.polls(5).await;
    let asked = forge.asked();
    // In version 2 of the protocol a listing is a greeting and a question.
    assert!(asked.len() >= 9, "{asked:?}");
    assert!(!asked.contains(&"fetch"), "{asked:?}");
    for pair in asked.chunks_exact(2) {
        assert!(pair == ["refs", "ls-refs"] || pair == ["ls-refs", "refs"], "{asked:?}");
    }
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("in force")), "not compiled again");
}

#[tokio::test]
async fn a_storm_of_pushes_is_a_few_fetches_and_its_replay_changes_nothing() {
    let repository = repository("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let source = follow_over(&forge, &repository, NEVER).await;
    source.in_force(repository.head()).await;
    forge.asked();
    let commit = repository.commit("a.fluke.hcl", &manifest("two"));
    let push = Push { branch: "main".into(), commit: Some(commit.clone()) };
    (0..500).for_each(|_| assert!(source.handle.pushed(&push)));
    let desired = source.in_force(commit.clone()).await;
    (0..500).for_each(|_| assert!(source.handle.pushed(&push)));
    source.polls(1).await;
    let fetches = forge.asked().into_iter().filter(|asked| *asked == "fetch").count();
    assert!((1..=4).contains(&fetches), "{fetches} fetches");
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("in force")), "not compiled again");
    assert_eq!(source.told(), ["commit_accepted"; 2]);
}

#[tokio::test]
async fn a_remote_that_hangs_is_given_up_told_and_looked_at_again() {
    let repository = repository("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let mut git = forge.config(&repository, "right");
    git.timeout = TIMEOUT;
    let poll_interval = Duration::from_millis(50);
    let source = start(SourceConfig::Git { git: Box::new(git), poll_interval }, DEFAULT_GLOB);
    let desired = source.in_force(repository.head()).await;
    for mood in [Mood::Silent, Mood::HalfAPack, Mood::Trickling] {
        let good = source.desired().expect("in force").commit.clone();
        forge.is(mood);
        let commit = repository.commit("a.fluke.hcl", &manifest(&format!("after-{mood:?}")));
        let status = source.until("given up", |status| status.error.is_some()).await;
        assert!(status.error.expect("an error").contains("did not answer within"), "{mood:?}");
        assert_eq!(status.commit, Some(good), "what is in force stays");
        forge.asked();
        // Polls go on, and a webhook is heard, while it hangs.
        source.handle.pushed(&Push { branch: "main".into(), commit: Some(commit.clone()) });
        asked_again(&forge).await;
        forge.is(Mood::Well);
        source.in_force(commit).await;
        source.until("recovered", |status| status.error.is_none()).await;
    }
    assert!(!Arc::ptr_eq(&desired, &source.desired().expect("in force")));
    let told = source.told();
    let count = |kind| told.iter().filter(|told| **told == kind).count();
    assert_eq!((count("source_unreachable"), count("source_recovered")), (3, 3), "{told:?}");
}

async fn asked_again(forge: &Forge) {
    let asked = async {
        while forge.asked().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asked).await.expect("it is asked again");
}

#[tokio::test]
async fn a_branch_that_disappears_leaves_its_commit_in_force_until_it_is_back() {
    let repository = repository("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let source = follow_over(&forge, &repository, Duration::from_millis(20)).await;
    let desired = source.in_force(repository.head()).await;
    repository.git(&["checkout", "--quiet", "-b", "trunk"]);
    repository.git(&["branch", "--delete", "--force", "main"]);
    let status = source.until("without branch", |status| status.error.is_some()).await;
    let error = status.error.expect("an error");
    assert!(error.contains("no branch `main` (it has trunk)"), "{error}");
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("in force")));
    repository.git(&["checkout", "--quiet", "-b", "main"]);
    let commit = repository.commit("a.fluke.hcl", &manifest("two"));
    source.in_force(commit).await;
    assert_eq!(source.handle.status.borrow().error, None);
}

#[tokio::test]
async fn a_force_push_over_http_is_followed_and_both_commits_are_named() {
    let repository = repository("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let source = follow_over(&forge, &repository, Duration::from_millis(20)).await;
    let old = repository.commit("a.fluke.hcl", &manifest("two"));
    source.in_force(old.clone()).await;
    repository.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let new = repository.commit("a.fluke.hcl", &manifest("three"));
    assert_eq!(tasks(&*source.in_force(new.clone()).await), ["three"]);
    let said = source.last_event().output.expect("a word");
    assert!(said.contains(old.short()) && said.contains(new.short()), "{said}");
    assert!(said.contains("force-push"), "{said}");
}

#[tokio::test]
async fn an_emptied_repository_is_believed_and_warned_of_and_an_empty_one_is_not() {
    let repository = repository("a.fluke.hcl", "one");
    let source = follow(&repository, Duration::from_millis(20));
    source.in_force(repository.head()).await;
    // A commit says so: tasks end, and nothing on hosts is undone by that.
    std::fs::remove_file(repository.path().join("a.fluke.hcl")).expect("removed");
    let commit = repository.commit_all();
    assert!(source.in_force(commit).await.model.tasks.is_empty());
    let warnings = source.last_event().diagnostics;
    assert!(warnings[0].message.contains("no task is left of 1"), "{warnings:?}");

    let commit = repository.commit("a.fluke.hcl", &manifest("two"));
    let desired = source.in_force(commit).await;
    // No commit says so: a repository that was made anew is an error.
    std::fs::remove_dir_all(repository.path().join(".git")).expect("removed");
    repository.git(&["init", "--quiet", "--initial-branch=main"]);
    let status = source.until("empty", |status| status.error.is_some()).await;
    assert!(status.error.expect("an error").contains("is empty; push a first commit"));
    assert!(Arc::ptr_eq(&desired, &source.desired().expect("in force")));
}
