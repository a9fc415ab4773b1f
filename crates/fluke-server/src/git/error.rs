//! Why Git did not give what was asked for, told apart by what an operator can do about it.

use std::time::Duration;

use super::url::{Branch, RemoteUrl};

/// Why a repository could not be read. What is in force stays in force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    /// There is no `git` here, or it cannot be started.
    #[error("could not start `git`: {reason}; install git, and see that PATH leads to it")]
    NoGit {
        /// What the system said.
        reason: String,
    },
    /// The machine has no room for another process.
    #[error(
        "this machine has no room to start `git`: {reason}; look at its memory, its open files and \
         its process limit"
    )]
    NoRoom {
        /// What the system said.
        reason: String,
    },
    /// The server does not let us in.
    #[error(
        "{remote} refused the credentials: {detail}; check `basic_auth_user` and \
         `basic_auth_password`, or `ssh_key_file` and that its public key may read the repository"
    )]
    Authentication {
        /// Which repository.
        remote: RemoteUrl,
        /// What `git` said.
        detail: String,
    },
    /// The host is not in the list of known hosts.
    #[error(
        "the host key of {remote} is not known: {detail}; compare the key with the host's own and \
         add it to `known_hosts_file` (`ssh-keyscan HOST` prints it)"
    )]
    HostKeyUnknown {
        /// Which repository.
        remote: RemoteUrl,
        /// What `ssh` said.
        detail: String,
    },
    /// The host has another key than the one that is known.
    #[error(
        "the host key of {remote} is not the one in the list of known hosts: {detail}; somebody \
         may be in between. If the host was set up anew, replace its line in `known_hosts_file`"
    )]
    HostKeyChanged {
        /// Which repository.
        remote: RemoteUrl,
        /// What `ssh` said.
        detail: String,
    },
    /// The TLS certificate is not trusted.
    #[error(
        "the certificate of {remote} was not accepted: {detail}; if it is of a private CA, set \
         `ca_file` in the server's `git` block to the CA's certificate, else renew it"
    )]
    Certificate {
        /// Which repository.
        remote: RemoteUrl,
        /// What `git` said.
        detail: String,
    },
    /// There is no repository there, or none that we may see.
    #[error("there is no repository at {remote}: {detail}; check `url`, and who may read it")]
    NotFound {
        /// Which repository.
        remote: RemoteUrl,
        /// What `git` said.
        detail: String,
    },
    /// The server sends us elsewhere, and credentials do not follow.
    #[error(
        "{remote} has moved: {detail}; credentials are not sent along to another address, so put \
         the new one into `url`"
    )]
    Moved {
        /// Which repository.
        remote: RemoteUrl,
        /// What `git` said.
        detail: String,
    },
    /// The repository has no such branch.
    #[error("{remote} has no branch `{branch}` ({}); push it, or set `branch`", listed(.others))]
    NoBranch {
        /// Which repository.
        remote: RemoteUrl,
        /// Which branch.
        branch: Branch,
        /// Some that there are.
        others: Vec<String>,
    },
    /// The repository has no commit at all.
    #[error("{remote} is empty; push a first commit to branch `{branch}`")]
    Empty {
        /// Which repository.
        remote: RemoteUrl,
        /// Which branch.
        branch: Branch,
    },
    /// The host cannot be reached.
    #[error("{remote} cannot be reached: {detail}; check the network, the name and the proxy")]
    Network {
        /// Which repository.
        remote: RemoteUrl,
        /// What `git` said.
        detail: String,
    },
    /// No end in sight.
    #[error(
        "{remote} did not answer within {}; check the network and the load of the Git server",
        seconds(*.after)
    )]
    Timeout {
        /// Which repository.
        remote: RemoteUrl,
        /// How long was waited.
        after: Duration,
    },
    /// An object breaks Git's own rules.
    #[error("{remote} sent an object that breaks Git's rules: {detail}; run `git fsck` there")]
    BadObject {
        /// Which repository.
        remote: RemoteUrl,
        /// What `git` said.
        detail: String,
    },
    /// The commit is larger than any sane one.
    #[error("the commit in {remote} {detail}; keep manifests in a repository of their own")]
    TooLarge {
        /// Which repository.
        remote: RemoteUrl,
        /// Which bound was crossed.
        detail: String,
    },
    /// The local copy cannot be written.
    #[error("the mirror in {directory} cannot be written: {detail}; free space, check permissions")]
    Storage {
        /// Where the mirror is.
        directory: String,
        /// What the system said.
        detail: String,
    },
    /// The local copy is damaged; it is made anew by itself.
    #[error(
        "the mirror in {directory} is damaged: {detail}; it is made anew with the next try, or \
         delete it"
    )]
    Mirror {
        /// Where the mirror is.
        directory: String,
        /// What was found.
        detail: String,
    },
    /// None of the above.
    #[error("git could not {operation} {remote}: {detail}")]
    Other {
        /// What was attempted.
        operation: &'static str,
        /// Which repository.
        remote: RemoteUrl,
        /// What `git` said.
        detail: String,
    },
}

impl GitError {
    /// Whether a new mirror could be the cure.
    pub(super) fn may_be_the_mirror(&self) -> bool {
        matches!(self, Self::Mirror { .. } | Self::Other { .. } | Self::BadObject { .. })
    }
}

fn listed(branches: &[String]) -> String {
    match branches {
        [] => "it has no branches".to_string(),
        some => format!("it has {}", some.join(", ")),
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f32())
}

/// What a failed `git` said of the remote, sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    HostKeyChanged,
    HostKeyUnknown,
    Certificate,
    Authentication,
    Moved,
    NoBranch,
    Network,
    NotFound,
    BadObject,
}

/// Phrases of git, ssh and libcurl in the C locale; the first that occurs decides, so what is
/// said along with everything ("Could not read from remote repository") is not here.
const PHRASES: &[(Cause, &[&str])] = &[
    (Cause::HostKeyChanged, &["REMOTE HOST IDENTIFICATION HAS CHANGED"]),
    (Cause::HostKeyUnknown, &["host key is known for", "Host key verification failed"]),
    (
        Cause::Certificate,
        &[
            "SSL certificate problem",
            "certificate verification failed",
            "certificate verify failed",
            "certificate subject name",
            "SSL CA cert",
            "SSL_CTX_",
            "CAfile:",
        ],
    ),
    (
        Cause::Authentication,
        &[
            "Authentication failed",
            "could not read Username",
            "could not read Password",
            "Permission denied (",
            "returned error: 401",
            "returned error: 403",
            "Load key ",
            "Too many authentication failures",
        ],
    ),
    (Cause::Moved, &["returned error: 30", "unable to update url base from redirection"]),
    (Cause::NoBranch, &["couldn't find remote ref"]),
    (
        Cause::Network,
        &[
            "Could not resolve",
            "Name or service not known",
            "Temporary failure in name resolution",
            "Connection refused",
            "Connection reset",
            "Connection timed out",
            "Connection closed by",
            "Operation timed out",
            "Network is unreachable",
            "No route to host",
            "Failed to connect",
            "Couldn't connect",
            "Could not connect",
            "Operation too slow",
            "Empty reply from server",
            "kex_exchange_identification",
            "the remote end hung up",
            "unexpected disconnect",
            "early EOF",
            "RPC failed",
            "returned error: 5",
        ],
    ),
    (
        Cause::NotFound,
        &[
            "does not appear to be a git repository",
            "not found",
            "returned error: 404",
            "returned error: 410",
            "No such file or directory",
            "does not exist",
        ],
    ),
    (Cause::BadObject, &["fsck error", "error in object", "error: object "]),
];

/// Said of the disk under the mirror.
const DISK: &[&str] = &["No space left on device", "Read-only file system", "Disk quota exceeded"];
/// Said of the mirror by a user who may not write it; without it, of much else.
const RIGHTS: &str = "Permission denied\n";
/// Said of this machine by a `git` that cannot start its own parts.
const NO_ROOM: &[&str] =
    &["Resource temporarily unavailable", "Too many open files", "Cannot allocate memory"];

/// What a failed `git` was about.
pub(super) struct Attempt<'a> {
    pub(super) operation: &'static str,
    pub(super) remote: &'a RemoteUrl,
    pub(super) branch: &'a Branch,
    pub(super) mirror: &'a str,
}

impl Attempt<'_> {
    /// The error for what `git` printed on its way out.
    pub(super) fn failed(&self, stderr: &str) -> GitError {
        // What the other side says of itself is marked, and the other side has no mirror.
        let own: Vec<_> = stderr.lines().filter(|line| !line.starts_with("remote:")).collect();
        let own = own.join("\n");
        let is_own = |phrases: &[&str]| phrases.iter().any(|phrase| own.contains(phrase));
        if is_own(NO_ROOM) {
            return GitError::NoRoom { reason: summary(stderr) };
        }
        // Only a complaint about the mirror names the mirror, or a disk.
        if stderr.contains(self.mirror) || is_own(DISK) {
            return self.failed_here(stderr);
        }
        // The address may contain any word.
        let said = stderr.replace(self.remote.as_str(), "");
        let cause =
            PHRASES.iter().find(|(_, phrases)| phrases.iter().any(|phrase| said.contains(phrase)));
        let remote = self.remote.clone();
        let detail = summary(stderr);
        match cause.map(|(cause, _)| *cause) {
            Some(Cause::HostKeyChanged) => GitError::HostKeyChanged { remote, detail },
            Some(Cause::HostKeyUnknown) => GitError::HostKeyUnknown { remote, detail },
            Some(Cause::Certificate) => GitError::Certificate { remote, detail },
            Some(Cause::Authentication) => {
                // What git says then is that it could not ask anybody.
                let asked = ["could not read Username", "could not read Password"];
                let detail = match asked.iter().any(|phrase| said.contains(phrase)) {
                    true => "it asks for a user and a password, and takes none that it was given"
                        .to_string(),
                    false => detail,
                };
                GitError::Authentication { remote, detail }
            }
            Some(Cause::Moved) => GitError::Moved { remote, detail },
            Some(Cause::NoBranch) => {
                GitError::NoBranch { remote, branch: self.branch.clone(), others: Vec::new() }
            }
            Some(Cause::Network) => GitError::Network { remote, detail },
            Some(Cause::NotFound) => GitError::NotFound { remote, detail },
            Some(Cause::BadObject) => GitError::BadObject { remote, detail },
            None => GitError::Other { operation: self.operation, remote, detail },
        }
    }

    fn failed_here(&self, stderr: &str) -> GitError {
        let (directory, detail) = (self.mirror.to_string(), summary(stderr));
        match DISK.iter().chain([&RIGHTS]).any(|phrase| stderr.contains(phrase)) {
            true => GitError::Storage { directory, detail },
            false => GitError::Mirror { directory, detail },
        }
    }
}

const MAX_SUMMARY: usize = 600;

/// The lines that say something, in one line, without what a terminal would obey.
pub(super) fn summary(stderr: &str) -> String {
    let noise = [
        "Could not read from remote repository",
        "Please make sure you have the correct access rights",
        "and the repository exists",
    ];
    let lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| line.chars().any(char::is_alphanumeric))
        .filter(|line| !noise.iter().any(|noise| line.contains(noise)))
        .map(|line| line.trim_start_matches("fatal: ").trim_start_matches("error: "));
    let mut text = lines.collect::<Vec<_>>().join("; ");
    text.retain(|c| !c.is_control());
    if text.is_empty() {
        return "it gave no reason".to_string();
    }
    if text.len() > MAX_SUMMARY {
        let end = (0..=MAX_SUMMARY).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
