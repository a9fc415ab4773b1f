//! Text that is drawn over itself: progress, and what is being watched.

use std::io::{self, Write};

use crate::fit::shown_width;
use crate::screen::Style;

/// What is between these two appears at once.
const TOGETHER: (&str, &str) = ("\u{1b}[?2026h", "\u{1b}[?2026l");

/// A part of the terminal, below what was printed before.
pub struct Live<W> {
    out: W,
    drawn: String,
}

impl<W: Write> Live<W> {
    /// Draws nothing yet.
    pub fn new(out: W) -> Self {
        Self { out, drawn: String::new() }
    }

    /// Replaces what was drawn, at once; what does not fit the screen is left out, and said.
    pub fn draw(&mut self, text: &str, style: Style) -> io::Result<()> {
        let text = fit(text, style);
        if text == self.drawn {
            return Ok(());
        }
        // Each line is written over what was there, so that nothing is blank in between.
        let lines: String = text.lines().map(|line| format!("{line}\u{1b}[K\n")).collect();
        let frame = format!("{}{}{lines}\u{1b}[J{}", TOGETHER.0, self.back(style), TOGETHER.1);
        self.drawn = text;
        self.out.write_all(frame.as_bytes())?;
        self.out.flush()
    }

    /// Takes away what was drawn.
    pub fn erase(&mut self, style: Style) -> io::Result<()> {
        let back = self.back(style);
        if !std::mem::take(&mut self.drawn).is_empty() {
            write!(self.out, "{back}\u{1b}[J")?;
        }
        self.out.flush()
    }

    /// To the first row of what was drawn, which may have been wrapped anew since.
    fn back(&self, style: Style) -> String {
        let width = style.size().width;
        match self.drawn.lines().map(|line| rows_of(line, width)).sum::<usize>() {
            0 => String::new(),
            rows => format!("\u{1b}[{rows}A\r"),
        }
    }
}

/// As many lines as the screen shows at once.
fn fit(text: &str, style: Style) -> String {
    let room = style.size().height.saturating_sub(2);
    let mut shown = String::new();
    let mut rows = 0;
    for (at, line) in text.lines().enumerate() {
        rows += rows_of(line, style.size().width);
        if rows > room {
            let left = text.lines().count() - at;
            shown.push_str(&format!("… {left} more lines\n"));
            return shown;
        }
        shown.push_str(line);
        shown.push('\n');
    }
    shown
}

fn rows_of(line: &str, width: usize) -> usize {
    shown_width(line).div_ceil(width.max(1)).max(1)
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
        let red = format!("{}\n", Paint::Red.on("exactly 10", true));
        live.draw(&red, STYLE).expect("drawn");
        live.draw(&red, STYLE).expect("drawn already");
        live.erase(Style { width: Some(5), ..STYLE }).expect("erased from a narrower screen");
        live.erase(STYLE).expect("nothing left to erase");
        let written = String::from_utf8(screen).expect("text");
        let frames: Vec<&str> = written.split(TOGETHER.0).collect();
        assert_eq!(
            frames,
            [
                "",
                "one\u{1b}[K\ntwo is longer than ten\u{1b}[K\n\u{1b}[J\u{1b}[?2026l",
                "\u{1b}[4A\r\u{1b}[31mexactly 10\u{1b}[0m\u{1b}[K\n\u{1b}[J\u{1b}[?2026l\u{1b}[2A\r\u{1b}[J",
            ]
        );
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        assert_eq!(fit("1\n2\n3\n4\n5\n6\n", STYLE), "1\n2\n3\n4\n… 2 more lines\n");
    }
}
