//! Everything at once.

use std::time::Duration;

use crate::figure::{Figure, Unit};
use crate::process::resident;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::scale::crowd::Crowd;
use crate::scale::readers::Readers;
use crate::statistics::percentile;

pub(super) const ROW: Row = Row {
    id: "mixed",
    what: "10,000 TLS agents, 1,000 API readers, commits, a storm of webhooks",
    reach: "nothing is promised; latencies are recorded",
    how: "A server as a process with 10,000 agents of a swarm over TLS, twenty steps each; 700 live \
          streams and 300 readers that ask for a page of agents every second, over TLS. Meanwhile \
          commits for all and for a few, and 200 webhooks one after the other; in the end the \
          server is restarted, and everybody comes back. Quick mode: a tenth of agents and readers.",
    turn: Turn::OnRequest,
    measure,
};

const ROUNDS: usize = 3;
const WEBHOOKS: usize = 200;
/// How long readers read in peace.
const PEACE: Duration = Duration::from_secs(10);

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let tenth = if bench.quick { 10 } else { 1 };
    let mut crowd = Crowd::start(bench, 10_000 / tenth, "60s")?;
    let coming = Readers::come(&crowd.stage, 700 / tenth as usize, 300 / tenth as usize);
    let readers = crowd.runtime.block_on(coming)?;
    crowd.rests(PEACE);
    let calm = readers.calls();
    let (mut all, mut half, mut few, mut storm) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.rounds(ROUNDS) {
        let timing = crowd.commits_for_all()?;
        all.push(timing.max.as_secs_f64());
        half.push(timing.p50.as_secs_f64());
        few.push(crowd.commits_for_few()?.max.as_secs_f64());
        storm.push(webhooks(&crowd)?);
    }
    let busy = readers.calls();
    let (_, refused) = readers.sums();
    let memory = resident(crowd.pid()?)?;
    drop(readers);
    let returned = crowd.restarts()?;
    let call = |id: &str, calls: &[f64], at: f64| {
        Figure::new(id, Unit::Seconds, percentile(calls, at).as_slice())
    };
    figures([
        Figure::new("commit_all", Unit::Seconds, &all),
        Figure::new("commit_all_half", Unit::Seconds, &half),
        Figure::new("commit_few", Unit::Seconds, &few),
        Figure::new("webhook", Unit::Seconds, &storm),
        call("call_calm_p50", &calm, 0.5),
        call("call_calm_p99", &calm, 0.99),
        call("call_busy_p50", &busy, 0.5),
        call("call_busy_p99", &busy, 0.99),
        Figure::new("calls_refused", Unit::Count, &[refused as f64]),
        Figure::new("memory", Unit::Bytes, &[memory]),
        Figure::new("return_of_all", Unit::Seconds, &[returned]),
    ])
}

/// Announces what is known already, again and again; the seconds that each takes.
fn webhooks(crowd: &Crowd) -> Result<f64, Trouble> {
    let head = crowd.stage.repository().head();
    let began = std::time::Instant::now();
    (0..WEBHOOKS).try_for_each(|_| crowd.stage.announce(head.as_str()))?;
    Ok(began.elapsed().as_secs_f64() / WEBHOOKS as f64)
}
