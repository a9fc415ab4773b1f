//! Longer answers: headings, fields, quoted output and tables, one below the other.

use unicode_width::UnicodeWidthStr;

use crate::colour::Paint;
use crate::fit;
use crate::sanitise;
use crate::screen::Style;
use crate::table::Table;

/// Where what is told of something begins, and how much room its word has.
const INDENT: usize = 2;
const BESIDE: usize = 6;

/// An answer in the making.
pub struct Report {
    text: String,
    style: Style,
}

impl Report {
    /// An empty one.
    pub fn new(style: Style) -> Self {
        Self { text: String::new(), style }
    }

    /// What has been put together.
    pub fn finish(self) -> String {
        self.text
    }

    /// An empty line, unless there is nothing yet.
    pub fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// Starts a part, with an empty line before it.
    pub fn heading(&mut self, title: &str) {
        self.gap();
        self.line(0, &[(title, Paint::Bold)]);
    }

    /// One line of pieces, with one space between two.
    pub fn line(&mut self, indent: usize, pieces: &[(&str, Paint)]) {
        let pieces: Vec<String> = pieces
            .iter()
            .map(|(text, paint)| paint.on(&sanitise::line(text), self.style.colours))
            .filter(|piece| !piece.is_empty())
            .collect();
        self.push(indent, &pieces.join(" "));
    }

    /// A word at the left, and what it is about beside it, every line of it.
    pub fn beside(&mut self, word: &str, text: &str, paint: Paint) {
        let mut word = format!("{word:<BESIDE$}");
        for line in sanitise::block(text).lines() {
            let line = paint.on(line.trim_end(), self.style.colours);
            let room = self
                .style
                .width
                .map_or(usize::MAX, |width| width.saturating_sub(INDENT + BESIDE).max(BESIDE));
            for part in fit::fold(&line, room) {
                let word = Paint::Dim.on(&std::mem::take(&mut word), self.style.colours);
                let gap = if word.is_empty() { " ".repeat(BESIDE) } else { String::new() };
                let line = format!("{}{word}{gap}{part}", " ".repeat(INDENT));
                self.text.push_str(line.trim_end());
                self.text.push('\n');
            }
        }
    }

    /// One line, or as many as it takes on a terminal.
    fn push(&mut self, indent: usize, line: &str) {
        let line = format!("{}{line}", " ".repeat(indent));
        let room = self.style.width.unwrap_or(usize::MAX);
        for part in fit::fold(&line, room) {
            self.text.push_str(&part);
            self.text.push('\n');
        }
    }

    /// Names and values, in two columns.
    pub fn fields<V: AsRef<str>>(&mut self, indent: usize, fields: &[(&str, V)]) {
        let widest = fields.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        for (name, value) in fields {
            let gap = " ".repeat(widest - name.width() + 2);
            let name = Paint::Dim.on(name, self.style.colours);
            let value = sanitise::line(value.as_ref());
            let room = self
                .style
                .width
                .map_or(usize::MAX, |width| width.saturating_sub(indent + widest + 2).max(widest));
            for (at, part) in fit::fold(&value, room).iter().enumerate() {
                let name = if at == 0 { format!("{name}{gap}") } else { " ".repeat(widest + 2) };
                let line = format!("{}{name}{part}", " ".repeat(indent));
                self.text.push_str(line.trim_end());
                self.text.push('\n');
            }
        }
    }

    /// Text from a host, every line of it, as it came but harmless.
    pub fn quote(&mut self, indent: usize, text: &str, paint: Paint) {
        for line in sanitise::block(text).lines() {
            let shown = paint.on(line.trim_end(), self.style.colours);
            self.push(indent, &shown);
        }
    }

    /// A difference, with what goes in red and what comes in green.
    pub fn difference(&mut self, text: &str) {
        for line in text.lines() {
            let paint = match line.as_bytes().first() {
                Some(b'+') => Paint::Green,
                Some(b'-') => Paint::Red,
                _ => Paint::Dim,
            };
            self.beside("", line, paint);
        }
    }

    /// A table.
    pub fn table(&mut self, indent: usize, table: &Table) {
        self.text.push_str(&table.render(self.style, indent));
    }

    /// Text that is laid out already.
    pub fn ready_made(&mut self, text: &str) {
        self.text.push_str(text);
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// `1 task`, `2 tasks`
pub fn count(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}
