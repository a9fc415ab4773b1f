//! Longer answers: headings, fields, quoted output and tables, one below the other.

use unicode_width::UnicodeWidthStr;

use crate::colour::Paint;
use crate::sanitise;
use crate::screen::Style;
use crate::table::Table;

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

    /// Starts a part, with an empty line before it.
    pub fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.line(0, &[(title, Paint::Bold)]);
    }

    /// One line of pieces, with one space between two.
    pub fn line(&mut self, indent: usize, pieces: &[(&str, Paint)]) {
        let pieces: Vec<String> = pieces
            .iter()
            .map(|(text, paint)| paint.on(&sanitise::line(text), self.style.colours))
            .filter(|piece| !piece.is_empty())
            .collect();
        self.text.push_str(&" ".repeat(indent));
        self.text.push_str(&pieces.join(" "));
        self.text.push('\n');
    }

    /// Names and values, in two columns.
    pub fn fields<V: AsRef<str>>(&mut self, indent: usize, fields: &[(&str, V)]) {
        let widest = fields.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
        for (name, value) in fields {
            let gap = " ".repeat(widest - name.width() + 2);
            let name = Paint::Dim.on(name, self.style.colours);
            let value = sanitise::line(value.as_ref());
            self.text.push_str(&format!("{}{name}{gap}{value}\n", " ".repeat(indent)));
        }
    }

    /// Text from a host, every line of it, as it came but harmless.
    pub fn quote(&mut self, indent: usize, text: &str, paint: Paint) {
        for line in sanitise::block(text).lines() {
            let shown = paint.on(line.trim_end(), self.style.colours);
            self.text.push_str(&format!("{}{shown}\n", " ".repeat(indent)));
        }
    }

    /// A difference, with what goes in red and what comes in green.
    pub fn difference(&mut self, indent: usize, text: &str) {
        for line in text.lines() {
            let paint = match line.as_bytes().first() {
                Some(b'+') => Paint::Green,
                Some(b'-') => Paint::Red,
                _ => Paint::Dim,
            };
            self.quote(indent, line, paint);
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
