//! How the dashboard looks: lines for a screen of any size.

use fluke_model::status::Status;
use fluke_model::time::Timestamp;
use unicode_width::UnicodeWidthStr;

use super::{Connection, Mode, Reconcile, Top};
use crate::colour::Paint;
use crate::fit;
use crate::report::count;
use crate::sanitise;
use crate::screen::Style;
use crate::table::{Cell, Column, Table};
use crate::terminal::Size;
use crate::view::{self, fleet};
use crate::when::{ago, took};

/// Below this there is one pane only.
const ROOM_FOR_PANES: usize = 12;

const KEYS: [(&str, &str); 9] = [
    ("↑ ↓  j k", "choose an agent, or scroll"),
    ("PgUp PgDn", "by a page"),
    ("Home End  g G", "to the first, to the last"),
    ("Enter", "everything about the chosen agent"),
    ("/", "filter: part of a name, a status, key=value; all must be true"),
    ("r", "reconcile the chosen agent, after a question"),
    ("Esc", "back; in the list, take away a finished reconcile, then the filter"),
    ("Ctrl-Z", "leave for a while; `fg` comes back"),
    ("q", "back, or quit"),
];

impl Top {
    /// The lines of the whole screen. Remembers how long a page is, for keys that turn it.
    pub fn draw(&mut self, size: Size, colours: bool, now: Timestamp) -> Vec<String> {
        self.sort();
        let style = Style { colours, width: Some(size.width), height: Some(size.height) };
        let mut lines = self.header(style, now);
        let room = size.height.saturating_sub(lines.len() + 1);
        let body = match self.mode {
            Mode::Help => help(style),
            Mode::Detail { .. } => self.detail(style, room, now),
            Mode::List | Mode::Filtering | Mode::Confirm { .. } => self.panes(style, room, now),
        };
        lines.extend(body.into_iter().take(room));
        lines.resize(size.height.saturating_sub(1), String::new());
        lines.push(self.footer(style));
        lines.into_iter().map(|line| fit::clip(&line, size.width)).collect()
    }

    fn header(&self, style: Style, now: Timestamp) -> Vec<String> {
        let on = |paint: Paint, text: &str| paint.on(text, style.colours);
        let connection = match &self.connection {
            Connection::Connecting => on(Paint::Yellow, "connecting"),
            Connection::Live => on(Paint::Green, "live"),
            Connection::Lost { since, .. } => {
                on(Paint::Red, &format!("lost {}, trying again", ago(*since, now)))
            }
        };
        let first = [
            on(Paint::Bold, "fluke top"),
            connection,
            self.commit(style, now),
            on(Paint::Dim, &self.server),
        ];
        let mut lines = vec![joined(&first), self.counts(style)];
        if let Connection::Lost { why, .. } = &self.connection {
            lines.push(on(Paint::Red, &format!("out of date: {}", sanitise::line(why))));
        }
        lines.extend(self.source.as_ref().and_then(view::source::warning).map(|warning| {
            format!("{} {}", on(Paint::Yellow, "warning:"), sanitise::line(&warning))
        }));
        lines
    }

    fn commit(&self, style: Style, now: Timestamp) -> String {
        let Some(source) = &self.source else { return String::new() };
        let commit = source.commit.as_ref().map(|commit| sanitise::line(commit.short()));
        let commit = commit.map_or("no commit yet".into(), |commit| format!("commit {commit}"));
        let polled = source
            .last_poll
            .map_or("never polled".into(), |poll| format!("polled {}", ago(poll, now)));
        format!("{commit}, {}", Paint::Plain.on(&polled, style.colours))
    }

    /// How many stand how; on a narrow screen without those that nobody is.
    fn counts(&self, style: Style) -> String {
        use Status::*;
        let told = [Failed, Drifted, Applying, Offline, Unknown, InSync].map(|status| {
            let number = self.with_status(status);
            let paint = if number == 0 { Paint::Dim } else { status.into() };
            let text = format!("{number} {}", status.as_str().replace('_', " "));
            (number, paint.on(&text, style.colours))
        });
        let line = |least: usize| {
            let told = told.iter().filter(|(number, _)| *number >= least);
            let told: Vec<&str> = told.map(|(_, text)| text.as_str()).collect();
            format!("{}: {}", count(self.agents.len(), "agent"), told.join(", "))
        };
        let all = line(0);
        if fit::shown_width(&all) <= style.size().width { all } else { line(1) }
    }

    fn footer(&self, style: Style) -> String {
        let on = |paint: Paint, text: &str| paint.on(text, style.colours);
        if let Some(notice) = &self.notice {
            return on(Paint::Yellow, &sanitise::line(notice));
        }
        match &self.mode {
            Mode::Filtering => {
                format!("{}{}{}", on(Paint::Bold, "/"), self.filter, on(Paint::Cyan, "▏"))
            }
            Mode::Confirm { name } => on(
                Paint::Yellow,
                &format!("put right all that is drifted on {name}, whatever its policy? y / n"),
            ),
            Mode::Help => on(Paint::Dim, "any key goes back"),
            Mode::Detail { .. } => on(Paint::Dim, "↑↓ scroll  r reconcile  Esc back"),
            Mode::List => {
                let keys = "q quit  ? help  ↑↓ choose  Enter details  / filter  r reconcile";
                let at = self.position().map_or(0, |at| at + 1);
                let at = format!("{at} of {}", self.order.len());
                beside(&on(Paint::Dim, keys), &on(Paint::Dim, &at), style)
            }
        }
    }

    /// Agents, drift and what happened, one below the other.
    fn panes(&mut self, style: Style, room: usize, now: Timestamp) -> Vec<String> {
        // Half of it, or what a short list of agents leaves.
        let spare = room.saturating_sub(self.order.len() + 2);
        let others = if room < ROOM_FOR_PANES { 0 } else { spare.max(room / 2) };
        let below = self.below(style, others, now);
        let mut lines = self.agents(style, room - below.len(), now);
        lines.resize(room - below.len(), String::new());
        lines.extend(below);
        lines
    }

    fn below(&self, style: Style, room: usize, now: Timestamp) -> Vec<String> {
        if room == 0 {
            return self.reconcile.as_ref().map_or_else(Vec::new, |reconcile| {
                reconcile.lines(style, now).into_iter().take(4).collect()
            });
        }
        let drift = self.drift(style, room / 2, now);
        let left = room - drift.len();
        let rest = match &self.reconcile {
            Some(reconcile) => reconcile.lines(style, now),
            None => self.events(style, left.saturating_sub(1), now),
        };
        drift.into_iter().chain(rest.into_iter().take(left)).collect()
    }

    fn agents(&mut self, style: Style, room: usize, now: Timestamp) -> Vec<String> {
        if self.order.is_empty() {
            return vec![match (self.agents.is_empty(), &self.connection) {
                (true, Connection::Connecting) => String::new(),
                (true, _) => "no agent is known yet: `fluke join-line` prints how one joins".into(),
                (false, _) => format!("no agent is like `{}`; Esc shows all again", self.filter),
            }];
        }
        let rows = room.saturating_sub(1).max(1);
        self.page = rows;
        let at = self.position().unwrap_or(0);
        // The chosen one in the middle, but no empty rows at either end.
        let first = at.saturating_sub(rows / 2).min(self.order.len().saturating_sub(rows));
        let widest = self.order.iter().map(|name| name.as_str().width()).max().unwrap_or(0);
        let mut table = Table::new(&[
            Column::new(""),
            Column::name("AGENT", 0, 16).wide(widest),
            Column::new("STATUS").wide(8),
            Column::new("TASKS").wide(5),
            Column::cut("DRIFTED", 3, 7),
            Column::cut("FAILED", 3, 6),
            Column::cut("LABELS", 4, 12),
            Column::cut("SEEN", 2, 8).wide(8),
        ]);
        for name in self.order.iter().skip(first).take(rows) {
            if let Some(agent) = self.agents.get(name) {
                let mark = if self.chosen.as_ref() == Some(name) { "›" } else { "" };
                let [name, status, tasks, _, drifted, failed, _, _, labels, seen] =
                    fleet::agent_row(agent, now);
                table.row([mark.into(), name, status, tasks, drifted, failed, labels, seen]);
            }
        }
        let mut lines: Vec<String> = table.render(style, 0).lines().map(String::from).collect();
        if let Some(line) = lines.get_mut(at - first + 1).filter(|_| style.colours) {
            *line = highlighted(line, style);
        }
        lines
    }

    /// What is drifted, with the reason; a line for those that have no room.
    fn drift(&self, style: Style, room: usize, now: Timestamp) -> Vec<String> {
        let filter = super::Filter::parse(&self.filter);
        let shown = |agent| self.agents.get(agent).is_none_or(|agent| filter.lets_through(agent));
        let drift: Vec<_> = self.drift.iter().filter(|entry| shown(&entry.agent)).collect();
        if drift.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![title(&format!("drift, {}", count(drift.len(), "step")), style)];
        let room = room.saturating_sub(1);
        let rows = if drift.len() > room { room.saturating_sub(1) } else { room };
        let mut table = Table::untitled(&[
            Column::name("", 0, 12),
            Column::name("", 0, 16),
            Column::cut("", 4, 19),
            Column::cut("", 3, 8),
            Column::cut("", 2, 12),
        ]);
        for entry in drift.iter().take(rows) {
            table.row([
                entry.agent.as_str().into(),
                match entry.owner() {
                    Some(owner) => format!("{owner}/{}", entry.step).into(),
                    None => entry.step.to_string().into(),
                },
                Cell::painted(entry.status.as_str(), entry.status.into()),
                entry.since.map_or("-".into(), |since| ago(since, now)).into(),
                sanitise::first_line(entry.reason.as_deref().unwrap_or("-")).into(),
            ]);
        }
        lines.extend(table.render(style, 2).lines().map(String::from));
        if drift.len() > rows {
            let more = format!("  … {} more", drift.len() - rows);
            lines.push(Paint::Dim.on(&more, style.colours));
        }
        lines
    }

    fn events(&self, style: Style, room: usize, now: Timestamp) -> Vec<String> {
        let mut lines = vec![title("events", style)];
        let mut table = Table::untitled(&[
            Column::new("").wide(8),
            Column::new(""),
            Column::name("", 1, 12),
            Column::name("", 2, 12),
            Column::cut("", 3, 7),
            Column::cut("", 5, 4),
            Column::cut("", 4, 12),
        ]);
        for event in self.events.iter().take(room) {
            table.row([
                Cell::painted(ago(event.time, now), Paint::Dim),
                event.kind.as_str().into(),
                event.agent.as_ref().map_or("-", |agent| agent.as_str()).into(),
                fleet::place(event).unwrap_or_else(|| "-".into()).into(),
                event
                    .outcome
                    .map_or("-".into(), |outcome| Cell::painted(outcome.as_str(), outcome.into())),
                event.duration_ms.map_or("-".into(), took).into(),
                sanitise::first_line(event.output.as_deref().unwrap_or_default()).into(),
            ]);
        }
        if !table.is_empty() {
            lines.extend(table.render(style, 2).lines().map(String::from));
        }
        lines
    }

    fn detail(&mut self, style: Style, room: usize, now: Timestamp) -> Vec<String> {
        self.page = room.saturating_sub(1).max(1);
        let Mode::Detail { name, detail, scroll } = &mut self.mode else { return Vec::new() };
        let Some(detail) = detail else { return vec![format!("{name} …")] };
        let text = view::agent::describe(detail, style, now);
        let folded = text.lines().flat_map(|line| fit::fold(line, style.size().width));
        let mut lines: Vec<String> = folded.collect();
        if let Some(reconcile) = self.reconcile.as_ref().filter(|asked| asked.name == *name) {
            lines.splice(0..0, reconcile.lines(style, now).into_iter().chain([String::new()]));
        }
        *scroll = (*scroll).min(lines.len().saturating_sub(room));
        lines.split_off(*scroll)
    }
}

impl Reconcile {
    fn lines(&self, style: Style, now: Timestamp) -> Vec<String> {
        let told = match &self.progress {
            None => "asked".to_string(),
            Some(progress) if progress.done => view::reconcile::outcome(progress, &[], style),
            Some(progress) => view::reconcile::progress(progress, style, now),
        };
        let heading = title(&format!("reconcile of {}", self.name), style);
        std::iter::once(heading).chain(told.lines().map(|line| format!("  {line}"))).collect()
    }
}

fn help(style: Style) -> Vec<String> {
    let mut table = Table::untitled(&[Column::new(""), Column::below("", 0, 40)]);
    for (key, does) in KEYS {
        table.row([Cell::painted(key, Paint::Bold), does.into()]);
    }
    let lines = table.render(style, 2);
    std::iter::once(title("keys", style)).chain(lines.lines().map(String::from)).collect()
}

fn title(text: &str, style: Style) -> String {
    Paint::Bold.on(&text.to_uppercase(), style.colours)
}

fn joined(parts: &[String]) -> String {
    let parts: Vec<&str> =
        parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

/// `right` at the right end of `left`'s line, if there is room for it.
fn beside(left: &str, right: &str, style: Style) -> String {
    let used = fit::shown_width(left) + fit::shown_width(right);
    match style.size().width.checked_sub(used) {
        Some(gap @ 2..) => format!("{left}{}{right}", " ".repeat(gap)),
        _ => left.to_string(),
    }
}

/// The whole row, in reverse.
fn highlighted(line: &str, style: Style) -> String {
    let text = fit::plain(line);
    let gap = style.size().width.saturating_sub(text.width());
    format!("\u{1b}[7m{text}{}\u{1b}[0m", " ".repeat(gap))
}
