//! Text that is drawn over itself: progress, and what is being watched.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::screen::Style;

/// A part of the terminal, below what was printed before.
pub struct Live<W> {
    out: W,
    rows: usize,
}

impl<W: Write> Live<W> {
    /// Draws nothing yet.
    pub fn new(out: W) -> Self {
        Self { out, rows: 0 }
    }

    /// Replaces what was drawn; what does not fit the screen is left out, and said.
    pub fn draw(&mut self, text: &str, style: Style) -> io::Result<()> {
        let (text, rows) = fit(text, style);
        self.erase()?;
        self.out.write_all(text.as_bytes())?;
        self.rows = rows;
        self.out.flush()
    }

    /// Takes away what was drawn.
    pub fn erase(&mut self) -> io::Result<()> {
        if self.rows > 0 {
            write!(self.out, "\u{1b}[{}A\r\u{1b}[J", std::mem::take(&mut self.rows))?;
        }
        self.out.flush()
    }
}

/// As many lines as the screen shows at once, and how many rows they take.
fn fit(text: &str, style: Style) -> (String, usize) {
    let width = style.width.unwrap_or(80);
    let room = style.height.unwrap_or(24).saturating_sub(2);
    let mut shown = String::new();
    let mut rows = 0;
    for (at, line) in text.lines().enumerate() {
        let needed = rows_of(line, width);
        if rows + needed > room {
            let left = text.lines().count() - at;
            shown.push_str(&format!("… {left} more lines\n"));
            return (shown, rows + 1);
        }
        shown.push_str(line);
        shown.push('\n');
        rows += needed;
    }
    (shown, rows)
}

fn rows_of(line: &str, width: usize) -> usize {
    visible_width(line).div_ceil(width.max(1)).max(1)
}

/// Without the colours that we put in ourselves.
fn visible_width(line: &str) -> usize {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().map_or(0, |part| part.width());
    let behind_colour = |part: &str| part.split_once('m').map_or(0, |(_, text)| text.width());
    first + parts.map(behind_colour).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::Paint;

    const STYLE: Style = Style { colours: true, width: Some(10), height: Some(6) };

    #[test]
    fn a_drawing_covers_exactly_what_was_drawn_before() {
        let mut screen = Vec::new();
        let mut live = Live::new(&mut screen);
        live.draw("one\ntwo is longer than ten\n", STYLE).expect("drawn");
        live.draw(&format!("{}\n", Paint::Red.on("exactly 10", true)), STYLE).expect("drawn");
        live.erase().expect("erased");
        live.erase().expect("nothing left to erase");
        assert_eq!(
            String::from_utf8(screen).expect("text"),
            "one\ntwo is longer than ten\n\u{1b}[4A\r\u{1b}[J\u{1b}[31mexactly 10\u{1b}[0m\n\u{1b}[1A\r\u{1b}[J"
        );
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let (text, rows) = fit("1\n2\n3\n4\n5\n6\n", STYLE);
        assert_eq!((text.as_str(), rows), ("1\n2\n3\n4\n… 2 more lines\n", 5));
    }
}
