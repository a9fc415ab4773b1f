//! `service "name" { … }`

mod image;
mod port;
mod size;

pub use port::ClaimedAt;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use fluke_model::bounds::{
    self, MAX_ENV, MAX_PATH, MAX_REPLICAS, MAX_TEXT, MAX_VOLUMES, MAX_WORDS,
};
use fluke_model::id::{ServiceName, VolumeName};
use fluke_model::label::Selector;
use fluke_model::policy::Policy;
use fluke_model::service::{
    ContainerSpec, HealthSpec, LONGEST_ABSENCE, Port, RESCHEDULE_AFTER, Resources,
};

use super::{drift, selector};
use crate::hcl::ast::Block;
use crate::hcl::decode::{Field, Fields, Mistake, Reported, Spanned};

/// What to do with what is too much for a manifest.
const ELSEWHERE: &str = "let the image bring what is large, or a volume";

/// A service block that has nothing wrong with it by itself.
pub struct ReadService {
    /// The block's label.
    pub name: ServiceName,
    /// For people.
    pub description: Option<String>,
    /// The service's own, if it has one.
    pub policy: Option<Policy>,
    /// Which hosts it may run on.
    pub selector: Selector,
    /// How many; one on each host where none is given.
    pub replicas: Option<u32>,
    /// How long a host that is away keeps its replicas.
    pub reschedule_after: Duration,
    /// What runs.
    pub container: ContainerSpec,
    /// How it is reached, each with where it claims something.
    pub ports: Vec<(Port, ClaimedAt)>,
}

/// Reads a `service` block; what is wrong with it is reported.
pub fn read_service(block: &Block, mut fields: Fields<'_, '_>) -> Result<ReadService, Reported> {
    let label = &block.labels[0];
    let name = ServiceName::new(&label.text);
    let name = name.map_err(|error| fields.report(label.span, error.to_string(), ""));
    let description = fields.optional(Field::string("description"));
    let drift = fields.block("drift");
    let policy = drift.and_then(|block| drift::read(fields.within(block)).ok());
    let selector = fields.required_block("selector");
    let selector = selector.and_then(|block| selector::read(fields.within(block)));
    let replicas = fields.optional(Field::integer("replicas", 0..=MAX_REPLICAS.into()));
    let patience = Field::duration("reschedule_after").then(no_longer_than_remembered);
    let reschedule_after = fields.or(patience, RESCHEDULE_AFTER);
    let container = read_container(&mut fields);
    let ports = port::read_all(&mut fields);
    fields.finish();
    Ok(ReadService {
        name: name?,
        description,
        policy,
        selector: selector?,
        replicas: replicas.map(|replicas| replicas as u32),
        reschedule_after,
        container: container?,
        ports: ports?,
    })
}

fn read_container(fields: &mut Fields<'_, '_>) -> Result<ContainerSpec, Reported> {
    let image = read_image(fields);
    let command = Field::strings("command").then(some_words);
    let command = fields.optional(command.each(|n, word| within(bounds::word(n, &word), word)));
    let env = Field::string_map("env").then(some_variables).entries(variable, value);
    let env = fields.or(env, BTreeMap::new());
    let volumes = read_volumes(fields);
    let health = fields.block("health").map(|block| read_health(fields.within(block))).transpose();
    let resources = fields.block("resources");
    let resources = resources.map(|block| read_resources(fields.within(block)));
    let resources = resources.unwrap_or_default();
    let (image, volumes, health) = (image?, volumes?, health?);
    let spec = ContainerSpec { image, command, env, volumes, health, resources };
    // Each part may be within its bounds, and all of them too much.
    if let Err(excess) = bounds::container(&spec) {
        return Err(fields.report(fields.header(), format!("this service: {excess}"), ELSEWHERE));
    }
    Ok(spec)
}

/// Exactly one of `image` and `build`.
fn read_image(fields: &mut Fields<'_, '_>) -> Result<String, Reported> {
    let image = Field::nonempty_string("image").then(image::check);
    let (build, is_written) = (fields.block("build"), fields.has("image"));
    if is_written && build.is_none() {
        return fields.required(image);
    }
    fields.optional(image);
    Err(match build {
        Some(build) if is_written => {
            let message = "a service has either an `image` or a `build` block, not both";
            fields.report(build.header(), message, "remove one of the two")
        }
        Some(build) => {
            let message = "this version of fluke does not build images yet";
            fields.report(build.header(), message, "build it elsewhere, and name it with `image`")
        }
        None => {
            let help = "for example image = \"registry.example/shop/web:1.4.2\"";
            fields.lacks("image", help)
        }
    })
}

fn some_words(words: Vec<String>) -> Result<Vec<String>, Mistake> {
    match words.is_empty() {
        true => {
            Err(Mistake::value("it must not be empty").help("leave it out for the image's own"))
        }
        false => within(bounds::many("command", words.len(), MAX_WORDS), words),
    }
}

/// Accepts `value` unless there is too much of it.
fn within<T>(checked: Result<(), bounds::Excess>, value: T) -> Result<T, Mistake> {
    checked.map(|()| value).map_err(|excess| Mistake::value(excess.to_string()).help(ELSEWHERE))
}

/// Accepts a text of so many bytes.
fn text(most: usize) -> impl Fn(String) -> Result<String, Mistake> {
    move |text| within(bounds::long("it", &text, most), text)
}

/// Accepts a value that can be completed on a host: every `${` has its `}`.
pub(super) fn closed(name: &str, value: String) -> Result<String, Mistake> {
    match is_closed(&value) {
        true => Ok(value),
        false => Err(Mistake::value(format!("\"{name}\" has a `${{` without a `}}`"))
            .help("write `$NAME` for a variable of the host, and `$$` for a dollar")),
    }
}

/// As agents read it: `$NAME`, `${NAME}`, and `$$` for a dollar.
fn is_closed(value: &str) -> bool {
    let mut rest = value;
    while let Some((_, behind)) = rest.split_once('$') {
        rest = match behind.strip_prefix('{').map(|name| name.split_once('}')) {
            Some(None) => return false,
            Some(Some((_, behind))) => behind,
            None => behind.strip_prefix('$').unwrap_or(behind),
        };
    }
    true
}

type Variables = BTreeMap<String, String>;

fn some_variables(env: Variables) -> Result<Variables, Mistake> {
    within(bounds::many("env", env.len(), MAX_ENV), env)
}

fn variable(name: &str) -> Result<String, Mistake> {
    let mut letters = name.bytes();
    let is_name = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
    match is_name {
        true => within(bounds::variable(name), name.to_string()),
        false => Err(Mistake::value(format!("\"{name}\" is not a variable's name"))
            .help("use letters, digits and `_`, with no digit at the beginning")),
    }
}

fn value(name: &str, value: String) -> Result<String, Mistake> {
    let value = closed(name, value)?;
    within(bounds::value_of(name, &value), value)
}

fn read_volumes(fields: &mut Fields<'_, '_>) -> Result<BTreeMap<VolumeName, String>, Reported> {
    let (mut volumes, mut paths, mut sound) = (BTreeMap::new(), HashMap::new(), Ok(()));
    for (n, block) in fields.blocks("volume", &["name"]).into_iter().enumerate() {
        if n == MAX_VOLUMES {
            let message = format!("a service has at most {MAX_VOLUMES} volumes");
            sound = Err(fields.report(block.header(), message, "keep more in one of them"));
        }
        let (name, path) = match read_volume(block, fields.within(block)) {
            Ok(volume) => volume,
            Err(reported) => {
                sound = Err(reported);
                continue;
            }
        };
        if let Some(other) = paths.insert(path.value.clone(), name.clone()) {
            let message = format!("the volumes `{other}` and `{name}` have the same path");
            fields.report(path.span, message, "give each one of its own");
        }
        if volumes.insert(name.clone(), path.value).is_some() {
            let message = format!("volume `{name}` is declared twice in this service");
            fields.report(block.header(), message, "give one of the two another name");
        }
    }
    sound.map(|()| volumes)
}

fn read_volume(
    block: &Block,
    mut fields: Fields<'_, '_>,
) -> Result<(VolumeName, Spanned<String>), Reported> {
    let label = &block.labels[0];
    let name = VolumeName::new(&label.text);
    let name = name.map_err(|error| fields.report(label.span, error.to_string(), ""));
    let path = Field::string("path").then(text(MAX_PATH)).then(mount_point);
    let path = fields.required_spanned(path);
    fields.finish();
    Ok((name?, path?))
}

fn mount_point(path: String) -> Result<String, Mistake> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let is_clean = parts.iter().all(|part| !matches!(*part, "" | "." | ".."));
    match path.starts_with('/') && is_clean && !path.contains([':', '\0']) {
        true => Ok(path),
        false => Err(Mistake::value(format!("\"{path}\" is not a place in a container"))
            .help("write an absolute path below /, for example \"/data\"")),
    }
}

fn read_health(mut fields: Fields<'_, '_>) -> Result<HealthSpec, Reported> {
    let command = fields.required(Field::nonempty_string("command").then(text(MAX_TEXT)));
    let mut time = |name, default: u64| {
        let field = Field::duration(name).then(some_time);
        fields.or(field, Duration::from_secs(default)).as_millis() as u64
    };
    let (interval_ms, timeout_ms) = (time("interval", 10), time("timeout", 5));
    let start_period = fields.or(Field::duration("start_period"), Duration::ZERO);
    let retries = fields.or(Field::integer("retries", 1..=100), 3) as u32;
    fields.finish();
    let start_period_ms = start_period.as_millis() as u64;
    Ok(HealthSpec { command: command?, interval_ms, timeout_ms, retries, start_period_ms })
}

fn no_longer_than_remembered(patience: Duration) -> Result<Duration, Mistake> {
    match patience > LONGEST_ABSENCE {
        true => Err(Mistake::value("it must be at most 168h")
            .help("a host that is away is remembered for a week; what has volumes never moves")),
        false => Ok(patience),
    }
}

fn some_time(time: Duration) -> Result<Duration, Mistake> {
    match time < Duration::from_millis(100) {
        true => Err(Mistake::value("it must be at least 100ms").help("for example \"10s\"")),
        false => Ok(time),
    }
}

fn read_resources(mut fields: Fields<'_, '_>) -> Resources {
    let cpu_millis = fields.optional(Field::number("cpu").then(|cores| {
        let millis = (cores.to_f64() * 1000.0).round();
        match (10.0..=1_024_000.0).contains(&millis) {
            true => Ok(millis as u32),
            false => Err(Mistake::value(format!("{cores} is not a number of cores"))
                .help("for example 0.5 for half a core; from 0.01 to 1024")),
        }
    }));
    let memory = fields.optional(Field::string("memory").then(size::parse));
    fields.finish();
    Resources { cpu_millis, memory }
}

/// What no two ports of all services may share: two that answer the same would be a coin toss.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Entrance {
    /// Requests for a domain.
    Domain(String),
    /// All that comes in at a port.
    Port(&'static str, u16),
    /// TLS connections to a name that come in at a port.
    Name(u16, String),
    /// Any of those at a port.
    AnyName(u16),
}

impl Entrance {
    /// The one that a port has, if it is public.
    pub fn of(port: &Port) -> Option<Self> {
        use fluke_model::service::Traffic;
        match &port.traffic {
            Traffic::Http { domain } => domain.clone().map(Self::Domain),
            Traffic::Tcp { external, domain: Some(domain) } => {
                external.map(|external| Self::Name(external, domain.clone()))
            }
            Traffic::Tcp { external, domain: None } => external.map(|port| Self::Port("tcp", port)),
            Traffic::Udp { external } => external.map(|port| Self::Port("udp", port)),
        }
    }

    /// Another one that leaves no room for this one.
    pub fn rivals(&self) -> Vec<Self> {
        match self {
            Self::Name(port, _) => vec![self.clone(), Self::Port("tcp", *port)],
            Self::Port("tcp", port) => vec![self.clone(), Self::AnyName(*port)],
            other => vec![other.clone()],
        }
    }
}

impl std::fmt::Display for Entrance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Domain(domain) => write!(f, "the domain `{domain}`"),
            Self::Port(protocol, port) => write!(f, "the external {protocol} port {port}"),
            Self::Name(port, name) => write!(f, "TLS for `{name}` at the external tcp port {port}"),
            Self::AnyName(port) => write!(f, "TLS at the external tcp port {port}"),
        }
    }
}
