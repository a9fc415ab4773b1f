//! Where the instructions go, by callgrind, and where the memory goes, by dhat: the same on a busy
//! machine.

mod heap;
mod scene;

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::command::said;
use crate::figure::Unit;
use crate::machine::Taken;
use crate::row::Trouble;

pub use scene::Scene;

/// How many functions are named.
const TOP: usize = 25;

/// What a process did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Which work.
    pub what: String,
    /// What was counted.
    pub unit: Measure,
    /// When, of what, and where.
    pub taken: Taken,
    /// How many in all.
    pub total: f64,
    /// The functions with most of them, most first.
    pub top: Vec<Line>,
}

/// What a profile counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Instructions.
    Instructions,
    /// Bytes of the heap when it was largest.
    Bytes,
}

impl Measure {
    /// In a word.
    pub fn what(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Bytes => "bytes",
        }
    }

    /// The question that a profile answers.
    pub fn question(self) -> &'static str {
        match self {
            Self::Instructions => "Where the instructions go",
            Self::Bytes => "Where the memory goes",
        }
    }

    /// What a total is, and what has to be known of it.
    pub fn sum(self, total: f64) -> String {
        match self {
            Self::Instructions => format!(
                "{} instructions, by callgrind; the functions that have most of them. callgrind \
                 hides from programs that a processor can do SHA-256 by itself: where `sha256::soft` \
                 stands, a processor that can has next to nothing",
                Unit::Count.show(total)
            ),
            Self::Bytes => format!(
                "{} when the heap was largest, by dhat; the functions that asked for most of it, \
                 those of the standard library left out",
                Unit::Bytes.show(total)
            ),
        }
    }
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
        let (total, functions) = parsed(&text)
            .ok_or_else(|| Trouble::failed(format!("profile {what}"), "it cannot be understood"))?;
        Ok(Self::summed(what, Measure::Instructions, total, functions))
    }

    /// Reads what dhat has written.
    pub fn of_heap(what: &str, file: &Path) -> Result<Self, Trouble> {
        let failed = |error: &dyn std::fmt::Display| Trouble::failed("read a profile", error);
        let text = std::fs::read(file).map_err(|error| failed(&error))?;
        let heap: heap::Heap = serde_json::from_slice(&text).map_err(|error| failed(&error))?;
        let (total, functions) = heap.at_its_largest();
        Ok(Self::summed(what, Measure::Bytes, total, functions))
    }

    /// The functions with most; the same function in several places is one.
    fn summed(
        what: &str,
        unit: Measure,
        total: f64,
        functions: impl IntoIterator<Item = (f64, String)>,
    ) -> Self {
        let mut sums: HashMap<String, f64> = HashMap::new();
        for (count, function) in functions {
            *sums.entry(function).or_default() += count;
        }
        let mut top: Vec<_> = sums.into_iter().collect();
        top.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let line = |(function, count)| Line { percent: 100.0 * count / total, function };
        let top = top.into_iter().take(TOP).map(line).collect();
        Self { what: what.into(), unit, taken: Taken::now(), total, top }
    }
}

/// The total and the functions of what callgrind_annotate prints.
fn parsed(text: &str) -> Option<(f64, Vec<(f64, String)>)> {
    let total = text.lines().find(|line| line.contains("PROGRAM TOTALS"))?;
    let total = number(total.split_whitespace().next()?)?;
    Some((total, text.lines().filter_map(function).collect()))
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
    Some((instructions, without_hash(name).to_string()))
}

/// A function's name as people know it.
fn without_hash(name: &str) -> &str {
    let hash = |at: &usize| name.len() - at == 19 && name[*at..].starts_with("::h");
    let end = name.rfind("::h").filter(hash).unwrap_or(name.len());
    &name[..end]
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
        let (total, functions) = parsed(text).expect("a profile");
        let profile = Profile::summed("it", Measure::Instructions, total, functions);
        assert_eq!(profile.total, 1000.0);
        let line = |percent, function: &str| Line { percent, function: function.into() };
        assert_eq!(
            profile.top,
            [line(30.0, "core::fmt::write"), line(30.0, "fluke_manifest::lex")]
        );
        assert_eq!(parsed("nonsense"), None);
    }
}
