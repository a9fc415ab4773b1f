//! One of the others at work on a host.

use fluke_bed::{Host, Told};

use super::definition::expanded;
use super::install::Installed;
use super::tool::Peer;
use super::{RIGHT, WRONG, Work, file_of};
use crate::row::Trouble;
use crate::rows::killed::UNIT;

/// The unit that is killed.
const KEPT: &str = "kept.service";
/// How long a round may take, in tenths of a second: as long as the slowest needs, and half of it.
const PATIENCE: usize = 12_000;

/// A peer with its definition, in a folder of the host that is its own.
pub(super) struct Guest<'a> {
    peer: &'a Peer,
    work: Work,
    host: &'a Host,
    root: String,
}

impl<'a> Guest<'a> {
    /// Writes the definition, and what else the peer wants to have around.
    pub(super) fn prepared(
        peer: &'a Peer,
        work: Work,
        host: &'a Host,
        installed: &Installed,
    ) -> Result<Self, Trouble> {
        let root = format!("/srv/{}-{}", peer.name, work.file());
        let guest = Self { peer, work, host, root };
        for (path, text) in files(peer, work, &guest.root)? {
            host.write(&path, &text);
        }
        let (root, cfengine) = (&guest.root, format!("{}/cfengine", guest.root));
        // CFEngine takes no definition that others may write to, and has its parser at a place.
        guest.host.run(&format!(
            "chmod 600 {root}/states/*; install -d -m 700 \
             {cfengine}/{{bin,inputs,outputs,ppkeys,state}}; \
             ln -sf /usr/bin/cf-promises {cfengine}/bin/cf-promises"
        ));
        let line = peer.line(&installed.venv(), root, work.definition());
        host.write(&format!("{root}/round"), &script(work, root, &line));
        if work == Work::Service {
            host.unit(KEPT, UNIT);
        }
        Ok(guest)
    }

    /// Spoils what is to be put right, has it put right, and says in how many seconds.
    pub(super) fn round(&self) -> Result<f64, Trouble> {
        let root = &self.root;
        let doing = || format!("have {} do {}", self.peer.name, self.work.name());
        match self.work {
            Work::Checks(_) => {}
            Work::File => self.host.write(&file_of(root), WRONG),
            // Nothing is held against it that it came and went before.
            Work::Service => drop(self.host.run(&format!(
                "systemctl reset-failed {KEPT}; touch /run/started; systemctl start {KEPT}; \
                 until [ -s /run/started ]; do sleep 0.01; done"
            ))),
        }
        // Started by systemd: nothing on a host is to take as long as some of them do.
        self.host.run(&format!(
            "rm -f {root}/done; systemd-run --quiet --no-block --collect bash {root}/round"
        ));
        let told = self.waited();
        let seconds = told.stdout.parse().ok().filter(|_| told.ok());
        let seconds = seconds.ok_or_else(|| {
            let said = self.host.run(&format!("tail -n 5 {root}/said || true"));
            Trouble::failed(doing(), format!("{} {said}", told.stdout))
        })?;
        match self.work != Work::File || self.host.read(&file_of(root)) == RIGHT {
            true => Ok(seconds),
            false => Err(Trouble::failed(doing(), "the file is not as it should be")),
        }
    }

    /// What the round noted in the end.
    fn waited(&self) -> Told {
        let root = &self.root;
        // A command on a host has two minutes.
        let look = format!(
            "for n in $(seq 600); do [ -e {root}/done ] && exec cat {root}/done; sleep 0.1; done; \
             exit 9"
        );
        let mut told = self.host.try_run(&look);
        for _ in 0..PATIENCE / 600 {
            if told.code != 9 {
                break;
            }
            told = self.host.try_run(&look);
        }
        told
    }
}

/// Paths on the host, and what is there.
pub(super) fn files(peer: &Peer, work: Work, root: &str) -> Result<Vec<(String, String)>, Trouble> {
    let source = crate::root().join("crates/fluke-bench/peers").join(peer.name);
    let definition = format!("{}.{}", work.definition(), peer.ending);
    let mut wanted = vec![(format!("states/{definition}"), definition)];
    if source.join("minion").exists() {
        wanted.push(("minion".into(), "minion".into()));
    }
    let read = |(to, from): (String, String)| {
        let text = std::fs::read_to_string(source.join(&from));
        let text =
            text.map_err(|error| Trouble::failed(format!("read {from} of {}", peer.name), error))?;
        Ok((format!("{root}/{to}"), expanded(&text, work.count(), root)))
    };
    wanted.into_iter().map(read).collect()
}

/// Runs a command line, and notes the seconds that it took; of a killed service those until its
/// next process noted the time.
fn script(work: Work, root: &str, line: &str) -> String {
    let (before, after) = match work {
        Work::Service => (
            format!(
                "lines=$(wc -l </run/started); began=$(date +%s.%N); \
                 systemctl kill --signal=KILL {KEPT}; \
                 while systemctl --quiet is-active {KEPT}; do :; done"
            ),
            "for n in $(seq 100); do [ $(wc -l </run/started) -gt $lines ] && break; sleep 0.01; \
             done; [ $(wc -l </run/started) -gt $lines ] || code=99; \
             ended=$(tail -n 1 /run/started)",
        ),
        _ => ("began=$(date +%s.%N)".into(), "ended=$(date +%s.%N)"),
    };
    format!(
        "cd {root}; export HOME={root} LC_ALL=C.UTF-8\n{before}\n\
         {line} >{root}/said 2>&1 </dev/null; code=$?\n{after}\n\
         if [ $code = 0 ]; then awk \"BEGIN {{ printf \\\"%.6f\\\", $ended - $began }}\"; \
         else echo \"it ended with $code\"; fi >{root}/noted\nmv {root}/noted {root}/done\n"
    )
}
