//! What somebody may have meant.

/// The candidate that looks most like the name, if one looks enough like it.
pub fn closest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let most = (name.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean …?`, ready to be a problem's help.
pub fn did_you_mean<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<String> {
    closest(name, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// Case and the choice of `-` or `_` are not counted as mistakes.
fn distance(left: &str, right: &str) -> usize {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    strsim::damerau_levenshtein(&plain(left), &plain(right))
}
