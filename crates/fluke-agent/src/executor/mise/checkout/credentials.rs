//! A user and a password in a clone's URL: kept out of arguments and of the clone's own files.
//!
//! They reach git through a credential helper that reads them from its environment, and only for
//! the host that the URL names.

use std::ffi::OsString;

use crate::host::environment::Environment;

/// What asks for credentials hears these; nothing of them stands in the text itself.
const HELPER: &str = "!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \
                      \"$FLUKE_GIT_USER\" \"$FLUKE_GIT_PASSWORD\"; }; f";

/// A user and a password for one host.
pub(super) struct Credentials {
    /// `https://host:port`.
    place: String,
    user: String,
    pub(super) password: String,
}

/// A URL without its user and password, and those. Only for http(s), where git takes them from
/// elsewhere; any other URL stays as it is.
pub(super) fn split(url: &str) -> (String, Option<Credentials>) {
    let whole = || (url.to_owned(), None);
    let Some((scheme @ ("http" | "https"), rest)) = url.split_once("://") else { return whole() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let Some((userinfo, host)) = authority.rsplit_once('@') else { return whole() };
    let Some((user, password)) = userinfo.split_once(':') else { return whole() };
    let (Some(user), Some(password)) = (unescape(user), unescape(password)) else { return whole() };
    // A line break would be another answer of the helper's.
    if [&user, &password].iter().any(|text| text.contains(['\n', '\r', '\0'])) {
        return whole();
    }
    let place = format!("{scheme}://{host}");
    (format!("{place}{path}"), Some(Credentials { place, user, password }))
}

impl Credentials {
    /// What git is to be given. Settings of the user that are given in the same way stay.
    pub(super) fn environment(&self, inherited: &Environment) -> Vec<(OsString, OsString)> {
        let count = inherited.get("GIT_CONFIG_COUNT").and_then(|count| count.to_str());
        let first: usize = count.and_then(|count| count.parse().ok()).unwrap_or(0);
        let settings = [
            // No helper of the user's is to keep what is not the user's.
            ("credential.helper".to_owned(), ""),
            (format!("credential.{}.helper", self.place), HELPER),
        ];
        let mut variables: Vec<(OsString, OsString)> = vec![
            ("FLUKE_GIT_USER".into(), self.user.clone().into()),
            ("FLUKE_GIT_PASSWORD".into(), self.password.clone().into()),
            ("GIT_CONFIG_COUNT".into(), (first + settings.len()).to_string().into()),
        ];
        for (at, (key, value)) in (first..).zip(settings) {
            variables.push((format!("GIT_CONFIG_KEY_{at}").into(), key.into()));
            variables.push((format!("GIT_CONFIG_VALUE_{at}").into(), value.into()));
        }
        variables
    }
}

/// Text without its `%NN`; none if one of them is no such thing.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || rest.next().and_then(|digit| (digit as char).to_digit(16));
        bytes.push(match byte {
            b'%' => (digit()? * 16 + digit()?) as u8,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_password_for_http_is_taken_out() {
        for (url, plain, found) in [
            ("https://u:p@host:8443/x.git", "https://host:8443/x.git", Some(("u", "p"))),
            ("http://u:p%40%2fq@host/x", "http://host/x", Some(("u", "p@/q"))),
            ("https://:token@host/x", "https://host/x", Some(("", "token"))),
            ("https://u@host/x", "https://u@host/x", None),
            ("https://host/x:y@z", "https://host/x:y@z", None),
            ("https://u:%zz@host/x", "https://u:%zz@host/x", None),
            ("https://u:a%0ahost=evil@host/x", "https://u:a%0ahost=evil@host/x", None),
            ("ssh://u:p@host/x", "ssh://u:p@host/x", None),
            ("git@host:repo", "git@host:repo", None),
            ("/srv/x", "/srv/x", None),
        ] {
            let (clean, credentials) = split(url);
            let split = credentials.as_ref().map(|found| (&*found.user, &*found.password));
            assert_eq!((clean.as_str(), split), (plain, found), "{url}");
        }
    }

    #[test]
    fn settings_of_the_user_are_added_to() {
        let inherited = Environment::from_pairs([("GIT_CONFIG_COUNT", "2")]);
        let (_, credentials) = split("https://u:p@host/x");
        let variables = credentials.expect("some").environment(&inherited);
        let value = |name: &str| {
            let found = variables.iter().find(|(key, _)| key == name);
            found.and_then(|(_, value)| value.to_str())
        };
        assert_eq!(value("GIT_CONFIG_COUNT"), Some("4"));
        assert_eq!(value("GIT_CONFIG_KEY_2"), Some("credential.helper"));
        assert_eq!(value("GIT_CONFIG_KEY_3"), Some("credential.https://host.helper"));
    }
}
