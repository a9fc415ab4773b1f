//! One event on one line, for who follows them.

use fluke_model::event::{Event, EventKind};
use fluke_model::time::Timestamp;

use super::fleet;
use crate::colour::Paint;
use crate::sanitise;
use crate::screen::Style;
use crate::when::{to_the_second, took};

/// As wide as the longest kind.
const KIND: usize = 19;

/// When, what, where, how it ended, and the first line of what was said.
pub fn line(event: &Event, style: Style, now: Timestamp) -> String {
    let on = |paint: Paint, text: &str| paint.on(text, style.colours);
    let kind = format!("{:<KIND$}", event.kind.as_str());
    let mut parts = vec![on(Paint::Dim, &time(event.time, style, now)), on(paint(event), &kind)];
    parts.extend(event.agent.as_ref().map(|agent| on(Paint::Bold, agent.as_str())));
    parts.extend(fleet::place(event));
    parts.extend(event.outcome.map(|outcome| on(outcome.into(), outcome.as_str())));
    parts.extend(event.duration_ms.map(took));
    parts.extend(event.by.as_deref().map(|by| format!("by {}", sanitise::line(by))));
    let text = sanitise::first_line(event.output.as_deref().unwrap_or_default());
    parts.extend(Some(text).filter(|text| !text.is_empty()));
    let line = parts.join("  ");
    format!("{}\n", line.trim_end())
}

/// On a terminal, the time of today is enough.
fn time(time: Timestamp, style: Style, now: Timestamp) -> String {
    let (text, today) = (to_the_second(time), to_the_second(now));
    match (text.split_once('T'), today.split_once('T')) {
        (Some((day, clock)), Some((this_day, _))) if style.is_terminal() && day == this_day => {
            clock.to_string()
        }
        _ => text,
    }
}

/// What is worth a look stands out.
fn paint(event: &Event) -> Paint {
    use EventKind::*;
    match event.kind {
        CommitRejected | SourceUnreachable | CheckFailed | AlertFailed | EventsLost => Paint::Red,
        DriftDetected | AgentDisconnected | AgentForgotten | AgentRefused | CallerRefused
        | ReplicaMoved => Paint::Yellow,
        CommitAccepted | SourceRecovered | AgentConnected | DriftResolved | CheckRecovered => {
            Paint::Green
        }
        ApplyStarted | ApplySkipped | ReconcileRequested => Paint::Cyan,
        ApplyFinished | ReconcileFinished => event.outcome.map_or(Paint::Cyan, Into::into),
    }
}
