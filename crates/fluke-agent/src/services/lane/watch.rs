//! Podman's word that something happened to a container, or to a volume.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fluke_model::volume::Volume;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::services::observe::are_ours;
use crate::services::podman::{Event, Events, Podman, PodmanError};

/// Between tries: the first wait, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A stream that lasted so long was a good one.
const GOOD: Duration = Duration::from_secs(5);

/// What Podman calls it when somebody changes a container that is there: what it may use, or when it
/// is started again.
const UPDATE: &str = "update";

/// Events, for as long as this lives.
#[derive(Debug)]
pub struct Watch {
    seen: mpsc::Receiver<()>,
    updated: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

/// The way to whoever watches.
struct Told {
    seen: mpsc::Sender<()>,
    updated: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to listen, and where that fails tries again. What happens to containers that are not
    /// ours is passed on where the host is `exclusive` to ours.
    pub fn begin(podman: Podman, exclusive: bool) -> Self {
        // One that waits to be read stands for all that happened since.
        let (told, seen) = mpsc::channel(1);
        let updated = Arc::new(AtomicBool::new(false));
        let told = Told { seen: told, updated: updated.clone() };
        Self { seen, updated, task: tokio::spawn(listen(podman, exclusive, told)) }
    }

    /// Waits until something happened, or may have. Cancel-safe.
    pub async fn next(&mut self) {
        if self.seen.recv().await.is_none() {
            std::future::pending().await
        }
    }

    /// Whether a container may have become another one that is listed as it was, since this was last
    /// asked.
    pub fn tells_of_update(&self) -> bool {
        self.updated.swap(false, Ordering::Relaxed)
    }
}

impl Told {
    fn something(&self) {
        let _ = self.seen.try_send(());
    }

    fn an_update(&self) {
        self.updated.store(true, Ordering::Relaxed);
        self.something();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(podman: Podman, exclusive: bool, told: Told) {
    let mut wait = FIRST_WAIT;
    loop {
        let began = Instant::now();
        let end = follow(&podman, exclusive, &told).await;
        if began.elapsed() > GOOD {
            wait = FIRST_WAIT;
        }
        match end {
            Ok(()) => tracing::debug!("Podman's events ended; listening again"),
            Err(error) => tracing::debug!(%error, ?wait, "Podman's events cannot be heard"),
        }
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn follow(podman: &Podman, exclusive: bool, told: &Told) -> Result<(), PodmanError> {
    let mut events = podman.events().await?;
    // What happened before nobody heard.
    told.an_update();
    let end = pass_on(&mut events, exclusive, told).await;
    // Podman may be gone: whoever looks finds out.
    told.something();
    end
}

async fn pass_on(events: &mut Events, exclusive: bool, told: &Told) -> Result<(), PodmanError> {
    while let Some(event) = events.next().await? {
        match is_worth_a_look(&event, exclusive) {
            true if event.action == UPDATE => told.an_update(),
            true => told.something(),
            false => {}
        }
    }
    Ok(())
}

/// Whether it may change what a container of ours is, or which volumes there are. What health checks
/// cause is known from their answers; what others do, who may do much, from the next look.
fn is_worth_a_look(event: &Event, exclusive: bool) -> bool {
    let Event { kind, action, actor } = event;
    let attributes = actor.attributes.as_ref();
    match kind.as_str() {
        "volume" => {
            let name = attributes.and_then(|attributes| attributes.get("name"));
            let concerns_us = name.is_none_or(|name| Volume::called(name).is_some());
            concerns_us && matches!(action.as_str(), "create" | "remove" | "prune")
        }
        _ => {
            let is_question = action.starts_with("exec") || action.starts_with("health_status");
            let concerns_us = exclusive || attributes.is_some_and(are_ours);
            concerns_us && !is_question && action != "attach"
        }
    }
}

/// Whether there may be a Podman at all.
pub fn is_there(socket: &Path) -> bool {
    socket.exists()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::services::podman::Actor;

    fn event(kind: &str, action: &str, attribute: (&str, &str)) -> Event {
        let attributes = [attribute].map(|(key, value)| (key.into(), value.into()));
        let attributes = Some(attributes.into());
        Event { kind: kind.into(), action: action.into(), actor: Actor { attributes } }
    }

    #[test]
    fn what_health_checks_cause_is_not_worth_a_look() {
        for (kind, action, worth) in [
            ("container", "died", true),
            ("container", "start", true),
            ("container", "remove", true),
            ("container", "update", true),
            ("container", "exec", false),
            ("container", "exec_died", false),
            ("container", "health_status", false),
            ("volume", "create", true),
            ("volume", "remove", true),
            ("volume", "mount", false),
        ] {
            let attribute = match kind {
                "volume" => ("name", "fluke.db.data.2"),
                _ => ("fluke.service.name", "web"),
            };
            let event = event(kind, action, attribute);
            assert_eq!(is_worth_a_look(&event, false), worth, "{kind} {action}");
        }
    }

    #[test]
    fn what_happens_to_others_is_worth_a_look_where_there_should_be_none() {
        let theirs = event("container", "start", ("ci.job", "7"));
        assert!(!is_worth_a_look(&theirs, false) && is_worth_a_look(&theirs, true));
        let theirs = event("volume", "create", ("name", "cache"));
        assert!(!is_worth_a_look(&theirs, false) && !is_worth_a_look(&theirs, true));
    }

    /// A Podman that says what happens, until it is dropped.
    async fn talks(folder: &Path) -> (Watch, tokio::net::UnixStream) {
        let socket = folder.join("podman.sock");
        let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
        let watch = Watch::begin(Podman::at(&socket).expect("a client"), false);
        let (mut stream, _) = listener.accept().await.expect("somebody listens");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("an answer");
        (watch, stream)
    }

    #[tokio::test]
    async fn an_update_is_told_apart_as_is_what_nobody_heard() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut watch, mut podman) = talks(folder.path()).await;
        watch.next().await;
        assert!(watch.tells_of_update(), "before anybody listened");
        assert!(!watch.tells_of_update(), "that is told once");
        for (action, is_update) in [("died", false), ("update", true), ("start", false)] {
            let who = r#"{"Attributes":{"fluke.service.name":"web"}}"#;
            let line =
                format!("{{\"Type\":\"container\",\"Action\":\"{action}\",\"Actor\":{who}}}\n");
            podman.write_all(line.as_bytes()).await.expect("it is heard");
            watch.next().await;
            assert_eq!(watch.tells_of_update(), is_update, "{action}");
        }
    }
}
