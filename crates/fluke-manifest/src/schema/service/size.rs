//! Amounts of memory: `256MiB`.

use crate::hcl::decode::Mistake;

const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Less than this no container starts with.
const LEAST: u64 = 6 << 20;

/// More than this no machine has.
const MOST: u64 = 1 << 50;

/// Reads a number with a unit.
pub(super) fn parse(text: String) -> Result<u64, Mistake> {
    let wrong =
        |message: String| Mistake::value(message).help("for example \"256MiB\" or \"2GiB\"");
    let found = UNITS.iter().find_map(|(unit, bytes)| {
        Some((text.strip_suffix(unit)?.trim_end().parse::<f64>().ok()?, *bytes))
    });
    let Some((number, unit)) = found.filter(|(number, _)| number.is_finite() && *number >= 0.0)
    else {
        return Err(wrong(format!("\"{text}\" is not an amount of memory")));
    };
    match number * unit as f64 {
        bytes if bytes < LEAST as f64 => {
            Err(wrong(format!("\"{text}\" is less than the 6MiB that a container needs")))
        }
        bytes if bytes > MOST as f64 => {
            Err(wrong(format!("\"{text}\" is more than the 1048576GiB that are accepted")))
        }
        bytes => Ok(bytes as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_a_number_and_a_unit() {
        for (text, bytes) in [
            ("256MiB", 256 << 20),
            ("1.5GiB", 3 << 29),
            ("10 MB", 10_000_000),
            ("8388608B", 8 << 20),
        ] {
            assert_eq!(parse(text.into()).ok(), Some(bytes), "{text}");
        }
        for text in ["", "256", "MiB", "-1GiB", "1TiB", "1MiB", "NaNGiB", "infGiB", "9999999999GiB"]
        {
            assert!(parse(text.into()).is_err(), "{text}");
        }
    }
}
