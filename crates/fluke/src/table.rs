//! Tables without borders, which fit the terminal or, in a pipe, keep everything.

use unicode_width::UnicodeWidthStr;

use crate::colour::Paint;
use crate::screen::Style;

#[cfg(test)]
mod tests;

/// Between two columns.
const GAP: usize = 2;

/// Rows under headings.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// One column: what it is called, and how it fares when there is not enough room.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    title: &'static str,
    rank: u8,
    least: usize,
}

impl Column {
    /// A column that is never cut before others.
    pub const fn new(title: &'static str) -> Self {
        Self { title, rank: 0, least: usize::MAX }
    }

    /// A column that may be cut down to `least`; a higher rank goes first.
    pub const fn cut(title: &'static str, rank: u8, least: usize) -> Self {
        Self { title, rank, least }
    }
}

/// One field of a row.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// Text in a colour.
    pub fn painted(text: impl Into<String>, paint: Paint) -> Self {
        Self { text: text.into(), paint }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), paint: Paint::Plain }
    }
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row: one cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }

    /// Whether there is nothing under the headings.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, every line indented and ended.
    pub fn render(&self, style: Style, indent: usize) -> String {
        let widths = self.fit(style.width.map(|width| width.saturating_sub(indent)));
        let titles: Vec<Cell> =
            self.columns.iter().map(|column| Cell::painted(column.title, Paint::Bold)).collect();
        let mut text = String::new();
        for row in std::iter::once(&titles).chain(&self.rows) {
            text.push_str(&" ".repeat(indent));
            text.push_str(&line(row, &widths, style.colours));
            text.push('\n');
        }
        text
    }

    /// How wide each column is; none where there is no room for it at all.
    fn fit(&self, room: Option<usize>) -> Vec<Option<usize>> {
        let natural = self.natural_widths();
        let room = room.unwrap_or(usize::MAX);
        let least = |at: usize| {
            let column = self.columns[at];
            natural[at].min(column.least.max(column.title.width()))
        };
        let mut expendable: Vec<usize> = (1..self.columns.len()).collect();
        expendable.sort_by_key(|&at| std::cmp::Reverse((self.columns[at].rank, at)));

        let mut widths: Vec<Option<usize>> = (0..natural.len()).map(|at| Some(least(at))).collect();
        for &at in &expendable {
            if total(&widths) > room {
                widths[at] = None;
            }
        }
        // What is left over goes to the most important first.
        for at in std::iter::once(0).chain(expendable.into_iter().rev()) {
            let spare = room.saturating_sub(total(&widths));
            if let Some(width) = widths.get_mut(at).and_then(Option::as_mut) {
                *width = natural[at].min(width.saturating_add(spare)).min(room);
            }
        }
        widths
    }

    fn natural_widths(&self) -> Vec<usize> {
        let of_column = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].text.width());
            cells.max().unwrap_or(0).max(self.columns[at].title.width())
        };
        (0..self.columns.len()).map(of_column).collect()
    }
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten().count();
    widths.iter().flatten().sum::<usize>() + GAP * shown.saturating_sub(1)
}

/// One row, without blanks at its end.
fn line(row: &[Cell], widths: &[Option<usize>], colours: bool) -> String {
    let mut line = String::new();
    let mut pending = 0;
    for (cell, width) in row.iter().zip(widths).filter_map(|(cell, width)| Some((cell, (*width)?)))
    {
        let text = cut(&cell.text, width);
        if !text.is_empty() {
            line.push_str(&" ".repeat(pending));
            line.push_str(&cell.paint.on(&text, colours));
            pending = 0;
        }
        pending += width - text.width() + GAP;
    }
    line
}

/// The part of `text` that fits, with `…` in place of the rest.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if kept.width() + 1 > width {
            kept.pop();
            break;
        }
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}
