//! The environment that commands inherit: the agent's own, without the agent's own secrets.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use super::users;

/// Variables for children, by name.
#[derive(Clone, Default)]
pub struct Environment(Arc<Vec<(OsString, OsString)>>);

/// Why a value with `$NAME` in it cannot be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// Not there.
    #[error(
        "env `{key}` refers to `${name}`, which is not set in the agent's environment on this \
         host; set it there (in /etc/fluke/agent.env, then `systemctl reload fluke-agent`)"
    )]
    Unset {
        /// The variable being made.
        key: String,
        /// The variable that is missing.
        name: String,
    },
    /// `${` without its end.
    #[error("env `{key}` has a `${{` without a `}}`; write `$$` for a literal dollar")]
    Unclosed {
        /// The variable being made.
        key: String,
    },
}

/// A value with its references resolved.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Expanded {
    /// What the child gets.
    pub value: OsString,
    /// What came out of the agent's environment.
    pub taken: Vec<OsString>,
}

impl Environment {
    /// This process's environment without what would give `token` away.
    pub fn of_this_process(token: &str) -> Self {
        let mut pairs: Vec<_> =
            std::env::vars_os().filter(|(name, value)| !is_secret(name, value, token)).collect();
        if !pairs.iter().any(|(name, _)| name == "HOME") {
            pairs.push(("HOME".into(), users::own_home().into()));
        }
        Self(Arc::new(pairs))
    }

    /// Exactly these.
    pub fn from_pairs<K: Into<OsString>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self(Arc::new(pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect()))
    }

    /// The same, but for one variable.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut pairs: Vec<_> = self.0.iter().filter(|(key, _)| key != name).cloned().collect();
        pairs.push((name.into(), value.into()));
        Self(Arc::new(pairs))
    }

    /// The value of `name`.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        let name = name.as_ref();
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
    }

    /// All of them.
    pub fn pairs(&self) -> &[(OsString, OsString)] {
        &self.0
    }

    /// Resolves `$NAME` and `${NAME}` in the value of `key`; `$$` is a dollar.
    pub fn expand(&self, key: &str, value: &str) -> Result<Expanded, ExpandError> {
        let mut made = Vec::with_capacity(value.len());
        let mut taken = Vec::new();
        let mut rest = value;
        while let Some(dollar) = rest.find('$') {
            made.extend_from_slice(&rest.as_bytes()[..dollar]);
            rest = &rest[dollar + 1..];
            let name;
            (name, rest) = match rest.as_bytes().first() {
                Some(b'$') => ("", &rest[1..]),
                Some(b'{') => rest[1..]
                    .split_once('}')
                    .ok_or_else(|| ExpandError::Unclosed { key: key.to_owned() })?,
                _ => rest.split_at(name_length(rest)),
            };
            if name.is_empty() {
                made.push(b'$');
                continue;
            }
            let found = self
                .get(name)
                .ok_or_else(|| ExpandError::Unset { key: key.to_owned(), name: name.to_owned() })?;
            made.extend_from_slice(found.as_bytes());
            taken.push(found.to_owned());
        }
        made.extend_from_slice(rest.as_bytes());
        Ok(Expanded { value: OsString::from_vec(made), taken })
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values are other people's secrets.
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// How many bytes of a variable's name `text` starts with.
fn name_length(text: &str) -> usize {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if starts { end } else { 0 }
}

/// Whether a variable is fluke's own secret: by its name, or because it holds the token.
fn is_secret(name: &OsStr, value: &OsStr, token: &str) -> bool {
    let name = name.to_string_lossy();
    let own = name.starts_with("FLUKE_")
        && ["TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word));
    // Within a longer value only what can hardly be there by chance.
    let holds = token.len() >= 8
        && value.as_bytes().windows(token.len()).any(|window| window == token.as_bytes());
    own || holds || (!token.is_empty() && value == token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment::from_pairs([("USER", "ann"), ("EMPTY", ""), ("DB_1", "p$w")])
    }

    #[test]
    fn references_are_read_on_the_host() {
        for (value, expected, taken) in [
            ("plain", "plain", vec![]),
            ("$USER", "ann", vec!["ann"]),
            ("${USER}s", "anns", vec!["ann"]),
            ("$USER-$DB_1!", "ann-p$w!", vec!["ann", "p$w"]),
            ("[$EMPTY]", "[]", vec![""]),
            ("cost: 5$$", "cost: 5$", vec![]),
            ("$$USER", "$USER", vec![]),
            ("5$ a day, $1", "5$ a day, $1", vec![]),
            ("end$", "end$", vec![]),
        ] {
            let expanded = environment().expand("KEY", value).expect("resolves");
            assert_eq!(expanded.value, expected, "{value}");
            assert_eq!(expanded.taken, taken, "{value}");
        }
    }

    #[test]
    fn a_reference_to_nothing_is_named() {
        let error = environment().expand("URL", "http://$NOBODY").expect_err("not set");
        assert!(error.to_string().starts_with("env `URL` refers to `$NOBODY`, which is not set"));
        let error = environment().expand("URL", "${USER").expect_err("not closed");
        assert_eq!(error, ExpandError::Unclosed { key: "URL".into() });
    }

    #[test]
    fn a_short_token_takes_nothing_else_along() {
        assert!(is_secret("WEB".as_ref(), "bin".as_ref(), "bin"));
        assert!(!is_secret("PATH".as_ref(), "/usr/bin:/bin".as_ref(), "bin"));
        assert!(!is_secret("EMPTY".as_ref(), "".as_ref(), ""));
    }

    #[test]
    fn what_gives_the_agent_away_is_secret() {
        for (name, value, secret) in [
            ("FLUKE_TOKEN", "x", true),
            ("FLUKE_API_TOKEN", "x", true),
            ("WEB", "token-123", true),
            ("URL", "http://token-123@host", true),
            ("FLUKE_SERVER", "x", false),
            ("TOKEN", "of somebody else", false),
        ] {
            assert_eq!(is_secret(name.as_ref(), value.as_ref(), "token-123"), secret, "{name}");
        }
    }
}
