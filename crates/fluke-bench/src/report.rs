//! The page of the book that says what was measured: made of a record and of prose that somebody
//! wrote. Pure.

use std::fmt::Write as _;

use crate::figure::Figure;
use crate::peers::{PeerFigure, grid};
use crate::profile::Profile;
use crate::record::{Outcome, Record, RowRecord};

/// The page. `prose` goes in as it is: what is missed and why, what the next limit is.
pub fn render(record: &Record, prose: &str, profiles: &[Profile]) -> String {
    let mut page = format!(
        "# Benchmarks\n\n\
         <!-- Made by `cargo xtask bench --report`. To change prose, edit \
         crates/fluke-bench/report/notes.md. -->\n\n\
         Medians, and in parentheses what eight of ten rounds lie between. Where there is a floor or \
         a peer to stand beside a figure it was measured in turn with it, in the same run of its \
         row; what has none is a count, or time and memory that only mean something by themselves. \
         Run them yourself with `cargo xtask bench`; `CONTRIBUTING.md` says how.\n\n\
         {}The last section says of each row when it was taken, of which commit, and how busy the \
         machine was.\n\n",
        machines(record)
    );
    page += "## Promised and measured\n\n";
    page += "| | what | ours | beside it | ratio | to reach | |\n|---|---|---|---|---|---|---|\n";
    record.rows.iter().for_each(|row| page += &lines(row));
    page += &format!("\n{}\n", prose.trim());
    if !record.peers.is_empty() {
        page += &peers(&record.peers);
    }
    profiles.iter().for_each(|profile| page += &section(profile));
    page += "\n## How each is measured\n\n";
    for row in &record.rows {
        let _ = writeln!(page, "- **{}**: {} Taken of {}.", row.id, row.how, row.taken);
    }
    page
}

/// Where the figures come from.
fn machines(record: &Record) -> String {
    match record.machines().as_slice() {
        [(machine, _)] => format!("**Machine:** {machine}. "),
        several => several
            .iter()
            .map(|(machine, rows)| format!("**Machine** of {}: {machine}.\n\n", rows.join(", ")))
            .collect(),
    }
}

fn lines(row: &RowRecord) -> String {
    let bare = |words: &str| {
        let reach = row.reach.replace('|', "\\|");
        format!("| `{}` | {} | | | | {reach} | {words} |\n", row.id, row.what)
    };
    match &row.outcome {
        Outcome::NotRun(why) => bare(why),
        Outcome::Failed(why) => bare(&format!("**failed:** {why}")),
        Outcome::Figures(figures) => {
            figures.iter().map(|figure| line(row, figure) + "\n").collect()
        }
    }
}

fn line(row: &RowRecord, figure: &Figure) -> String {
    let shown = |it: &crate::statistics::Summary| {
        let show = |value| figure.unit.show(value);
        match it.low == it.high {
            true => show(it.median),
            false => format!("{} ({} – {})", show(it.median), show(it.low), show(it.high)),
        }
    };
    let beside = figure.beside.as_ref();
    let beside = beside.map(|beside| format!("{}: {}", beside.what, shown(&beside.measured)));
    let ratio = figure.ratio().map(|ratio| format!("{ratio:.2} ×"));
    format!(
        "| `{}.{}` | {} | {} | {} | {} | {} | {} |",
        row.id,
        figure.id,
        row.what,
        shown(&figure.ours),
        beside.unwrap_or_default(),
        ratio.unwrap_or_default(),
        figure.reach(),
        figure.verdict()
    )
}

/// Everybody beside everybody: a line for each peer, a column for each work.
fn peers(figures: &[PeerFigure]) -> String {
    let mut text = format!(
        "\n## Others, at the same work\n\nSeconds, on hosts with systemd of one machine; warm, with \
         definitions as their manuals have them. fluke's are from the server's order to the \
         server's knowing, over TLS; the others work without a server. In parentheses: how many \
         times fluke's. A killed service is timed from the kill until it runs again. Nobody asks \
         fluke: systemd tells it. The others only look when they run, and here each is run at the \
         moment of the kill; by themselves Puppet looks every 30 minutes, CFEngine every five, \
         Ansible and Salt when they are asked to.{}\n\n",
        figures.first().map(|it| format!(" Taken of {}.", it.taken)).unwrap_or_default()
    );
    for (at, line) in grid(figures).iter().enumerate() {
        let _ = writeln!(text, "| {} |", line.join(" | "));
        if at == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(line.len()));
        }
    }
    text
}

fn section(profile: &Profile) -> String {
    let mut text = format!(
        "\n## {}: {}\n\n{}. Taken of {}, on {}.\n\n```text\n",
        profile.unit.question(),
        profile.what,
        profile.unit.sum(profile.total),
        profile.taken,
        profile.taken.machine,
    );
    for line in &profile.top {
        let _ = writeln!(text, "{:>5.1} %  {}", line.percent, line.function);
    }
    text + "```\n"
}

#[cfg(test)]
mod tests;
