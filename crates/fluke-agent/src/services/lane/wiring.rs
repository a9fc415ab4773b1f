//! Where the interfaces of containers lead.
//!
//! Each has its end on the host: a port of the bridge, unless somebody took it from there. To find
//! out which takes two files for each container; whether the port is still there, one folder for all.

use std::collections::{BTreeMap, BTreeSet};

use fluke_model::gather::Gather;

use crate::services::bridge::Interfaces;

/// The port of each, by the container's first process; none where it leads to nothing. Those of which
/// it cannot be told are not in it.
#[derive(Debug, Default)]
pub struct Wiring(BTreeMap<i32, Option<String>>);

impl Wiring {
    /// Looks at these. What leads where it led is not followed again.
    pub fn see(&mut self, processes: &BTreeSet<i32>, interfaces: &Interfaces) {
        let ports = interfaces.ports();
        self.0.retain(|process, port| {
            let is_there = port.as_ref().is_some_and(|port| ports.contains(port));
            is_there && processes.contains(process)
        });
        let unknown: Vec<i32> =
            processes.iter().copied().filter(|process| !self.0.contains_key(process)).collect();
        if unknown.is_empty() {
            return;
        }
        let numbered = |port: String| Some((interfaces.number(&port)?, port));
        let numbered: BTreeMap<u32, String> = ports.into_iter().filter_map(numbered).gather();
        for process in unknown {
            if let Some(end) = interfaces.other_end(process) {
                self.0.insert(process, numbered.get(&end).cloned());
            }
        }
    }

    /// Whether what a process has leads to the bridge; none where that cannot be told.
    pub fn leads_there(&self, process: i32) -> Option<bool> {
        self.0.get(&process).map(Option::is_some)
    }

    /// Has all of it followed again.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests;
