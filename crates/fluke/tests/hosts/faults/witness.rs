//! A host whose steps keep an account, and what is held against it in the end.

use std::time::{Duration, Instant};

use fluke_bed::criterion::{self, Chronicle, Evidence, PROGRAM, Step};

use super::super::support::{Bed, Host, Join};

/// Where the steps are, on every host.
const ROOT: &str = "/srv";
const STATE: &str = "/var/lib/fluke";

/// A host, and everything that servers told of it.
pub struct Witness {
    pub host: Host,
    chronicle: Chronicle,
    version: String,
}

impl Witness {
    /// A host that has joined.
    pub fn joins(bed: &Bed, name: &str, join: &Join) -> Self {
        let host = bed.host(name);
        host.write(&format!("{ROOT}/step"), PROGRAM);
        host.run(&format!("chmod 755 {ROOT}/step"));
        let host = host.joins_as(join);
        Self { host, chronicle: Chronicle::default(), version: String::new() }
    }

    /// Commits the page in this version.
    pub fn commit(&mut self, bed: &Bed, version: &str) {
        let step = Step { root: ROOT, task: "page", version, policy: "remediate" };
        bed.commit("tasks.fluke.hcl", &step.manifest());
        self.version = version.into();
    }

    /// Notes what the server knows now, before it is ended.
    pub fn reads(&mut self, bed: &Bed) {
        self.chronicle.read(bed.server(), self.host.name());
    }

    /// How often the page was applied, by the host's own account.
    pub fn begun(&self) -> usize {
        let account = self.host.read(&format!("{ROOT}/account"));
        account.lines().filter(|line| line.starts_with("begin ")).count()
    }

    /// Waits until everything stands still, and holds what is left against the criterion.
    pub fn ends_well(&mut self, bed: &Bed) {
        self.host.settles();
        let patience = Instant::now() + Duration::from_secs(20);
        let mut strays = self.strays();
        while !strays.is_empty() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(50));
            strays = self.strays();
        }
        self.reads(bed);
        let page = self.host.read(&format!("{ROOT}/page"));
        let names = self.host.run(&format!("ls {STATE}"));
        let state = names.lines().filter(|name| !name.contains(".tmp"));
        let read = |name: &str| self.host.read(&format!("{STATE}/{name}")).into_bytes();
        let evidence = Evidence {
            account: self.host.read(&format!("{ROOT}/account")),
            files: vec![("page".into(), format!("{}\n", self.version), page)],
            strays,
            state: state.map(|name| (name.to_string(), read(name))).collect(),
            chronicle: std::mem::take(&mut self.chronicle),
        };
        let broken = criterion::broken(&evidence);
        assert!(broken.is_empty(), "{broken:#?}\n{}\n{}", evidence.account, bed.account());
        self.chronicle = evidence.chronicle;
    }

    /// Commands of an agent that are still there; a check that runs just now is soon gone.
    fn strays(&self) -> Vec<String> {
        let list = "for p in $(grep -lz '^FLUKE_RUN=' /proc/[0-9]*/environ 2>/dev/null); do \
                    tr '\\0' ' ' < ${p%environ}cmdline; echo; done";
        self.host.try_run(list).stdout.lines().map(str::to_string).collect()
    }
}
