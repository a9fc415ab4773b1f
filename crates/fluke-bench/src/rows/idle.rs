//! An agent that has nothing to do.

use std::process::{Child, Stdio};
use std::time::Duration;

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
          heartbeat every 30 s; nothing is due. For a minute: VmRSS, the time its threads ran, and \
          whether a child has ended or is there. Beside it, at the same time: a process with one TLS \
          stream by tonic and rustls and the same heartbeats, on one thread.",
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
    let (mut ours, mut theirs) = (Window::default(), Window::default());
    let window = if bench.quick { QUICK_WINDOW } else { WINDOW };
    for _ in 0..bench.rounds(WINDOWS) {
        let before = (process::running_seconds(agent)?, process::running_seconds(bare.pid())?);
        std::thread::sleep(window);
        ours.note(agent, before.0, window)?;
        theirs.note(bare.pid(), before.1, window)?;
    }
    let spawned = process::children(agent)? != children;
    let beside = "one bare TLS stream";
    let rss = Figure::new("rss", Unit::Bytes, &ours.rss);
    let time = Figure::new("core", Unit::PercentOfCore, &ours.percent);
    let processes = Figure::new("processes", Unit::Count, &[f64::from(u8::from(spawned))]);
    figures([
        rss.map(|it| it.beside(beside, &theirs.rss).target(Target::AtMost(10.0 * MIB))),
        time.map(|it| it.beside(beside, &theirs.percent).target(Target::AtMost(0.05))),
        processes.map(|it| it.target(Target::AtMost(0.0))),
    ])
}

#[derive(Default)]
struct Window {
    rss: Vec<f64>,
    percent: Vec<f64>,
}

impl Window {
    fn note(&mut self, pid: u32, ran_before: f64, window: Duration) -> Result<(), Trouble> {
        let ran = process::running_seconds(pid)? - ran_before;
        self.percent.push(100.0 * ran / window.as_secs_f64());
        self.rss.push(process::resident(pid)?);
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
