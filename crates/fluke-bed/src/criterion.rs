//! What must hold after every fault, said once.
//!
//! A story that breaks something keeps [`Step`]s on its hosts, which write an account of their
//! own, and notes everything that servers tell in a [`Chronicle`]. [`broken`] holds the two, the
//! state directory and the list of processes against each other.

use std::collections::BTreeMap;

use fluke_model::event::{Event, EventKind};
use fluke_model::verdict::Outcome;

use crate::server::Server;

/// The program of all steps: `step check TASK VERSION`, `step apply TASK VERSION`. It keeps a
/// file `TASK` beside itself with `VERSION` in it, and an `account` of every apply.
///
/// | file          | a story puts it there to                                    |
/// |---------------|-------------------------------------------------------------|
/// | `hold.check`  | hold every check, `at.check` says that one is held          |
/// | `hold.second` | hold the check after the next one: the one before an apply  |
/// | `hold.apply`  | hold every apply, `at.apply` says that one is held          |
/// | `hold.verify` | hold the check after the next apply                         |
/// | `then`        | have an apply do something more, in its middle              |
pub const PROGRAM: &str = r#"#!/bin/bash
cd "$(dirname "$0")" || exit 2
verb=$1 task=$2 version=$3
hold() {
    [ -e "hold.$1" ] || return 0
    : > "at.$1"
    while [ -e "hold.$1" ]; do sleep 0.02; done
    rm -f "at.$1"
}
is() { [ "$(cat "$task" 2>/dev/null)" = "$version" ]; }
case $verb in
check)
    hold check
    is
    said=$?
    if [ -e hold.second ]; then mv hold.second hold.check; fi
    exit $said
    ;;
apply)
    exec 9> lock
    flock -n 9 || echo "overlap $task" >> account
    if is; then echo "needless $task" >> account; fi
    echo "begin $task $version $$" >> account
    hold apply
    if [ -e then ]; then . ./then; fi
    echo "$version" > "$task.new" && mv "$task.new" "$task"
    echo "end $task $version $$" >> account
    if [ -e hold.verify ]; then mv hold.verify hold.check; fi
    ;;
esac
"#;

/// A task of one step that keeps a file, by [`PROGRAM`].
#[derive(Debug, Clone)]
pub struct Step<'a> {
    /// The folder that the program and everything it keeps is in.
    pub root: &'a str,
    /// The task, and the file.
    pub task: &'a str,
    /// What the file should hold.
    pub version: &'a str,
    /// What happens on drift.
    pub policy: &'a str,
}

impl Step<'_> {
    /// The task in a manifest.
    pub fn manifest(&self) -> String {
        let Self { root, task, version, policy } = self;
        format!(
            r#"
task "{task}" {{
  selector {{
    match_labels = {{}}
  }}
  drift {{
    policy = "{policy}"
  }}
  shell "file" {{
    check   = "{root}/step check {task} {version}"
    command = "{root}/step apply {task} {version}"
  }}
}}
"#
        )
    }
}

/// Everything that a server, or one after the other, told of one agent.
#[derive(Debug, Clone, Default)]
pub struct Chronicle(Vec<Line>);

#[derive(Debug, Clone, PartialEq)]
enum Line {
    Told(Box<Event>),
    /// The server died, and its memory with it. What it was told last, nobody may have read.
    Unread,
}

impl Chronicle {
    /// Notes what is new. To be called before a server is ended: its history ends with it.
    pub fn read(&mut self, server: &Server, agent: &str) {
        let newest = self.0.iter().rev().find_map(|line| match line {
            Line::Told(event) => Some(event.id),
            Line::Unread => None,
        });
        let mut events = server.events(Some(agent));
        events.retain(|event| newest.is_none_or(|newest| event.id > newest));
        for event in events {
            // What a server did not acknowledge before it died, the next one is told again.
            if !self
                .0
                .iter()
                .any(|line| matches!(line, Line::Told(known) if is_same(known, &event)))
            {
                self.0.push(Line::Told(Box::new(event)));
            }
        }
    }

    /// A server was ended at a moment at which it may have known more than was read.
    pub fn unread(&mut self) {
        self.0.push(Line::Unread);
    }

    /// The events, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.0.iter().filter_map(|line| match line {
            Line::Told(event) => Some(&**event),
            Line::Unread => None,
        })
    }

    fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.events().filter(|event| is(event)).count()
    }
}

/// Records carry the time of the host: the same moment of the same step is the same record.
fn is_same(one: &Event, other: &Event) -> bool {
    let key = |event: &Event| {
        (event.kind, event.time, event.task.clone(), event.step.clone(), event.outcome)
    };
    one.step.is_some() && key(one) == key(other)
}

/// What is left when a fault is over and everything stands still.
#[derive(Debug, Default)]
pub struct Evidence {
    /// What the steps wrote of every apply.
    pub account: String,
    /// What servers told of the agent.
    pub chronicle: Chronicle,
    /// What Git says of files, and what is in them.
    pub files: Vec<(String, String, String)>,
    /// Processes that nobody needs any more.
    pub strays: Vec<String>,
    /// The files of the state directory.
    pub state: BTreeMap<String, Vec<u8>>,
}

/// Everything that does not hold; nothing, if all is well:
///
/// - the host is as Git says;
/// - one apply at a time, and none of what was as it should be;
/// - every apply that began has exactly one end in the events, and none is missing there;
/// - no process is left behind;
/// - the state directory can be read.
pub fn broken(evidence: &Evidence) -> Vec<String> {
    let mut broken = Vec::new();
    for (task, wanted, found) in &evidence.files {
        if wanted != found {
            broken.push(format!("Git says `{wanted}` of {task}, and the host has `{found}`"));
        }
    }
    broken.extend(broken_account(&evidence.account));
    broken.extend(broken_chronicle(&evidence.chronicle));
    broken.extend(disagreement(&evidence.account, &evidence.chronicle));
    broken.extend(evidence.strays.iter().map(|stray| format!("left behind: {stray}")));
    broken.extend(evidence.state.iter().filter_map(|(name, bytes)| broken_state(name, bytes)));
    broken
}

fn broken_account(account: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let mut under_way = None;
    for line in account.lines() {
        let what = line.split_once(' ').unwrap_or((line, ""));
        match what {
            ("begin", which) => under_way = Some(which),
            ("end", which) if under_way == Some(which) => under_way = None,
            ("end", which) => broken.push(format!("an apply ended that was over: {which}")),
            ("needless", task) => broken.push(format!("{task} was applied without a drift")),
            ("overlap", task) => broken.push(format!("{task} was applied beside another apply")),
            _ => broken.push(format!("no line of an account: {line}")),
        }
    }
    broken
}

/// Whether beginnings and ends alternate, for each step and each part of services.
fn broken_chronicle(chronicle: &Chronicle) -> Vec<String> {
    #[derive(Clone, Copy, PartialEq)]
    enum Step {
        Resting,
        UnderWay,
        Unknown,
    }
    let mut broken = Vec::new();
    let mut steps: BTreeMap<String, Step> = BTreeMap::new();
    for line in &chronicle.0 {
        let Line::Told(event) = line else {
            steps.values_mut().for_each(|step| *step = Step::Unknown);
            continue;
        };
        let Some(address) = &event.step else { continue };
        let name = match &event.task {
            Some(task) => format!("{task}/{address}"),
            // Of services.
            None => address.to_string(),
        };
        let first = match chronicle.0.contains(&Line::Unread) {
            true => Step::Unknown,
            false => Step::Resting,
        };
        let step = steps.entry(name.clone()).or_insert(first);
        match event.kind {
            EventKind::ApplyStarted => {
                if *step == Step::UnderWay {
                    broken.push(format!("{name} began again at {}, without an end", event.time));
                }
                *step = Step::UnderWay;
            }
            EventKind::ApplyFinished => {
                if *step == Step::Resting {
                    broken.push(format!("{name} ended at {} and had not begun", event.time));
                }
                *step = Step::Resting;
            }
            _ => {}
        }
    }
    let open = steps.into_iter().filter(|(_, step)| *step == Step::UnderWay);
    broken.extend(open.map(|(name, _)| format!("{name} began and has no end in the events")));
    broken
}

/// Whether what the host did and what was told of it is the same.
fn disagreement(account: &str, chronicle: &Chronicle) -> Vec<String> {
    if chronicle.0.contains(&Line::Unread) {
        return Vec::new();
    }
    let lines = |word: &str| account.lines().filter(|line| line.starts_with(word)).count();
    let (begins, ends) = (lines("begin "), lines("end "));
    // Services keep no account.
    let count = |kind, outcome| {
        let is = move |event: &Event| {
            event.task.is_some() && event.kind == kind && event.outcome == outcome
        };
        chronicle.count(is)
    };
    let started = count(EventKind::ApplyStarted, None);
    let ended = |outcome| count(EventKind::ApplyFinished, Some(outcome));
    let (succeeded, interrupted) = (ended(Outcome::Success), ended(Outcome::Interrupted));
    let told = format!(
        "the host began {begins} and ended {ends}; told were {started} beginnings, {succeeded} \
         successes, {interrupted} interruptions"
    );
    // An apply may be interrupted before its first and after its last word.
    let begun = begins <= started && started <= begins + interrupted;
    let done = succeeded <= ends && ends <= succeeded + interrupted;
    if begun && done { Vec::new() } else { vec![told] }
}

fn broken_state(name: &str, bytes: &[u8]) -> Option<String> {
    let is_json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).is_ok();
    let fine = match name {
        _ if name.contains(".corrupt-") => false,
        "journal" => {
            bytes.split(|byte| *byte == b'\n').all(|line| line.is_empty() || is_json(line))
        }
        _ if name.ends_with(".json") => is_json(bytes),
        _ => true,
    };
    (!fine).then(|| format!("the state file {name} is damaged: {}", String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests;
