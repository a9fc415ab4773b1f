//! Reads one branch of a Git repository, through the `git` program and a bare mirror.
//!
//! A repository cannot make the server run anything: no hooks, no filters, no work tree, no
//! protocol but the configured one. Only the newest commit is kept. What a mirror holds can be
//! lost at any time; it is made anew by itself.

mod command;
mod error;
#[cfg(test)]
pub(crate) mod fixture;
mod key;
mod objects;
mod tree;
mod url;

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fluke_model::id::CommitId;

use command::{Finished, Program, RunError};
use error::Attempt;
use tree::{Commit, ReadError, Store, lock};

pub use error::GitError;
pub(crate) use tree::usable_name;
pub use tree::{GitTree, MAX_ENTRIES};
pub use url::{Branch, Credentials, InvalidBranch, InvalidUrl, RemoteUrl, Transport};

/// The only ref of a mirror.
const TIP: &str = "refs/fluke/tip";
/// The mirror's directory within the cache.
const MIRROR: &str = "mirror.git";
/// How many fetches a mirror takes before it is packed and pruned.
const TIDY_AFTER: u32 = 100;
/// A first fetch, or packing, may take so many times longer than an answer.
const PATIENCE: u32 = 10;
/// How many branches an error names.
const NAMED_BRANCHES: usize = 5;

/// Which branch of which repository, and how to get at it.
#[derive(Debug, Clone)]
pub struct GitConfig {
    /// Where the repository is.
    pub url: RemoteUrl,
    /// The branch that is followed.
    pub branch: Branch,
    /// For HTTP; those in the URL where none are given.
    pub credentials: Option<Credentials>,
    /// The private key for SSH; the user's own where none is given.
    pub ssh_key_file: Option<PathBuf>,
    /// The hosts that SSH trusts; the user's own list where none is given.
    pub known_hosts_file: Option<PathBuf>,
    /// Certificates of the CAs that HTTPS trusts; the system's where none are given.
    pub ca_file: Option<PathBuf>,
    /// Where the mirror is kept; nothing else may be in it.
    pub cache_dir: PathBuf,
    /// How long the remote may take to answer.
    pub timeout: Duration,
}

impl GitConfig {
    /// How long a remote may take to answer where nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_secs(60);

    /// Follows `branch` of `url` without credentials.
    pub fn new(url: RemoteUrl, branch: Branch, cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            url,
            branch,
            credentials: None,
            ssh_key_file: None,
            known_hosts_file: None,
            ca_file: None,
            cache_dir: cache_dir.into(),
            timeout: Self::TIMEOUT,
        }
    }

    fn authorization(&self) -> Option<&Credentials> {
        match self.url.transport() {
            Transport::Http | Transport::Https => {
                self.credentials.as_ref().or(self.url.credentials())
            }
            Transport::File | Transport::Ssh => None,
        }
    }
}

/// The newest commit of the branch, with its files.
pub struct Checkout {
    /// Which commit.
    pub commit: CommitId,
    /// The commits that it follows.
    pub parents: Vec<CommitId>,
    /// Its files.
    pub tree: GitTree,
}

/// A bare copy of one commit of one branch.
pub struct Mirror {
    config: GitConfig,
    program: Program,
    store: Arc<Mutex<Store>>,
    /// `sha1`, until a repository turns out to use another.
    object_format: &'static str,
    fetches: u32,
    /// Whether the mirror was made anew since it last worked: once per failure is enough.
    made_anew: bool,
}

impl Mirror {
    /// A mirror in `config.cache_dir`, filled with the first [`Mirror::checkout`].
    pub fn new(mut config: GitConfig) -> Self {
        if let Ok(absolute) = std::path::absolute(&config.cache_dir) {
            config.cache_dir = absolute;
        }
        if config.url.transport() == Transport::Http && config.authorization().is_some() {
            tracing::warn!(url = %config.url, "the Git password travels unencrypted; use https://");
        }
        let program = Program::new(&config, &config.cache_dir);
        let store = Arc::new(Mutex::new(Store::new(program.clone())));
        Self { config, program, store, object_format: "sha1", fetches: 0, made_anew: false }
    }

    /// The repository, without credentials.
    pub fn url(&self) -> &RemoteUrl {
        &self.config.url
    }

    /// The branch that is followed.
    pub fn branch(&self) -> &Branch {
        &self.config.branch
    }

    /// Asks the remote for the newest commit's id; costs one listing of one ref.
    pub async fn tip(&mut self) -> Result<CommitId, GitError> {
        self.prepare().await?;
        let full_ref = self.config.branch.full_ref();
        let url = self.config.url.as_str();
        let arguments = ["ls-remote", "--exit-code", "--", url, &full_ref];
        let listed = self.run("list the branches of", arguments, self.config.timeout).await?;
        if listed.status.code() == Some(2) {
            return Err(self.no_branch().await);
        }
        let listed = self.succeeded("list the branches of", listed)?;
        let mut lines = listed.stdout.lines().filter_map(|line| line.split_once('\t'));
        let tip = lines.find(|(_, name)| *name == full_ref);
        match tip {
            Some((id, _)) => Ok(CommitId::new(id)),
            None => Err(self.no_branch().await),
        }
    }

    /// Fetches the newest commit and lists its files; none, and nothing is listed, if it is the
    /// one that is `known`.
    pub async fn checkout(
        &mut self,
        known: Option<&CommitId>,
    ) -> Result<Option<Checkout>, GitError> {
        let checkout = match self.try_checkout(known).await {
            Err(error) if error.may_be_the_mirror() && !self.made_anew => {
                tracing::warn!(%error, "making the Git mirror anew");
                self.use_format_of(&error);
                self.remove().await?;
                self.try_checkout(known).await
            }
            done => done,
        };
        self.made_anew = self.made_anew && checkout.is_err();
        checkout
    }

    /// Packs and prunes the mirror if it has grown; to be called when nothing is urgent.
    pub async fn tidy(&mut self) {
        if self.fetches < TIDY_AFTER {
            return;
        }
        self.fetches = 0;
        let mirror = self.directory();
        let arguments = ["--git-dir", &mirror, "gc", "--quiet", "--prune=now"];
        let done = self.run("pack the mirror of", arguments, self.config.timeout * PATIENCE).await;
        if let Err(error) = done.and_then(|done| self.succeeded("pack the mirror of", done)) {
            tracing::warn!(%error, "could not tidy the Git mirror");
        }
        lock(&self.store).restart();
    }

    /// Throws the mirror away; the next checkout fetches everything again.
    pub async fn remove(&mut self) -> Result<(), GitError> {
        self.made_anew = true;
        lock(&self.store).restart();
        let directory = self.mirror_path();
        match tokio::fs::remove_dir_all(&directory).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(self.storage(error.to_string()))
            }
            _ => Ok(()),
        }
    }

    async fn try_checkout(
        &mut self,
        known: Option<&CommitId>,
    ) -> Result<Option<Checkout>, GitError> {
        self.prepare().await?;
        let mirror = self.directory();
        let first = !self.mirror_path().join("HEAD").exists();
        if first {
            let format = format!("--object-format={}", self.object_format);
            let arguments = ["init", "--quiet", "--bare", "--template=", &format, "--", &mirror];
            let made = self.run("make a mirror of", arguments, self.config.timeout).await?;
            self.succeeded("make a mirror of", made)?;
            lock(&self.store).restart();
        }
        let refspec = format!("+{}:{TIP}", self.config.branch.full_ref());
        let url = self.config.url.as_str();
        let arguments = [
            "--git-dir",
            &mirror,
            "fetch",
            "--quiet",
            "--depth=1",
            "--force",
            "--update-shallow",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--no-write-fetch-head",
            "--",
            url,
            &refspec,
        ];
        if self.fetches == 0 && self.is_littered() {
            // By runs before this one, each too short to tidy up.
            self.fetches = TIDY_AFTER;
        }
        let limit = self.config.timeout * if first { PATIENCE } else { 1 };
        let fetched = self.run("fetch from", arguments, limit).await?;
        match self.succeeded("fetch from", fetched) {
            Err(GitError::NoBranch { .. }) => return Err(self.no_branch().await),
            done => done?,
        };
        self.fetches += 1;
        self.list(known.cloned()).await
    }

    async fn list(&self, known: Option<CommitId>) -> Result<Option<Checkout>, GitError> {
        let store = self.store.clone();
        let listed = tokio::task::spawn_blocking(move || {
            let commit = lock(&store).commit(TIP)?;
            if known.is_some_and(|known| known.as_str() == commit.id) {
                return Ok(None);
            }
            let tree = GitTree::list(&store, &commit)?;
            Ok::<Option<(Commit, GitTree)>, ReadError>(Some((commit, tree)))
        });
        let listed = listed.await.map_err(|error| self.damaged(error.to_string()))?;
        let listed = listed.map_err(|error| match error {
            ReadError::TooLarge(_) => {
                GitError::TooLarge { remote: self.config.url.clone(), detail: error.to_string() }
            }
            _ => self.damaged(error.to_string()),
        })?;
        Ok(listed.map(|(commit, tree)| Checkout {
            commit: CommitId::new(&commit.id),
            parents: commit.parents.iter().map(CommitId::new).collect(),
            tree,
        }))
    }

    /// Makes sure of the directory that every `git` runs in, and of its settings.
    async fn prepare(&self) -> Result<(), GitError> {
        let directory = self.config.cache_dir.clone();
        let settings = command::global_config(&self.config, &directory);
        let writes_settings = settings.starts_with(&directory);
        let prepared = tokio::task::spawn_blocking(move || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            if writes_settings && !settings.exists() {
                std::fs::write(&settings, command::GLOBAL_CONFIG)?;
            }
            Ok::<(), std::io::Error>(())
        });
        match prepared.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.storage(error.to_string())),
            Err(error) => Err(self.storage(error.to_string())),
        }
    }

    async fn run<const N: usize>(
        &self,
        operation: &'static str,
        arguments: [&str; N],
        limit: Duration,
    ) -> Result<Finished, GitError> {
        tracing::debug!(operation, remote = %self.config.url, "running git");
        self.program.run(arguments, limit).await.map_err(|error| match error {
            RunError::Start(error) if is_no_room(&error) => {
                GitError::NoRoom { reason: error.to_string() }
            }
            RunError::Start(error) => GitError::NoGit { reason: error.to_string() },
            RunError::TooLong => {
                GitError::Timeout { remote: self.config.url.clone(), after: limit }
            }
        })
    }

    fn succeeded(&self, operation: &'static str, done: Finished) -> Result<Finished, GitError> {
        if done.status.success() {
            return Ok(done);
        }
        let mirror = self.directory();
        let attempt = Attempt {
            operation,
            remote: &self.config.url,
            branch: &self.config.branch,
            mirror: &mirror,
        };
        Err(match (attempt.failed(&done.stderr), &self.config.ssh_key_file) {
            (GitError::Authentication { remote, detail }, Some(file))
                if self.config.url.transport() == Transport::Ssh =>
            {
                GitError::Authentication { remote, detail: key::problem(file).unwrap_or(detail) }
            }
            (error, _) => error,
        })
    }

    /// Why the branch is not there: told from an empty repository, with what there is instead.
    async fn no_branch(&self) -> GitError {
        let url = self.config.url.as_str();
        let arguments = ["ls-remote", "--heads", "--", url];
        let listed = self.run("list the branches of", arguments, self.config.timeout).await;
        let others: Vec<String> = match listed.and_then(|done| self.succeeded("list", done)) {
            Ok(listed) => listed
                .stdout
                .lines()
                .filter_map(|line| line.split_once("\trefs/heads/"))
                .map(|(_, name)| error::summary(name))
                .take(NAMED_BRANCHES)
                .collect(),
            Err(error) => return error,
        };
        let (remote, branch) = (self.config.url.clone(), self.config.branch.clone());
        match others.is_empty() {
            true => GitError::Empty { remote, branch },
            false => GitError::NoBranch { remote, branch, others },
        }
    }

    fn use_format_of(&mut self, error: &GitError) {
        if let GitError::Other { detail, .. } = error {
            match detail {
                _ if detail.contains("server sha256") => self.object_format = "sha256",
                _ if detail.contains("server sha1") => self.object_format = "sha1",
                _ => {}
            }
        }
    }

    /// Whether many objects lie about that are in no pack, or many packs.
    fn is_littered(&self) -> bool {
        let objects = self.mirror_path().join("objects");
        let count = |path: PathBuf| std::fs::read_dir(path).map_or(0, Iterator::count);
        count(objects.join("pack")) + count(objects) > TIDY_AFTER as usize
    }

    fn mirror_path(&self) -> PathBuf {
        self.config.cache_dir.join(MIRROR)
    }

    fn directory(&self) -> String {
        self.mirror_path().display().to_string()
    }

    fn storage(&self, detail: String) -> GitError {
        GitError::Storage { directory: self.directory(), detail }
    }

    /// What to say of a mirror that does not hold what it should.
    pub(crate) fn damaged(&self, detail: impl Into<String>) -> GitError {
        GitError::Mirror { directory: self.directory(), detail: detail.into() }
    }
}

/// Whether a process could not be started for want of processes, descriptors or memory.
fn is_no_room(error: &std::io::Error) -> bool {
    use nix::libc::{EAGAIN, EMFILE, ENFILE, ENOMEM};
    matches!(error.raw_os_error(), Some(EAGAIN | EMFILE | ENFILE | ENOMEM))
}

#[cfg(test)]
mod tests;
