//! Texts and their bounds: senders cut, receivers refuse.

use crate::error::WireError;

/// Room for the longest note about a cut.
const NOTE: usize = "… [18446744073709551615 bytes not sent]".len();

/// Cuts `text` to `bound` bytes and says how much is missing.
pub(super) fn clip(mut text: String, bound: usize) -> String {
    if text.len() <= bound {
        return text;
    }
    let end = text.floor_char_boundary(bound.saturating_sub(NOTE));
    let missing = text.len() - end;
    text.truncate(end);
    text.push_str(&format!("… [{missing} bytes not sent]"));
    text
}

/// Like [`clip`], for what must be a single line wherever it is shown.
pub(super) fn clip_line(mut text: String, bound: usize) -> String {
    if text.contains(char::is_control) {
        text = text.replace(char::is_control, " ");
    }
    clip(text, bound)
}

/// Accepts `text` of up to `bound` bytes.
pub(super) fn bounded(field: &str, text: String, bound: usize) -> Result<String, WireError> {
    if text.len() > bound {
        let reason = format!("has {} bytes; at most {bound} are accepted", text.len());
        return Err(WireError::invalid(field, reason));
    }
    Ok(text)
}

/// Like [`bounded`], and without control characters, so that it can be logged as it is.
pub(super) fn line(field: &str, text: String, bound: usize) -> Result<String, WireError> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(WireError::invalid(field, format!("contains {c:?}"))),
        None => bounded(field, text, bound),
    }
}

/// Accepts a list of up to `bound` items.
pub(super) fn at_most<T>(field: &str, list: Vec<T>, bound: usize) -> Result<Vec<T>, WireError> {
    if list.len() > bound {
        let reason = format!("has {} entries; at most {bound} are accepted", list.len());
        return Err(WireError::invalid(field, reason));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_fits_and_says_so() {
        for (text, bound) in [("é".repeat(500), 100), ("x".repeat(101), 100), ("x".repeat(90), 50)]
        {
            let length = text.len();
            let cut = clip(text, bound);
            assert!(cut.len() <= bound, "{cut}");
            let kept = cut.find('…').expect("says so");
            assert!(cut.ends_with(&format!("… [{} bytes not sent]", length - kept)), "{cut}");
        }
        assert_eq!(clip("fits".into(), 4), "fits");
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(clip_line("a\nb\x1b[31m".into(), 100), "a b [31m");
        assert!(line("version", "a\nb".into(), 100).is_err());
    }
}
