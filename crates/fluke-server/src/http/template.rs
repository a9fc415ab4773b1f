//! HTML with blanks and sections: what is shown depends on who looks.

/// Keeps or drops sections (`<!--name-->…<!--/name-->`) and fills in blanks (`{name}`).
///
/// Texts are escaped, so that they are fit for elements and for quoted attributes; and what was
/// filled in is never taken for a blank or a section.
pub fn render(page: &str, sections: &[(&str, bool)], blanks: &[(&str, &str)]) -> String {
    let kept = sections.iter().fold(page.to_string(), |page, (name, is_kept)| match is_kept {
        true => page,
        false => without(&page, name),
    });
    filled(&kept, blanks)
}

fn without(page: &str, section: &str) -> String {
    let (from, to) = (format!("<!--{section}-->"), format!("<!--/{section}-->"));
    let mut text = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(&from) {
        text.push_str(before);
        rest = after.split_once(&to).map_or("", |(_, after)| after);
    }
    text + rest
}

fn filled(page: &str, blanks: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let closed = after.split_once('}');
        let known = closed.and_then(|(name, after)| {
            let blank = blanks.iter().find(|(blank, _)| *blank == name);
            blank.map(|(_, value)| (value, after))
        });
        match known {
            Some((value, after)) => {
                text.push_str(&escaped(value));
                rest = after;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

/// Fit for HTML, in elements and in quoted attributes.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_filled_with_text_and_never_with_markup() {
        let blanks = [("error", "{next} <script>'\"&"), ("next", "/")];
        assert_eq!(
            render("<p>{error}</p>{next}{other} {", &[], &blanks),
            "<p>{next} &lt;script&gt;&#39;&quot;&amp;</p>/{other} {"
        );
    }

    #[test]
    fn sections_are_kept_or_dropped() {
        let page = "a<!--x-->b{t}<!--/x-->c<!--y-->d<!--/y--><!--x-->e<!--/x-->f";
        let blanks = [("t", "<!--/x-->")];
        let shown = render(page, &[("x", false), ("y", true)], &blanks);
        assert_eq!(shown, "ac<!--y-->d<!--/y-->f");
        let shown = render(page, &[("x", true), ("y", false)], &blanks);
        assert_eq!(shown, "a<!--x-->b&lt;!--/x--&gt;<!--/x-->c<!--x-->e<!--/x-->f");
        assert_eq!(render("a<!--x-->b", &[("x", false)], &[]), "a", "never closed");
    }
}
