//! Who may connect as which agent.
//!
//! A token is not a name: a grant says which names and labels its holder may claim. Tokens are
//! kept as hashes and compared in constant time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use fluke_model::label::Labels;
use fluke_model::message::Hello;
use fluke_model::secret::SecretDigest;
use globset::{Glob, GlobSet, GlobSetBuilder};

/// What one token lets its holder be.
#[derive(Debug, Clone)]
pub struct Grant {
    label: Option<String>,
    token: SecretDigest,
    names: Option<GlobSet>,
    patterns: Vec<String>,
    labels: Labels,
}

impl Grant {
    /// A bare token: its holder may be any agent.
    pub fn any(token: &str) -> Self {
        let token = SecretDigest::of(token);
        Self { label: None, token, names: None, patterns: Vec::new(), labels: Labels::default() }
    }

    /// A token bound to names (globs; none means any) and to values of the label keys given.
    pub fn bound(
        label: &str,
        token: &str,
        names: &[String],
        labels: Labels,
    ) -> Result<Self, globset::Error> {
        let mut globs = GlobSetBuilder::new();
        for name in names {
            globs.add(Glob::new(name)?);
        }
        let set = (!names.is_empty()).then(|| globs.build()).transpose()?;
        Ok(Self {
            label: Some(label.to_string()),
            token: SecretDigest::of(token),
            names: set,
            patterns: names.to_vec(),
            labels,
        })
    }

    /// The block it comes from; bare tokens are interchangeable.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Tells whether the holder may be the agent that it says it is; if not, why not.
    pub fn allows(&self, hello: &Hello) -> Result<(), String> {
        let called = self.label.as_deref().unwrap_or("a bare token");
        if let Some(names) = &self.names
            && !names.is_match(hello.name.as_str())
        {
            let allowed = self.patterns.join(", ");
            return Err(format!(
                "the token `{called}` is not for the name `{}`; it is for {allowed}",
                hello.name
            ));
        }
        for (key, value) in &self.labels.0 {
            match hello.labels.0.get(key) {
                Some(claimed) if claimed != value => {
                    return Err(format!(
                        "the token `{called}` is not for the label {key}={claimed}; it is for {key}={value}"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// All tokens that are valid now; can be replaced while the server runs.
#[derive(Debug)]
pub struct Trust {
    grants: RwLock<Arc<[Arc<Grant>]>>,
    strikes: Mutex<Strikes>,
}

impl Trust {
    /// Trusts the holders of these.
    pub fn new(grants: Vec<Grant>) -> Self {
        let grants = grants.into_iter().map(Arc::new).collect();
        Self { grants: RwLock::new(grants), strikes: Mutex::default() }
    }

    /// From now on trusts these and no others; sessions that are open stay open.
    pub fn replace(&self, grants: Vec<Grant>) {
        let grants = grants.into_iter().map(Arc::new).collect();
        *self.grants.write().unwrap_or_else(PoisonError::into_inner) = grants;
    }

    /// The grant of this token. Takes the same time whichever token it is compared to.
    pub fn grant(&self, token: &str) -> Option<Arc<Grant>> {
        let presented = SecretDigest::of(token);
        let grants = self.grants();
        let mut found = None;
        for grant in grants.iter() {
            if grant.token.same(&presented) && found.is_none() {
                found = Some(grant.clone());
            }
        }
        found
    }

    /// Whether a token block of this label is still valid.
    pub fn has_label(&self, label: Option<&str>) -> bool {
        self.grants().iter().any(|grant| grant.label() == label)
    }

    fn grants(&self) -> Arc<[Arc<Grant>]> {
        self.grants.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a wrong token from this address.
    pub fn strike(&self, from: Option<IpAddr>, now: Instant) -> Strike {
        let Some(from) = from else { return Strike { count: 1, wait: Duration::ZERO } };
        self.strikes.lock().unwrap_or_else(PoisonError::into_inner).add(from, now)
    }
}

/// What a wrong token comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    /// The how-manyth of this address.
    pub count: u32,
    /// How long to let it wait for its answer.
    pub wait: Duration,
}

impl Strike {
    /// Whether it is worth a line of history: the first, the second, the fourth and so on, so
    /// that a flood of them does not wash everything else away.
    pub fn is_notable(self) -> bool {
        self.count.is_power_of_two()
    }
}

/// Wrong tokens per address, as far back as it matters.
#[derive(Debug, Default)]
struct Strikes {
    by_address: HashMap<IpAddr, (u32, Instant)>,
}

impl Strikes {
    const REMEMBERED: usize = 10_000;
    const FORGIVEN_AFTER: Duration = Duration::from_secs(600);
    const LONGEST: Duration = Duration::from_secs(10);

    fn add(&mut self, from: IpAddr, now: Instant) -> Strike {
        if self.by_address.len() >= Self::REMEMBERED {
            self.by_address.retain(|_, (_, last)| now - *last < Self::FORGIVEN_AFTER);
        }
        if self.by_address.len() >= Self::REMEMBERED && !self.by_address.contains_key(&from) {
            // Too many to tell apart: all wait, and none has a number of its own.
            return Strike { count: 3, wait: Self::LONGEST };
        }
        let (count, last) = self.by_address.entry(from).or_insert((0, now));
        if now - *last >= Self::FORGIVEN_AFTER {
            *count = 0;
        }
        *count += 1;
        *last = now;
        let wait = Duration::from_millis(100) * (1 << (*count - 1).min(10));
        Strike { count: *count, wait: wait.min(Self::LONGEST) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluke_model::id::{AgentName, InstanceId};
    use fluke_model::message::NodeType;

    fn hello(name: &str, labels: &[&str]) -> Hello {
        Hello {
            name: AgentName::new(name).expect("name"),
            labels: all(labels),
            version: "0".into(),
            executors: vec![],
            node_type: NodeType::Worker,
            snapshot: None,
            instance: InstanceId(1),
            previous: None,
        }
    }

    fn all(labels: &[&str]) -> Labels {
        Labels(labels.iter().map(|pair| Labels::parse_pair(pair).expect("label")).collect())
    }

    #[test]
    fn a_bound_token_is_for_its_names_and_labels_only() {
        let names = ["web-*".to_string()];
        let grant = Grant::bound("web", "s3cret", &names, all(&["role=web"])).expect("globs");
        for (case, name, labels, allowed) in [
            ("its own", "web-1", &["role=web", "env=prod"][..], true),
            ("no such label", "web-1", &[][..], true),
            ("another's name", "db-1", &["role=web"][..], false),
            ("another's label", "web-1", &["role=db"][..], false),
        ] {
            assert_eq!(grant.allows(&hello(name, labels)).is_ok(), allowed, "{case}");
        }
    }

    #[test]
    fn tokens_can_be_rotated_without_a_gap() {
        let trust = Trust::new(vec![Grant::any("old")]);
        assert!(trust.grant("old").is_some() && trust.grant("new").is_none());
        trust.replace(vec![Grant::any("old"), Grant::any("new")]);
        assert!(trust.grant("old").is_some() && trust.grant("new").is_some());
        trust.replace(vec![Grant::any("new")]);
        assert!(trust.grant("old").is_none() && trust.grant("new").is_some());
    }

    #[test]
    fn wrong_tokens_wait_longer_each_time_and_are_forgiven() {
        let trust = Trust::new(vec![]);
        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let start = Instant::now();
        let wait = |from, at| trust.strike(Some(from), at).wait.as_millis();
        let waits: Vec<_> = (0..9).map(|_| wait(a, start)).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(wait(b, start), 100, "another address");
        let later = start + Duration::from_secs(600);
        assert_eq!(wait(a, later), 100, "ten quiet minutes later");
    }

    #[test]
    fn a_flood_of_wrong_tokens_is_no_flood_of_history() {
        let trust = Trust::new(vec![]);
        let now = Instant::now();
        let strikes = (0..1000).map(|_| trust.strike(Some([10, 0, 0, 1].into()), now));
        assert_eq!(strikes.filter(|strike| strike.is_notable()).count(), 10);
    }
}
