//! An agent that has nothing to do.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fluke_bed::{ServerOptions, TOKEN};

use crate::figure::{Figure, Target, Unit};
use crate::process;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::stage::{Cores, Stage, shell_task};

pub(super) const ROW: Row = Row {
    id: "idle",
    what: "agent, idle",
    reach: "≤ 10 MiB RSS, ≤ 0.05 % of a core, no process spawned",
    how: "An agent process that has checked 20 shell steps and is in sync, connected over TLS with a \
          heartbeat every 30 s; nothing is due, and it has come to rest: it gives memory back five \
          seconds after it had something to do. Three times 30 s, each with a heartbeat: VmRSS, the \
          time its threads ran, how often one of them woke up in a minute (voluntary context \
          switches); and whether a child has ended or is there. Beside it, at the same time: a \
          process with one TLS stream by tonic and rustls and the same heartbeats, on one thread. \
          Quick mode: three times two seconds, with heartbeats every second.",
    turn: Turn::Always,
    measure,
};

const STEPS: usize = 20;
const WINDOWS: usize = 3;
/// As often as heartbeats are, so that none has more of them than another.
const WINDOW: Duration = Duration::from_secs(30);
/// Enough for what does not change while nothing happens.
const QUICK_WINDOW: Duration = Duration::from_secs(2);
const QUICK_HEARTBEAT: &str = "1s";
/// An agent that rests has given back this share of what it had, at least.
const GIVEN_BACK: f64 = 0.1;
/// Far longer than it takes an agent to come to rest; one that does not is measured as it is.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(50);
const MIB: f64 = 1048576.0;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let (window, heartbeat) = match bench.quick {
        true => (QUICK_WINDOW, Some(QUICK_HEARTBEAT.into())),
        false => (WINDOW, None),
    };
    let mut stage =
        Stage::start_with(bench, ServerOptions { heartbeat, ..ServerOptions::default() })?;
    let agent = stage.agent("web-1", Cores::All)?;
    stage.settle(&shell_task("test -d /", "false", STEPS))?;
    let bare = Bare::connected(bench, &stage)?;
    comes_to_rest(agent)?;
    let children = process::children(agent)?;
    let (mut ours, mut theirs) = (Watched::new(agent), Watched::new(bare.pid()));
    for _ in 0..WINDOWS {
        let (began, beside) = (Moment::now(agent)?, Moment::now(bare.pid())?);
        std::thread::sleep(window);
        ours.looks(began)?;
        theirs.looks(beside)?;
    }
    let spawned = process::children(agent)? != children;
    let beside = "one bare TLS stream";
    let rss = Figure::new("rss", Unit::Bytes, &ours.rss);
    let time = Figure::new("core", Unit::PercentOfCore, &ours.percent);
    let wakeups = Figure::new("wakeups", Unit::Count, &ours.wakeups);
    let processes = Figure::new("processes", Unit::Count, &[f64::from(u8::from(spawned))]);
    figures([
        rss.map(|it| it.beside(beside, &theirs.rss).target(Target::AtMost(10.0 * MIB))),
        time.map(|it| it.beside(beside, &theirs.percent).target(Target::AtMost(0.05))),
        wakeups.map(|it| it.beside(beside, &theirs.wakeups)),
        processes.map(|it| it.target(Target::AtMost(0.0))),
    ])
}

/// Waits until an agent has given back what only work needs.
fn comes_to_rest(agent: u32) -> Result<(), Trouble> {
    let (began, busy) = (Instant::now(), process::resident(agent)?);
    while process::resident(agent)? > busy * (1.0 - GIVEN_BACK) && began.elapsed() < PATIENCE {
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// What a process has taken so far.
struct Moment {
    at: Instant,
    ran: f64,
    switches: u64,
}

impl Moment {
    fn now(pid: u32) -> Result<Self, Trouble> {
        let (ran, switches) = (process::running_seconds(pid)?, process::switches(pid)?);
        Ok(Self { at: Instant::now(), ran, switches })
    }
}

/// What a process takes, a round for each window.
struct Watched {
    pid: u32,
    rss: Vec<f64>,
    /// Hundredths of a core.
    percent: Vec<f64>,
    /// How often a thread woke up in a minute.
    wakeups: Vec<f64>,
}

impl Watched {
    fn new(pid: u32) -> Self {
        Self { pid, rss: Vec::new(), percent: Vec::new(), wakeups: Vec::new() }
    }

    /// A window that began then is over.
    fn looks(&mut self, began: Moment) -> Result<(), Trouble> {
        let now = Moment::now(self.pid)?;
        let seconds = (now.at - began.at).as_secs_f64();
        let switches = now.switches.saturating_sub(began.switches);
        self.rss.push(process::resident(self.pid)?);
        self.percent.push(100.0 * (now.ran - began.ran) / seconds);
        self.wakeups.push(switches as f64 * 60.0 / seconds);
        Ok(())
    }
}

/// The floor's process.
struct Bare(Child);

impl Bare {
    fn connected(bench: &Bench, stage: &Stage) -> Result<Self, Trouble> {
        let server = stage.server();
        let mut command = Cores::All.command(&bench.own);
        command.args(["floor", "client", &format!("grpcs://{}", server.grpc()), TOKEN]);
        command.arg(server.ca_file()).arg("bare").stdin(Stdio::null());
        let started = command.spawn().map_err(|error| Trouble::failed("start a client", error));
        let bare = Self(started?);
        stage.until("the bare client is connected", |stage| stage.is_connected("bare"))?;
        Ok(bare)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
