//! What is on record of a part of the directory: drift, and what cannot be done; no news.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use fluke_model::directory::{NameKey, Names, PublicKey};
use fluke_model::id::{CommitId, Hash256, ServiceName};
use fluke_model::policy::Trigger;
use fluke_model::snapshot::Snapshot;
use tokio::sync::mpsc;

use super::*;
use crate::services::lane::saying::FromLane;
use crate::services::lane::state::Cause;
use crate::services::section::Found;
use crate::state::Held;

/// Something that a table is written on, and that anybody may wipe.
#[derive(Debug, Clone, Default)]
struct Slate(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    written: Option<Hash256>,
    has_no_chalk: bool,
    has_fallen: bool,
    /// What nobody can mend who only writes.
    crack: Option<&'static str>,
    /// Whoever writes waits for it.
    hand: Option<Arc<Notify>>,
    /// How long whoever looks or writes takes, by the clock on the wall.
    takes: Duration,
    clock: Duration,
    is_dark: bool,
    /// Where it hangs, if that can be seen.
    place: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("there is no chalk")]
    NoChalk,
    #[error("there is no light")]
    NoLight,
}

impl Slate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody died")
    }

    fn takes_its_time(&self) {
        let State { takes, clock, .. } = &mut *self.state();
        *clock += *takes;
    }
}

impl Section for Slate {
    type Table = Names;
    type Error = Trouble;

    async fn check(&mut self, wanted: &Names) -> Result<Found, Trouble> {
        self.takes_its_time();
        if self.state().is_dark {
            return Err(Trouble::NoLight);
        }
        if self.state().has_fallen {
            return Ok(Found::drift("it has fallen"));
        }
        let is_so = self.in_effect() == wanted.hash();
        let problem = self.state().crack.map(str::to_owned);
        Ok(Found { drift: (!is_so).then(|| "something else is written".into()), problem })
    }

    async fn apply(&mut self, wanted: &Names) -> Result<(), Trouble> {
        self.takes_its_time();
        let hand = self.state().hand.clone();
        if let Some(hand) = hand {
            hand.notified().await;
        }
        let mut state = self.state();
        state.has_fallen = false;
        if state.has_no_chalk {
            return Err(Trouble::NoChalk);
        }
        state.written = Some(wanted.hash());
        Ok(())
    }

    fn in_effect(&self) -> Hash256 {
        self.state().written.unwrap_or_else(|| Names::default().hash())
    }

    async fn changed(&mut self) {
        std::future::pending().await
    }

    fn identity(&self) -> Option<Identity> {
        Some((PublicKey([7; 32]), vec![self.state().place?]))
    }
}

/// A slate that is kept, and what is on record of it.
struct Stage {
    slate: Slate,
    part: Part<Slate>,
    scribe: Scribe,
    records: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// One on which nothing was written.
    fn new() -> Self {
        Self::after(None)
    }

    /// One on which nothing is written any more.
    fn after(before: Option<&Arc<Names>>) -> Self {
        let slate = Slate::default();
        let (out, mut said) = mpsc::channel(1);
        let records = Arc::<Mutex<Vec<String>>>::default();
        let into = records.clone();
        tokio::spawn(async move {
            while let Some(FromLane::Record(note, written)) = said.recv().await {
                let trigger = note.cause.trigger.as_str();
                let fact = match note.fact {
                    Fact::Began { reason } => format!("{trigger}: {reason}"),
                    Fact::Ended { outcome, .. } => outcome.as_str().to_string(),
                    Fact::PassedOver { .. } => "passed over".into(),
                };
                into.lock().expect("nobody died").push(fact);
                let _ = written.send(());
            }
        });
        let part = Part::new("dns.records", slate.clone(), before);
        Self { slate, part, scribe: Scribe(out), records }
    }

    /// Somebody looks, because something was seen to change.
    async fn settles(&mut self, table: &Arc<Names>) -> Vec<String> {
        let commit = CommitId::new("c1");
        let held = Arc::new(Held { commit, snapshot: Arc::new(Snapshot::default()) });
        let cause = Cause { instruction: None, trigger: Trigger::Watch };
        let account = Account { cause, held };
        self.part.doubt();
        self.part.settle(Some(table), Some(&account), &self.scribe).await;
        self.on_record()
    }

    /// What is on record since somebody asked.
    fn on_record(&self) -> Vec<String> {
        std::mem::take(&mut self.records.lock().expect("nobody died"))
    }
}

fn table(name: &str) -> Arc<Names> {
    let name = ServiceName::new(name).expect("a name");
    Arc::new(NameKey::rows(&name, []).collect())
}

const REPAIR: [&str; 2] = ["watch: something else is written", "success"];

#[tokio::test]
async fn what_the_server_says_anew_is_no_drift_and_what_somebody_did_is() {
    let mut stage = Stage::new();
    for name in ["web", "db"] {
        assert_eq!(stage.settles(&table(name)).await, [""; 0], "{name} is news");
    }
    stage.slate.state().written = None;
    assert_eq!(stage.settles(&table("db")).await, REPAIR);
    assert_eq!(stage.settles(&table("db")).await, [""; 0]);
}

#[tokio::test]
async fn what_a_reboot_took_is_drift_and_what_was_said_since_is_not() {
    let web = table("web");
    let mut stage = Stage::after(Some(&web));
    assert_eq!(stage.settles(&web).await, REPAIR);
    assert_eq!(stage.settles(&web).await, [""; 0]);
    let mut stage = Stage::after(Some(&web));
    assert_eq!(stage.settles(&table("db")).await, [""; 0], "it is news");
}

#[tokio::test]
async fn what_cannot_be_done_is_on_record_and_so_is_that_it_was_done_at_last() {
    let mut stage = Stage::new();
    let web = table("web");
    stage.slate.state().has_no_chalk = true;
    assert_eq!(stage.settles(&web).await, ["watch: something else is written", "failure"]);
    assert_eq!(stage.part.report().problem.as_deref(), Some("there is no chalk"));
    assert_eq!(stage.settles(&web).await, [""; 0], "it is left alone for a while");
    stage.slate.state().has_no_chalk = false;
    stage.part.forgive();
    assert_eq!(stage.settles(&web).await, REPAIR);
    assert_eq!(stage.part.report().problem, None);
    assert_eq!(stage.settles(&table("db")).await, [""; 0], "the next one is news again");
}

#[tokio::test]
async fn what_cannot_be_had_is_reported_and_keeps_nothing_else_from_being_put_right() {
    let mut stage = Stage::new();
    let web = table("web");
    let crack = Some("a corner is broken off");
    stage.slate.state().crack = crack;
    assert_eq!(stage.settles(&web).await, [""; 0], "nothing of it was done in vain");
    for _ in 0..5 {
        assert_eq!(stage.part.report().problem.as_deref(), crack);
        assert_eq!(stage.part.look_at(), None, "nobody tries what is somebody else's to do");
        stage.slate.state().written = None;
        assert_eq!(stage.settles(&web).await, REPAIR, "at once");
    }
    stage.slate.state().crack = None;
    assert_eq!(stage.settles(&web).await, [""; 0]);
    assert_eq!(stage.part.report().problem, None, "it is over when it is");
}

#[tokio::test]
async fn what_could_not_be_put_right_is_no_success_for_there_being_nothing_more_to_do() {
    let mut stage = Stage::new();
    let web = table("web");
    stage.settles(&web).await;
    let falls = |stage: &Stage, crack| {
        let mut state = stage.slate.state();
        (state.has_fallen, state.has_no_chalk, state.crack) = (true, true, crack);
    };
    falls(&stage, Some("a corner is broken off"));
    assert_eq!(stage.settles(&web).await, ["watch: it has fallen", "failure"]);
    assert!(stage.part.look_at().is_some(), "it is looked at again after a pause");
    stage.part.forgive();
    falls(&stage, None);
    assert_eq!(stage.settles(&web).await, ["watch: it has fallen", "success"], "all is well");
}

#[tokio::test]
async fn what_else_goes_wrong_is_put_right_while_what_failed_is_left_alone() {
    let mut stage = Stage::new();
    let web = table("web");
    stage.slate.state().has_no_chalk = true;
    stage.settles(&web).await;
    stage.slate.state().has_fallen = true;
    assert_eq!(stage.settles(&web).await, ["watch: it has fallen", "failure"]);
    assert!(!stage.slate.state().has_fallen, "all that can be done is");
    assert_eq!(stage.part.report().problem.as_deref(), Some("there is no chalk"));
    assert!(stage.part.look_at().is_some(), "it is tried again");
    // Somebody found some, and wrote.
    stage.slate.state().written = Some(web.hash());
    assert_eq!(stage.settles(&web).await, [""; 0]);
    assert_eq!(stage.part.report().problem, None, "whoever did it");
}

/// The pauses after so many failures, each of which took its time.
async fn pauses(slate: &Slate, times: usize) -> Vec<u64> {
    let (start, web) = (Instant::now(), table("web"));
    let clock = || start + slate.state().clock;
    let mut kept = Kept::new(slate.clone(), None);
    let mut found = Vec::new();
    for _ in 0..times {
        if let Looked::Differs { drift, .. } = kept.look(&web, clock).await {
            kept.put_right(&web, drift, clock).await.expect_err("there is something missing");
        }
        let until = kept.look_at().expect("it is tried again");
        found.push((until - clock()).as_secs());
        slate.state().clock = until - start;
    }
    found
}

#[tokio::test]
async fn pauses_grow_and_begin_when_it_failed_however_long_that_took() {
    let slate = Slate::default();
    slate.state().takes = Duration::from_secs(17);
    slate.state().has_no_chalk = true;
    assert_eq!(pauses(&slate, 4).await, [1, 2, 4, 8]);
    slate.state().is_dark = true;
    assert_eq!(pauses(&slate, 4).await, [1, 2, 4, 8]);
}

#[tokio::test(start_paused = true)]
async fn what_takes_long_is_not_waited_for_and_tells_when_it_came_to_its_end() {
    let mut stage = Stage::new();
    let (web, db, hand) = (table("web"), table("db"), Arc::new(Notify::new()));
    stage.slate.state().hand = Some(hand.clone());
    assert_eq!(stage.settles(&web).await, [""; 0]);
    assert!(stage.part.here().is_none(), "somebody works on it");
    assert_eq!(stage.part.report().hash, Names::default().hash(), "it is as it was");
    assert_eq!(stage.settles(&db).await, [""; 0], "one at a time");
    hand.notify_one();
    stage.part.changed().await;
    assert_eq!(stage.part.report().hash, web.hash());
    hand.notify_one();
    stage.settles(&db).await;
    assert_eq!(stage.part.report().hash, db.hash());
}

#[tokio::test(start_paused = true)]
async fn what_others_need_to_know_stays_as_it_was_while_it_cannot_be_told() {
    let mut stage = Stage::new();
    let places = ["192.0.2.1:1", "192.0.2.2:1"].map(|it| it.parse().expect("a place"));
    assert_eq!(stage.part.identity(), None);
    let is_known = |stage: &mut Stage, place: SocketAddr| {
        assert_eq!(stage.part.identity(), Some((PublicKey([7; 32]), vec![place])));
    };
    for place in places {
        stage.slate.state().place = Some(place);
        is_known(&mut stage, place);
        stage.slate.state().place = None;
        is_known(&mut stage, place);
    }
    stage.slate.state().hand = Some(Arc::default());
    stage.settles(&table("web")).await;
    assert!(stage.part.here().is_none(), "somebody works on it");
    stage.slate.state().place = Some(places[0]);
    is_known(&mut stage, places[1]);
}

#[tokio::test(start_paused = true)]
async fn what_came_to_its_end_is_found_by_whoever_settles_next() {
    let mut stage = Stage::new();
    let (web, db, hand) = (table("web"), table("db"), Arc::new(Notify::new()));
    stage.slate.state().hand = Some(hand.clone());
    stage.settles(&web).await;
    assert!(stage.part.here().is_none(), "somebody works on it");
    stage.slate.state().hand = None;
    hand.notify_one();
    let settled = tokio::time::timeout(PATIENCE * 10, async {
        while stage.part.report().hash != db.hash() {
            stage.settles(&db).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    settled.await.expect("nobody but who settles looks after it");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_in_the_middle_is_on_record() {
    let mut stage = Stage::new();
    let web = table("web");
    stage.settles(&web).await;
    stage.slate.state().written = None;
    stage.slate.state().hand = Some(Arc::default());
    assert_eq!(stage.settles(&web).await, ["watch: something else is written"]);
    stage.part = Part::new("dns.records", stage.slate.clone(), None);
    while stage.on_record() != ["failure"] {
        tokio::task::yield_now().await;
    }
}
