//! Labels on hosts, and the selectors that choose hosts by them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{InvalidName, LabelKey, LabelValue};

/// A host's labels.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Labels(pub BTreeMap<LabelKey, LabelValue>);

impl Labels {
    /// Reads `key=value`, as on the command line.
    pub fn parse_pair(text: &str) -> Result<(LabelKey, LabelValue), String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not a label; write it as key=value"))?;
        let key = LabelKey::new(key).map_err(|error| error.to_string())?;
        let value = LabelValue::new(value).map_err(|error| error.to_string())?;
        Ok((key, value))
    }
}

impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs: Vec<String> =
            self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.pad(&pairs.join(","))
    }
}

/// What somebody who looks for hosts asks of one label: `key=value`, or `key` with any value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFilter {
    /// The key looked at.
    pub key: LabelKey,
    /// The value it must have, if not any.
    pub value: Option<LabelValue>,
}

impl LabelFilter {
    /// Tells whether a host with these labels is meant.
    pub fn matches(&self, labels: &Labels) -> bool {
        labels
            .0
            .get(&self.key)
            .is_some_and(|value| self.value.as_ref().is_none_or(|wanted| wanted == value))
    }
}

impl std::str::FromStr for LabelFilter {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        match text.split_once('=') {
            Some((key, value)) => Ok(Self { key: key.parse()?, value: Some(value.parse()?) }),
            None => Ok(Self { key: text.parse()?, value: None }),
        }
    }
}

/// Chooses hosts: every pair and every requirement must hold. Empty matches every host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Selector {
    /// Pairs that must be among the host's labels.
    pub match_labels: BTreeMap<LabelKey, LabelValue>,
    /// Further conditions on single keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<Requirement>,
}

/// One condition on one label key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    /// The key looked at.
    pub key: LabelKey,
    /// What must hold of it.
    pub operator: Operator,
    /// The values of `in` and `not_in`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub values: BTreeSet<LabelValue>,
}

/// How a [`Requirement`] looks at its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// The key is there, with one of the values.
    In,
    /// The key is absent, or its value is none of the values.
    NotIn,
    /// The key is there.
    Exists,
    /// The key is absent.
    NotExists,
}

impl Selector {
    /// Tells whether a host with these labels is meant.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.0.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels))
    }
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.0.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::NotExists => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[&str]) -> Labels {
        Labels(pairs.iter().map(|pair| Labels::parse_pair(pair).expect("label")).collect())
    }

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement {
            key: LabelKey::new(key).expect("key"),
            operator,
            values: values.iter().map(|v| LabelValue::new(v).expect("value")).collect(),
        }
    }

    #[test]
    fn a_filter_asks_for_a_pair_or_for_a_key() {
        let host = labels(&["role=web", "env=prod"]);
        for (text, matches) in [
            ("role=web", true),
            ("role", true),
            ("role=db", false),
            ("zone", false),
            ("web", false),
        ] {
            let filter: LabelFilter = text.parse().expect("a filter");
            assert_eq!(filter.matches(&host), matches, "{text}");
        }
        for wrong in ["", "=web", "role=", "ro le", "role=a=b"] {
            assert!(wrong.parse::<LabelFilter>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_selector_matches_when_everything_in_it_holds() {
        use Operator::*;
        let host = labels(&["role=web", "env=prod"]);
        for (case, pairs, expressions, matches) in [
            ("empty", &[][..], vec![], true),
            ("one pair", &["role=web"][..], vec![], true),
            ("both pairs", &["role=web", "env=prod"][..], vec![], true),
            ("wrong value", &["role=db"][..], vec![], false),
            ("missing key", &["zone=a"][..], vec![], false),
            ("in", &[][..], vec![requirement("role", In, &["web", "db"])], true),
            ("in, absent key", &[][..], vec![requirement("zone", In, &["a"])], false),
            ("not in", &[][..], vec![requirement("role", NotIn, &["db"])], true),
            ("not in, absent key", &[][..], vec![requirement("zone", NotIn, &["a"])], true),
            ("not in, present", &[][..], vec![requirement("role", NotIn, &["web"])], false),
            ("exists", &[][..], vec![requirement("role", Exists, &[])], true),
            ("not exists", &[][..], vec![requirement("role", NotExists, &[])], false),
            (
                "pair and expression",
                &["role=web"][..],
                vec![requirement("zone", Exists, &[])],
                false,
            ),
        ] {
            let selector =
                Selector { match_labels: labels(pairs).0, match_expressions: expressions };
            assert_eq!(selector.matches(&host), matches, "{case}");
        }
    }
}
