//! The canonical layout: indentation, spaces and alignment. Only white space between tokens ever
//! changes, so comments, line breaks and the meaning stay as they are.
//!
//! Layout is decided line by line. A line has up to three cells: what leads, what is assigned,
//! and a comment; the cells of neighbouring lines are aligned.

mod spacing;
#[cfg(test)]
mod tests;

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::hcl::lexer::{Kind, Lexer, Token};
use crate::hcl::problem::Problem;

/// The text in canonical layout, or what is wrong with it.
pub fn format(text: &str) -> Result<String, Vec<Problem>> {
    let problems = crate::hcl::parse(text.as_bytes()).problems;
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut layout = Layout::new(text);
    let lines = layout.lines();
    layout.indent(&lines);
    layout.space(&lines);
    layout.align(&lines, |line| &line.assign, |line| line.lead.clone());
    layout.align(&lines, |line| &line.comment, |line| line.lead.start..line.assign.end);
    Ok(layout.text())
}

/// A token and how many spaces go before it.
pub(crate) struct Spaced<'t> {
    pub kind: Kind,
    pub text: &'t str,
    pub spaces: usize,
}

impl Spaced<'_> {
    /// How many brackets it opens; less than none where it closes one.
    pub fn brackets(&self) -> isize {
        match self.kind {
            Kind::OpenBrace | Kind::OpenBracket | Kind::OpenParen => 1,
            Kind::OpenInterpolation | Kind::OpenDirective => 1,
            Kind::CloseBrace | Kind::CloseBracket | Kind::CloseParen | Kind::CloseTemplate => -1,
            _ => 0,
        }
    }

    fn ends_line(&self) -> bool {
        matches!(self.kind, Kind::Newline | Kind::CommentLine)
    }

    fn is_comment(&self) -> bool {
        matches!(self.kind, Kind::CommentLine | Kind::Comment)
    }
}

/// The cells of a line, as ranges of tokens; all but the first may be empty.
struct Line {
    lead: Range<usize>,
    assign: Range<usize>,
    comment: Range<usize>,
}

struct Layout<'t> {
    tokens: Vec<Spaced<'t>>,
}

impl<'t> Layout<'t> {
    fn new(text: &'t str) -> Self {
        let mut lexer = Lexer::code(text);
        let mut tokens = Vec::new();
        loop {
            let Token { kind, span } = lexer.next();
            if kind == Kind::End {
                return Self { tokens };
            }
            tokens.push(Spaced { kind, text: lexer.slice(span), spaces: 0 });
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for token in &self.tokens {
            text.extend(std::iter::repeat_n(' ', token.spaces));
            text.push_str(token.text);
        }
        text
    }

    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut start = 0;
        for (at, token) in self.tokens.iter().enumerate() {
            if token.ends_line() {
                lines.push(self.cells(start..at + 1));
                start = at + 1;
            }
        }
        if start < self.tokens.len() {
            lines.push(self.cells(start..self.tokens.len()));
        }
        lines
    }

    fn cells(&self, all: Range<usize>) -> Line {
        let has_comment = all.len() > 1 && self.tokens[all.end - 1].is_comment();
        let end = if has_comment { all.end - 1 } else { all.end };
        let split = self.assignment(all.start..end).unwrap_or(end);
        Line { lead: all.start..split, assign: split..end, comment: end..all.end }
    }

    /// Where the `=` stands, if what it assigns is complete on the line.
    fn assignment(&self, line: Range<usize>) -> Option<usize> {
        let mut behind_first = line.start + 1..line.end;
        let at = behind_first.find(|at| self.tokens[*at].kind == Kind::Assign)?;
        (self.brackets(at..line.end) == 0).then_some(at)
    }

    fn brackets(&self, range: Range<usize>) -> isize {
        self.tokens[range].iter().map(Spaced::brackets).sum()
    }

    /// Two spaces for every line above that opened brackets which are still open.
    fn indent(&mut self, lines: &[Line]) {
        let mut open: Vec<isize> = Vec::new();
        for line in lines {
            if self.tokens[line.lead.start].kind == Kind::Newline {
                continue;
            }
            let net = self.brackets_before_heredoc(&line.lead) + self.brackets(line.assign.clone());
            let mut closing = -net;
            while let (1.., Some(last)) = (closing, open.last_mut()) {
                let closed = closing.min(*last);
                closing -= closed;
                *last -= closed;
                if *last == 0 {
                    open.pop();
                }
            }
            self.tokens[line.lead.start].spaces = 2 * open.len();
            if net > 0 {
                open.push(net);
            }
        }
    }

    fn brackets_before_heredoc(&self, lead: &Range<usize>) -> isize {
        let heredoc = lead.clone().find(|at| self.tokens[*at].kind == Kind::OpenHeredoc);
        self.brackets(lead.start..heredoc.unwrap_or(lead.end))
    }

    /// One space or none between the tokens of a cell.
    fn space(&mut self, lines: &[Line]) {
        for cell in lines.iter().flat_map(|line| [&line.lead, &line.assign]) {
            for at in cell.clone().skip(1) {
                let before = (at - 1 > cell.start).then(|| &self.tokens[at - 2]);
                let spaced = spacing::between(before, &self.tokens[at - 1], &self.tokens[at]);
                self.tokens[at].spaces = usize::from(spaced);
            }
        }
    }

    /// Puts the cells of lines that follow each other below each other, one space behind the
    /// widest of what is before them.
    fn align(
        &mut self,
        lines: &[Line],
        cell: impl Fn(&Line) -> &Range<usize>,
        before: impl Fn(&Line) -> Range<usize>,
    ) {
        for run in lines.chunk_by(|a, b| cell(a).is_empty() == cell(b).is_empty()) {
            if run.iter().any(|line| cell(line).is_empty()) {
                continue;
            }
            let widths: Vec<usize> = run.iter().map(|line| self.columns(before(line))).collect();
            let widest = widths.iter().max().copied().unwrap_or_default();
            for (line, width) in run.iter().zip(widths) {
                self.tokens[cell(line).start].spaces = widest - width + 1;
            }
        }
    }

    fn columns(&self, range: Range<usize>) -> usize {
        self.tokens[range].iter().map(|token| token.spaces + width(token.text)).sum()
    }
}

fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).count() }
}
