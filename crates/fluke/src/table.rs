//! Tables without borders, which fit the terminal or, in a pipe, keep everything.

use unicode_width::UnicodeWidthStr;

use crate::colour::Paint;
use crate::fit::{cut, cut_middle, wrap};
use crate::screen::Style;

#[cfg(test)]
mod tests;

/// Between two columns.
const GAP: usize = 2;
/// How many lines a field takes at most that is told below its row.
const LINES_BELOW: usize = 3;

/// Rows under headings.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    titled: bool,
}

/// One column: what it is called, and how it fares when there is not enough room.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    title: &'static str,
    rank: u8,
    least: usize,
    widest: usize,
    without_room: WithoutRoom,
}

/// What becomes of a column for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WithoutRoom {
    /// Its end is cut; then it is left out.
    Cut,
    /// Its middle is cut; then it is left out.
    CutMiddle,
    /// It is told below its row.
    Below,
}

impl Column {
    /// A column that is never cut before others.
    pub const fn new(title: &'static str) -> Self {
        Self { title, rank: 0, least: usize::MAX, widest: 0, without_room: WithoutRoom::Cut }
    }

    /// A column that may be cut down to `least`; a higher rank goes first.
    pub const fn cut(title: &'static str, rank: u8, least: usize) -> Self {
        Self { rank, least, ..Self::new(title) }
    }

    /// Names, which may be cut in the middle down to `least`; a higher rank goes first.
    pub const fn name(title: &'static str, rank: u8, least: usize) -> Self {
        Self { without_room: WithoutRoom::CutMiddle, ..Self::cut(title, rank, least) }
    }

    /// What is too important to be left out: without room for `least`, it is told below its row.
    pub const fn below(title: &'static str, rank: u8, least: usize) -> Self {
        Self { without_room: WithoutRoom::Below, ..Self::cut(title, rank, least) }
    }

    /// Has room for `widest`, even if no row that is shown needs it.
    pub const fn wide(self, widest: usize) -> Self {
        Self { widest, ..self }
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

/// How wide a column is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Wide(usize),
    Below,
    LeftOut,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), titled: true }
    }

    /// Without headings.
    pub fn untitled(columns: &[Column]) -> Self {
        Self { titled: false, ..Self::new(columns) }
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
        let room = style.width.map(|width| width.saturating_sub(indent));
        let places = self.fit(room);
        let mut text = String::new();
        let mut push = |line: &str| {
            text.push_str(&" ".repeat(indent));
            text.push_str(line);
            text.push('\n');
        };
        if self.titled {
            let title = |column: &Column| Cell::painted(column.title, Paint::Bold);
            let titles: Vec<Cell> = self.columns.iter().map(title).collect();
            push(&self.line(&titles, &places, style.colours));
        }
        for row in &self.rows {
            push(&self.line(row, &places, style.colours));
            for line in below(row, &places, room.unwrap_or(usize::MAX), style.colours) {
                push(&line);
            }
        }
        text
    }

    fn fit(&self, room: Option<usize>) -> Vec<Place> {
        let natural = self.natural_widths();
        let room = room.unwrap_or(usize::MAX);
        let least = |at: usize| {
            let column = self.columns[at];
            natural[at].min(column.least.max(column.title.width()))
        };
        let mut expendable: Vec<usize> = (1..self.columns.len()).collect();
        expendable.sort_by_key(|&at| std::cmp::Reverse((self.columns[at].rank, at)));

        let mut places: Vec<Place> = (0..natural.len()).map(|at| Place::Wide(least(at))).collect();
        for &at in &expendable {
            if total(&places) > room {
                places[at] = match self.columns[at].without_room {
                    WithoutRoom::Below => Place::Below,
                    WithoutRoom::Cut | WithoutRoom::CutMiddle => Place::LeftOut,
                };
            }
        }
        // Telling one below may have made room for another that was left out before it.
        for &at in expendable.iter().rev().filter(|at| natural[**at] > 0) {
            if places[at] == Place::LeftOut {
                places[at] = Place::Wide(least(at));
                if total(&places) > room {
                    places[at] = Place::LeftOut;
                }
            }
        }
        // What is left over goes to the most important first.
        for at in std::iter::once(0).chain(expendable.into_iter().rev()) {
            let spare = room.saturating_sub(total(&places));
            if let Some(Place::Wide(width)) = places.get_mut(at) {
                *width = natural[at].min(width.saturating_add(spare)).min(room);
            }
        }
        places
    }

    fn natural_widths(&self) -> Vec<usize> {
        let of_column = |at: usize| {
            let column = self.columns[at];
            let cells = self.rows.iter().map(|row| row[at].text.width());
            let title = if self.titled { column.title.width() } else { 0 };
            cells.max().unwrap_or(0).max(title).max(column.widest)
        };
        (0..self.columns.len()).map(of_column).collect()
    }

    /// One row, without blanks at its end.
    fn line(&self, row: &[Cell], places: &[Place], colours: bool) -> String {
        let mut line = String::new();
        let mut pending = 0;
        for ((cell, place), column) in row.iter().zip(places).zip(&self.columns) {
            let Place::Wide(width) = *place else { continue };
            let text = match column.without_room {
                WithoutRoom::CutMiddle => cut_middle(&cell.text, width),
                WithoutRoom::Cut | WithoutRoom::Below => cut(&cell.text, width),
            };
            if !text.is_empty() {
                line.push_str(&" ".repeat(pending));
                line.push_str(&cell.paint.on(&text, colours));
                pending = 0;
            }
            pending += width - text.width() + GAP;
        }
        line
    }
}

fn total(places: &[Place]) -> usize {
    let wide = |place: &Place| match place {
        Place::Wide(width) => Some(*width),
        Place::Below | Place::LeftOut => None,
    };
    let shown = places.iter().filter_map(wide).count();
    places.iter().filter_map(wide).sum::<usize>() + GAP * shown.saturating_sub(1)
}

/// What had no room in its row.
fn below(row: &[Cell], places: &[Place], room: usize, colours: bool) -> Vec<String> {
    let fields = row.iter().zip(places).filter(|(_, place)| **place == Place::Below);
    let lines = fields.flat_map(|(cell, _)| {
        let lines = wrap(&cell.text, room.saturating_sub(GAP), LINES_BELOW);
        lines.into_iter().map(|line| cell.paint.on(&line, colours))
    });
    lines.map(|line| format!("{}{line}", " ".repeat(GAP))).collect()
}
