//! An agent that has nothing to do.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fluke_bed::TOKEN;

use crate::figure::{Figure, Target, Unit};
use crate::process;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::stage::{Cores, Stage, shell_task};

pub(super) const ROW: Row = Row {
    id: "idle",
    what: "agent, idle",
    reach: "≤ 10 MiB RSS, ≤ 0.05 % of a core, no process spawned",
    how: "An agent process that has checked 20 shell steps and is in sync, connected over TLS with a \
          heartbeat every 30 s; nothing is due. For a minute: VmRSS, the time its threads ran, how \
          often one of them woke up (voluntary context switches), and whether a child has ended or \
          is there. Beside it, at the same time: a process with one TLS stream by tonic and rustls \
          and the same heartbeats, on one thread.",
    turn: Turn::Always,
    measure,
};

const STEPS: usize = 20;
const WINDOWS: usize = 6;
const WINDOW: Duration = Duration::from_secs(10);
/// Enough for what does not change while nothing happens.
const QUICK_WINDOW: Duration = Duration::from_secs(1);
const MIB: f64 = 1048576.0;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let mut stage = Stage::start(bench)?;
    let agent = stage.agent("web-1", Cores::All)?;
    stage.settle(&shell_task("test -d /", "false", STEPS))?;
    let bare = Bare::connected(bench, &stage)?;
    let children = process::children(agent)?;
    let (mut ours, mut theirs) = (Minute::begins(agent)?, Minute::begins(bare.pid())?);
    let window = if bench.quick { QUICK_WINDOW } else { WINDOW };
    for _ in 0..bench.rounds(WINDOWS) {
        std::thread::sleep(window);
        ours.looks()?;
        theirs.looks()?;
    }
    let spawned = process::children(agent)? != children;
    let beside = "one bare TLS stream";
    let (bare_time, bare_wakeups) = ([theirs.percent()?], [theirs.wakeups()?]);
    let rss = Figure::new("rss", Unit::Bytes, &ours.rss);
    let time = Figure::new("core", Unit::PercentOfCore, &[ours.percent()?]);
    let wakeups = Figure::new("wakeups", Unit::Count, &[ours.wakeups()?]);
    let processes = Figure::new("processes", Unit::Count, &[f64::from(u8::from(spawned))]);
    figures([
        rss.map(|it| it.beside(beside, &theirs.rss).target(Target::AtMost(10.0 * MIB))),
        time.map(|it| it.beside(beside, &bare_time).target(Target::AtMost(0.05))),
        wakeups.map(|it| it.beside(beside, &bare_wakeups)),
        processes.map(|it| it.target(Target::AtMost(0.0))),
    ])
}

/// What a process takes from its beginning on. All of it counts: there are heartbeats in some
/// windows and none in others.
struct Minute {
    pid: u32,
    began: Instant,
    ran: f64,
    switches: u64,
    rss: Vec<f64>,
}

impl Minute {
    fn begins(pid: u32) -> Result<Self, Trouble> {
        let (ran, switches) = (process::running_seconds(pid)?, process::switches(pid)?);
        Ok(Self { pid, began: Instant::now(), ran, switches, rss: Vec::new() })
    }

    fn looks(&mut self) -> Result<(), Trouble> {
        self.rss.push(process::resident(self.pid)?);
        Ok(())
    }

    /// Hundredths of a core.
    fn percent(&self) -> Result<f64, Trouble> {
        let ran = process::running_seconds(self.pid)? - self.ran;
        Ok(100.0 * ran / self.began.elapsed().as_secs_f64())
    }

    /// How often a thread woke up in a minute.
    fn wakeups(&self) -> Result<f64, Trouble> {
        let switches = process::switches(self.pid)?.saturating_sub(self.switches);
        Ok(switches as f64 * 60.0 / self.began.elapsed().as_secs_f64())
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
