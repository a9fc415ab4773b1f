//! Traefik's dynamic configuration, in the words of its files and of its API.
//!
//! Both sides of every comparison are these types: what was written is compared with what was
//! loaded as values, never as text.

use std::collections::BTreeMap;

use fluke_model::id::Hash256;
use serde::{Deserialize, Serialize};

/// The name of a service that nobody uses: with it Traefik says which configuration it has, the
/// certificates included, of which its API says nothing. Services of routes have a dot.
const MARK: &str = "fluke-";

/// All that changes while Traefik runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Dynamic {
    /// Requests.
    #[serde(skip_serializing_if = "Section::is_empty")]
    pub http: Section,
    /// Connections.
    #[serde(skip_serializing_if = "Section::is_empty")]
    pub tcp: Section,
    /// Packets.
    #[serde(skip_serializing_if = "Section::is_empty")]
    pub udp: Section,
    /// Written, and not to be had back.
    #[serde(skip_serializing_if = "Tls::is_empty")]
    pub tls: Tls,
}

/// What comes in, and where it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Section {
    /// By name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub routers: BTreeMap<String, Router>,
    /// By name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, Service>,
    /// By name; only requests have any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub middlewares: BTreeMap<String, Middleware>,
}

impl Section {
    fn is_empty(&self) -> bool {
        self.routers.is_empty() && self.services.is_empty() && self.middlewares.is_empty()
    }
}

/// Which of what comes in goes where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Router {
    /// Where it comes in.
    #[serde(default)]
    pub entry_points: Vec<String>,
    /// What it must be; packets are not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What is done to it on its way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub middlewares: Vec<String>,
    /// Where it goes.
    #[serde(default)]
    pub service: String,
    /// How TLS is dealt with; none: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<RouterTls>,
}

/// What is done to requests on their way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Middleware {
    /// One that did not reach anybody is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// How often a request is sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// With the first time.
    pub attempts: usize,
}

/// How a router deals with TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouterTls {
    /// It is for whoever is behind.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passthrough: bool,
    /// Who is asked for a certificate where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_resolver: Option<String>,
}

/// Where it goes; one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// To servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
    /// To other services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted: Option<Weighted>,
}

impl Service {
    /// To servers, in turn.
    pub fn of_servers(servers: Vec<Server>) -> Self {
        Self { load_balancer: Some(LoadBalancer { servers }), weighted: None }
    }

    /// To other services, by their weight.
    pub fn of_services(services: Vec<Share>) -> Self {
        Self { load_balancer: None, weighted: Some(Weighted { services }) }
    }

    /// Its own servers.
    pub fn servers(&self) -> &[Server] {
        self.load_balancer.as_ref().map_or(&[], |balancer| &balancer.servers)
    }
}

/// Servers that are asked in turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadBalancer {
    /// None: nobody answers, and those who ask are told so.
    #[serde(default)]
    pub servers: Vec<Server>,
}

/// One that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Of one that is asked by HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Of any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How often it is asked, with HTTP; with all others only services have weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<usize>,
}

/// Services that are used by turns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weighted {
    /// Which.
    #[serde(default)]
    pub services: Vec<Share>,
}

/// How often a service is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which.
    pub name: String,
    /// Compared with the others.
    #[serde(default)]
    pub weight: usize,
}

/// Certificates that are given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Tls {
    /// The one that fits the name is served.
    pub certificates: Vec<Pair>,
}

impl Tls {
    fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }
}

/// A certificate with its key, in PEM.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pair {
    /// Traefik takes the name of a file or what would be in it; the latter cannot change behind
    /// its back.
    pub cert_file: String,
    /// Likewise.
    pub key_file: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("cert_file", &self.cert_file).finish_non_exhaustive()
    }
}

impl Dynamic {
    /// Has Traefik say that it is this one that it has loaded.
    pub fn marked(mut self) -> Self {
        let content = serde_json::to_vec(&self).expect("a configuration is plain data");
        let name = format!("{MARK}{}", Hash256::of(&content));
        self.http.services.insert(name, Service::of_servers(Vec::new()));
        self
    }

    /// The same, but not to Traefik.
    pub fn stirred(mut self) -> Self {
        self.http.services.insert(format!("{MARK}again"), Service::of_servers(Vec::new()));
        self
    }

    /// The same for a process that leaves: it asks for no certificates, which are another's now.
    pub fn of_one_that_leaves(mut self) -> Self {
        let tls = self.http.routers.values_mut().filter_map(|router| router.tls.as_mut());
        tls.for_each(|tls| tls.cert_resolver = None);
        self
    }

    /// Whether a service is only there to be seen.
    pub fn is_mark(name: &str) -> bool {
        name.starts_with(MARK) && !name.contains('.')
    }

    /// What is written to its file. JSON is YAML.
    pub fn text(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a configuration is plain data");
        // Traefik takes its files for templates, with functions that read the environment. Two
        // braces in a row are nowhere in JSON but within a text.
        text.replace("{{", "{\\u007b")
    }
}
