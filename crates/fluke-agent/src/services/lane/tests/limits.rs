//! What a container may use, and what becomes of one that somebody holds up.

use std::path::Path;

use fluke_model::service::Resources;

use super::*;

/// A quarter of a core, and little memory.
fn with_little(line: &str) -> ContainerSpec {
    let resources = Resources { cpu_millis: Some(250), memory: Some(64 << 20) };
    ContainerSpec { resources, ..spec(line) }
}

/// What the kernel says of a process, in the first of these files that there is; each is of a
/// controller, or, in control groups of the second version, of none.
fn kept_to(process: i32, files: &[(&str, &str)]) -> Option<String> {
    let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup")).expect("it runs");
    let path = |controller: &str| {
        let mut groups = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let (_, path) = groups.find(|(of, _)| *of == controller)?;
        Some(Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/')))
    };
    let read = |(controller, file): &(&str, &str)| {
        std::fs::read_to_string(path(controller)?.join(file)).ok()
    };
    files.iter().find_map(read)
}

#[test]
fn a_container_may_use_what_git_says_and_no_more() {
    tell(async |stage| {
        let web = stage.wants([service("web", with_little(RUNS))])[0];
        stage.until_serves(web).await;
        let it = stage.containers().await.remove(0);
        let limits = "{{.HostConfig.Memory}} {{.HostConfig.CpuQuota}}/{{.HostConfig.CpuPeriod}}";
        assert_eq!(stage.cli(&["inspect", "--format", limits, &it.id]), "67108864 25000/100000\n");

        let memory = [("memory", "memory.limit_in_bytes"), ("", "memory.max")];
        let cores =
            [("cpu", "cpu.cfs_quota_us"), ("cpu,cpuacct", "cpu.cfs_quota_us"), ("", "cpu.max")];
        let memory = kept_to(it.pid, &memory).expect("a limit of memory");
        assert_eq!(memory.trim(), "67108864");
        let cores = kept_to(it.pid, &cores).expect("a limit of cores");
        assert_eq!(cores.split_whitespace().next(), Some("25000"));
    });
}

#[test]
fn a_container_that_somebody_paused_is_made_anew_at_its_address() {
    tell(async |stage| {
        let mut db = spec(RUNS);
        db.volumes.insert(VolumeName::new("data").expect("a name"), "/data".into());
        let ids = stage.wants([service("web", spec(RUNS)), service("db", db)]);
        for id in ids {
            let address = stage.until_serves(id).await.address;
            let label = format!("label=fluke.deployment.id={id}");
            let find = ["ps", "--quiet", "--no-trunc", "--filter", &label];
            let before = stage.cli(&find);
            stage.cli(&["pause", before.trim()]);
            let is_another = async |stage: &Stage| {
                let all = stage.containers().await;
                all.len() == 2
                    && all.iter().all(|it| it.state == "running" && it.id != before.trim())
            };
            stage.until_all_is(is_another).await;
            assert_eq!(stage.until_serves(id).await.address, address);
        }
        assert!(stage.is_so(&["volume", "exists", "fluke.db.data"]), "data is never removed");
    });
}
