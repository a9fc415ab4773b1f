//! What goes wrong, and when: a schedule is data, made from a seed, and can be printed.

use std::fmt;
use std::time::Duration;

use crate::dice::Dice;
use crate::host::Mode;
use crate::net::Way;
use crate::repo::Change;
use crate::trace::HostId;

/// One thing that is done to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Somebody pushes; whether a webhook tells.
    Commit(Change, bool),
    /// Git cannot be read.
    GitDown,
    /// It can again.
    GitUp,
    /// `kill -9`; what it ran goes on.
    KillAgent(HostId),
    /// The machine loses power.
    CrashHost(HostId),
    /// SIGTERM.
    StopAgent(HostId),
    /// An agent is started, if none lives.
    StartAgent(HostId),
    /// The agent is killed, and its journal is gone or garbage afterwards.
    LoseJournal(HostId),
    /// The agent is killed in the middle of writing a line.
    TearJournal(HostId),
    /// `kill -9`.
    KillServer,
    /// The server's machine loses power.
    CrashServer,
    /// SIGTERM.
    StopServer,
    /// A server is started, if none lives.
    StartServer,
    /// Bytes do not get through.
    Partition(HostId, Way),
    /// Everything takes this many milliseconds.
    Slow(HostId, u64),
    /// A link is as it should be.
    HealLink(HostId),
    /// Connections are reset.
    Reset(HostId),
    /// A step of a task is no longer as it was.
    Drift(HostId, usize, usize),
    /// A step's commands do something else.
    Misbehave(HostId, usize, usize, Mode),
    /// All commands of a host work again.
    Behave(HostId),
    /// A human asks for everything, for a host, or for a task.
    Reconcile(Scope),
    /// A host's clock jumps by so many seconds.
    JumpHost(HostId, i64),
    /// The server's clock jumps by so many seconds.
    JumpServer(i64),
}

/// What a human asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// One host.
    Host(HostId),
    /// One task.
    Task(usize),
}

/// A whole night.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Everything else that is left to chance comes from it.
    pub seed: u64,
    /// How many hosts there are.
    pub hosts: usize,
    /// In order of time.
    pub actions: Vec<(Duration, Action)>,
    /// When all faults are over.
    pub quiet: Duration,
}

impl Schedule {
    /// The night that belongs to a seed.
    pub fn of(seed: u64) -> Self {
        let dice = Dice::new(seed, 1);
        let hosts = match dice.below(100) {
            0..40 => 1,
            40..70 => 2,
            70..95 => 3 + dice.below(3) as usize,
            _ => 6 + dice.below(15) as usize,
        };
        // Most nights are short and dense; some are long enough for agents to act on their own.
        let length = match dice.below(10) {
            0..4 => 5_000 + dice.below(30_000),
            4..8 => 20_000 + dice.below(130_000),
            _ => 200_000 + dice.below(300_000),
        };
        let mut maker = Maker { dice: &dice, hosts, length, actions: Vec::new() };
        for _ in 0..3 + dice.below(14) {
            maker.trouble();
        }
        let mut actions = maker.actions;
        // Stable, so that what was made first goes first.
        actions.sort_by_key(|(at, _)| *at);
        Self { seed, hosts, actions, quiet: Duration::from_millis(length) }
    }

    /// The same without one action.
    pub fn without(&self, position: usize) -> Self {
        let mut less = self.clone();
        less.actions.remove(position);
        less
    }
}

struct Maker<'a> {
    dice: &'a Dice,
    hosts: usize,
    length: u64,
    actions: Vec<(Duration, Action)>,
}

impl Maker<'_> {
    fn at(&mut self, at: Duration, action: Action) {
        self.actions.push((at, action));
    }

    fn host(&self) -> HostId {
        self.dice.below(self.hosts as u64) as usize
    }

    /// Some fault, and mostly its end.
    fn trouble(&mut self) {
        let dice = self.dice;
        let now = dice.millis(0, self.length);
        let later = now + dice.millis(50, 4_000 + self.length / 4);
        let host = self.host();
        let (task, step) = (dice.below(4) as usize, dice.below(3) as usize);
        match dice.below(100) {
            0..16 => self.commit(now),
            16..30 => self.at(now, Action::Drift(host, task, step)),
            30..44 => self.misbehave(now, later, host, task, step),
            44..52 => self.end_agent(now, later, host),
            52..56 => {
                self.at(now, Action::CrashHost(host));
                self.at(later, Action::StartAgent(host));
                if dice.chance(50) {
                    self.at(later, Action::Reset(host));
                }
            }
            56..60 => self.damage_journal(now, later, host),
            60..70 => self.end_server(now, later),
            70..80 => {
                let way = dice.one_of(&[Way::Up, Way::Down, Way::Both]);
                let later =
                    if dice.chance(30) { now + dice.millis(40_000, 200_000) } else { later };
                self.at(now, Action::Partition(host, way));
                self.at(later, Action::HealLink(host));
            }
            80..84 => self.at(now, Action::Reset(host)),
            84..88 => {
                self.at(now, Action::Slow(host, 100 + dice.below(3_000)));
                self.at(later, Action::HealLink(host));
            }
            88..94 => {
                let scope = dice.one_of(&[Scope::All, Scope::Host(host), Scope::Task(task)]);
                self.at(now, Action::Reconcile(scope));
            }
            94..97 => self.jump(now, host),
            _ => {
                self.at(now, Action::GitDown);
                self.at(later, Action::GitUp);
            }
        }
    }

    fn commit(&mut self, now: Duration) {
        let dice = self.dice;
        let which = dice.below(4) as usize;
        let change = match dice.below(10) {
            0..4 => Change::Task(which),
            4 => Change::Toggle(which),
            5 => Change::Policy(which),
            6 => Change::Nothing,
            7 => Change::Broken,
            8 => Change::Empty,
            _ => Change::Force(which),
        };
        self.at(now, Action::Commit(change, dice.chance(70)));
    }

    fn misbehave(
        &mut self,
        now: Duration,
        later: Duration,
        host: HostId,
        task: usize,
        step: usize,
    ) {
        let dice = self.dice;
        let mode = dice.one_of(&[
            Mode::ApplyFails,
            Mode::ApplyLies,
            Mode::ApplyHangs,
            Mode::ApplyFlaps,
            Mode::ApplyKillsAgent,
            Mode::CheckFails,
            Mode::CheckHangs,
            Mode::CheckCrawls,
        ]);
        self.at(now, Action::Misbehave(host, task, step, mode));
        if dice.chance(70) {
            self.at(now, Action::Drift(host, task, step));
        }
        if dice.chance(60) {
            self.at(later + dice.millis(0, 60_000), Action::Behave(host));
        }
    }

    fn end_agent(&mut self, now: Duration, later: Duration, host: HostId) {
        let end = self.dice.one_of(&[Action::KillAgent(host), Action::StopAgent(host)]);
        // A supervisor starts it again soon; at times nobody does for long.
        let back = if self.dice.chance(60) { now + self.dice.millis(100, 3_000) } else { later };
        self.at(now, end);
        self.at(back, Action::StartAgent(host));
    }

    fn damage_journal(&mut self, now: Duration, later: Duration, host: HostId) {
        let damage = self.dice.one_of(&[Action::LoseJournal(host), Action::TearJournal(host)]);
        self.at(now, damage);
        self.at(later, Action::StartAgent(host));
        if self.dice.chance(40) {
            // And once more, with a clock that is not what it was.
            let (again, after) =
                (later + self.dice.millis(0, 20_000), later + self.dice.millis(20_000, 40_000));
            self.at(again, Action::JumpHost(host, -1_000_000));
            self.at(again, Action::LoseJournal(host));
            self.at(after, Action::StartAgent(host));
            self.at(after + self.dice.millis(0, 10_000), Action::Drift(host, 0, 0));
        }
    }

    fn end_server(&mut self, now: Duration, later: Duration) {
        let end = self.dice.one_of(&[Action::KillServer, Action::CrashServer, Action::StopServer]);
        let back = match self.dice.below(10) {
            0..6 => now + self.dice.millis(200, 5_000),
            6..8 => later,
            _ => now + self.dice.millis(60_000, 240_000),
        };
        self.at(now, end);
        self.at(back, Action::StartServer);
    }

    fn jump(&mut self, now: Duration, host: HostId) {
        let by = self.dice.one_of(&[-86_400, -3_600, -1, 1, 3_600, 86_400]);
        let action = match self.dice.chance(50) {
            true => Action::JumpHost(host, by),
            false => Action::JumpServer(by),
        };
        self.at(now, action);
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} hosts:", self.seed, self.hosts)?;
        for (at, action) in &self.actions {
            writeln!(f, "{:>9.3}  {action:?}", at.as_secs_f64())?;
        }
        write!(f, "{:>9.3}  all faults are over", self.quiet.as_secs_f64())
    }
}
