//! The machine that figures come from.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// What has to be known of a machine to judge its figures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model.
    pub processor: String,
    /// How many cores there are.
    pub cores: usize,
    /// Mebibytes of memory.
    pub memory_mib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub system: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            processor: processor(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
            system: system(&read("/etc/os-release")),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, cores, memory_mib, kernel, system } = self;
        let memory = memory_mib.div_ceil(1024);
        write!(f, "{cores} cores of {processor}, {memory} GiB, {system}, Linux {kernel}")
    }
}

fn processor(cpuinfo: &str) -> String {
    value(cpuinfo, "model name", ':').unwrap_or_else(|| "an unknown processor".into())
}

fn memory(meminfo: &str) -> u64 {
    let kib = value(meminfo, "MemTotal", ':').unwrap_or_default();
    kib.trim_end_matches(" kB").parse().map_or(0, |kib: u64| kib / 1024)
}

fn system(release: &str) -> String {
    let name = value(release, "PRETTY_NAME", '=').unwrap_or_else(|| "an unknown system".into());
    name.trim_matches('"').to_string()
}

/// The value of the first line that has this key.
fn value(text: &str, key: &str, sign: char) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(sign));
    let mut values = pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
    values.next().map(str::to_string)
}

/// When a figure was taken, of what, where, and how busy the machine was: rows of one report may come
/// from several runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Taken {
    /// As RFC 3339.
    pub date: String,
    /// Which commit was measured; with `+` where files were changed since.
    pub commit: String,
    /// How many processes wanted to run in the minute before.
    pub load: f64,
    /// Where.
    pub machine: Machine,
}

impl Taken {
    /// Now.
    pub fn now() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self { date: now(), commit: commit(), load: first_number(&load), machine: Machine::here() }
    }
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { date, commit, load, machine: _ } = self;
        write!(f, "{commit} at {date}, load {load:.1}")
    }
}

fn first_number(loadavg: &str) -> f64 {
    loadavg.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(f64::MAX)
}

/// The commit that is checked out, with `+` where files were changed since.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok();
        let output = output.filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let mark = if changed.is_none_or(|changed| changed.is_empty()) { "" } else { "+" };
    format!("{commit}{mark}")
}

/// Now, as RFC 3339.
fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_by_what_the_kernel_says() {
        let cpuinfo = "processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(processor(cpuinfo), "AMD EPYC");
        assert_eq!(processor(""), "an unknown processor");
        assert_eq!(memory("MemTotal:       24682008 kB\nMemFree: 1 kB\n"), 24103);
        assert_eq!(memory("nonsense"), 0);
        assert_eq!(first_number("4.56 7.89 1.00 3/200 42\n"), 4.56);
        assert_eq!(first_number(""), f64::MAX, "what is not known is not quiet");
        assert_eq!(system("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
    }
}
