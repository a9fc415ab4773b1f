//! Who may connect as which agent.
//!
//! A token is not a name: a grant says which names and labels its holder may claim. Tokens are
//! kept as hashes and compared in constant time.

use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use fluke_model::label::Labels;
use fluke_model::message::Hello;
use fluke_model::secret::SecretDigest;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::strikes::{Strike, Strikes};

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

/// What history calls a token: by the label of its block, which is no secret.
pub fn token_in_words(label: Option<&str>) -> String {
    label.map_or("a bare token".into(), |label| format!("token {label}"))
}

/// The label of the block that [`token_in_words`] spoke of.
pub fn token_of_words(words: &str) -> Option<&str> {
    words.strip_prefix("token ")
}

/// All tokens that are valid now; can be replaced while the server runs.
#[derive(Debug)]
pub struct Trust {
    grants: RwLock<Arc<[Arc<Grant>]>>,
    strikes: Strikes,
}

impl Trust {
    /// Trusts the holders of these.
    pub fn new(grants: Vec<Grant>) -> Self {
        let grants = grants.into_iter().map(Arc::new).collect();
        Self { grants: RwLock::new(grants), strikes: Strikes::default() }
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
        self.strikes.add(from, now)
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
            tables: fluke_model::message::Holdings::default(),
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
}
