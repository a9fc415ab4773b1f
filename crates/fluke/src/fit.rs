//! Text made to fit: cut with a mark that is seen, or wrapped; with its colours where it has some.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

#[cfg(test)]
mod tests;

/// Stands for what was left out.
const MARK: char = '…';
/// Ends every colour.
const RESET: &str = "\u{1b}[0m";

/// The part of `text` that fits, with `…` in place of its end.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    match width {
        0 => String::new(),
        _ => format!("{}{MARK}", head(text, width - 1)),
    }
}

/// The same with `…` in the middle: names that belong together often differ at their ends.
pub fn cut_middle(text: &str, width: usize) -> String {
    if text.width() <= width || width < 8 {
        return cut(text, width);
    }
    let behind = (width - 1) / 2;
    format!("{}{MARK}{}", head(text, width - 1 - behind), tail(text, behind))
}

fn head(text: &str, width: usize) -> &str {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let fits = ends.take_while(|end| text[..*end].width() <= width).last();
    &text[..fits.unwrap_or(0)]
}

fn tail(text: &str, width: usize) -> &str {
    let starts = text.char_indices().rev().map(|(at, _)| at);
    let fits = starts.take_while(|start| text[*start..].width() <= width).last();
    &text[fits.unwrap_or(text.len())..]
}

/// `text` in lines of at most `width`, broken between words; the last of `most` is cut if need be.
pub fn wrap(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && lines.len() < most {
        let is_last = lines.len() + 1 == most;
        let (line, behind) = if is_last { (rest, "") } else { split_line(rest, width) };
        lines.push(cut(line.trim_end(), width));
        rest = behind.trim_start();
    }
    lines
}

/// The words that fit, and the rest; a word that does not fit alone is broken.
fn split_line(text: &str, width: usize) -> (&str, &str) {
    let fits = head(text, width);
    let (at, whole) = (fits.len(), fits.len() == text.len() || text[fits.len()..].starts_with(' '));
    match fits.rfind(' ').filter(|_| !whole) {
        Some(space) if space > 0 => text.split_at(space),
        // Something has to be taken, or there would be no end.
        _ => text.split_at(at.max(text.chars().next().map_or(0, char::len_utf8))),
    }
}

/// One piece of a line that has colours.
#[derive(Clone, Copy)]
enum Piece<'a> {
    /// An escape sequence of our own: takes no room.
    Colour(&'a str),
    /// A character, and the room it takes.
    Shown(char, usize),
}

fn pieces(line: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let colour = (first == '\u{1b}').then(|| rest.find('m')).flatten();
        let (taken, behind) = rest.split_at(colour.map_or(first.len_utf8(), |end| end + 1));
        rest = behind;
        Some(match colour {
            Some(_) => Piece::Colour(taken),
            None => Piece::Shown(first, first.width().unwrap_or(0)),
        })
    })
}

/// How much room a line takes, whatever its colours.
pub fn shown_width(line: &str) -> usize {
    let room = |piece| match piece {
        Piece::Colour(_) => 0,
        Piece::Shown(_, width) => width,
    };
    pieces(line).map(room).sum()
}

/// A line without its colours.
pub fn plain(line: &str) -> String {
    let shown = |piece| match piece {
        Piece::Colour(_) => None,
        Piece::Shown(c, _) => Some(c),
    };
    pieces(line).filter_map(shown).collect()
}

/// The part of a coloured line that fits, with `…` in place of its end.
pub fn clip(line: &str, width: usize) -> String {
    if shown_width(line) <= width {
        return line.to_string();
    }
    let (mut kept, mut used, mut coloured) = (String::new(), 0, false);
    for piece in pieces(line) {
        match piece {
            Piece::Colour(code) => {
                coloured = code != RESET;
                kept.push_str(code);
            }
            Piece::Shown(_, room) if used + room + 1 > width => break,
            Piece::Shown(c, room) => {
                kept.push(c);
                used += room;
            }
        }
    }
    if width > 0 {
        kept.push(MARK);
    }
    if coloured { kept + RESET } else { kept }
}

/// A coloured line as several that fit, broken between words, each indented like the first.
pub fn fold(line: &str, width: usize) -> Vec<String> {
    let mut folding = Folding::new(line, width.max(1));
    for piece in pieces(line) {
        folding.take(piece);
    }
    folding.finish()
}

/// A line that is being folded.
struct Folding<'a> {
    width: usize,
    indent: usize,
    lines: Vec<String>,
    line: String,
    used: usize,
    colour: Option<&'a str>,
    /// Where the line may be broken: how long it was there, and in which colour.
    space: Option<(usize, Option<&'a str>)>,
}

impl<'a> Folding<'a> {
    fn new(line: &str, width: usize) -> Self {
        let indent = line.chars().take_while(|c| *c == ' ').count();
        let indent = if indent * 2 < width { indent } else { 0 };
        let (lines, line) = (Vec::new(), String::new());
        Self { width, indent, lines, line, used: 0, colour: None, space: None }
    }

    fn take(&mut self, piece: Piece<'a>) {
        match piece {
            Piece::Colour(code) => {
                self.colour = Some(code).filter(|code| *code != RESET);
                self.line.push_str(code);
            }
            Piece::Shown(c, room) => {
                if self.used + room > self.width {
                    self.break_line();
                }
                if c == ' ' && self.used > self.indent {
                    self.space = Some((self.line.len(), self.colour));
                }
                self.line.push(c);
                self.used += room;
            }
        }
    }

    fn break_line(&mut self) {
        let (at, colour) = self.space.take().unwrap_or((self.line.len(), self.colour));
        let carried = self.line.split_off(at).trim_start_matches(' ').to_string();
        let reset = if colour.is_some() { RESET } else { "" };
        self.lines.push(format!("{}{reset}", self.line.trim_end()));
        self.line = format!("{}{}{carried}", " ".repeat(self.indent), colour.unwrap_or_default());
        self.used = shown_width(&self.line);
    }

    fn finish(mut self) -> Vec<String> {
        self.lines.push(self.line);
        self.lines
    }
}
