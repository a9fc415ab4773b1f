//! The environment that commands inherit: the agent's own, without the agent's own secrets.

use std::borrow::Cow;
use std::ffi::{CStr, CString, NulError, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use super::users;

/// Variables for children, each once, as the kernel takes them: `NAME=value`.
#[derive(Clone, Default)]
pub struct Environment(Arc<[CString]>);

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
        let home = ("HOME".into(), users::own_home().into());
        let own = std::env::vars_os().filter(|(name, value)| !is_secret(name, value, token));
        Self::from_pairs(std::iter::once(home).chain(own))
    }

    /// Exactly these; the last one of a name wins.
    pub fn from_pairs<K: Into<OsString>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let mut entries = Vec::new();
        for (name, value) in pairs {
            // What cannot be spelled can be in nobody's environment.
            let _ = change(&mut entries, &name.into(), Some(&value.into()));
        }
        Self(entries.into_iter().map(Cow::into_owned).collect())
    }

    /// The same, but for one variable.
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut entries = self.entries();
        let _ = change(&mut entries, name.as_ref(), Some(value.as_ref()));
        Self(entries.into_iter().map(Cow::into_owned).collect())
    }

    /// The value of `name`.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.iter().find_map(|entry| value_in(entry, name.as_ref()))
    }

    /// All of them, to be [changed](change).
    pub fn entries(&self) -> Vec<Cow<'_, CStr>> {
        self.0.iter().map(|entry| Cow::Borrowed(entry.as_c_str())).collect()
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
        f.debug_list().entries(self.0.iter().map(|entry| name_and_value(entry).0)).finish()
    }
}

/// Sets a variable among others, or takes it away where there is no value.
pub fn change(
    entries: &mut Vec<Cow<'_, CStr>>,
    name: &OsStr,
    value: Option<&OsStr>,
) -> Result<(), NulError> {
    let place = entries.iter().position(|entry| value_in(entry, name).is_some());
    let value = value.map(|value| entry(name, value)).transpose()?.map(Cow::Owned);
    match (place, value) {
        (Some(place), Some(value)) => entries[place] = value,
        (None, Some(value)) => entries.push(value),
        (Some(place), None) => drop(entries.remove(place)),
        (None, None) => {}
    }
    Ok(())
}

/// A variable as the kernel takes it.
fn entry(name: &OsStr, value: &OsStr) -> Result<CString, NulError> {
    // With room for the end, so that nothing is copied once more.
    let mut entry = Vec::with_capacity(name.len() + value.len() + 2);
    entry.extend_from_slice(name.as_bytes());
    entry.push(b'=');
    entry.extend_from_slice(value.as_bytes());
    CString::new(entry)
}

/// The value of `name`, if this is its entry.
fn value_in<'a>(entry: &'a CStr, name: &OsStr) -> Option<&'a OsStr> {
    let value = entry.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
    Some(OsStr::from_bytes(value))
}

/// Both halves of an entry.
pub fn name_and_value(entry: &CStr) -> (&OsStr, &OsStr) {
    let bytes = entry.to_bytes();
    let end = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
    let value = bytes.get(end + 1..).unwrap_or_default();
    (OsStr::from_bytes(&bytes[..end]), OsStr::from_bytes(value))
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
    fn a_name_is_there_once_and_is_no_other_name_that_it_begins() {
        let twice = Environment::from_pairs([("A", "1"), ("AB", "=2"), ("A", "3")]);
        let entries: Vec<_> = twice.0.iter().map(|entry| entry.to_bytes()).collect();
        assert_eq!(entries, [&b"A=3"[..], b"AB==2"]);
        assert_eq!(twice.get("A"), Some(OsStr::new("3")));
        assert_eq!(twice.get("AB"), Some(OsStr::new("=2")));
        assert_eq!(twice.with("A", "4").get("A"), Some(OsStr::new("4")));
        assert_eq!(twice.with("A", "4").get("AB"), Some(OsStr::new("=2")));
        assert_eq!(twice.get("B"), None);
    }

    #[test]
    fn only_names_are_shown() {
        assert_eq!(format!("{:?}", environment()), r#"["USER", "EMPTY", "DB_1"]"#);
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
