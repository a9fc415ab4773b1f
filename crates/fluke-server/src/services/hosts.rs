//! All hosts, and which of them have to do with what: kept with every change, so that what one host
//! says costs as much as concerns it, however many others there are. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use fluke_model::id::{AgentName, ServiceName};
use fluke_model::message::NodeType;
use fluke_model::service::Phase;

use super::host::{HostView, Presence};

/// Hosts by name. Read as a map; changed only by what is here.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    all: BTreeMap<AgentName, HostView>,
    /// Who runs something of a service, was given something of it, or has volumes of it.
    of: BTreeMap<ServiceName, BTreeSet<AgentName>>,
    proxies: BTreeSet<AgentName>,
    /// Who runs something that is on its way out.
    retiring: BTreeSet<AgentName>,
    /// Who is connected and has not said yet what it runs.
    arriving: BTreeSet<AgentName>,
    /// Who runs something and has not said how it is reached, nor which subnet is its own.
    unreached: BTreeSet<AgentName>,
    /// Who is otherwise than when that was last asked.
    changed: BTreeSet<AgentName>,
}

impl Deref for Hosts {
    type Target = BTreeMap<AgentName, HostView>;
    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Hosts {
    /// Changes a host, if it is known.
    pub fn change<T>(
        &mut self,
        name: &AgentName,
        change: impl FnOnce(&mut HostView) -> T,
    ) -> Option<T> {
        let host = self.all.get_mut(name)?;
        let before = Marks::of(host);
        let done = change(host);
        let after = Marks::of(host);
        self.note(name, &before, &after);
        Some(done)
    }

    /// Knows a host from now on, or knows it anew.
    pub fn insert(&mut self, name: AgentName, host: HostView) {
        let after = Marks::of(&host);
        let before = self.all.insert(name.clone(), host);
        let before = before.as_ref().map(Marks::of).unwrap_or_default();
        self.note(&name, &before, &after);
    }

    /// Knows a host no more.
    pub fn remove(&mut self, name: &AgentName) -> Option<HostView> {
        let host = self.all.remove(name)?;
        self.note(name, &Marks::of(&host), &Marks::default());
        Some(host)
    }

    /// Takes a host for changed: something that is kept elsewhere is another for it.
    pub fn touch(&mut self, name: &AgentName) {
        self.changed.insert(name.clone());
    }

    /// Who changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<AgentName> {
        std::mem::take(&mut self.changed)
    }

    /// Who runs something of a service, was given something of it, or has volumes of it.
    pub fn of<'a>(
        &'a self,
        service: &ServiceName,
    ) -> impl Iterator<Item = (&'a AgentName, &'a HostView)> + Clone + use<'a> {
        self.named(self.of.get(service).into_iter().flatten())
    }

    /// The services that somebody has something of.
    pub fn services(&self) -> impl Iterator<Item = &ServiceName> {
        self.of.keys()
    }

    /// Who is there to take public traffic, whether it does or not.
    pub fn proxies(&self) -> impl Iterator<Item = (&AgentName, &HostView)> + Clone {
        self.named(self.proxies.iter())
    }

    /// Who runs something that is on its way out.
    pub fn retiring(&self) -> impl Iterator<Item = (&AgentName, &HostView)> + Clone {
        self.named(self.retiring.iter())
    }

    /// Who runs something and has not said how it is reached, nor which subnet is its own.
    pub fn unreached(&self) -> impl Iterator<Item = (&AgentName, &HostView)> + Clone {
        self.named(self.unreached.iter())
    }

    /// Whether all who are connected have said what they run.
    pub fn have_all_spoken(&self) -> bool {
        self.arriving.is_empty()
    }

    fn named<'a, N>(
        &'a self,
        names: N,
    ) -> impl Iterator<Item = (&'a AgentName, &'a HostView)> + Clone + use<'a, N>
    where
        N: Iterator<Item = &'a AgentName> + Clone,
    {
        names.filter_map(move |name| self.all.get_key_value(name))
    }

    fn note(&mut self, name: &AgentName, before: &Marks, after: &Marks) {
        self.changed.insert(name.clone());
        keep(&mut self.proxies, name, after.is_proxy);
        keep(&mut self.retiring, name, after.retires);
        keep(&mut self.arriving, name, after.arrives);
        keep(&mut self.unreached, name, after.is_unreached);
        for service in before.services.difference(&after.services) {
            if let Some(hosts) = self.of.get_mut(service) {
                hosts.remove(name);
                if hosts.is_empty() {
                    self.of.remove(service);
                }
            }
        }
        for service in after.services.difference(&before.services) {
            self.of.entry(service.clone()).or_default().insert(name.clone());
        }
    }
}

fn keep(names: &mut BTreeSet<AgentName>, name: &AgentName, is_one: bool) {
    match is_one {
        true => drop(names.insert(name.clone())),
        false => drop(names.remove(name)),
    }
}

/// What a host is found by.
#[derive(Debug, Default)]
struct Marks {
    services: BTreeSet<ServiceName>,
    is_proxy: bool,
    retires: bool,
    arrives: bool,
    is_unreached: bool,
}

impl Marks {
    fn of(host: &HostView) -> Self {
        Self {
            services: host.services(),
            is_proxy: host.node_type == NodeType::Proxy,
            retires: host.deployments.values().any(|it| it.phase == Phase::Retiring),
            arrives: matches!(host.presence, Presence::Arriving { .. }),
            is_unreached: host.mesh.is_none() && !host.deployments.is_empty(),
        }
    }
}

#[cfg(test)]
impl Hosts {
    /// Panics where what is kept is not what comes of looking at every host.
    pub fn are_found(&self) {
        let mut anew = Self::default();
        self.all.iter().for_each(|(name, host)| anew.insert(name.clone(), host.clone()));
        assert_eq!(self.of, anew.of);
        assert_eq!((&self.proxies, &self.retiring), (&anew.proxies, &anew.retiring));
        assert_eq!((&self.arriving, &self.unreached), (&anew.arriving, &anew.unreached));
    }
}
