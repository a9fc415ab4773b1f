//! What Traefik says that it has loaded, and how that differs from what it should have. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;

use fluke_model::directory::{Route, RouteKey, Routes};
use fluke_model::gather::Gather;
use fluke_model::service::Traffic;
use serde::Deserialize;

use super::compile::{Gate, is_part, key, name};
use super::config::{Dynamic, Middleware, Router, Section, Service};

/// What the API says of everything that came from files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// In the words of the files.
    pub dynamic: Dynamic,
    /// What Traefik could not make use of, and why.
    pub broken: Vec<(String, String)>,
}

/// What Traefik adds to the names of all that came from files.
const FILES: &str = "@file";
/// How many differences are told.
const TOLD: usize = 3;

/// The answer of `/api/rawdata`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Raw {
    routers: BTreeMap<String, Entry<Router>>,
    services: BTreeMap<String, Entry<Service>>,
    middlewares: BTreeMap<String, Entry<Middleware>>,
    tcp_routers: BTreeMap<String, Entry<Router>>,
    tcp_services: BTreeMap<String, Entry<Service>>,
    udp_routers: BTreeMap<String, Entry<Router>>,
    udp_services: BTreeMap<String, Entry<Service>>,
}

#[derive(Debug, Deserialize)]
struct Entry<T> {
    #[serde(flatten)]
    it: T,
    #[serde(default)]
    status: String,
    #[serde(default)]
    error: Vec<String>,
}

impl Loaded {
    /// From the answer of `/api/rawdata`.
    pub fn read(answer: &[u8]) -> Result<Self, serde_json::Error> {
        let raw: Raw = serde_json::from_slice(answer)?;
        let mut broken = Vec::new();
        let mut section = |routers, services| Section {
            routers: of_files(routers, &mut broken),
            services: of_files(services, &mut broken),
            middlewares: BTreeMap::new(),
        };
        let mut http = section(raw.routers, raw.services);
        let tcp = section(raw.tcp_routers, raw.tcp_services);
        let udp = section(raw.udp_routers, raw.udp_services);
        http.middlewares = of_files(raw.middlewares, &mut broken);
        for used in http.routers.values_mut().flat_map(|router| &mut router.middlewares) {
            // Here Traefik says where it has them from.
            *used = used.trim_end_matches(FILES).to_owned();
        }
        let dynamic = Dynamic { http, tcp, udp, ..Dynamic::default() };
        Ok(Self { dynamic, broken })
    }

    /// How it differs from what it should be, in words; none: it does not.
    pub fn difference(&self, wanted: &Dynamic) -> Option<String> {
        let cannot = |(what, why): &(String, String)| format!("Traefik cannot use {what}: {why}");
        let mut words: Vec<String> = self.broken.iter().map(cannot).collect();
        let sections = [
            (&wanted.http, &self.dynamic.http),
            (&wanted.tcp, &self.dynamic.tcp),
            (&wanted.udp, &self.dynamic.udp),
        ];
        for (wanted, loaded) in sections {
            differences(&wanted.routers, &loaded.routers, &mut words);
            differences(&wanted.services, &loaded.services, &mut words);
            differences(&wanted.middlewares, &loaded.middlewares, &mut words);
        }
        // With other certificates, nothing but the mark is another.
        if words.is_empty() && wanted.http.services != self.dynamic.http.services {
            words.push("Traefik has loaded other certificates".to_owned());
        }
        if words.len() > TOLD {
            let more = words.len() - TOLD;
            words.truncate(TOLD);
            words.push(format!("and {more} more"));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// The routes that this is made from, but for what Traefik could not make use of.
    pub fn routes(&self) -> Routes {
        let Dynamic { http, tcp, udp, .. } = &self.dynamic;
        let http = rows(http, |router| {
            let domain = quoted(router.rule.as_deref()?, "Host")?;
            Some(Traffic::Http { domain: Some(domain.to_owned()) })
        });
        let tcp = rows(tcp, |router| {
            let name = quoted(router.rule.as_deref()?, "HostSNI")?;
            let domain = (name != "*").then(|| name.to_owned());
            match gate(router)? {
                Gate::Tcp(port) => Some(Traffic::Tcp { external: Some(port), domain }),
                Gate::Udp(_) => None,
            }
        });
        let udp = rows(udp, |router| match gate(router)? {
            Gate::Udp(port) => Some(Traffic::Udp { external: Some(port) }),
            Gate::Tcp(_) => None,
        });
        let mut rows = [http, tcp, udp].concat();
        if !self.broken.is_empty() {
            rows.retain(|(key, _)| !self.is_broken(&name(key)));
        }
        Routes::from(rows)
    }

    fn is_broken(&self, route: &str) -> bool {
        self.broken.iter().any(|(what, _)| is_part(what, route))
    }
}

fn of_files<T>(
    entries: BTreeMap<String, Entry<T>>,
    broken: &mut Vec<(String, String)>,
) -> BTreeMap<String, T> {
    let mut found = BTreeMap::new();
    for (name, Entry { it, status, error }) in entries {
        // What is Traefik's own is none of ours.
        let Some(name) = name.strip_suffix(FILES) else { continue };
        if !error.is_empty() || status == "disabled" {
            broken.push((name.to_owned(), error.join(", ")));
        }
        found.insert(name.to_owned(), it);
    }
    found
}

fn differences<T: PartialEq>(
    wanted: &BTreeMap<String, T>,
    loaded: &BTreeMap<String, T>,
    words: &mut Vec<String>,
) {
    let names: BTreeSet<&String> = wanted.keys().chain(loaded.keys()).gather();
    for name in names.into_iter().filter(|name| !Dynamic::is_mark(name)) {
        let word = match (wanted.get(name), loaded.get(name)) {
            (Some(wanted), Some(loaded)) if wanted == loaded => continue,
            (Some(_), Some(_)) => format!("{name} is loaded, but otherwise"),
            (Some(_), None) => format!("{name} is not loaded"),
            (None, _) => format!("{name} is loaded and should not be"),
        };
        // A router and its service have one name.
        if !words.contains(&word) {
            words.push(word);
        }
    }
}

fn rows(section: &Section, traffic: impl Fn(&Router) -> Option<Traffic>) -> Vec<(RouteKey, Route)> {
    let row = |(name, router): (&String, &Router)| {
        let upstreams = upstreams(section, &router.service);
        Some((key(name)?, Route { traffic: traffic(router)?, upstreams }))
    };
    section.routers.iter().filter_map(row).collect()
}

/// The servers of a service, or of those that it is made of.
fn upstreams(section: &Section, name: &str) -> BTreeSet<SocketAddrV4> {
    let Some(service) = section.services.get(name) else { return BTreeSet::new() };
    let shares = service.weighted.iter().flat_map(|weighted| &weighted.services);
    let others = shares.filter_map(|share| section.services.get(&share.name));
    let servers = others.flat_map(Service::servers).chain(service.servers());
    let address = |url: &String| url.strip_prefix("http://").map(str::to_owned);
    let of = servers.filter_map(|it| it.address.clone().or(it.url.as_ref().and_then(address)));
    of.filter_map(|address| address.parse().ok()).gather()
}

fn gate(router: &Router) -> Option<Gate> {
    match router.entry_points.as_slice() {
        [name] => Gate::parse(name),
        _ => None,
    }
}

/// What stands in a rule of one condition.
pub fn quoted<'a>(rule: &'a str, condition: &str) -> Option<&'a str> {
    rule.strip_prefix(condition)?.strip_prefix("(`")?.strip_suffix("`)")
}

#[cfg(test)]
mod tests;
