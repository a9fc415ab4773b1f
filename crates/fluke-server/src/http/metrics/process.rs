//! The process itself, under the names that dashboards know from everywhere.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;

use super::page::Page;

/// What cannot be had is left out.
pub(super) fn collect(started: SystemTime, page: &mut Page) {
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        page.counter("process_cpu_seconds_total", "Time of processors that was used.");
        page.seconds(time(usage.user_time()) + time(usage.system_time()));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(kibibytes) = field(&status, "VmRSS:") {
        page.gauge("process_resident_memory_bytes", "Memory that is in use.");
        page.value(kibibytes << 10);
    }
    if let Some(threads) = field(&status, "Threads:") {
        page.gauge("process_threads", "Threads of the process.");
        page.value(threads);
    }
    if let Ok(descriptors) = fs::read_dir("/proc/self/fd") {
        page.gauge("process_open_fds", "Open files, sockets included.");
        page.value(descriptors.count() as u64);
    }
    if let Ok((most, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        page.gauge("process_max_fds", "How many may be open.");
        page.value(most);
    }
    page.gauge("process_start_time_seconds", "When the server was started, since 1970.");
    page.seconds(started.duration_since(UNIX_EPOCH).unwrap_or_default());
}

fn time(value: TimeVal) -> Duration {
    let (seconds, micros) = (value.tv_sec(), value.tv_usec());
    Duration::from_secs(seconds.try_into().unwrap_or_default())
        + Duration::from_micros(micros.try_into().unwrap_or_default())
}

/// The number behind a name in `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself() {
        let mut page = Page::default();
        collect(SystemTime::now(), &mut page);
        let text = page.finish();
        for name in [
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_threads",
            "process_open_fds",
            "process_max_fds",
            "process_start_time_seconds",
        ] {
            let value = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            let value: f64 = value.and_then(|value| value.parse().ok()).expect(name);
            assert!(value > 0.0 || name == "process_cpu_seconds_total", "{name}");
        }
    }
}
