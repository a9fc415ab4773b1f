//! `port "name" { … }`

use std::collections::HashSet;

use fluke_model::bounds::{self, MAX_DOMAIN, MAX_PORTS};
use fluke_model::id::{MAX_WORD, PortName};
use fluke_model::service::{Port, Traffic};

use super::Entrance;
use crate::hcl::ast::{Block, Span};
use crate::hcl::decode::{Field, Fields, Mistake, Reported};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http,
    Tcp,
    Udp,
}

const PROTOCOLS: &[(&str, Protocol)] =
    &[("http", Protocol::Http), ("tcp", Protocol::Tcp), ("udp", Protocol::Udp)];

/// What proxies and the mesh listen on themselves.
const TAKEN: [(Protocol, u16, &str); 6] = [
    (Protocol::Tcp, 80, "proxies take requests there"),
    (Protocol::Tcp, 443, "proxies take requests there"),
    (Protocol::Tcp, 53, "hosts answer containers' questions for names there"),
    (Protocol::Udp, 53, "hosts answer containers' questions for names there"),
    (Protocol::Tcp, 781, "proxies are asked there how they are"),
    (Protocol::Udp, 51820, "the mesh has it"),
];

/// Where a port says what no other may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimedAt {
    domain: Option<Span>,
    external: Option<Span>,
}

impl ClaimedAt {
    /// Where it claims what leaves no room beside `entrance`.
    pub fn against(self, entrance: &Entrance) -> Option<Span> {
        match entrance {
            Entrance::Domain(_) | Entrance::Name(..) => self.domain,
            Entrance::Port(..) | Entrance::AnyName(_) => self.external,
        }
    }
}

/// All ports of a service, each with where it claims something.
pub(super) fn read_all(fields: &mut Fields<'_, '_>) -> Result<Vec<(Port, ClaimedAt)>, Reported> {
    let blocks = fields.blocks("port", &["name"]);
    if let Some(block) = blocks.get(MAX_PORTS) {
        let message = format!("a service has at most {MAX_PORTS} ports");
        fields.report(block.header(), message, "give some of them to another service");
    }
    let (mut ports, mut seen) = (Vec::with_capacity(blocks.len()), HashSet::new());
    for block in blocks {
        let name = &*block.labels[0].text;
        if !seen.insert(name) {
            let message = format!("port `{name}` is declared twice in this service");
            fields.report(block.header(), message, "give one of the two another name");
        }
        ports.push(read(block, fields.within(block)));
    }
    ports.into_iter().collect()
}

fn read(block: &Block, mut fields: Fields<'_, '_>) -> Result<(Port, ClaimedAt), Reported> {
    let label = &block.labels[0];
    let name = PortName::new(&label.text);
    let name = name.map_err(|error| fields.report(label.span, error.to_string(), ""));
    let container = fields.required(port_number("container"));
    let protocol = fields.or(Field::word("protocol", PROTOCOLS), Protocol::Http);
    let domain = fields.spanned(Field::string("domain").then(domain_name));
    let external = fields.spanned(port_number("external"));
    if protocol == Protocol::Udp
        && let Some(domain) = &domain
    {
        let help = "packets carry no name: use `external` alone";
        fields.report(domain.span, "a udp port has no `domain`", help);
    }
    if protocol == Protocol::Http
        && let Some(external) = &external
    {
        let help = "requests come in at 80 and 443, by `domain`; for another port, use \"tcp\"";
        fields.report(external.span, "an http port has no `external`", help);
    }
    if protocol == Protocol::Tcp
        && external.is_none()
        && let Some(domain) = &domain
    {
        let help = "say where proxies listen for it, for example external = 8443";
        fields.report(domain.span, "a tcp port with a `domain` needs an `external`", help);
    }
    let taken = external.as_ref().and_then(|external| {
        let is_it = |(of, number, _): &&(_, _, _)| *of == protocol && *number == external.value;
        TAKEN.iter().find(is_it).map(|(_, number, why)| (external.span, *number, *why))
    });
    if let Some((span, number, why)) = taken {
        fields.report(
            span,
            format!("the external port {number} is not free: {why}"),
            "choose another",
        );
    }
    fields.finish();
    let claimed_at = ClaimedAt {
        domain: domain.as_ref().map(|it| it.span),
        external: external.as_ref().map(|it| it.span),
    };
    let (domain, external) = (domain.map(|it| it.value), external.map(|it| it.value));
    let traffic = match protocol {
        Protocol::Http => Traffic::Http { domain },
        Protocol::Tcp => Traffic::Tcp { external, domain },
        Protocol::Udp => Traffic::Udp { external },
    };
    Ok((Port { name: name?, container: container?, traffic }, claimed_at))
}

fn port_number(name: &'static str) -> Field<u16> {
    Field::integer(name, 1..=65535).then(|number| Ok(number as u16))
}

/// A host name as the world writes it, in lower case.
fn domain_name(text: String) -> Result<String, Mistake> {
    let domain = text.to_ascii_lowercase();
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let too_long = |excess: bounds::Excess| Mistake::value(excess.to_string());
    bounds::long("it", &domain, MAX_DOMAIN).map_err(too_long)?;
    let short = |part| bounds::long(format_args!("its part `{part}`"), part, MAX_WORD);
    domain.split('.').try_for_each(short).map_err(too_long)?;
    let is_name = domain.split('.').all(is_part);
    match () {
        () if domain.ends_with(".internal") => {
            Err(Mistake::value(format!("\"{domain}\" is a name of the mesh"))
                .help("services are called <service>.internal there without being asked"))
        }
        () if is_name && domain.contains('.') => Ok(domain),
        () => Err(Mistake::value(format!("\"{text}\" is not a domain"))
            .help("write the name alone, for example \"shop.example.com\"")),
    }
}
