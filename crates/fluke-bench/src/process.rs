//! What a process takes, as the kernel tells it.

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
    // In ticks of a hundredth, as every Linux has told user space for decades.
    ticks(&stat)
        .map(|ticks| ticks as f64 / 100.0)
        .ok_or_else(|| Trouble::failed("read the time of a process", "it cannot be understood"))
}

/// Nanoseconds that its threads, those alive, have run so far: finer than ticks.
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

fn read(pid: u32, file: &str) -> Result<String, Trouble> {
    let path = format!("/proc/{pid}/{file}");
    std::fs::read_to_string(&path).map_err(|error| Trouble::failed(format!("read {path}"), error))
}

/// A line of `status`, in bytes.
fn kib(status: &str, key: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// User and system time, own and of children that have ended.
fn ticks(stat: &str) -> Option<u64> {
    // The name is in parentheses, and may have any in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<u64> = rest.split_whitespace().skip(11).take(4).flat_map(str::parse).collect();
    (fields.len() == 4).then(|| fields.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_are_read_from_what_the_kernel_says() {
        assert_eq!(kib("Name:\tx\nVmRSS:\t    2048 kB\n", "VmRSS"), Some(2097152.0));
        assert_eq!(kib("Name:\tx\n", "VmRSS"), None);
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 10 20 3 4 20 0 1 0 5 6";
        assert_eq!(ticks(stat), Some(37));
        assert_eq!(ticks("nonsense"), None);
    }

    #[test]
    fn this_process_takes_something() {
        let own = std::process::id();
        assert!(resident(own).expect("memory") > 1e5);
        assert!(processor_seconds(own).expect("time") >= 0.0);
        assert!(running_seconds(own).expect("time") > 0.0);
    }
}
