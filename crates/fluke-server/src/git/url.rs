//! Where a repository is, and which branch of it: text that reaches `git` only after this.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A name and a password for HTTP. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Who.
    pub user: String,
    /// The password or access token.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A path on this machine.
    File,
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// The `ssh` program.
    Ssh,
}

impl Transport {
    /// The protocols that `git` may use for it: a redirect may add TLS, never drop it.
    pub(super) fn allowed(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http:https",
            Self::Https => "https",
            Self::Ssh => "ssh",
        }
    }
}

/// A repository's address. Shows no credentials, wherever it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteUrl {
    text: Arc<str>,
    transport: Transport,
    credentials: Option<Arc<Credentials>>,
}

/// Why a text cannot be a repository's address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUrl {
    /// Nothing was given.
    #[error(
        "the repository's URL is empty; give a path, or a file://, http://, https:// or ssh:// \
         URL, or user@host:path"
    )]
    Empty,
    /// Line breaks and the like.
    #[error("the repository's URL contains a control character; check how it is quoted")]
    Control,
    /// `git` or `ssh` would take it for an option.
    #[error("the repository's URL has a part that starts with `-` and would be read as an option")]
    Option,
    /// `ext::…` and its kin run programs.
    #[error("the URL names the remote helper `{0}::`; only paths, file, http, https and ssh work")]
    Helper(String),
    /// A scheme that is not supported.
    #[error(
        "`{0}://` is not supported; give a path, or a file://, http://, https:// or ssh:// URL, \
         or user@host:path"
    )]
    Scheme(String),
    /// No host where one is needed.
    #[error("the repository's URL names no host; write it as {0}")]
    NoHost(&'static str),
    /// `file://host/…`.
    #[error("a file:// URL has no host: write file:///path, with three slashes")]
    FileHost,
    /// `ssh://user:password@…`.
    #[error("an ssh URL cannot carry a password; set `ssh_key_file` instead")]
    SshPassword,
    /// A bad `%NN`.
    #[error("the user or password in the URL has a bad %-escape; set `basic_auth_user` instead")]
    Escape,
    /// `~/…`.
    #[error("`~` is not expanded in the repository's path; write the whole path")]
    Tilde,
    /// The working directory is gone.
    #[error("the relative path `{0}` cannot be resolved; write an absolute one")]
    Relative(String),
}

impl RemoteUrl {
    /// Reads a path or URL; a relative path starts at the working directory.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        if text.trim().is_empty() {
            return Err(InvalidUrl::Empty);
        }
        if text.chars().any(char::is_control) {
            return Err(InvalidUrl::Control);
        }
        refuse_option(text)?;
        if let Some(helper) = remote_helper(text) {
            return Err(InvalidUrl::Helper(helper.to_string()));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return Self::with_scheme(scheme, rest);
        }
        match scp_like(text) {
            Some((authority, path)) => Self::scp(text, authority, path),
            None => Self::local(text),
        }
    }

    fn with_scheme(scheme: &str, rest: &str) -> Result<Self, InvalidUrl> {
        match scheme.to_ascii_lowercase().as_str() {
            "file" if !rest.starts_with('/') => Err(InvalidUrl::FileHost),
            "file" => Ok(Self::plain(format!("file://{rest}"), Transport::File)),
            "http" => Self::web("http", rest, Transport::Http),
            "https" => Self::web("https", rest, Transport::Https),
            "ssh" => Self::ssh(rest),
            other => Err(InvalidUrl::Scheme(other.to_string())),
        }
    }

    fn plain(text: String, transport: Transport) -> Self {
        Self { text: text.into(), transport, credentials: None }
    }

    fn web(scheme: &str, rest: &str, transport: Transport) -> Result<Self, InvalidUrl> {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (userinfo, host) = split_userinfo(authority);
        if host.is_empty() || host.starts_with(':') {
            return Err(InvalidUrl::NoHost("https://host/path.git"));
        }
        let credentials = userinfo.map(read_userinfo).transpose()?.map(Arc::new);
        Ok(Self { text: format!("{scheme}://{host}{path}").into(), transport, credentials })
    }

    fn ssh(rest: &str) -> Result<Self, InvalidUrl> {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) = split_userinfo(authority);
        if user.is_some_and(|user| user.contains(':')) {
            return Err(InvalidUrl::SshPassword);
        }
        if host.is_empty() || host.starts_with(':') || path.len() < 2 {
            return Err(InvalidUrl::NoHost("ssh://user@host/path.git"));
        }
        refuse_option(host)?;
        user.map_or(Ok(()), refuse_option)?;
        Ok(Self::plain(format!("ssh://{rest}"), Transport::Ssh))
    }

    fn scp(text: &str, authority: &str, path: &str) -> Result<Self, InvalidUrl> {
        let (user, host) = split_userinfo(authority);
        if host.is_empty() || path.is_empty() {
            return Err(InvalidUrl::NoHost("user@host:path.git"));
        }
        refuse_option(host)?;
        refuse_option(path)?;
        user.map_or(Ok(()), refuse_option)?;
        Ok(Self::plain(text.to_string(), Transport::Ssh))
    }

    fn local(text: &str) -> Result<Self, InvalidUrl> {
        if text == "~" || text.starts_with("~/") {
            return Err(InvalidUrl::Tilde);
        }
        let absolute = std::path::absolute(text).ok();
        let path = absolute.as_deref().and_then(Path::to_str);
        let path = path.ok_or_else(|| InvalidUrl::Relative(text.to_string()))?;
        Ok(Self::plain(path.to_string(), Transport::File))
    }

    /// What `git` is given: never with credentials.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How the repository is reached.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// The user and password that the URL carried, if it did.
    pub fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_deref()
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

fn refuse_option(part: &str) -> Result<(), InvalidUrl> {
    if part.starts_with('-') { Err(InvalidUrl::Option) } else { Ok(()) }
}

/// The `ext` of `ext::sh -c …`.
fn remote_helper(text: &str) -> Option<&str> {
    let (name, _) = text.split_once("::")?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+'));
    is_name.then_some(name)
}

/// `user@host:path`: a colon before any slash, as `git` decides it.
fn scp_like(text: &str) -> Option<(&str, &str)> {
    let bracket = text.find('[').filter(|at| text[..*at].chars().all(|c| c != '/' && c != ':'));
    let from = bracket.and_then(|_| text.find("]:")).map_or(0, |at| at + 1);
    let colon = from + text[from..].find(':')?;
    let (authority, path) = (&text[..colon], &text[colon + 1..]);
    (!authority.contains('/')).then_some((authority, path))
}

fn split_userinfo(authority: &str) -> (Option<&str>, &str) {
    match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    }
}

fn read_userinfo(text: &str) -> Result<Credentials, InvalidUrl> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    Ok(Credentials { user: unescape(user)?, password: unescape(password)? })
}

fn unescape(text: &str) -> Result<String, InvalidUrl> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|d| (d as char).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(InvalidUrl::Escape),
        }
    }
    String::from_utf8(bytes).map_err(|_| InvalidUrl::Escape)
}

/// A branch's name, fit to stand in a refspec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch(Arc<str>);

/// Why a text cannot be a branch's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` cannot be the name of a branch; write it as in `git branch`, without `refs/heads/`", .0.escape_debug())]
pub struct InvalidBranch(String);

impl Branch {
    /// Accepts what `git` accepts as a branch's name.
    pub fn parse(text: &str) -> Result<Self, InvalidBranch> {
        let forbidden =
            |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
        let bad_part =
            |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
        let bad = text.len() > 255
            || text.starts_with('-')
            || text.starts_with("refs/heads/")
            || text.ends_with('.')
            || text == "@"
            || text == "HEAD"
            || text.contains("..")
            || text.contains("@{")
            || text.contains(forbidden)
            || text.split('/').any(bad_part);
        if bad { Err(InvalidBranch(text.to_string())) } else { Ok(Self(text.into())) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `refs/heads/…`.
    pub fn full_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests;
