//! Instructions of a piece of work, counted by callgrind: the same on a busy machine.

use std::process::{Command, Stdio};

use crate::floor::work::Kind;
use crate::row::{Bench, Trouble};

/// How many instructions it takes to do so much of that work, starting the process included.
pub fn instructions(bench: &Bench, kind: Kind, count: usize) -> Result<f64, Trouble> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&bench.own);
    command.args(["floor", "work", kind.name(), &count.to_string()]);
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        Trouble::NotRun(format!("valgrind does not run (apt-get install valgrind): {error}"))
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    collected(&said).filter(|_| output.status.success()).ok_or_else(|| {
        Trouble::failed("count instructions", said.lines().last().unwrap_or_default())
    })
}

/// The total that callgrind prints at the end.
fn collected(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.split_once("Collected : "))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found_in_what_callgrind_says() {
        let said = "==1== \n==1== Events    : Ir\n==1== Collected : 123456\n==1== \n";
        assert_eq!(collected(said), Some(123456.0));
        assert_eq!(collected("==1== command not found"), None);
    }
}
