//! From routes to what Traefik is told. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;

use fluke_model::directory::{Route, RouteKey, Routes};
use fluke_model::gather::Gather;
use fluke_model::id::{Hash256, PortName, ServiceName};
use fluke_model::service::Traffic;
use serde_json::{Value, json};

use super::config::{
    Dynamic, Middleware, Pair, Retry, Router, RouterTls, Section, Server, Service, Share, Tls,
};
use super::leaving::GRACE;
use super::settings::{Acme, Network, Settings};

/// How much a container of this host is preferred to one of another.
pub const LOCAL: usize = 5;
/// The weight of the others.
pub const REMOTE: usize = 1;

/// Where requests come in.
pub const WEB: &str = "web";
/// Where requests come in over TLS.
pub const SECURE: &str = "websecure";
/// The one who is asked for certificates.
pub const RESOLVER: &str = "acme";
/// The entry point that Traefik takes for its API, by this name.
const API: &str = "traefik";
/// What sends a request again that did not reach its container: one that died, or whose host did, is
/// in the routes for a moment longer. What a container has begun to read is never sent twice.
const AGAIN: &str = "retry";
/// More often than a container of this host is asked in a row.
const ATTEMPTS: usize = LOCAL + 3;
/// How long a container may take to accept a connection, over the mesh as well.
const DIAL: &str = "2s";
/// How long a request may take to arrive, with all that is uploaded by it: Traefik has no other bound
/// for its beginning alone, and its own, a minute, would end what takes longer. Whoever begins requests
/// and never ends them has to keep a connection for each, as they would with any bound; one that is cut
/// off is noticed by the kernel.
const UPLOAD: &str = "12h";
/// How long a proxy may be away from what its file says.
const THROTTLE: &str = "10ms";

/// What a proxy should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Which ports it listens on, and where its certificates come from: read once, at its start.
    pub fixed: Fixed,
    /// The ports that it listens on, by the names of its entry points.
    pub listens: BTreeMap<String, Gate>,
    /// Those that somebody else has.
    pub taken: BTreeSet<Gate>,
    /// A port for requests among these: there can be no process before it is free.
    pub in_the_way: Option<u16>,
    /// Its routes: read whenever they change.
    pub dynamic: Dynamic,
    /// What cannot be done, and is left out; all else is not affected by it.
    pub problems: Vec<String>,
    /// The routes among it.
    pub left_out: BTreeSet<RouteKey>,
}

/// What only a new process can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fixed {
    /// Names it.
    pub generation: Generation,
    /// Traefik's static configuration. JSON is YAML.
    pub text: String,
}

/// Names what a process was started with; two of them can run side by side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(String);

impl Generation {
    const LENGTH: usize = 12;

    /// Of this content.
    pub fn of(content: &str) -> Self {
        let mut name = Hash256::of(content.as_bytes()).to_string();
        name.truncate(Self::LENGTH);
        Self(name)
    }

    /// From its name.
    pub fn parse(name: &str) -> Option<Self> {
        let is_one = name.len() == Self::LENGTH && name.bytes().all(|it| it.is_ascii_hexdigit());
        is_one.then(|| Self(name.to_owned()))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where its API is: nowhere but on this host, and apart from any other's.
    pub fn api(&self, port: u16) -> SocketAddrV4 {
        let [.., a, b, c] = u32::from_str_radix(&self.0[..6], 16).unwrap_or_default().to_be_bytes();
        SocketAddrV4::new(Ipv4Addr::new(127, a | 0x80, b, c.clamp(1, 254)), port)
    }
}

/// One end of traffic that Traefik listens for beside requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// For connections.
    Tcp(u16),
    /// For packets.
    Udp(u16),
}

impl Gate {
    /// The name of its entry point.
    pub fn name(self) -> String {
        match self {
            Self::Tcp(port) => format!("tcp-{port}"),
            Self::Udp(port) => format!("udp-{port}"),
        }
    }

    /// From the name of its entry point.
    pub fn parse(name: &str) -> Option<Self> {
        let (kind, port) = name.split_once('-')?;
        let port = port.parse().ok()?;
        match kind {
            "tcp" => Some(Self::Tcp(port)),
            "udp" => Some(Self::Udp(port)),
            _ => None,
        }
    }

    /// From the name of any entry point, one for requests as well.
    pub fn of(name: &str, settings: &Settings) -> Option<Self> {
        match name {
            WEB => Some(Self::Tcp(settings.web)),
            SECURE => Some(Self::Tcp(settings.secure)),
            name => Self::parse(name),
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Tcp(port) | Self::Udp(port) => port,
        }
    }

    fn address(self, listen: Option<IpAddr>) -> String {
        let kind = match self {
            Self::Tcp(_) => "tcp",
            Self::Udp(_) => "udp",
        };
        format!("{}/{kind}", address(listen, self.port()))
    }
}

/// What Traefik should be told: of `routes`, with these certificates, where `taken` are ports that
/// somebody else has.
pub fn compile(
    routes: &Routes,
    settings: &Settings,
    certificates: Vec<Pair>,
    taken: &BTreeSet<Gate>,
) -> Plan {
    let mut compiler = Compiler::new(settings, taken);
    let mut left_out = BTreeSet::new();
    for (key, route) in routes.rows() {
        if let Err(why) = compiler.add(key, route) {
            left_out.insert(key.clone());
            compiler.problems.push(format!("{} is left out: {why}", name(key)));
        }
    }
    let mut dynamic = compiler.dynamic;
    dynamic.tls = Tls { certificates };
    let mut doors = doors(settings);
    let beside = compiler.gates.iter().map(|gate| (gate.name(), *gate));
    let for_requests = doors.clone().map(|(name, port)| (name.to_owned(), Gate::Tcp(port)));
    Plan {
        taken: taken.clone(),
        fixed: fixed(settings, &compiler.gates),
        listens: beside.chain(for_requests).gather(),
        in_the_way: doors.find_map(|(_, port)| taken.contains(&Gate::Tcp(port)).then_some(port)),
        dynamic: dynamic.marked(),
        problems: compiler.problems,
        left_out,
    }
}

/// Where requests come in: the entry points for them, and their ports.
fn doors(settings: &Settings) -> impl Iterator<Item = (&'static str, u16)> + Clone {
    let secure = settings.has_tls().then_some((SECURE, settings.secure));
    std::iter::once((WEB, settings.web)).chain(secure)
}

/// The name of a route in Traefik; neither part has a dot.
pub fn name(key: &RouteKey) -> String {
    format!("{}.{}", key.service, key.port)
}

/// The route of such a name.
pub fn key(name: &str) -> Option<RouteKey> {
    let (service, port) = name.split_once('.')?;
    let service = ServiceName::new(service).ok()?;
    Some(RouteKey { service, port: PortName::new(port).ok()? })
}

/// Whether a name is that of a route, or of a service that it is made of.
pub fn is_part(name: &str, route: &str) -> bool {
    name.strip_prefix(route).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

struct Compiler<'a> {
    settings: &'a Settings,
    taken: &'a BTreeSet<Gate>,
    dynamic: Dynamic,
    gates: BTreeSet<Gate>,
    /// What already leads somewhere, and to whom.
    owners: BTreeMap<(Option<Gate>, Option<String>), String>,
    problems: Vec<String>,
}

impl<'a> Compiler<'a> {
    fn new(settings: &'a Settings, taken: &'a BTreeSet<Gate>) -> Self {
        Self {
            settings,
            taken,
            dynamic: Dynamic::default(),
            gates: BTreeSet::new(),
            owners: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    fn add(&mut self, key: &RouteKey, route: &Route) -> Result<(), String> {
        let name = name(key);
        let (local, remote) = apart(&route.upstreams, self.settings.local);
        match &route.traffic {
            // Nothing that a proxy has to do with.
            traffic if !traffic.is_public() => Ok(()),
            Traffic::Http { domain: None }
            | Traffic::Tcp { external: None, .. }
            | Traffic::Udp { external: None } => Ok(()),
            Traffic::Http { domain: Some(domain) } => {
                self.claim(None, Some(domain), &name)?;
                let router = self.http_router(domain, &name);
                self.dynamic.http.services.insert(name.clone(), http_service(&local, &remote));
                let again = Middleware { retry: Some(Retry { attempts: ATTEMPTS }) };
                self.dynamic.http.middlewares.insert(AGAIN.to_owned(), again);
                self.dynamic.http.routers.insert(name, router);
                Ok(())
            }
            Traffic::Tcp { external: Some(port), domain } => {
                let gate = self.gate(Gate::Tcp(*port))?;
                self.claim(Some(gate), domain.as_deref(), &name)?;
                let router = Router {
                    entry_points: vec![gate.name()],
                    rule: Some(sni_rule(domain.as_deref())),
                    service: name.clone(),
                    tls: domain
                        .is_some()
                        .then_some(RouterTls { passthrough: true, cert_resolver: None }),
                    ..Router::default()
                };
                self.gates.insert(gate);
                add_weighted(&mut self.dynamic.tcp, router, &name, &local, &remote);
                Ok(())
            }
            Traffic::Udp { external: Some(port) } => {
                let gate = self.gate(Gate::Udp(*port))?;
                self.claim(Some(gate), None, &name)?;
                let entry_points = vec![gate.name()];
                let router = Router { entry_points, service: name.clone(), ..Router::default() };
                self.gates.insert(gate);
                add_weighted(&mut self.dynamic.udp, router, &name, &local, &remote);
                Ok(())
            }
        }
    }

    fn http_router(&self, domain: &str, name: &str) -> Router {
        let tls = self.settings.has_tls().then(|| RouterTls {
            passthrough: false,
            cert_resolver: self.settings.acme.as_ref().map(|_| RESOLVER.to_owned()),
        });
        let entry_point = if tls.is_some() { SECURE } else { WEB };
        Router {
            entry_points: vec![entry_point.to_owned()],
            rule: Some(host_rule(domain)),
            middlewares: vec![AGAIN.to_owned()],
            service: name.to_owned(),
            tls,
        }
    }

    /// A port that may be listened on.
    fn gate(&self, gate: Gate) -> Result<Gate, String> {
        let own = [self.settings.web, self.settings.secure].map(Gate::Tcp);
        match gate {
            gate if own.contains(&gate) => {
                Err(format!("port {} is for requests, by their domain", gate.port()))
            }
            gate if gate == Gate::Tcp(self.settings.api) => {
                Err(format!("Traefik itself is asked how it is at port {}", gate.port()))
            }
            gate if self.taken.contains(&gate) => Err(format!(
                "another program of this host has port {}; `ss -lntup` shows which",
                gate.port()
            )),
            gate => Ok(gate),
        }
    }

    /// Takes what comes in for a route, if nobody has.
    fn claim(
        &mut self,
        gate: Option<Gate>,
        domain: Option<&str>,
        name: &str,
    ) -> Result<(), String> {
        if let Some(domain) = domain.filter(|domain| !is_domain(domain)) {
            return Err(format!("{domain:?} is not a domain"));
        }
        let what = (gate, domain.map(str::to_ascii_lowercase));
        match self.owners.get(&what) {
            Some(owner) => Err(format!("{owner} has the same domain or port")),
            None => {
                self.owners.insert(what, name.to_owned());
                Ok(())
            }
        }
    }
}

/// The containers of this host, and the others.
fn apart(
    upstreams: &BTreeSet<SocketAddrV4>,
    local: Network,
) -> (Vec<SocketAddrV4>, Vec<SocketAddrV4>) {
    upstreams.iter().partition(|upstream| local.contains(*upstream.ip()))
}

fn http_service(local: &[SocketAddrV4], remote: &[SocketAddrV4]) -> Service {
    let server = |weight: usize| {
        move |upstream: &SocketAddrV4| Server {
            url: Some(format!("http://{upstream}")),
            address: None,
            weight: Some(weight),
        }
    };
    let local = local.iter().map(server(LOCAL));
    Service::of_servers(local.chain(remote.iter().map(server(REMOTE))).collect())
}

/// Only services can be weighed here: one for each kind, where there are both.
fn add_weighted(
    section: &mut Section,
    router: Router,
    name: &str,
    local: &[SocketAddrV4],
    remote: &[SocketAddrV4],
) {
    let server =
        |it: &SocketAddrV4| Server { url: None, address: Some(it.to_string()), weight: None };
    let service = |all: &[SocketAddrV4]| Service::of_servers(all.iter().map(server).collect());
    section.routers.insert(name.to_owned(), router);
    let all = match (local, remote) {
        (all, []) | ([], all) => service(all),
        (local, remote) => {
            let groups = [("local", local, LOCAL), ("remote", remote, REMOTE)];
            let shares = groups.map(|(kind, members, weight)| {
                let name = format!("{name}.{kind}");
                section.services.insert(name.clone(), service(members));
                Share { name, weight: weight * members.len() }
            });
            Service::of_services(shares.into())
        }
    };
    section.services.insert(name.to_owned(), all);
}

/// What was validated where it was written, seen once more: it becomes part of an expression.
fn is_domain(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

fn host_rule(domain: &str) -> String {
    format!("Host(`{domain}`)")
}

fn sni_rule(domain: Option<&str>) -> String {
    format!("HostSNI(`{}`)", domain.unwrap_or("*"))
}

fn address(listen: Option<IpAddr>, port: u16) -> String {
    match listen {
        None => format!(":{port}"),
        Some(listen) => SocketAddr::new(listen, port).to_string(),
    }
}

/// Where all processes of Traefik look for their routes.
pub fn dynamic_folders(folder: &Path) -> std::path::PathBuf {
    folder.join("dynamic")
}

/// Where one of them does.
pub fn dynamic_folder(folder: &Path, generation: &Generation) -> std::path::PathBuf {
    dynamic_folders(folder).join(generation.as_str())
}

/// Where Traefik keeps the certificates that it got.
pub fn store(folder: &Path) -> std::path::PathBuf {
    folder.join("acme.json")
}

fn fixed(settings: &Settings, gates: &BTreeSet<Gate>) -> Fixed {
    let mut entry_points = BTreeMap::new();
    let listen = |port| address(settings.listen, port);
    // The next process of Traefik listens before the last one ends.
    let shared = |address: String| json!({ "address": address, "reusePort": true });
    let lasting = |address: String| {
        let mut shared = shared(address);
        let grace = format!("{}s", GRACE.as_secs());
        shared["transport"] = json!({ "lifeCycle": { "graceTimeOut": grace } });
        shared
    };
    for (name, port) in doors(settings) {
        let mut door = lasting(listen(port));
        door["transport"]["respondingTimeouts"] = json!({ "readTimeout": UPLOAD });
        if name == WEB && settings.has_tls() {
            door["http"] = json!({ "redirections": { "entryPoint": { "to": SECURE } } });
        }
        entry_points.insert(name.to_owned(), door);
    }
    entry_points.extend(gates.iter().map(|it| {
        let address = it.address(settings.listen);
        // Traefik has ports for packets serve as before until its last connection is over. For as
        // long as sessions had time from then on, packets of others would go on to come to a
        // process that takes none from them.
        let is_lasting = matches!(it, Gate::Tcp(_));
        (it.name(), if is_lasting { lasting(address) } else { shared(address) })
    }));
    let mut all = json!({
        "global": { "checkNewVersion": false, "sendAnonymousUsage": false },
        "entryPoints": entry_points,
        "providers": {
            "providersThrottleDuration": THROTTLE,
            "file": { "watch": true },
        },
        "api": { "insecure": true, "dashboard": false },
        "serversTransport": { "forwardingTimeouts": { "dialTimeout": DIAL } },
        "accessLog": { "filePath": settings.folder.join("access.log"), "format": "json" },
        "log": { "level": "INFO", "format": "json" },
    });
    if let Some(acme) = &settings.acme {
        all["certificatesResolvers"] = json!({ RESOLVER: { "acme": resolver(acme, settings) } });
    }
    let generation = Generation::of(&format!("{all} {:?} {}", settings.program, settings.api));
    all["entryPoints"][API] = json!({ "address": generation.api(settings.api).to_string() });
    all["providers"]["file"]["directory"] = json!(dynamic_folder(&settings.folder, &generation));
    let text = serde_json::to_string_pretty(&all).expect("a configuration is plain data");
    Fixed { generation, text }
}

fn resolver(acme: &Acme, settings: &Settings) -> Value {
    let mut resolver = json!({
        "email": acme.email,
        "storage": store(&settings.folder),
        "httpChallenge": { "entryPoint": WEB },
    });
    if let Some(directory) = &acme.directory {
        resolver["caServer"] = json!(directory);
    }
    if let Some(ca_file) = &acme.ca_file {
        resolver["caCertificates"] = json!([ca_file]);
    }
    resolver
}

#[cfg(test)]
mod tests;
