//! Keys, as the protocol wants them.

use serde_json::{Value, json};

/// A key with its modifiers.
pub struct Key {
    modifiers: u8,
    key: String,
    code: String,
    number: u32,
    text: Option<String>,
}

impl Key {
    /// `Tab`, `Shift+Tab`, `Control+a`, `/`.
    pub fn parse(name: &str) -> Self {
        let (mut modifiers, mut rest) = (0, name);
        while let Some((modifier, behind)) = rest.split_once('+').filter(|(it, _)| !it.is_empty()) {
            modifiers |= match modifier {
                "Alt" => 1,
                "Control" => 2,
                "Meta" => 4,
                "Shift" => 8,
                other => panic!("{other} is no modifier"),
            };
            rest = behind;
        }
        let (code, number, text) = match rest {
            "Tab" => ("Tab".into(), 9, None),
            "Enter" => ("Enter".into(), 13, Some("\r")),
            "Escape" => ("Escape".into(), 27, None),
            "Space" => ("Space".into(), 32, Some(" ")),
            "End" => ("End".into(), 35, None),
            "Home" => ("Home".into(), 36, None),
            "ArrowLeft" => ("ArrowLeft".into(), 37, None),
            "ArrowUp" => ("ArrowUp".into(), 38, None),
            "ArrowRight" => ("ArrowRight".into(), 39, None),
            "ArrowDown" => ("ArrowDown".into(), 40, None),
            "Delete" => ("Delete".into(), 46, None),
            "/" => ("Slash".into(), 191, Some("/")),
            "?" => ("Slash".into(), 191, Some("?")),
            letter if letter.len() == 1 => {
                let upper = letter.to_ascii_uppercase();
                (format!("Key{upper}"), u32::from(upper.as_bytes()[0]), Some(letter))
            }
            other => panic!("{other} is no key that is known here"),
        };
        let key = if rest == "Space" { " " } else { rest }.to_owned();
        let text = text.filter(|_| modifiers & 7 == 0).map(str::to_owned);
        Self { modifiers, key, code, number, text }
    }

    /// Down and up.
    pub fn events(&self) -> [Value; 2] {
        let event = |kind: &str, text: Option<&String>| {
            let mut event = json!({
                "type": kind, "modifiers": self.modifiers, "key": self.key, "code": self.code,
                "windowsVirtualKeyCode": self.number,
            });
            if let Some(text) = text {
                event["text"] = text.as_str().into();
            }
            event
        };
        let down = if self.text.is_some() { "keyDown" } else { "rawKeyDown" };
        [event(down, self.text.as_ref()), event("keyUp", None)]
    }
}
