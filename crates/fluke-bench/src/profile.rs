//! Where the instructions go, by callgrind: the same on a busy machine.

mod scene;

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::command::said;
use crate::row::Trouble;

pub use scene::Scene;

/// How many functions are named.
const TOP: usize = 25;

/// What a process did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Which work.
    pub what: String,
    /// Instructions in all.
    pub total: f64,
    /// The functions with most of them, most first.
    pub top: Vec<Line>,
}

/// A function's share, without what it calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Of all instructions.
    pub percent: f64,
    /// Its name.
    pub function: String,
}

impl Profile {
    /// Reads what callgrind has written.
    pub fn of(what: &str, file: &Path) -> Result<Self, Trouble> {
        let mut annotate = Command::new("callgrind_annotate");
        let text =
            said(annotate.args(["--auto=no", "--show-percs=yes", "--threshold=100"]).arg(file))?;
        Self::parsed(what, &text)
            .ok_or_else(|| Trouble::failed(format!("profile {what}"), "it cannot be understood"))
    }

    /// Reads what callgrind_annotate prints; the same function in several files is one.
    fn parsed(what: &str, text: &str) -> Option<Self> {
        let total = text.lines().find(|line| line.contains("PROGRAM TOTALS"))?;
        let total = number(total.split_whitespace().next()?)?;
        let mut top: Vec<(f64, String)> = Vec::new();
        for (instructions, function) in text.lines().filter_map(function) {
            match top.iter_mut().find(|(_, known)| *known == function) {
                Some((sum, _)) => *sum += instructions,
                None => top.push((instructions, function)),
            }
        }
        top.sort_by(|one, other| other.0.total_cmp(&one.0));
        let line =
            |(instructions, function)| Line { percent: 100.0 * instructions / total, function };
        Some(Self { what: what.into(), total, top: top.into_iter().take(TOP).map(line).collect() })
    }
}

fn number(text: &str) -> Option<f64> {
    text.replace(',', "").parse().ok()
}

/// `1,234 (5.6%)  file:function [object]`: the instructions and the function. Where the file is on
/// this machine is nobody's business.
fn function(line: &str) -> Option<(f64, String)> {
    let (instructions, rest) = line.trim_start().split_once(" (")?;
    let instructions = number(instructions)?;
    let (_, rest) = rest.split_once("%)")?;
    let (_, name) = rest.trim_start().split_once(':')?;
    let name = name.split(" [").next()?.trim();
    let hash = |at: &usize| name.len() - at == 19 && name[*at..].starts_with("::h");
    let end = name.rfind("::h").filter(hash).unwrap_or(name.len());
    Some((instructions, name[..end].to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_what_callgrind_annotate_prints() {
        let text = "\
Ir
--------------------------------------------------------------------------------
1,000 (100.0%)  PROGRAM TOTALS

--------------------------------------------------------------------------------
Ir             file:function
--------------------------------------------------------------------------------
300 (30.0%)  /somebody/src/lexer.rs:fluke_manifest::lex::h0123456789abcdef [/somebody/xtask]
250 (25.0%)  ???:core::fmt::write [/somebody/xtask]
 50 ( 5.0%)  /somebody/src/other.rs:core::fmt::write [/somebody/xtask]
";
        let profile = Profile::parsed("it", text).expect("a profile");
        assert_eq!(profile.total, 1000.0);
        let line = |percent, function: &str| Line { percent, function: function.into() };
        assert_eq!(
            profile.top,
            [line(30.0, "fluke_manifest::lex"), line(30.0, "core::fmt::write")]
        );
        assert_eq!(Profile::parsed("it", "nonsense"), None);
    }
}
