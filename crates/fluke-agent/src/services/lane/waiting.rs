//! What the lane waits for, and what of it is a reason to look.

use std::time::Instant;

use super::super::sections::Sections;
use super::arrival::Arrival;
use super::jobs::Done;
use super::watch::Watch;
use super::{Lane, SAFETY, Wake};

impl Lane {
    /// Waits for the next reason to look. Cancel-safe, as all of its parts are.
    pub(super) async fn wait(&mut self) -> Wake {
        loop {
            self.ask_around();
            let safety = self.looked.map(|looked| looked + SAFETY);
            let retry = self.sections.as_ref().and_then(Sections::look_at);
            let settle = self.settling.iter().map(|settling| settling.until).min();
            let due = [self.look_at, retry, settle].into_iter().flatten().min();
            let ask = [self.rounds.next(), self.doors.next()].into_iter().flatten().min();
            let Self { inbox, jobs, watch, arrival, lives, sections, .. } = self;
            let done = tokio::select! {
                biased;
                () = events(watch) => return Wake::Event,
                () = lives.next() => return Wake::Event,
                () = arrives(arrival) => return Wake::Socket,
                done = jobs.next() => done,
                () = changes(sections) => return Wake::Section,
                () = until(due) => return Wake::Due,
                () = until(ask) => continue,
                () = until(safety) => return Wake::Safety,
                // Last, because a fleet that changes without a pause has news all the time; whatever
                // else wakes the lane, it hears all that it was told.
                () = inbox.news() => return Wake::Told,
            };
            if self.ended(done) {
                return Wake::Job;
            }
        }
    }

    /// Asks containers how they feel, and whether they listen, where that is due.
    pub(super) fn ask_around(&mut self) {
        let now = Instant::now();
        for question in self.rounds.due(now) {
            self.jobs.ask(question);
        }
        for knock in self.doors.due(now) {
            self.jobs.knock(knock);
        }
    }

    /// Takes note of what came to its end; whether it is worth a look.
    pub(super) fn ended(&mut self, done: Done) -> bool {
        let now = Instant::now();
        match done {
            Done::Note => true,
            Done::Pulled(pulled) => {
                self.pulled(pulled);
                true
            }
            Done::LetGo { image, result } => {
                self.was_let_go(&image, result);
                false
            }
            Done::Stopped(stopped) => {
                self.stopped(stopped);
                true
            }
            Done::Asked { question, answer } => {
                let desired = self.desired.as_deref();
                let secrets = |id| desired.and_then(|desired| desired.secrets(id));
                self.rounds.answered(&question, answer, secrets, now)
            }
            Done::Knocked { knock, silent_at } => self.doors.answered(&knock, silent_at, now),
        }
    }
}

async fn events(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

async fn arrives(arrival: &mut Option<Arrival>) {
    match arrival {
        Some(arrival) => arrival.next().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn changes(sections: &mut Option<Sections>) {
    match sections {
        Some(sections) => sections.changed().await,
        None => std::future::pending().await,
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
