//! What was probably meant.

/// The candidate nearest to `text`, if one is near enough to be what was meant.
pub fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(text, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["web-01", "web-02", "db-01"];
        assert_eq!(nearest("web01", known), Some("web-01"));
        assert_eq!(nearest("bd-01", known), Some("db-01"));
        assert_eq!(nearest("mail", known), None);
        assert_eq!(nearest("", known), None);
    }
}
