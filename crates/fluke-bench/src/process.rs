//! What a process takes, as the kernel tells it.

use std::ops::Range;

use crate::row::Trouble;

/// Bytes that a process has in memory.
pub fn resident(pid: u32) -> Result<f64, Trouble> {
    let status = read(pid, "status")?;
    kib(&status, "VmRSS").ok_or_else(|| Trouble::failed("read VmRSS", "it is not there"))
}

/// Seconds of processor time that a process has used so far, its threads and ended children
/// included.
pub fn processor_seconds(pid: u32) -> Result<f64, Trouble> {
    let stat = read(pid, "stat")?;
    Ok(time(&stat, OWN)? + time(&stat, CHILDREN)?)
}

/// The same, without children.
pub fn own_processor_seconds(pid: u32) -> Result<f64, Trouble> {
    time(&read(pid, "stat")?, OWN)
}

/// Seconds of processor time that children of a process used which have ended.
pub fn children_seconds(pid: u32) -> Result<f64, Trouble> {
    time(&read(pid, "stat")?, CHILDREN)
}

/// Seconds that its threads, those alive, have run so far: to the nanosecond.
pub fn running_seconds(pid: u32) -> Result<f64, Trouble> {
    let failed = |error| Trouble::failed(format!("look at the threads of {pid}"), error);
    let mut nanoseconds = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).map_err(failed)?.flatten() {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let ran = text.split_whitespace().next().and_then(|ran| ran.parse::<f64>().ok());
        nanoseconds += ran.unwrap_or(0.0);
    }
    Ok(nanoseconds / 1e9)
}

/// How often its threads, those alive, have gone to sleep so far, to be woken up again.
pub fn switches(pid: u32) -> Result<u64, Trouble> {
    let failed = |error| Trouble::failed(format!("look at the threads of {pid}"), error);
    let mut switches = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).map_err(failed)?.flatten() {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        switches += count(&status, "voluntary_ctxt_switches").unwrap_or(0);
    }
    Ok(switches)
}

/// The most bytes that a process ever had in memory.
pub fn most_resident(pid: u32) -> Result<f64, Trouble> {
    let status = read(pid, "status")?;
    kib(&status, "VmHWM").ok_or_else(|| Trouble::failed("read VmHWM", "it is not there"))
}

/// A mark that changes when a child of the process begins or ends: the page faults of all that have
/// ended, and those that live. Nothing runs without a page fault.
pub fn children(pid: u32) -> Result<(u64, String), Trouble> {
    let stat = read(pid, "stat")?;
    let ended =
        field(&stat, 8).ok_or_else(|| Trouble::failed("count children", "no such field"))?;
    let failed = |error| Trouble::failed(format!("look at the threads of {pid}"), error);
    let mut living = String::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).map_err(failed)?.flatten() {
        living += &std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    }
    Ok((ended, living))
}

fn read(pid: u32, file: &str) -> Result<String, Trouble> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).map_err(|error| Trouble::failed(format!("read {path}"), error))
}

/// A line of `status`, in bytes.
fn kib(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// A line of `status` that counts something.
fn count(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

/// Where `stat` has user and system time: its own, and that of children that have ended.
const OWN: Range<usize> = 11..13;
const CHILDREN: Range<usize> = 13..15;

/// Seconds, of ticks of a hundredth, as every Linux has told user space for decades.
fn time(stat: &str, fields: Range<usize>) -> Result<f64, Trouble> {
    let ticks: Option<u64> = fields.map(|at| field(stat, at)).sum();
    ticks
        .map(|ticks| ticks as f64 / 100.0)
        .ok_or_else(|| Trouble::failed("read the time of a process", "it cannot be understood"))
}

/// A field of `stat`, counted from behind the name, which is in parentheses and may have any in it.
fn field(stat: &str, at: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_are_read_from_what_the_kernel_says() {
        assert_eq!(kib("Name:\tx\nVmRSS:\t    2048 kB\n", "VmRSS"), Some(2097152.0));
        assert_eq!(kib("Name:\tx\n", "VmRSS"), None);
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 10 20 3 4 20 0 1 0 5 6";
        assert_eq!(time(stat, OWN).ok().zip(time(stat, CHILDREN).ok()), Some((0.3, 0.07)));
        assert_eq!(field(stat, 8), Some(2));
        assert!(time("nonsense", OWN).is_err());
        let status = "VmHWM:\t3 kB\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(count(status, "voluntary_ctxt_switches"), Some(42));
        assert_eq!(count("", "voluntary_ctxt_switches"), None);
    }

    #[test]
    fn a_child_that_came_and_went_is_noticed() {
        let own = std::process::id();
        let before = children(own).expect("a mark");
        std::process::Command::new("true").status().expect("it runs");
        assert_ne!(children(own).expect("a mark"), before);
    }

    #[test]
    fn this_process_takes_something() {
        let own = std::process::id();
        assert!(resident(own).expect("memory") > 1e5);
        let (all, itself) = (processor_seconds(own), own_processor_seconds(own));
        assert!(all.expect("time") >= itself.expect("time"));
        assert!(running_seconds(own).expect("time") > 0.0);
        let now = resident(own).expect("memory");
        assert!(most_resident(own).expect("memory") >= now);
        let before = switches(own).expect("a count");
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(switches(own).expect("a count") > before);
    }
}
