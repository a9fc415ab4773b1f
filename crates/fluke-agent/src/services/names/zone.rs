//! What is answered here, and what is asked elsewhere. Pure.

use std::net::Ipv4Addr;

use domain::base::Ttl;
use domain::base::iana::{Class, ExtendedErrorCode, OptRcode, Rtype};
use fluke_model::directory::Names;
use fluke_model::id::ServiceName;

use super::question::{NoQuestion, Question, Reply, Section, Transport};

/// How long an address may be remembered: containers go, and their addresses with them. Whoever does
/// is elsewhere well before the container has had its time for what is under way.
pub const POSITIVE_TTL: Ttl = Ttl::from_secs(1);
/// How long it may be remembered that there is none: the next moment there may be.
pub const NEGATIVE_TTL: Ttl = Ttl::from_secs(1);
/// `internal`, as it is on the wire.
pub const ZONE: &[u8] = b"\x08internal\0";

/// What becomes of a packet.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// Nobody gets anything.
    Ignore,
    /// This goes back.
    Answer(Vec<u8>),
    /// The host's resolvers know, or nobody does.
    Forward(Question),
}

/// Whose name it is.
#[derive(Debug, PartialEq, Eq)]
enum Whose {
    World,
    Zone,
    Service(ServiceName),
    Nobody,
}

/// Decides on `packet`. Without `names` it is not known yet what there is. `turn` says how many
/// times a service has been answered for, so that each of its containers comes first in turn.
pub fn answer(
    packet: &[u8],
    transport: Transport,
    names: Option<&Names>,
    turn: impl FnOnce(&ServiceName) -> usize,
) -> Verdict {
    let question = match Question::read(packet, transport) {
        Ok(question) => question,
        Err(NoQuestion::Ignore) => return Verdict::Ignore,
        Err(NoQuestion::Refuse(no)) => return Verdict::Answer(no),
    };
    match decide(&question, names, turn) {
        Some(reply) => Verdict::Answer(question.reply(&reply)),
        None => Verdict::Forward(question),
    }
}

fn decide(
    question: &Question,
    names: Option<&Names>,
    turn: impl FnOnce(&ServiceName) -> usize,
) -> Option<Reply> {
    if question.is_of_the_future() {
        return Some(Reply { rcode: Some(OptRcode::BADVERS), ..Reply::default() });
    }
    let (kind, class) = question.kind();
    if matches!(kind, Rtype::AXFR | Rtype::IXFR) {
        return Some(refused("zones are not transferred from here"));
    }
    let whose = whose(&question.labels());
    if whose == Whose::World {
        return None;
    }
    if !matches!(class, Class::IN | Class::ANY) {
        return Some(refused("names under internal are of class IN"));
    }
    let Some(names) = names else { return Some(not_yet()) };
    Some(match whose {
        Whose::Zone if matches!(kind, Rtype::SOA | Rtype::ANY) => {
            Reply { authoritative: true, soa: Some(Section::Answer), ..Reply::default() }
        }
        Whose::Zone => nothing(OptRcode::NOERROR, None),
        Whose::Service(service) => match names.addresses(&service) {
            None => nothing(OptRcode::NXDOMAIN, None),
            Some(addresses) if addresses.is_empty() => {
                nothing(OptRcode::NOERROR, Some(format!("no container of {service} is healthy")))
            }
            Some(addresses) if matches!(kind, Rtype::A | Rtype::ANY) => {
                let addresses = rotated(addresses, turn(&service));
                Reply { authoritative: true, addresses, ..Reply::default() }
            }
            Some(_) => nothing(OptRcode::NOERROR, None),
        },
        Whose::World | Whose::Nobody => nothing(OptRcode::NXDOMAIN, None),
    })
}

fn whose(labels: &[Vec<u8>]) -> Whose {
    match labels {
        [zone] if zone == b"internal" => Whose::Zone,
        [service, zone] if zone == b"internal" => std::str::from_utf8(service)
            .ok()
            .and_then(|name| ServiceName::new(name).ok())
            .map_or(Whose::Nobody, Whose::Service),
        [.., zone] if zone == b"internal" => Whose::Nobody,
        _ => Whose::World,
    }
}

fn rotated(mut addresses: Vec<Ipv4Addr>, turn: usize) -> Vec<Ipv4Addr> {
    let first = turn % addresses.len().max(1);
    addresses.rotate_left(first);
    addresses
}

/// There is no such name, or nothing of that kind under it, on the zone's word.
fn nothing(rcode: OptRcode, why: Option<String>) -> Reply {
    Reply {
        rcode: Some(rcode),
        authoritative: true,
        soa: Some(Section::Authority),
        why: why.map(|why| (ExtendedErrorCode::OTHER, why)),
        ..Reply::default()
    }
}

fn refused(why: &str) -> Reply {
    let why = Some((ExtendedErrorCode::PROHIBITED, why.to_owned()));
    Reply { rcode: Some(OptRcode::REFUSED), why, ..Reply::default() }
}

/// A no would be remembered, and may be wrong.
fn not_yet() -> Reply {
    let why = "the server has not told this host its services yet".to_owned();
    let why = Some((ExtendedErrorCode::NOT_READY, why));
    Reply { rcode: Some(OptRcode::SERVFAIL), why, ..Reply::default() }
}

/// Nobody could be asked, or nobody answered.
pub fn unanswered(question: &Question, why: &str) -> Vec<u8> {
    let why = Some((ExtendedErrorCode::NO_REACHABLE_AUTHORITY, why.to_owned()));
    question.reply(&Reply { rcode: Some(OptRcode::SERVFAIL), why, ..Reply::default() })
}

#[cfg(test)]
mod tests;
