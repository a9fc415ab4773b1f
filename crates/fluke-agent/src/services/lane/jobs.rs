//! What goes on beside changes: images that come, containers that end, questions of health.
//!
//! None of it holds up anything else, and each has a bound in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::doors::Knock;
use super::rounds::{Answer, Question};
use crate::services::plan::Change;
use crate::services::podman::{Podman, PodmanError, Progress};
use crate::services::sections::Account;

/// Images of one registry at the same time; more would only share the same line.
const MOST_OF_ONE: usize = 3;
/// Of all registries: some that do not answer hold up no others.
const MOST_PULLS: usize = 12;
/// A registry that has not answered for so long does not.
const SILENCE: Duration = Duration::from_secs(120);
/// What Podman says before it has heard anything of a registry.
const UNANSWERED: &str = "Trying to pull";
/// Notes that may wait to be read.
const NOTES: usize = 16;
/// What is told of how far an image is.
const LONGEST_NOTE: usize = 200;
/// What a container has between being told to end and being ended.
pub const GRACE: Duration = Duration::from_secs(10);
/// On top of what a question of health may take, for Podman itself.
const OVERHEAD: Duration = Duration::from_secs(2);
/// A container is on this host: it answers at once, or does not.
const LONGEST_KNOCK: Duration = Duration::from_secs(1);

/// Something that came to its end.
#[derive(Debug)]
pub enum Done {
    /// An image is here, or is not to be had.
    Pulled(Pulled),
    /// An image is not kept any more, or could not be let go of.
    LetGo {
        /// Which.
        image: String,
        /// Why not.
        result: Result<(), String>,
    },
    /// A container has ended, or would not.
    Stopped(Stopped),
    /// A container was asked how it feels.
    Asked {
        /// What.
        question: Question,
        /// What it said.
        answer: Answer,
    },
    /// It was tried whether a container listens.
    Knocked {
        /// Which.
        knock: Knock,
        /// The first port at which it does not.
        silent_at: Option<u16>,
    },
    /// An image is on its way.
    Note,
}

/// How it ended that an image was fetched.
#[derive(Debug)]
pub struct Pulled {
    /// Which.
    pub image: String,
    /// Its id, or why it is not here.
    pub result: Result<String, String>,
    /// How long that took.
    pub took: Duration,
    /// On whose account it was asked for.
    pub account: Account,
}

/// How it ended that a container was told to end.
#[derive(Debug)]
pub struct Stopped {
    /// Which.
    pub container: String,
    /// What was to be done.
    pub change: Change,
    /// Why it was not.
    pub result: Result<(), PodmanError>,
    /// When it was told.
    pub began: Instant,
    /// On whose account it was.
    pub account: Account,
}

/// All that goes on.
#[derive(Debug)]
pub struct Jobs {
    podman: Podman,
    /// How long an image may take.
    longest_pull: Duration,
    running: JoinSet<Done>,
    pulls: BTreeMap<String, Pulling>,
    stopping: BTreeSet<String>,
    /// One after the other: nobody waits for the room.
    letting_go: bool,
    notes: mpsc::Receiver<(String, String)>,
    notes_out: mpsc::Sender<(String, String)>,
}

#[derive(Debug)]
struct Pulling {
    note: String,
    since: Instant,
    task: AbortHandle,
}

impl Jobs {
    /// Nothing goes on yet.
    pub fn new(podman: Podman, longest_pull: Duration) -> Self {
        let (notes_out, notes) = mpsc::channel(NOTES);
        let (pulls, stopping) = (BTreeMap::new(), BTreeSet::new());
        let (running, letting_go) = (JoinSet::new(), false);
        Self { podman, longest_pull, running, pulls, stopping, letting_go, notes, notes_out }
    }

    /// How far the image is, if it is on its way.
    pub fn pull_note(&self, image: &str) -> Option<String> {
        let Pulling { note, since, .. } = self.pulls.get(image)?;
        Some(how_far(note, since.elapsed()))
    }

    /// Whether a container was told to end and has not yet.
    pub fn is_stopping(&self, container: &str) -> bool {
        self.stopping.contains(container)
    }

    /// Has an image fetched, if it is not yet, and no more are than may be; who waits is asked for
    /// again.
    pub fn fetch(&mut self, image: &str, account: Account) {
        if !may_begin(self.pulls.keys(), image) {
            return;
        }
        let note = format!("{image} is being fetched");
        let (podman, notes) = (self.podman.clone(), self.notes_out.clone());
        let (name, longest) = (image.to_owned(), self.longest_pull);
        let task = self.running.spawn(pulled(podman, name, notes, longest, account));
        self.pulls.insert(image.to_owned(), Pulling { note, since: Instant::now(), task });
    }

    /// Gives up on images that nobody wants any more.
    pub fn give_up_but(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.pulls.retain(|image, pulling| {
            let keep = is_wanted(image);
            if !keep {
                pulling.task.abort();
            }
            keep
        });
    }

    /// Tells a container to end, as this change says.
    pub fn stop(&mut self, container: &str, change: Change, account: Account) {
        if self.stopping.insert(container.to_owned()) {
            let (podman, container) = (self.podman.clone(), container.to_owned());
            let began = Instant::now();
            self.running.spawn(async move {
                let result = podman.stop(&container, GRACE).await;
                Done::Stopped(Stopped { container, change, result, began, account })
            });
        }
    }

    /// Lets go of an image, if it still is the one that has this id.
    pub fn let_go(&mut self, image: &str, id: &str) {
        if std::mem::replace(&mut self.letting_go, true) {
            return;
        }
        let (podman, image, id) = (self.podman.clone(), image.to_owned(), id.to_owned());
        self.running.spawn(async move {
            let result = let_go(&podman, &image, &id).await.map_err(|error| error.to_string());
            Done::LetGo { image, result }
        });
    }

    /// Asks a container how it feels.
    pub fn ask(&mut self, question: Question) {
        let podman = self.podman.clone();
        self.running.spawn(async move {
            let Question { container, limit, .. } = &question;
            let answer = match podman.ask_health(container, *limit + OVERHEAD).await {
                Ok(true) => Answer::Well,
                Ok(false) => Answer::Unwell(podman.complaint(container).await),
                // Who answers no question may be waited for by a Podman that answers nobody.
                Err(error) if error.is_late() && podman.is_there(OVERHEAD).await => Answer::Silence,
                Err(_) => Answer::NotHeard,
            };
            Done::Asked { question, answer }
        });
    }

    /// Tries whether a container listens.
    pub fn knock(&mut self, knock: Knock) {
        self.running.spawn(async move {
            let silent_at = first_silent(&knock).await;
            Done::Knocked { knock, silent_at }
        });
    }

    /// What came to its end already.
    pub fn try_next(&mut self) -> Option<Done> {
        self.next().now_or_never()
    }

    /// What came to its end. Cancel-safe.
    pub async fn next(&mut self) -> Done {
        loop {
            tokio::select! {
                biased;
                Some((image, note)) = self.notes.recv() => {
                    if let Some(pulling) = self.pulls.get_mut(&image) {
                        pulling.note = note;
                        return Done::Note;
                    }
                }
                Some(joined) = self.running.join_next() => match joined {
                    Ok(done) => return self.ended(done),
                    Err(error) if error.is_cancelled() => {}
                    Err(error) => {
                        tracing::error!(%error, "a bug in fluke: work beside the lane failed");
                    }
                },
                else => std::future::pending().await,
            }
        }
    }

    fn ended(&mut self, done: Done) -> Done {
        match &done {
            Done::Pulled(Pulled { image, .. }) => drop(self.pulls.remove(image)),
            Done::Stopped(Stopped { container, .. }) => drop(self.stopping.remove(container)),
            Done::LetGo { .. } => self.letting_go = false,
            Done::Asked { .. } | Done::Knocked { .. } | Done::Note => {}
        }
        done
    }
}

async fn first_silent(knock: &Knock) -> Option<u16> {
    for port in &knock.ports {
        let connect = TcpStream::connect((knock.address, *port));
        if !timeout(LONGEST_KNOCK, connect).await.is_ok_and(|tried| tried.is_ok()) {
            return Some(*port);
        }
    }
    None
}

async fn pulled(
    podman: Podman,
    image: String,
    notes: mpsc::Sender<(String, String)>,
    longest: Duration,
    account: Account,
) -> Done {
    let began = Instant::now();
    let result = timeout(longest, pull(&podman, &image, &notes)).await;
    let result = result.unwrap_or_else(|_| Err(too_late(&image, longest)));
    Done::Pulled(Pulled { image, result, took: began.elapsed(), account })
}

fn too_late(image: &str, longest: Duration) -> String {
    let seconds = longest.as_secs();
    format!("{image} was not here after {seconds} s, the `pull_timeout` of this host's agent")
}

/// How far an image is; with for how long, for those who wonder whether it still comes.
fn how_far(note: &str, age: Duration) -> String {
    match age.as_secs() / 60 {
        0 => note.to_owned(),
        minutes => format!("{note} (it is being fetched for {minutes} min)"),
    }
}

async fn let_go(podman: &Podman, image: &str, id: &str) -> Result<(), PodmanError> {
    match podman.image(image).await? {
        Some(found) if found.id == id => podman.remove_image(image).await,
        // Somebody removed it, or fetched another one under its name: that is theirs.
        _ => Ok(()),
    }
}

async fn pull(
    podman: &Podman,
    image: &str,
    notes: &mpsc::Sender<(String, String)>,
) -> Result<String, String> {
    let silence = || format!("nothing was heard of {image} for {} s", SILENCE.as_secs());
    let said = timeout(SILENCE, podman.pull(image)).await.map_err(|_| silence())?;
    let mut pull = said.map_err(|error| error.to_string())?;
    let mut is_answered = false;
    loop {
        let said = match is_answered {
            // Of each layer it says that it begins, and nothing until all of it is here.
            true => pull.next().await,
            false => timeout(SILENCE, pull.next()).await.map_err(|_| silence())?,
        };
        match said {
            Ok(Progress::Done(id)) => return Ok(id),
            Ok(Progress::Says(text)) => {
                is_answered |= !text.starts_with(UNANSWERED);
                let note: String = text.chars().take(LONGEST_NOTE).collect();
                // Whoever does not keep up with reading reads the next one.
                let _ = notes.try_send((image.to_owned(), note));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Whether an image may be fetched beside those that are.
fn may_begin<'a>(running: impl Iterator<Item = &'a String> + Clone, image: &str) -> bool {
    // Names without a registry are tried at the same ones.
    let registry = |image: &str| image.split_once('/').map(|(first, _)| first.to_owned());
    let of_one = running.clone().filter(|it| registry(it) == registry(image)).count();
    let is_one = running.clone().any(|it| it == image);
    !is_one && of_one < MOST_OF_ONE && running.count() < MOST_PULLS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_does_not_answer_holds_up_its_own_images_alone() {
        let mut running: Vec<String> = Vec::new();
        let mut fetch = |image: &str| {
            let begins = may_begin(running.iter(), image);
            running.extend(begins.then(|| image.to_owned()));
            begins
        };
        assert!(["dead.example/a", "dead.example/b", "dead.example/c"].into_iter().all(&mut fetch));
        assert!(!fetch("dead.example/d:1"));
        assert!(fetch("live.example/a:1") && fetch("web:1"));
        assert!(!fetch("live.example/a:1"), "it is on its way");
        let all = (0..20).filter(|at| fetch(&format!("registry-{at}.example/a:1")));
        assert_eq!(all.count(), MOST_PULLS - 5);
    }

    #[test]
    fn who_waits_for_an_image_is_told_for_how_long() {
        let after = |seconds| how_far("Copying blob 1f", Duration::from_secs(seconds));
        assert_eq!(after(59), "Copying blob 1f");
        assert_eq!(after(7 * 60 + 59), "Copying blob 1f (it is being fetched for 7 min)");
    }
}
