//! What terminals send for keys.

/// A key that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Something that can be typed.
    Char(char),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first.
    Home,
    /// To the last.
    End,
    /// Return.
    Enter,
    /// Back.
    Escape,
    /// Takes the last character away.
    Backspace,
    /// To the other pane.
    Tab,
    /// Ctrl-C, Ctrl-D, Ctrl-\.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
}

/// The keys in what was read at once; those that mean nothing here are passed over.
pub fn decode(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest = text.as_ref();
    let mut keys = Vec::new();
    while let Some(c) = rest.chars().next() {
        let (key, taken) = match c {
            '\u{1b}' => escape(&rest[1..]),
            c => (plain(c), c.len_utf8()),
        };
        keys.extend(key);
        rest = &rest[taken..];
    }
    keys
}

fn plain(c: char) -> Option<Key> {
    Some(match c {
        '\r' | '\n' => Key::Enter,
        '\t' => Key::Tab,
        '\u{7f}' | '\u{8}' => Key::Backspace,
        '\u{3}' | '\u{4}' | '\u{1c}' => Key::Interrupt,
        '\u{1a}' => Key::Suspend,
        // As in a pager.
        '\u{6}' => Key::PageDown,
        '\u{2}' => Key::PageUp,
        c if c.is_control() || c == '\u{fffd}' => return None,
        c => Key::Char(c),
    })
}

/// What stands behind ESC, and how long all of it is.
fn escape(behind: &str) -> (Option<Key>, usize) {
    // A sequence is sent at once: an ESC with nothing behind it is the key of that name.
    if !behind.starts_with(['[', 'O']) {
        return (Some(Key::Escape), 1);
    }
    let parameters = &behind[1..];
    let Some(end) = parameters.find(|c: char| matches!(c, '@'..='~')) else {
        return (None, 1 + behind.len());
    };
    let key = match &parameters[..=end] {
        "A" => Some(Key::Up),
        "B" => Some(Key::Down),
        "5~" => Some(Key::PageUp),
        "6~" => Some(Key::PageDown),
        "H" | "1~" | "7~" => Some(Key::Home),
        "F" | "4~" | "8~" => Some(Key::End),
        _ => None,
    };
    (key, 3 + end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_are_recognised_in_whatever_way_a_terminal_sends_them() {
        for (bytes, keys) in [
            ("j", vec![Key::Char('j')]),
            ("\u{1b}[A\u{1b}OB", vec![Key::Up, Key::Down]),
            (
                "\u{1b}[5~\u{1b}[6~\u{1b}[1~\u{1b}[F",
                vec![Key::PageUp, Key::PageDown, Key::Home, Key::End],
            ),
            (
                "\r\u{7f}\u{3}\u{1a}\t",
                vec![Key::Enter, Key::Backspace, Key::Interrupt, Key::Suspend, Key::Tab],
            ),
            ("\u{1b}", vec![Key::Escape]),
            ("\u{1b}[1;5Cx", vec![Key::Char('x')]),
            ("é日", vec![Key::Char('é'), Key::Char('日')]),
            ("\u{1b}[", vec![]),
        ] {
            assert_eq!(decode(bytes.as_bytes()), keys, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_typed_is_too_much(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(decode(&bytes).len() <= bytes.len());
        }
    }
}
