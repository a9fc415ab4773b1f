//! Definitions are templates: what is between `# @each` and `# @end` is there once for each number.
//! Pure.

/// The definition for so many, with everything below `root`.
pub(super) fn expanded(template: &str, count: usize, root: &str) -> String {
    let (mut text, mut block) = (String::new(), None::<String>);
    for line in template.lines() {
        match (line.trim(), &mut block) {
            ("# @each", _) => block = Some(String::new()),
            ("# @end", Some(lines)) => {
                (1..=count).for_each(|number| text += &lines.replace("@n", &number.to_string()));
                block = None;
            }
            (_, Some(lines)) => *lines += &format!("{line}\n"),
            (_, None) => text += &format!("{line}\n"),
        }
    }
    text.replace("@root", root)
}

/// The first thing in a text that looks like a version.
pub(super) fn version(text: &str) -> Option<String> {
    let words = text.split(|letter: char| letter.is_whitespace() || "()[],".contains(letter));
    let looks = |word: &&str| {
        word.contains('.') && word.chars().all(|letter| letter.is_ascii_digit() || letter == '.')
    };
    words.map(|word| word.trim_matches('.')).find(looks).map(str::to_string)
}
