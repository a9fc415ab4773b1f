//! `event_store { … }`

use std::time::Duration;

use fluke_manifest::hcl::ast::Block;
use fluke_manifest::hcl::decode::{Evaluate, Field, Fields, Mistake};
use fluke_manifest::hcl::problem::Problem;
use fluke_server::events::redis::{RedisAddress, RedisSettings};
use fluke_server::server::History;
use fluke_server::tls::TlsFiles;

use crate::config::fields;

/// How many events are kept for each agent, unless told otherwise.
const RING: usize = 100;
/// Longer is no recent history, and Redis counts milliseconds.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Where events can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backend {
    Memory,
    Redis,
}

/// Where events are kept if nothing is said.
pub(super) fn in_memory() -> History {
    History::Memory { max_events_per_agent: RING }
}

/// Reads `event_store { … }`; none where something is wrong.
pub(super) fn read(
    block: &Block,
    evaluate: Evaluate<'_>,
    problems: &mut Vec<Problem>,
) -> Option<History> {
    const BACKENDS: &[(&str, Backend)] = &[("memory", Backend::Memory), ("redis", Backend::Redis)];
    let mut read = Fields::of_block(block, evaluate, problems);
    let backend = read.spanned(Field::word("backend", BACKENDS));
    let memory = read.block("memory").map(|block| read_memory(block, evaluate, read.problems()));
    let redis = read.block("redis");
    let is_redis = backend.as_ref().is_some_and(|backend| backend.value == Backend::Redis);
    if let (Some(backend), true, None) = (&backend, is_redis, redis) {
        let problem =
            Problem::new(backend.span, "the backend `redis` needs to know where Redis is");
        read.problems().push(problem.help("add `redis { url = \"redis://localhost:6379\" }`"));
    }
    // What is not in use is read too: its mistakes are mistakes.
    let redis = redis.map(|block| read_redis(block, evaluate, read.problems()));
    read.finish();
    match is_redis {
        true => redis?.map(History::Redis),
        false => Some(History::Memory { max_events_per_agent: memory.unwrap_or(RING) }),
    }
}

fn read_memory(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> usize {
    let mut read = Fields::of_block(block, evaluate, problems);
    let most = read.optional(Field::integer("max_events_per_agent", 1..=100_000));
    read.finish();
    most.and_then(|most| usize::try_from(most).ok()).unwrap_or(RING)
}

fn read_redis(
    block: &Block,
    evaluate: Evaluate<'_>,
    problems: &mut Vec<Problem>,
) -> Option<RedisSettings> {
    let mut read = Fields::of_block(block, evaluate, problems);
    let address = read_address(&mut read);
    let prefix = read.or(prefix(), "fluke".into());
    let ttl = read.or(ttl(), Duration::from_secs(168 * 3600));
    let ca_file = read.optional(fields::path("ca_file"));
    let client_files = read_client_files(&mut read);
    read.finish();
    Some(RedisSettings { address: address?, prefix, ttl, ca_file, client_files })
}

/// `url`, and what makes it one node of a cluster.
fn read_address(read: &mut Fields<'_, '_>) -> Option<RedisAddress> {
    // Not shown, whatever is wrong with it: it may hold a password.
    let url = Field::nonempty_string("url")
        .then(|url| RedisAddress::parse(&url).map_err(|error| Mistake::value(error.to_string())));
    let header = read.header();
    let address = read.required(url).ok();
    let is_cluster = read.or(Field::bool("cluster"), false);
    let nodes = read.spanned(Field::strings("nodes"));
    if let (Some(nodes), false) = (&nodes, is_cluster) {
        let problem = Problem::new(nodes.span, "`nodes` are those of a cluster");
        read.problems().push(problem.help("add `cluster = true`, or take them out"));
    }
    if !is_cluster {
        return address;
    }
    let place = nodes.as_ref().map_or(header, |nodes| nodes.span);
    let nodes = nodes.map(|nodes| nodes.value).unwrap_or_default();
    match address?.cluster(&nodes) {
        Ok(address) => Some(address),
        Err(error) => {
            read.problems().push(Problem::new(place, error.to_string()));
            None
        }
    }
}

/// What may be in a key, without the braces that mean something to a cluster.
fn prefix() -> Field<String> {
    Field::nonempty_string("prefix").then(|prefix| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:/".contains(c);
        match prefix.len() <= 128 && prefix.chars().all(is_plain) {
            true => Ok(prefix),
            false => {
                Err(Mistake::value("use up to 128 letters, digits, `.`, `_`, `-`, `:` and `/`"))
            }
        }
    })
}

fn ttl() -> Field<Duration> {
    fields::at_least_a_second("ttl").then(|ttl| match ttl <= LONGEST {
        true => Ok(ttl),
        false => Err(Mistake::value("it must be at most \"87600h\"")),
    })
}

fn read_client_files(read: &mut Fields<'_, '_>) -> Option<TlsFiles> {
    let certificate = read.spanned(fields::path("cert_file"));
    let key = read.spanned(fields::path("key_file"));
    let (lone, missing) = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            return Some(TlsFiles { cert_file: certificate.value, key_file: key.value });
        }
        (Some(certificate), None) => (certificate.span, "key_file"),
        (None, Some(key)) => (key.span, "cert_file"),
        (None, None) => return None,
    };
    if !read.has(missing) {
        let message = "`cert_file` and `key_file` go together";
        read.problems().push(Problem::new(lone, message).help(format!("add `{missing}`")));
    }
    None
}
