//! What a process that was started with other ports can take of what the next one is told. Pure.

use std::collections::BTreeSet;

use super::compile::{Plan, SECURE, WEB, is_part, key};
use super::config::{Dynamic, RouterTls, Section};

impl Plan {
    /// As far as a process goes that listens by these entry points: domains are where it takes
    /// requests for them, and routes of ports that it has not are left out. Of one that nothing is
    /// known of, all is expected.
    pub fn fitting(mut self, entry_points: &BTreeSet<String>) -> Self {
        if entry_points.is_empty() {
            return self;
        }
        let Dynamic { http, tcp, udp, .. } = &mut self.dynamic;
        // Where it takes requests over TLS, all others are sent there.
        let is_secure = entry_points.contains(SECURE);
        for router in http.routers.values_mut().filter(|it| it.tls.is_some() != is_secure) {
            let entry_point = if is_secure { SECURE } else { WEB };
            router.entry_points = vec![entry_point.to_owned()];
            router.tls = is_secure.then(RouterTls::default);
        }
        let gone = [tcp, udp].into_iter().flat_map(|it| without_others(it, entry_points));
        self.left_out.extend(gone.filter_map(|name| key(&name)));
        self
    }
}

/// Removes what comes in elsewhere; says what that was.
fn without_others(section: &mut Section, entry_points: &BTreeSet<String>) -> Vec<String> {
    let is_here = |it: &String| entry_points.contains(it);
    let others = section.routers.extract_if(.., |_, it| !it.entry_points.iter().all(is_here));
    let others: Vec<String> = others.map(|(name, _)| name).collect();
    section.services.retain(|name, _| !others.iter().any(|other| is_part(name, other)));
    others
}

#[cfg(test)]
mod tests;
