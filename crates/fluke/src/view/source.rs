//! The repository: what is in force, and what is wrong with what is not.

use fluke_model::api::Source;
use fluke_model::diagnostic::Severity;
use fluke_model::id::CommitId;
use fluke_model::time::Timestamp;

use crate::colour::Paint;
use crate::diagnostics;
use crate::report::{Report, count};
use crate::sanitise;
use crate::screen::Style;
use crate::when::{ago, exactly};

/// `fluke get source`
pub fn describe(source: &Source, style: Style, now: Timestamp) -> String {
    let mut report = Report::new(style);
    let commit =
        |commit: &Option<CommitId>| commit.as_ref().map_or("none".into(), ToString::to_string);
    let time = |time: Option<Timestamp>| time.map_or("never".into(), |time| exactly(time, now));
    tell_standing(&mut report, source, now);
    report.heading("Source");
    report.fields(
        2,
        &[
            ("url", source.url.clone()),
            ("branch", source.branch.clone().unwrap_or_else(|| "none".into())),
            ("in force", commit(&source.commit)),
            ("since", time(source.commit_since)),
            ("newest seen", commit(&source.last_seen)),
            ("last poll", time(source.last_poll)),
            (
                "next poll",
                source.next_poll.map_or("none planned".into(), |next| exactly(next, now)),
            ),
        ],
    );
    if !source.diagnostics.is_empty() {
        report.heading("Diagnostics");
        report.ready_made(&diagnostics::text(&source.diagnostics, style));
    }
    report.finish()
}

/// In words: what is in force, why not what should be, what happens next, and what to do.
fn tell_standing(report: &mut Report, source: &Source, now: Timestamp) {
    let next = source
        .next_poll
        .map_or("no poll is planned".into(), |next| format!("the next poll is {}", ago(next, now)));
    match state(source) {
        State::Good => {
            let since = source.commit_since.map(|since| format!(", since {}", ago(since, now)));
            let told = format!("the newest commit{}", since.unwrap_or_default());
            report.line(0, &[("in force:", Paint::Green), (&told, Paint::Plain)]);
        }
        State::Empty => {
            let told = "no commit is in force yet";
            report.line(0, &[("waiting:", Paint::Yellow), (told, Paint::Plain)]);
            report.beside("next", &next, Paint::Plain);
        }
        State::Rejected => {
            report.line(0, &[("rejected:", Paint::Red), (&rejection(source), Paint::Plain)]);
            report.beside("next", &next, Paint::Plain);
            report.beside(
                "do",
                "mend what is named below, and push; `fluke validate` says the same before you do",
                Paint::Plain,
            );
        }
        State::Unreachable => {
            let meanwhile = match source.commit {
                Some(_) => "what is in force stays in force",
                None => "nothing is in force yet",
            };
            report.line(0, &[("unreachable:", Paint::Red), (meanwhile, Paint::Plain)]);
            report.beside("why", source.error.as_deref().unwrap_or_default(), Paint::Plain);
            report.beside("next", &next, Paint::Plain);
        }
    }
}

/// One line for those who ask about something else while the source needs a look.
pub fn warning(source: &Source) -> Option<String> {
    let what = match state(source) {
        State::Good | State::Empty => return None,
        State::Rejected => rejection(source),
        State::Unreachable => format!(
            "the repository cannot be read: {}",
            sanitise::first_line(source.error.as_deref().unwrap_or_default())
        ),
    };
    Some(format!("{what}; see `fluke get source`"))
}

enum State {
    Good,
    Empty,
    Rejected,
    Unreachable,
}

fn state(source: &Source) -> State {
    match source {
        Source { error: Some(_), .. } => State::Unreachable,
        Source { rejected: true, .. } => State::Rejected,
        Source { commit: None, .. } => State::Empty,
        _ => State::Good,
    }
}

fn rejection(source: &Source) -> String {
    let short =
        |commit: &Option<CommitId>| commit.as_ref().map(|commit| sanitise::line(commit.short()));
    let errors = source.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    let newest =
        short(&source.last_seen).map_or("the newest commit".into(), |id| format!("commit {id}"));
    let kept = short(&source.commit)
        .map_or("nothing is in force".into(), |id| format!("{id} stays in force"));
    format!("{newest} was rejected ({}), {kept}", count(errors, "error"))
}
