//! Keeps the desired state equal to the newest valid commit.
//!
//! Never fails outward: a bad commit is recorded as an event and the last good [`Desired`] stays
//! in force. Knows nothing of agents.
//!
//! ```text
//! poll, webhook, SIGHUP ─▶ fetch ─▶ list ─▶ read ─▶ parse ─▶ Desired
//!                           └─ unchanged, unreachable ─▶ status ◀─┘
//! ```

mod said;
mod track;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fluke_manifest::Loader;
use fluke_manifest::tree::Tree;
use fluke_model::api;
use fluke_model::diagnostic::{Diagnostic, Severity};
use fluke_model::event::{Event, EventKind};
use fluke_model::id::CommitId;
use fluke_model::label::Labels;
use fluke_model::policy::Policy;
use fluke_model::snapshot::{Compiler, Model};
use fluke_model::time::Timestamp;
use tokio::sync::{Notify, watch};

use crate::events::EventSink;
use crate::folder::{FolderError, FolderReader, FolderTree, FolderWatch, WatchError};
use crate::git::{GitConfig, GitError, GitTree, Mirror};
use crate::meter::Counter;
use crate::webhook::Push;
pub use said::Said;
use said::Words;
use track::Track;

/// How many left-out files are named in the diagnostics of a commit.
const NAMED_SKIPPED: usize = 20;
/// How often a folder is looked at that cannot be watched.
const UNWATCHED: Duration = Duration::from_secs(2);

/// Everything that the commit in force says.
#[derive(Debug)]
pub struct Desired {
    /// Which commit.
    pub commit: CommitId,
    /// Since when it is in force.
    pub since: Timestamp,
    /// What it says.
    pub model: Model,
    /// Makes snapshots of it.
    pub compiler: Compiler,
    words: Mutex<Words>,
}

impl Desired {
    /// Nobody has been told any of it yet.
    pub fn new(commit: CommitId, since: Timestamp, model: Model, compiler: Compiler) -> Self {
        Self { commit, since, model, compiler, words: Mutex::default() }
    }

    /// That this is what a host with these labels is held to, for as long as it is.
    pub fn say_to(&self, labels: &Labels) -> Said {
        self.words().say(labels, &self.commit)
    }

    /// Says again what `before` said to hosts of which it says nothing new.
    pub fn repeat(&self, before: &Self) {
        let is_same = |labels: &Labels| self.compiler.says_the_same_as(&before.compiler, labels);
        let again = before.words().again(&self.commit, is_same);
        *self.words() = again;
    }

    /// It is in force no longer: all learn so of whom something else is said now.
    pub fn end(&self) {
        self.words().end(&self.commit);
    }

    fn words(&self) -> MutexGuard<'_, Words> {
        // A list of finished values is sound whatever happened to the thread that held it.
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the desired state is kept.
#[derive(Debug, Clone)]
pub enum SourceConfig {
    /// A branch of a repository.
    Git {
        /// Which one, and how to get at it.
        git: Box<GitConfig>,
        /// How often the branch is looked at without being told.
        poll_interval: Duration,
    },
    /// A directory on this machine, followed as it changes.
    Folder {
        /// Which one.
        path: PathBuf,
    },
}

/// The outside face of a running source.
#[derive(Clone)]
pub struct SourceHandle {
    /// The commit in force; none before the first good one.
    pub desired: watch::Receiver<Option<Arc<Desired>>>,
    /// What is known of the source.
    pub status: watch::Receiver<api::Source>,
    /// How often it was looked at.
    pub polls: Arc<Polls>,
    wake: Arc<Wake>,
}

/// Looks at a source since the server's start.
#[derive(Debug, Default)]
pub struct Polls {
    /// All of them.
    pub all: Counter,
    /// Those that found nobody at home.
    pub failed: Counter,
}

#[derive(Default)]
struct Wake {
    poked: Notify,
    announced: Mutex<Option<CommitId>>,
}

impl SourceHandle {
    /// Has the source looked at now. While one look is under way, any number of these cause
    /// exactly one more.
    pub fn poke(&self) {
        self.wake.poked.notify_one();
    }

    /// Has the source looked at because of a push; says whether the push concerns it.
    pub fn pushed(&self, push: &Push) -> bool {
        let concerns = self.status.borrow().branch.as_deref() == Some(&*push.branch);
        if concerns {
            *self.wake.announced.lock().unwrap_or_else(PoisonError::into_inner) =
                push.commit.clone();
            self.poke();
        }
        concerns
    }
}

/// The loop that keeps [`Desired`] up to date.
pub struct Source {
    origin: Origin,
    loader: Arc<Mutex<Loader>>,
    default_policy: Policy,
    events: Arc<dyn EventSink>,
    track: Track,
    desired: watch::Sender<Option<Arc<Desired>>>,
    status: watch::Sender<api::Source>,
    polls: Arc<Polls>,
    wake: Arc<Wake>,
}

enum Origin {
    Git { mirror: Box<Mirror> },
    Folder { path: PathBuf, reader: Arc<Mutex<FolderReader>>, watch: Option<FolderWatch> },
}

/// The newest commit, as far as it had to be read.
enum Seen {
    Unchanged,
    New { commit: CommitId, parents: Vec<CommitId>, files: Files },
}

/// Files of either origin.
enum Files {
    Git(GitTree),
    Folder(FolderTree),
}

#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("reading the folder came to an untimely end: {0}")]
    Ended(tokio::task::JoinError),
}

/// What came of judging a commit.
enum Verdict {
    Accepted(Box<Model>, Box<Compiler>, Vec<Diagnostic>),
    Rejected(Vec<Diagnostic>),
}

impl Source {
    /// Sets a source up; nothing happens before [`Source::run`].
    pub fn new(
        config: SourceConfig,
        loader: Loader,
        default_policy: Policy,
        events: Arc<dyn EventSink>,
    ) -> (Self, SourceHandle) {
        let (origin, track) = match config {
            SourceConfig::Git { git, poll_interval } => {
                let branch = Some(git.branch.to_string());
                let track = Track::new(git.url.to_string(), branch, poll_interval);
                (Origin::Git { mirror: Box::new(Mirror::new(*git)) }, track)
            }
            SourceConfig::Folder { path } => {
                let track = Track::new(path.display().to_string(), None, UNWATCHED);
                let reader = Arc::new(Mutex::new(FolderReader::new(&path)));
                (Origin::Folder { path, reader, watch: None }, track)
            }
        };
        let (desired, desired_seen) = watch::channel(None);
        let (status, status_seen) = watch::channel(track.status().clone());
        let (wake, polls) = (Arc::<Wake>::default(), Arc::<Polls>::default());
        let handle = SourceHandle {
            desired: desired_seen,
            status: status_seen,
            polls: polls.clone(),
            wake: wake.clone(),
        };
        let loader = Arc::new(Mutex::new(loader));
        let source =
            Self { origin, loader, default_policy, events, track, desired, status, polls, wake };
        (source, handle)
    }

    /// Runs until it is dropped; children that run then are killed.
    pub async fn run(mut self) {
        let mut poked = true;
        loop {
            let began = Instant::now();
            let announced =
                self.wake.announced.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(commit) = announced {
                self.track.announced(commit);
            }
            self.polls.all.add_one();
            if let Err(error) = self.look(poked, began).await {
                self.polls.failed.add_one();
                self.note_failure(&error);
            }
            let pause = self.track.pause(now(), self.is_watched());
            self.publish_status();
            if let Origin::Git { mirror } = &mut self.origin {
                mirror.tidy().await;
            }
            poked = self.wait(pause).await;
        }
    }

    /// One look at the source, from asking to publishing.
    async fn look(&mut self, poked: bool, began: Instant) -> Result<(), LookError> {
        for last_try in [false, true] {
            let seen = match &mut self.origin {
                Origin::Git { mirror } => see_git(mirror, &self.track, poked).await?,
                Origin::Folder { path, reader, watch } => {
                    // Watching begins before reading, so that no change falls in between.
                    if watch.is_none() {
                        *watch = Some(FolderWatch::new(path)?);
                    }
                    see_folder(reader.clone(), &self.track).await?
                }
            };
            let Seen::New { commit, parents, files } = seen else {
                self.tell(|track| track.answered(now()));
                return Ok(());
            };
            match (self.judge(files).await, &mut self.origin) {
                (None, Origin::Git { mirror }) if last_try => {
                    return Err(mirror.damaged("a file of the commit cannot be read").into());
                }
                (None, Origin::Git { mirror }) => mirror.remove().await?,
                (verdict, _) => {
                    self.tell(|track| track.answered(now()));
                    if let Some(verdict) = verdict {
                        self.conclude(commit, &parents, verdict, began);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Parses and compiles on a thread that may block, and survives whatever happens there. None
    /// if the mirror could not give what the commit has.
    async fn judge(&self, files: Files) -> Option<Verdict> {
        let (loader, policy) = (self.loader.clone(), self.default_policy);
        let before = self.desired.borrow().clone();
        let judged = tokio::task::spawn_blocking(move || {
            let mut loader = loader.lock().unwrap_or_else(PoisonError::into_inner);
            let mut loaded = loader.load(files.tree());
            loaded.diagnostics.extend(files.warnings());
            let lost = before.as_ref().zip(loaded.model.as_ref());
            let lost = lost.and_then(|(before, model)| nothing_left(&before.model, model));
            let warn = |message| about_file("", Severity::Warning, message);
            loaded.diagnostics.extend(lost.map(warn));
            if files.is_damaged() {
                return None;
            }
            Some(match loaded.model.filter(|_| !Diagnostic::any_error(&loaded.diagnostics)) {
                Some(model) => {
                    let compiler = match before {
                        Some(before) => before.compiler.follow(&model),
                        None => Compiler::new(&model, policy),
                    };
                    Verdict::Accepted(Box::new(model), Box::new(compiler), loaded.diagnostics)
                }
                None => Verdict::Rejected(loaded.diagnostics),
            })
        });
        judged.await.unwrap_or_else(|error| {
            tracing::error!(%error, "the parser failed");
            let message = "fluke itself failed on this commit; please report it".to_string();
            Some(Verdict::Rejected(vec![about_file("", Severity::Error, message)]))
        })
    }

    fn conclude(
        &mut self,
        commit: CommitId,
        parents: &[CommitId],
        verdict: Verdict,
        began: Instant,
    ) {
        let since = now();
        let (mut event, desired) = match verdict {
            Verdict::Accepted(model, compiler, warnings) => {
                let event = self.track.accepted(&commit, parents, warnings, since);
                (event, Some(Desired::new(commit, since, *model, *compiler)))
            }
            Verdict::Rejected(diagnostics) => {
                (self.track.rejected(&commit, diagnostics, since), None)
            }
        };
        event.duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
        let commit = event.commit.as_ref().map(CommitId::short).unwrap_or_default();
        let how = event.output.as_deref();
        match event.kind {
            EventKind::CommitAccepted => tracing::info!(commit, how, "commit in force"),
            _ => tracing::warn!(commit, errors = event.diagnostics.len(), how, "commit rejected"),
        }
        // Before anybody acts on it, so that history tells the cause first.
        self.events.record(event);
        if let Some(desired) = desired {
            self.desired.send_replace(Some(Arc::new(desired)));
        }
    }

    /// Each trouble is said once, however often it is met.
    fn note_failure(&mut self, error: &LookError) {
        let text = error.to_string();
        let is_news = self.track.status().error.as_ref() != Some(&text);
        match is_news {
            true => tracing::warn!(%error, "the source cannot be read; what is in force stays"),
            false => tracing::debug!(%error, "the source still cannot be read"),
        }
        if let Some(event) = self.track.failed(text, now()) {
            self.events.record(event);
        }
    }

    fn tell(&mut self, change: impl FnOnce(&mut Track) -> Option<Event>) {
        if let Some(event) = change(&mut self.track) {
            tracing::info!("the source can be read again");
            self.events.record(event);
        }
    }

    fn publish_status(&self) {
        self.status.send_replace(self.track.status().clone());
    }

    /// Waits for the next look; true if somebody asked for it.
    async fn wait(&mut self, pause: Duration) -> bool {
        // All of these are safe to cancel; a poke that is not awaited here is kept.
        let poked = self.wake.poked.notified();
        let Origin::Folder { watch: Some(watch), .. } = &mut self.origin else {
            return tokio::select! {
                () = poked => true,
                () = tokio::time::sleep(pause) => false,
            };
        };
        let changed = tokio::select! {
            () = poked => return true,
            changed = watch.changed() => changed,
        };
        if let (Err(error), Origin::Folder { watch, .. }) = (changed, &mut self.origin) {
            tracing::warn!(%error, "watching the folder anew");
            *watch = None;
        }
        false
    }

    fn is_watched(&self) -> bool {
        matches!(self.origin, Origin::Folder { watch: Some(_), .. })
    }
}

/// A poll costs one listing of one ref; somebody who asks has reason to expect something new.
async fn see_git(mirror: &mut Mirror, track: &Track, poked: bool) -> Result<Seen, LookError> {
    if !poked && track.has_seen_any() && track.knows(&mirror.tip().await?) {
        return Ok(Seen::Unchanged);
    }
    let known = track.status().last_seen.as_ref();
    let Some(checkout) = mirror.checkout(known).await? else {
        return Ok(Seen::Unchanged);
    };
    let (commit, parents) = (checkout.commit, checkout.parents);
    Ok(Seen::New { commit, parents, files: Files::Git(checkout.tree) })
}

async fn see_folder(reader: Arc<Mutex<FolderReader>>, track: &Track) -> Result<Seen, LookError> {
    let read = tokio::task::spawn_blocking(move || {
        reader.lock().unwrap_or_else(PoisonError::into_inner).read()
    });
    let tree = read.await.map_err(LookError::Ended)??;
    let commit = tree.commit();
    match track.knows(&commit) {
        true => Ok(Seen::Unchanged),
        false => Ok(Seen::New { commit, parents: Vec::new(), files: Files::Folder(tree) }),
    }
}

impl Files {
    fn tree(&self) -> &dyn Tree {
        match self {
            Self::Git(tree) => tree,
            Self::Folder(tree) => tree,
        }
    }

    fn is_damaged(&self) -> bool {
        match self {
            Self::Git(tree) => tree.is_damaged(),
            Self::Folder(_) => false,
        }
    }

    /// What was left out, so that nobody wonders why it has no effect.
    fn warnings(&self) -> Vec<Diagnostic> {
        let skipped = match self {
            Self::Git(tree) => tree.skipped(),
            Self::Folder(tree) => tree.skipped(),
        };
        left_out(skipped)
    }
}

/// Warnings about what a tree left out; the first of them by name.
pub fn left_out(skipped: &[String]) -> Vec<Diagnostic> {
    let mut warnings: Vec<_> = skipped
        .iter()
        .take(NAMED_SKIPPED)
        .map(|name| about_file(name, Severity::Warning, "this file is left out".to_string()))
        .collect();
    if let Some(more) = skipped.len().checked_sub(NAMED_SKIPPED + 1) {
        let message = format!("{} more files are left out", more + 1);
        warnings.push(about_file("", Severity::Warning, message));
    }
    warnings
}

/// Taken as it is said, since a commit says it; but seldom meant.
fn nothing_left(before: &Model, after: &Model) -> Option<String> {
    let lost = |had: usize, has: usize| (had > 0 && has == 0).then_some(had);
    let tasks = lost(before.tasks.len(), after.tasks.len()).map(|had| {
        format!("no task is left of {had}: what they kept is kept no more, and nothing is undone")
    });
    let services = lost(before.services.len(), after.services.len()).map(|had| {
        format!(
            "no service is left of {had}: their containers are stopped and removed, volumes stay"
        )
    });
    let lost: Vec<String> = tasks.into_iter().chain(services).collect();
    let advice = "if that is not meant, look at `manifest_glob` and at what the commit deletes";
    (!lost.is_empty()).then(|| format!("{}; {advice}", lost.join("; ")))
}

fn about_file(file: &str, severity: Severity, message: String) -> Diagnostic {
    Diagnostic {
        severity,
        message,
        help: None,
        file: file.to_string(),
        line: 1,
        column: 1,
        end_line: 1,
        end_column: 1,
        source: Vec::new(),
    }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests;
