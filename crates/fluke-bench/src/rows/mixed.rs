//! Everything at once.

use std::time::{Duration, Instant};

use crate::figure::{Figure, Unit};
use crate::process::resident;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::bare::{BareClients, BareServer};
use crate::scale::crowd::Crowd;
use crate::scale::readers::Readers;
use crate::scale::spread::Spread;

pub(super) const ROW: Row = Row {
    id: "mixed",
    what: "10,000 TLS agents, 1,000 API readers, commits, a storm of webhooks",
    reach: "nothing is promised; latencies are recorded",
    how: "A server as a process with 10,000 agents of a swarm over TLS, twenty steps each; 700 live \
          streams, compressed as browsers ask for, and 300 readers that ask for a page of agents \
          every second, over TLS. p50, p90, p99 and max: how long half, nine of ten, 99 of 100 and \
          all of them took at most. \
          commit_all: from the announcement of a commit that changes every step to each agent's \
          answer; commit_one: the same of a commit for one agent. Beside both: the same before the \
          readers came. webhook: 20 commits right after each other, each announced ten times at \
          once; storm: from the first of them until the agent concerned has the last. Beside: one \
          webhook at a time, of what is known, before the readers came. call: a reader's calls, \
          while all this happens; beside it, while nothing does. told: from the announcement of one \
          more commit for every agent until all streams have told of it; told_bytes: what each \
          stream told then. streams_lost: those that the server ended. return: the server is restarted; \
          from its start until so many are back. Beside the last one: as many bare streams over TLS \
          to a process that was just started.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 3;
/// Commits for one agent, each a time of its own.
const SINGLE: usize = 30;
/// Commits of the storm, and how often each is announced at once.
const STORM: (usize, usize) = (20, 10);
/// Webhooks in peace.
const WEBHOOKS: usize = 50;
/// How long readers read in peace.
const PEACE: Duration = Duration::from_secs(10);

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let tenth = if bench.quick { 10 } else { 1 };
    let agents = 10_000 / tenth;
    let joined = bare_join(bench, agents as usize)?;
    let mut crowd = Crowd::start(bench, agents, "60s")?;
    let calm = Commits::made(bench, &mut crowd)?;
    let webhooks = Spread::of(&webhooks(&crowd)?);
    let (streams, polls) = (700 / tenth as usize, 300 / tenth as usize);
    let readers = Readers::come(&crowd.stage, streams, polls)?;
    crowd.rests(PEACE);
    let calls = Spread::of(&readers.calls());
    let busy = Commits::made(bench, &mut crowd)?;
    let (storm, settled) = storm(&mut crowd)?;
    let busy_calls = Spread::of(&readers.calls());
    let refused = readers.refused();
    let memory = resident(crowd.pid()?)?;
    let (told, told_bytes) = told(&mut crowd, &readers)?;
    let lost = readers.lost();
    drop(readers);
    let returned = Spread::of(&crowd.returns()?);
    let before = "before the readers came";
    let mut all = busy.all.figures("commit_all", Some((before, &calm.all)));
    all.extend(busy.one.figures("commit_one", Some((before, &calm.one))));
    all.extend(Spread::of(&storm).figures("webhook", Some(("one at a time", &webhooks))));
    all.push(Figure::new("storm", Unit::Seconds, &[settled]));
    all.extend(busy_calls.figures("call", Some(("while nothing changes", &calls))));
    all.push(Figure::new("calls_refused", Unit::Count, &[refused as f64]));
    all.push(Figure::new("memory", Unit::Bytes, &[memory]));
    all.push(Figure::new("told", Unit::Seconds, &[told]));
    all.push(Figure::new("told_bytes", Unit::Bytes, &[told_bytes / streams as f64]));
    all.push(Figure::new("streams_lost", Unit::Count, &[lost as f64]));
    all.extend(returned.figures("return", None));
    if let Some(Some(last)) = all.pop() {
        all.push(Some(last.beside("bare streams over TLS", &[joined])));
    }
    figures(all)
}

/// The seconds that as many bare streams need.
fn bare_join(bench: &Bench, count: usize) -> Result<f64, Trouble> {
    let server = BareServer::start(&bench.own)?;
    let (clients, took) = BareClients::join(&server, count)?;
    clients.leave();
    Ok(took)
}

/// How long commits took.
struct Commits {
    all: Spread,
    one: Spread,
}

impl Commits {
    fn made(bench: &Bench, crowd: &mut Crowd) -> Result<Self, Trouble> {
        let (mut all, mut one) = (Spread::default(), Vec::new());
        for _ in 0..bench.rounds(ROUNDS) {
            all.note(crowd.commits_for_all()?);
        }
        for _ in 0..bench.rounds(SINGLE) {
            one.push(crowd.commits_for_one()?.max.as_secs_f64());
        }
        Ok(Self { all, one: Spread::of(&one) })
    }
}

/// A commit for every agent: the seconds until all streams have told of it, and their bytes.
fn told(crowd: &mut Crowd, readers: &Readers) -> Result<(f64, f64), Trouble> {
    readers.are_told(Instant::now());
    let (began, before) = (Instant::now(), readers.bytes());
    crowd.commits_for_all()?;
    let told = readers.are_told(began);
    Ok((told, (readers.bytes() - before) as f64))
}

/// Announces what is known already, one after the other; the seconds of each.
fn webhooks(crowd: &Crowd) -> Result<Vec<f64>, Trouble> {
    let head = crowd.stage.repository().head();
    (0..WEBHOOKS).map(|_| announced(crowd, head.as_str())).collect()
}

fn announced(crowd: &Crowd, commit: &str) -> Result<f64, Trouble> {
    let began = Instant::now();
    crowd.stage.announce(commit)?;
    Ok(began.elapsed().as_secs_f64())
}

/// Commits right after each other, each announced by many at once: the seconds of each announcement,
/// and those until the last commit is where it belongs.
fn storm(crowd: &mut Crowd) -> Result<(Vec<f64>, f64), Trouble> {
    let (commits, at_once) = STORM;
    let began = Instant::now();
    let mut times = Vec::new();
    for _ in 0..commits {
        let commit = crowd.commit_for_one();
        let crowd = &*crowd;
        let announcing = std::thread::scope(|scope| {
            let announce = || announced(crowd, commit.as_str());
            let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(announce)).collect();
            let gone = |_| Err(Trouble::failed("announce a push", "a thread panicked"));
            let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(gone));
            ended.collect::<Result<Vec<_>, _>>()
        });
        times.extend(announcing?);
    }
    crowd.one_has_the_newest()?;
    Ok((times, began.elapsed().as_secs_f64()))
}
