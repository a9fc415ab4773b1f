//! Images that were fetched for services, and since when nobody uses them.
//!
//! A host that runs a new version every day would keep every one it ever ran. What was here before,
//! or was brought by somebody else, is never in here, and so never goes.

use std::collections::BTreeMap;
use std::time::Duration;

use fluke_model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// By the name that a service gives to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched(BTreeMap<String, Image>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Image {
    id: String,
    /// None while it is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unused_since: Option<Timestamp>,
}

impl Fetched {
    /// Whether there is nothing that could ever go.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An image was fetched.
    pub fn came(&mut self, name: String, id: String) {
        self.0.insert(name, Image { id, unused_since: None });
    }

    /// An image is not here any more, or is somebody else's.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// An image could not go: its time begins anew.
    pub fn postpone(&mut self, name: &str, now: Timestamp) {
        if let Some(image) = self.0.get_mut(name) {
            image.unused_since = Some(now);
        }
    }

    /// Takes note of what is used, by name and id; whether anything is other than it was.
    pub fn see(&mut self, is_used: impl Fn(&str, &str) -> bool, now: Timestamp) -> bool {
        let mut is_other = false;
        for (name, image) in &mut self.0 {
            let since = match is_used(name, &image.id) {
                true => None,
                false => Some(image.unused_since.unwrap_or(now)),
            };
            is_other |= image.unused_since != since;
            image.unused_since = since;
        }
        is_other
    }

    /// One that nobody used for so long, and its id: the one that is unused for longest.
    pub fn unused_for(&self, long: Duration, now: Timestamp) -> Option<(&str, &str)> {
        let unused = self.0.iter().filter_map(|(name, image)| {
            let since = image.unused_since?;
            Some((since, name.as_str(), image.id.as_str()))
        });
        let (since, name, id) = unused.min()?;
        let long = u64::try_from(long.as_millis()).unwrap_or(u64::MAX);
        (now.0.saturating_sub(since.0) >= long).then_some((name, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    const NOW: Timestamp = Timestamp(1_000_000);

    fn later(by: Duration) -> Timestamp {
        Timestamp(NOW.0 + by.as_millis() as u64)
    }

    fn two() -> Fetched {
        let mut fetched = Fetched::default();
        fetched.came("web:1".into(), "one".into());
        fetched.came("web:2".into(), "two".into());
        fetched
    }

    #[test]
    fn an_image_may_go_once_nobody_used_it_for_long() {
        let mut fetched = two();
        let second = |name: &str, _: &str| name == "web:2";
        assert!(fetched.see(second, NOW), "the first is out of use now");
        assert!(!fetched.see(second, later(WEEK / 2)), "since the same time");
        assert_eq!(fetched.unused_for(WEEK, later(WEEK - Duration::from_secs(1))), None);
        assert_eq!(fetched.unused_for(WEEK, later(WEEK)), Some(("web:1", "one")));
        fetched.forget("web:1");
        assert_eq!(fetched.unused_for(WEEK, later(WEEK * 9)), None, "the second is in use");
    }

    #[test]
    fn an_image_that_is_used_again_has_all_its_time_again() {
        let mut fetched = two();
        fetched.see(|_, _| false, NOW);
        // Somebody else's container counts, too.
        fetched.see(|_, id| id == "one", later(WEEK / 2));
        fetched.see(|_, _| false, later(WEEK));
        assert_eq!(fetched.unused_for(WEEK, later(WEEK)), Some(("web:2", "two")));
        fetched.forget("web:2");
        assert_eq!(fetched.unused_for(WEEK, later(WEEK + WEEK / 2)), None);
        assert_eq!(fetched.unused_for(WEEK, later(WEEK * 2)), Some(("web:1", "one")));
    }

    #[test]
    fn a_clock_that_was_put_back_takes_nothing_away() {
        let mut fetched = two();
        fetched.see(|_, _| false, later(WEEK));
        assert_eq!(fetched.unused_for(WEEK, NOW), None);
    }
}
