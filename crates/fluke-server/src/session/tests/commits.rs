//! Commits that say something new of some hosts, and nothing of others.

use super::*;

impl Door {
    fn is_held_to(&self, host: &str, commit: &str) -> bool {
        self.agent(host).commit == Some(CommitId::new(commit))
    }

    /// The commit that the last thing that happened to a host was told with.
    fn last_told_with(&self, host: &str) -> Option<String> {
        let events = self.sink.events.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_its = |event: &&Event| event.agent.as_ref().is_some_and(|it| it.as_str() == host);
        let last = events.iter().rfind(is_its).expect("something happened to it");
        last.commit.as_ref().map(ToString::to_string)
    }
}

#[tokio::test]
async fn a_commit_that_says_nothing_new_of_a_host_is_the_one_it_is_held_to_though_nobody_is_told() {
    let door = Door::open().await;
    let (mut one, mut other) = (door.join("one").await, door.join("other").await);
    door.commit("aaa", &[("a", "one", 1), ("b", "other", 1)]);
    for stream in [&mut one, &mut other] {
        while hears(stream, 1).await != ["check"] {}
    }
    let mut told = door.changes.listen();

    door.commit("bbb", &[("a", "one", 1), ("b", "other", 2)]);
    assert_eq!(hears(&mut other, 2).await, ["snapshot", "check"]);
    door.until("both are held to it", |door| {
        ["one", "other"].iter().all(|host| door.is_held_to(host, "bbb"))
    })
    .await;
    let name = AgentName::new("one").expect("a name");
    let mut changes = std::iter::from_fn(|| told.try_recv().ok());
    assert!(!changes.any(|change| change == Change::Agent(name.clone())));

    drop(one);
    door.until("it is gone", |door| !door.agent("one").connected).await;
    assert_eq!(door.last_told_with("one").as_deref(), Some("bbb"));
    door.commit("ccc", &[("a", "one", 1), ("b", "other", 1)]);
    assert_eq!(hears(&mut other, 2).await, ["snapshot", "check"]);
    assert!(door.is_held_to("one", "bbb"), "nobody can hold it to anything else");

    one = door.join("one").await;
    assert_eq!(hears(&mut one, 2).await, ["snapshot", "check"]);
    door.until("it is held to the newest", |door| door.is_held_to("one", "ccc")).await;
    door.commit("ddd", &[("a", "one", 2), ("b", "other", 1)]);
    assert_eq!(hears(&mut one, 2).await, ["snapshot", "check"]);
}

#[tokio::test]
async fn what_a_commit_said_that_never_came_into_force_is_not_missed() {
    let door = Door::open().await;
    let mut host = door.join("one").await;
    door.commit("aaa", &[("a", "one", 1)]);
    while hears(&mut host, 1).await != ["check"] {}
    // One right behind the other: nobody sees the first, and the second says nothing new beside it.
    door.commit("bbb", &[("a", "one", 2)]);
    door.commit("ccc", &[("a", "one", 2), ("b", "other", 1)]);
    assert_eq!(hears(&mut host, 2).await, ["snapshot", "check"]);
    door.until("it is held to the newest", |door| door.is_held_to("one", "ccc")).await;
}
