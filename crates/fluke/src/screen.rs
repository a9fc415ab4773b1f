//! What the output goes to: a terminal of some size, or a pipe.

use std::io::{self, IsTerminal, Write};

use terminal_size::terminal_size_of;

use crate::cli::Colour;
use crate::failure::{Failure, writing};
use crate::terminal::Size;

/// How text is laid out and coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Whether there are colours.
    pub colours: bool,
    /// What has to fit in a line; none in a pipe.
    pub width: Option<usize>,
    /// How many lines are seen at once; none in a pipe.
    pub height: Option<usize>,
}

impl Style {
    /// What suits stdout.
    pub fn of_stdout(colour: Colour) -> Self {
        Self::of(&io::stdout(), colour)
    }

    /// What suits stderr.
    pub fn of_stderr(colour: Colour) -> Self {
        Self::of(&io::stderr(), colour)
    }

    /// Whether this is a terminal, where everything has to fit.
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// Whether things may move on it.
    pub fn can_move(&self) -> bool {
        self.is_terminal() && !is_dumb()
    }

    /// How much room there is; in a pipe as much as on an old terminal.
    pub fn size(&self) -> Size {
        Size { width: self.width.unwrap_or(80), height: self.height.unwrap_or(24) }
    }

    fn of(stream: &(impl IsTerminal + std::os::fd::AsFd), colour: Colour) -> Self {
        let terminal = stream.is_terminal();
        let colours = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => terminal && colours_are_welcome(),
        };
        let size = terminal_size_of(stream).filter(|_| terminal);
        Self {
            colours,
            width: terminal.then(|| size.map_or(80, |(width, _)| usize::from(width.0).max(20))),
            height: terminal.then(|| size.map_or(24, |(_, height)| usize::from(height.0).max(5))),
        }
    }
}

/// See no-color.org; and a dumb terminal shows escapes as they are.
fn colours_are_welcome() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && !is_dumb()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Prints `text` to stdout, as it is.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(writing)
}

/// Prints `text` to stderr; where that fails there is nobody to tell.
pub fn note(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
