//! Keeps a directory a clone of a repository's branch, and never touches anybody's work in it.

mod credentials;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use fluke_model::task::GitCheckout;
use tokio::time::Instant;

use crate::host::output::{Secrets, last_lines};
use crate::host::process::{Command, End, Finished, Leftovers};
use crate::host::{Host, files};

use credentials::Credentials;

/// Where the agent notes what it checked out last, to tell it from commits of others.
const DEPLOYED: &str = "refs/fluke/deployed";

/// Settings that keep a repository from running anything, and git from asking anybody.
const HARDENED: [&str; 12] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "submodule.recurse=false",
    "-c",
    "gc.autoDetach=false",
    "-c",
    "maintenance.autoDetach=false",
];

/// Variables that would lead git elsewhere.
const MISLEADING: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
];

/// Makes `dir` the newest commit of the branch: cloned if absent, pulled otherwise.
pub(super) async fn update(
    host: &Host,
    dir: &Path,
    wanted: &GitCheckout,
    deadline: Instant,
) -> Result<(), String> {
    Checkout::new(host, dir, wanted, deadline)?.update().await
}

struct Checkout<'a> {
    host: &'a Host,
    git: PathBuf,
    dir: &'a Path,
    wanted: &'a GitCheckout,
    /// The wanted URL, without a password.
    url: String,
    credentials: Option<Credentials>,
    /// A password in the URL, which git may repeat.
    secrets: Secrets,
    deadline: Instant,
}

impl<'a> Checkout<'a> {
    fn new(
        host: &'a Host,
        dir: &'a Path,
        wanted: &'a GitCheckout,
        deadline: Instant,
    ) -> Result<Self, String> {
        let git = host.find_program("git", &[]).ok_or("there is no git in the agent's PATH")?;
        if wanted.url.starts_with('-') || wanted.branch.starts_with('-') {
            return Err("neither `url` nor `branch` can begin with a dash".to_owned());
        }
        let (url, credentials) = credentials::split(&wanted.url);
        let unescaped = credentials.as_ref().map(|found| found.password.as_str());
        let passwords = password(&wanted.url).into_iter().chain(unescaped);
        let secrets = Secrets::new(passwords.map(str::as_bytes));
        Ok(Self { host, git, dir, wanted, url, credentials, secrets, deadline })
    }

    async fn update(&self) -> Result<(), String> {
        let vacant = files::is_vacant(self.dir).await;
        if vacant.map_err(|error| format!("could not look into {}: {error}", self.dir.display()))? {
            return self.clone().await;
        }
        self.expect_our_clone().await?;
        self.expect_no_changes().await?;
        self.fetch().await?;
        self.move_on().await
    }

    /// Clones beside and renames, so that a clone cut short is never taken for one.
    async fn clone(&self) -> Result<(), String> {
        let shown = self.dir.display();
        let (Some(parent), Some(name)) = (self.dir.parent(), self.dir.file_name()) else {
            return Err(format!("{shown} cannot be a clone"));
        };
        let trouble = |what: &str, error: std::io::Error| format!("could not {what}: {error}");
        files::make_dirs(parent)
            .await
            .map_err(|error| trouble(&format!("create {}", parent.display()), error))?;
        let mut beside = OsStr::new(".").to_owned();
        beside.push(name);
        beside.push(".fluke-clone");
        let beside = parent.join(beside);
        files::remove_dir(&beside)
            .await
            .map_err(|error| trouble(&format!("remove {}", beside.display()), error))?;
        let (url, branch) = (&self.url, &self.wanted.branch);
        let args = ["clone", "--quiet", "--single-branch", "--no-recurse-submodules", "--branch"];
        let args = args.iter().map(OsStr::new).chain([
            OsStr::new(branch),
            OsStr::new("--"),
            OsStr::new(url),
            beside.as_os_str(),
        ]);
        let cloning =
            format!("clone {} (branch {branch}) into {shown}", self.secrets.mask_text(url));
        self.reach_out(parent, &cloning, args).await?;
        self.git(&beside, "note what was cloned", ["update-ref", DEPLOYED, "HEAD"]).await?;
        let renamed = files::move_dir(&beside, self.dir).await;
        renamed.map_err(|error| trouble(&format!("put the clone at {shown}"), error))
    }

    async fn expect_our_clone(&self) -> Result<(), String> {
        let shown = self.dir.display();
        let url = self.secrets.mask_text(&self.url);
        let no_clone = || {
            format!(
                "{shown} exists and is not a clone of {url}; move it away, or correct \
                 `working_dir`"
            )
        };
        let top = self.run(self.dir, ["rev-parse", "--show-toplevel"]).await?;
        if top.end == End::Exited(128) && said(&top).contains("dubious ownership") {
            return Err(format!("git does not trust {shown}: {}", said(&top)));
        }
        let real = tokio::fs::canonicalize(self.dir).await.map_err(|_| no_clone())?;
        if top.end != End::Exited(0) || Path::new(said(&top).trim()) != real {
            return Err(no_clone());
        }
        let origin = self.run(self.dir, ["config", "--get", "remote.origin.url"]).await?;
        let origin = said(&origin);
        let (without, had) = credentials::split(origin.trim());
        if plain(&without) != plain(&self.url) {
            let origin = mask_password(&without);
            return Err(format!(
                "{shown} is a clone of {origin}, not of {url}; move it away, or correct `git.url`"
            ));
        }
        if had.is_some() {
            // A clone of before, or somebody else's: no password is left lying in its config.
            let doing = format!("take the password out of the configuration of {shown}");
            self.git(self.dir, &doing, ["remote", "set-url", "origin", &self.url]).await?;
        }
        Ok(())
    }

    async fn expect_no_changes(&self) -> Result<(), String> {
        let looking = format!("look for local changes in {}", self.dir.display());
        let args = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules"];
        let changed = self.git(self.dir, &looking, args).await?;
        let text = changed.output.text();
        if text.trim().is_empty() {
            return Ok(());
        }
        let files: Vec<&str> = text.lines().filter_map(|line| line.get(3..)).collect();
        let more = files.len().saturating_sub(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Err(format!(
            "{} has local changes, which are left alone: {}{more}; commit and push them, or undo \
             them",
            self.dir.display(),
            files[..files.len().min(3)].join(", ")
        ))
    }

    async fn fetch(&self) -> Result<(), String> {
        let (url, branch) = (&self.url, &self.wanted.branch);
        let fetching = format!("fetch branch {branch} of {}", self.secrets.mask_text(url));
        let refspec = format!("+refs/heads/{branch}:{}", self.tracking());
        let args = ["fetch", "--quiet", "--no-recurse-submodules", "origin", &refspec];
        self.reach_out(self.dir, &fetching, args).await
    }

    async fn move_on(&self) -> Result<(), String> {
        let shown = self.dir.display();
        let tracking = self.tracking();
        let (head, newest) = (self.commit("HEAD").await?, self.commit(&tracking).await?);
        if head.is_some() && head == newest {
            return Ok(());
        }
        let deployed = self.commit(DEPLOYED).await?;
        if head.is_some() && head != deployed {
            let args = ["merge-base", "--is-ancestor", "HEAD", &tracking];
            if self.run(self.dir, args).await?.end != End::Exited(0) {
                return Err(format!(
                    "{shown} has commits that are not on branch {}, and are left alone; push \
                     them, or reset the directory to the branch",
                    self.wanted.branch
                ));
            }
        }
        let branch = &self.wanted.branch;
        let moving = format!("bring {shown} to the newest commit of {branch}");
        let args = ["checkout", "--quiet", "--no-recurse-submodules", "-B", branch, &tracking];
        self.git(self.dir, &moving, args).await?;
        self.git(self.dir, "note what was checked out", ["update-ref", DEPLOYED, "HEAD"]).await?;
        Ok(())
    }

    fn tracking(&self) -> String {
        format!("refs/remotes/origin/{}", self.wanted.branch)
    }

    async fn commit(&self, name: &str) -> Result<Option<String>, String> {
        let name = format!("{name}^{{commit}}");
        let found = self.run(self.dir, ["rev-parse", "--quiet", "--verify", &name]).await?;
        Ok((found.end == End::Exited(0)).then(|| said(&found).trim().to_owned()))
    }

    /// Runs git over the network; `doing` completes "could not …".
    async fn reach_out<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        doing: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<(), String> {
        let mut command = self.command(dir).args(args);
        if let Some(credentials) = &self.credentials {
            command = command.envs(credentials.environment(&self.host.environment));
        }
        let set = ["GIT_SSH_COMMAND", "GIT_SSH"].iter();
        if !set.clone().any(|name| self.host.environment.get(name).is_some()) {
            // The user's own way to call ssh, which must not ask anybody.
            let own = self.run(dir, ["config", "--get", "core.sshCommand"]).await?;
            let own = if own.end == End::Exited(0) { said(&own) } else { "ssh".to_owned() };
            let ssh = format!("{} -o BatchMode=yes", own.trim());
            command = command.envs([("GIT_SSH_COMMAND", ssh)]);
        }
        self.succeed(doing, self.finish(command).await?).map(drop)
    }

    /// Runs git, which has to succeed; `doing` completes "could not …".
    async fn git<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        doing: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Finished, String> {
        self.succeed(doing, self.run(dir, args).await?)
    }

    fn succeed(&self, doing: &str, finished: Finished) -> Result<Finished, String> {
        match finished.end {
            End::Exited(0) => Ok(finished),
            End::TimedOut => Err(format!("could not {doing}: it took too long and was stopped")),
            End::Stopped => Err(format!("could not {doing}: the agent stops")),
            End::Exited(_) | End::Signalled(_) => {
                let why = last_lines(&self.secrets.mask(finished.output), 3);
                Err(format!("could not {doing}: {why}"))
            }
        }
    }

    async fn run<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Finished, String> {
        self.finish(self.command(dir).args(args)).await
    }

    fn command(&self, dir: &Path) -> Command {
        // Without a parent's repository being taken for this directory's.
        let ceiling = self.dir.parent().unwrap_or(self.dir).as_os_str().to_owned();
        let command = self.host.command(&self.git, dir).without(&MISLEADING);
        command.args(HARDENED).envs([
            ("GIT_TERMINAL_PROMPT", OsStr::new("0").to_owned()),
            ("GIT_CEILING_DIRECTORIES", ceiling),
            ("SSH_ASKPASS_REQUIRE", OsStr::new("never").to_owned()),
        ])
    }

    async fn finish(&self, command: Command) -> Result<Finished, String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let ran = self.host.run(command, left, Leftovers::Kill).await;
        ran.map_err(|error| error.to_string())
    }
}

fn said(finished: &Finished) -> String {
    finished.output.text()
}

/// A URL without what makes no difference.
fn plain(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    url.strip_suffix(".git").unwrap_or(url)
}

/// The password of `scheme://user:password@host`.
fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (user, _) = rest.split('/').next()?.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password)
}

fn mask_password(url: &str) -> String {
    Secrets::new(password(url).map(str::as_bytes)).mask_text(url)
}

#[cfg(test)]
mod tests;
