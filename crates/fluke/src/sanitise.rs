//! Text from hosts and servers, made harmless for a terminal.
//!
//! Escape sequences are taken out whole; other characters that a terminal obeys rather than
//! shows, or that make text read in another order than it is written, become `�`.

/// Several lines: newlines and tabs stay.
pub fn block(text: &str) -> String {
    clean(text, |c| matches!(c, '\n' | '\t'))
}

/// One line: newlines and tabs become single spaces.
pub fn line(text: &str) -> String {
    clean(text, |c| matches!(c, '\n' | '\t')).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first line that says anything.
pub fn first_line(text: &str) -> String {
    block(text)
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default()
        .replace('\t', " ")
}

/// Whether a terminal may be led astray by this character.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn clean(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_control_sequence(&mut rest),
            // Carriage returns only move the cursor back over what was already shown.
            '\r' => {}
            c if keep(c) || !is_harmful(c) => clean.push(c),
            _ => clean.push('\u{fffd}'),
        }
    }
    clean
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Behind ESC: a control sequence, a string (title, link, …), or one more character.
fn skip_escape(rest: &mut Rest<'_>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_control_sequence(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(rest),
        Some(' '..='~') => {
            rest.next();
        }
        _ => {}
    }
}

/// Parameters and intermediates, up to and with the final byte.
fn skip_control_sequence(rest: &mut Rest<'_>) {
    while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// Up to BEL or ESC `\`; never past the line, so that an unclosed one hides nothing further.
fn skip_string(rest: &mut Rest<'_>) {
    while let Some(c) = rest.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_taken_out() {
        for (case, text, shown) in [
            ("plain", "all good: naïve 日本", "all good: naïve 日本"),
            ("colours", "\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("title", "\u{1b}]0;owned\u{7}text", "text"),
            ("link", "\u{1b}]8;;http://x\u{1b}\\text\u{1b}]8;;\u{1b}\\", "text"),
            ("unclosed string", "\u{1b}]0;title\nnext", "\nnext"),
            ("one byte", "\u{1b}cgone", "gone"),
            ("C1", "\u{9b}2Jgone", "gone"),
            ("bell", "a\u{7}b", "a\u{fffd}b"),
            ("overwriting", "safe\rrm -rf", "saferm -rf"),
            ("reversed", "a\u{202e}b", "a\u{fffd}b"),
            ("cut off", "end\u{1b}[", "end"),
        ] {
            assert_eq!(block(text), shown, "{case}");
        }
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line(" a\n\tb  c\n"), "a b c");
        assert_eq!(first_line("\n  \n first \nsecond"), "first");
        assert_eq!(first_line(""), "");
    }

    proptest! {
        #[test]
        fn nothing_harmful_comes_through(text in "\\PC*|[\u{0}-\u{ff}\u{202e}]*") {
            prop_assert!(block(&text).chars().all(|c| matches!(c, '\n' | '\t') || !is_harmful(c)));
            prop_assert!(!line(&text).chars().any(is_harmful));
            prop_assert!(!first_line(&text).chars().any(is_harmful));
        }
    }
}
