//! A table of nftables that is ours alone, and a few rules in chains of others.
//!
//! ```text
//! table ip fluke-mesh {
//!   chain postrouting { type nat hook postrouting priority 90;
//!     ip saddr 10.200.N.0/24 oifname "fluke0" snat to ip saddr }
//!   chain last { type nat hook postrouting priority 110;
//!     ip saddr 10.200.N.0/24 ip daddr != 10.200.N.0/24 ip daddr < 224.0.0.0 masquerade }
//!   chain forward { type filter hook forward priority -10;
//!     iifname "fluke0" ip daddr != 10.200.N.0/24 drop
//!     oifname "fluke0" tcp flags syn tcp option maxseg size set rt mtu }
//! }
//! ```
//!
//! Netavark masquerades all that leaves a container's network, whichever way it goes. It does so at
//! priority 100, by iptables and by nftables alike; who has given a connection its source before, has
//! the say: to itself, so that containers of other hosts see who asks. What goes elsewhere is
//! masqueraded here as well: Netavark's rules are made with a container, and nobody makes them again
//! when whoever reloads a firewall has flushed all that there was. That comes after all others: where
//! containers have an address of their own for what is outside, whoever gave it to them has the say.
//! And what comes out of the mesh is for this host and its containers: it is nobody's way into the
//! networks behind.
//!
//! Hosts may have different MTUs, and no router is on the way between two to tell of it: containers
//! agree on what fits into both ends when they connect, each host having its say as they do.
//!
//! Who lets nothing pass cannot be overruled from a table of our own. Docker and ufw close the chain
//! `FORWARD` of iptables by its policy, others by a last rule that refuses all that gets there; where
//! it is closed, it gets a rule for each way, in the form in which iptables itself would have it.
//! Netavark's own rules there let pass what containers send only until Podman 5: since then, they are
//! in a table of its own, too. The same goes for `INPUT`, and for what containers ask their host's DNS.

use fluke_model::directory::Subnet;

use super::message::{APPEND, Attributes, CREATE, Message, attributes, text};
use crate::services::bridge;
use crate::services::mesh::net::Net;
use crate::services::names::PORT as DNS;

/// What it is called.
pub const TABLE: &str = "fluke-mesh";
/// Where iptables has its chains.
const THEIRS: &str = "filter";

/// A chain of iptables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// What is forwarded.
    Forward,
    /// What is for the host itself.
    Input,
}

impl Chain {
    /// Those that may be closed to what is ours.
    pub const ALL: [Self; 2] = [Self::Forward, Self::Input];

    fn name(self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Input => "INPUT",
        }
    }
}

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NFTABLES: u16 = 10 << 8;
const NEW_TABLE: u16 = NFTABLES;
const DEL_TABLE: u16 = NFTABLES | 2;
const NEW_CHAIN: u16 = NFTABLES | 3;
const NEW_RULE: u16 = NFTABLES | 6;
const GET_CHAIN: u16 = NFTABLES | 4;
const GET_RULE: u16 = NFTABLES | 7;
const DEL_RULE: u16 = NFTABLES | 8;

/// Family, version, resource.
const PART: usize = 4;
const IPV4: [u8; PART] = [2, 0, 0, 0];
/// The resource of a batch is the subsystem, in the network's order.
const BATCH: [u8; PART] = [0, 0, 0, 10];

const TABLE_NAME: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const FORWARD: u32 = 2;
const POSTROUTING: u32 = 4;

const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_HANDLE: u16 = 3;
const RULE_EXPRESSIONS: u16 = 4;
const RULE_USERDATA: u16 = 7;
/// In userdata, what people see as the comment.
const COMMENT: u8 = 0;

const ELEMENT: u16 = 1;
const NAME: u16 = 1;
const DATA: u16 = 2;
const VALUE: u16 = 1;

const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const LESS: u32 = 2;
/// The first byte of addresses that many have.
const MULTICAST: u8 = 224;
const META_IN_NAME: u32 = 6;
const META_OUT_NAME: u32 = 7;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const PROTOCOL: u32 = 9;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Of either's header.
const TO_PORT: u32 = 2;
/// Of TCP's header.
const FLAGS: u32 = 13;
const SYN: u8 = 0x2;
const MAX_SEGMENT: u8 = 2;
const TCP_OPTION: u32 = 1;
const RT_MSS: u32 = 3;
const TO_NETWORK: u32 = 1;
const SOURCE: u32 = 12;
const DESTINATION: u32 = 16;
const SNAT: u32 = 0;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const NAME_LENGTH: usize = 16;

/// The messages that make the table anew, all at once or not at all; and how many are confirmed.
pub fn replace(interface: &str, own: Net) -> (Vec<u8>, usize) {
    let table = || Attributes::new().text(TABLE_NAME, TABLE);
    let inner = [
        // There to be deleted, whether it was or not.
        Message::new(NEW_TABLE, CREATE, &IPV4).with(table()),
        Message::new(DEL_TABLE, 0, &IPV4).with(table()),
        Message::new(NEW_TABLE, CREATE, &IPV4).with(table()),
        chain("postrouting", "nat", POSTROUTING, 90),
        chain("last", "nat", POSTROUTING, 110),
        chain("forward", "filter", FORWARD, -10),
        rule("postrouting", keep_source(interface, own), &tags(interface, own)[0]),
        rule("last", masquerade(own), &tags(interface, own)[1]),
        rule("forward", no_further(interface, own), &tags(interface, own)[2]),
        rule("forward", fitting(interface), &tags(interface, own)[3]),
    ];
    (batch(&inner), inner.len())
}

/// The messages that remove the table; and how many are confirmed.
pub fn remove() -> (Vec<u8>, usize) {
    let table = || Attributes::new().text(TABLE_NAME, TABLE);
    let inner = [
        Message::new(NEW_TABLE, CREATE, &IPV4).with(table()),
        Message::new(DEL_TABLE, 0, &IPV4).with(table()),
    ];
    (batch(&inner), inner.len())
}

/// The messages that let pass what is ours, before all other rules of iptables' chain, instead of the
/// `old` ones; and how many are confirmed. What is ours: what comes out of the mesh to our
/// containers, and what goes from them into it; what they ask DNS.
pub fn open(chain: Chain, interface: &str, own: Subnet, old: &[Rule]) -> (Vec<u8>, usize) {
    let net = Net::of_containers(own);
    let lists = match chain {
        Chain::Forward => [(META_IN_NAME, DESTINATION), (META_OUT_NAME, SOURCE)]
            .map(|(by, whose)| [named(by, interface), within(net, whose, EQUAL)].concat()),
        Chain::Input => [UDP, TCP].map(|protocol| questions(protocol, own)),
    };
    let rule = |(mut list, comment): (Vec<Attributes>, String)| {
        list.extend([expression("counter", Attributes::new()), verdict(ACCEPT)]);
        Attributes::new()
            .text(RULE_TABLE, THEIRS)
            .text(RULE_CHAIN, chain.name())
            .nest(RULE_EXPRESSIONS, together(list.into_iter()))
            .put(RULE_USERDATA, &userdata(&comment))
    };
    let rules = lists.into_iter().zip(openings(chain, interface, own)).map(rule);
    // Not behind those that are there.
    let made = rules.map(|rule| Message::new(NEW_RULE, CREATE, &IPV4).with(rule));
    let inner: Vec<Message> = old.iter().map(|rule| delete(chain, rule)).chain(made).collect();
    (batch(&inner), inner.len())
}

/// The messages that remove rules; and how many are confirmed.
pub fn close(chain: Chain, old: &[Rule]) -> (Vec<u8>, usize) {
    let inner: Vec<Message> = old.iter().map(|rule| delete(chain, rule)).collect();
    (batch(&inner), inner.len())
}

/// The comments of the rules in iptables' chain.
pub fn openings(chain: Chain, interface: &str, own: Subnet) -> [String; 2] {
    let (beginning, net) = (opening(interface), Net::of_containers(own));
    match chain {
        Chain::Forward => [format!("{beginning}to {net}"), format!("{beginning}from {net}")],
        Chain::Input => ["UDP", "TCP"].map(|by| format!("{beginning}DNS for {net} by {by}")),
    }
}

/// What the comments of all such rules begin with, whatever the subnet was then.
pub fn opening(interface: &str) -> String {
    format!("fluke: {interface} ")
}

/// Asks how iptables' chain ends.
pub fn get_their_chain(chain: Chain) -> Message {
    let chain = Attributes::new().text(CHAIN_TABLE, THEIRS).text(CHAIN_NAME, chain.name());
    Message::new(GET_CHAIN, 0, &IPV4).with(chain)
}

/// Whether a chain with these rules keeps out what no rule lets in.
pub fn is_closed(body: &[u8], rules: &[Rule]) -> bool {
    let policy = attributes(body, PART).find(|(kind, _)| *kind == CHAIN_POLICY);
    let is_policy = policy.is_some_and(|(_, value)| value == DROP.to_be_bytes());
    is_policy || rules.iter().any(|rule| rule.refuses_all)
}

/// Asks for the rules of iptables' chain.
pub fn get_their_rules(chain: Chain) -> Message {
    let chain = Attributes::new().text(RULE_TABLE, THEIRS).text(RULE_CHAIN, chain.name());
    Message::new(GET_RULE, 0, &IPV4).with(chain)
}

/// Asks for the rules of our table.
pub fn get_rules() -> Message {
    Message::new(GET_RULE, 0, &IPV4).with(Attributes::new().text(RULE_TABLE, TABLE))
}

/// A rule that there is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    table: String,
    handle: Vec<u8>,
    /// What somebody wrote beside it.
    pub comment: String,
    /// Whether nothing gets past it.
    refuses_all: bool,
}

impl Rule {
    /// Whether it is one of our table.
    pub fn is_ours(&self) -> bool {
        self.table == TABLE
    }
}

/// Reads a rule.
pub fn read_rule(body: &[u8]) -> Rule {
    let mut rule = Rule::default();
    for (kind, value) in attributes(body, PART) {
        match kind {
            RULE_TABLE => rule.table = text(value),
            RULE_HANDLE => rule.handle = value.to_vec(),
            RULE_EXPRESSIONS => rule.refuses_all = refuses_all(value),
            RULE_USERDATA if value.first() == Some(&COMMENT) => {
                rule.comment = text(value.get(2..).unwrap_or_default());
            }
            _ => {}
        }
    }
    rule
}

/// Whether a rule asks for nothing and lets nothing pass.
fn refuses_all(expressions: &[u8]) -> bool {
    let all = attributes(expressions, 0);
    let all = all.map(|(_, value)| (text(inner(value, NAME)), inner(value, DATA)));
    let mut all = all.filter(|(name, data)| match name.as_str() {
        "counter" => false,
        // What somebody wrote beside it is a condition to iptables.
        "match" => text(inner(data, NAME)) != "comment",
        _ => true,
    });
    match (all.next(), all.next()) {
        (Some((name, data)), None) => match name.as_str() {
            "immediate" => inner(inner(inner(data, DATA), 2), 1) == DROP.to_be_bytes(),
            "target" => text(inner(data, NAME)) == "REJECT",
            name => name == "reject",
        },
        _ => false,
    }
}

/// One of the attributes in another one; nothing where there is none.
fn inner(value: &[u8], wanted: u16) -> &[u8] {
    let found = attributes(value, 0).find(|(kind, _)| *kind == wanted);
    found.map_or(&[], |(_, value)| value)
}

fn delete(chain: Chain, rule: &Rule) -> Message {
    let rule = Attributes::new()
        .text(RULE_TABLE, THEIRS)
        .text(RULE_CHAIN, chain.name())
        .put(RULE_HANDLE, &rule.handle);
    Message::new(DEL_RULE, 0, &IPV4).with(rule)
}

/// What the rules' comments are: they name all that the rules depend on, so that a rule that says
/// something else is another one.
pub fn tags(interface: &str, own: Net) -> [String; 4] {
    [
        format!("{own} by {interface}: source kept"),
        format!("{own} elsewhere: masqueraded if nobody did"),
        format!("from {interface}: to {own} only"),
        format!("into {interface}: segments that fit"),
    ]
}

fn keep_source(interface: &str, own: Net) -> Attributes {
    let source = expression(
        "nat",
        Attributes::new()
            .put(1, &SNAT.to_be_bytes())
            .put(2, &u32::from(IPV4[0]).to_be_bytes())
            .put(3, &REGISTER.to_be_bytes()),
    );
    let list = within(own, SOURCE, EQUAL);
    let list = list.into_iter().chain(named(META_OUT_NAME, interface));
    together(list.chain([load(NETWORK_HEADER, SOURCE, 4), source]))
}

fn masquerade(own: Net) -> Attributes {
    let list = within(own, SOURCE, EQUAL).into_iter().chain(within(own, DESTINATION, NOT_EQUAL));
    let to_one = [load(NETWORK_HEADER, DESTINATION, 1), compare(LESS, &[MULTICAST])];
    together(list.chain(to_one).chain([expression("masq", Attributes::new())]))
}

fn no_further(interface: &str, own: Net) -> Attributes {
    let list = named(META_IN_NAME, interface).into_iter();
    together(list.chain(within(own, DESTINATION, NOT_EQUAL)).chain([verdict(DROP)]))
}

fn fitting(interface: &str) -> Attributes {
    let flags = Attributes::new()
        .put(1, &REGISTER.to_be_bytes())
        .put(2, &REGISTER.to_be_bytes())
        .put(3, &1_u32.to_be_bytes())
        .nest(4, Attributes::new().put(VALUE, &[SYN]))
        .nest(5, Attributes::new().put(VALUE, &[0]));
    let longest = Attributes::new().put(1, &REGISTER.to_be_bytes()).put(2, &RT_MSS.to_be_bytes());
    let in_order = Attributes::new()
        .put(1, &REGISTER.to_be_bytes())
        .put(2, &REGISTER.to_be_bytes())
        .put(3, &TO_NETWORK.to_be_bytes())
        .put(4, &2_u32.to_be_bytes())
        .put(5, &2_u32.to_be_bytes());
    let option = Attributes::new()
        .put(2, &[MAX_SEGMENT])
        .put(3, &2_u32.to_be_bytes())
        .put(4, &2_u32.to_be_bytes())
        .put(6, &TCP_OPTION.to_be_bytes())
        .put(7, &REGISTER.to_be_bytes());
    let is_syn = [
        load(NETWORK_HEADER, PROTOCOL, 1),
        compare(EQUAL, &[TCP]),
        load(TRANSPORT_HEADER, FLAGS, 1),
        expression("bitwise", flags),
        compare(NOT_EQUAL, &[0]),
    ];
    let set = [("rt", longest), ("byteorder", in_order), ("exthdr", option)];
    let list = named(META_OUT_NAME, interface).into_iter().chain(is_syn);
    together(list.chain(set.map(|(name, data)| expression(name, data))))
}

/// What containers ask their host's DNS.
fn questions(protocol: u8, own: Subnet) -> Vec<Attributes> {
    let gateway = Net { address: own.gateway(), bits: 32 };
    let protocol = [load(NETWORK_HEADER, PROTOCOL, 1), compare(EQUAL, &[protocol])];
    let port = [load(TRANSPORT_HEADER, TO_PORT, 2), compare(EQUAL, &DNS.to_be_bytes())];
    let from = within(Net::of_containers(own), SOURCE, EQUAL);
    let to = within(gateway, DESTINATION, EQUAL);
    [named(META_IN_NAME, bridge::INTERFACE), from, to, protocol, port].concat()
}

fn verdict(code: u32) -> Attributes {
    let verdict = Attributes::new().put(1, &code.to_be_bytes());
    let immediate = Attributes::new()
        .put(1, &VERDICT_REGISTER.to_be_bytes())
        .nest(2, Attributes::new().nest(2, verdict));
    expression("immediate", immediate)
}

/// Compares an address by the bytes of its network.
fn within(net: Net, offset: u32, how: u32) -> [Attributes; 2] {
    let length = usize::from(net.bits / 8);
    [load(NETWORK_HEADER, offset, length), compare(how, &net.address.octets()[..length])]
}

fn named(what: u32, interface: &str) -> [Attributes; 2] {
    let meta = Attributes::new().put(2, &what.to_be_bytes()).put(1, &REGISTER.to_be_bytes());
    let mut name = interface.as_bytes().to_vec();
    name.resize(NAME_LENGTH, 0);
    [expression("meta", meta), compare(EQUAL, &name)]
}

fn load(header: u32, offset: u32, length: usize) -> Attributes {
    let length = u32::try_from(length).unwrap_or(4);
    let payload = Attributes::new()
        .put(1, &REGISTER.to_be_bytes())
        .put(2, &header.to_be_bytes())
        .put(3, &offset.to_be_bytes())
        .put(4, &length.to_be_bytes());
    expression("payload", payload)
}

fn compare(how: u32, with: &[u8]) -> Attributes {
    let compare = Attributes::new()
        .put(1, &REGISTER.to_be_bytes())
        .put(2, &how.to_be_bytes())
        .nest(3, Attributes::new().put(VALUE, with));
    expression("cmp", compare)
}

fn expression(name: &str, data: Attributes) -> Attributes {
    Attributes::new().text(NAME, name).nest(DATA, data)
}

fn together(expressions: impl Iterator<Item = Attributes>) -> Attributes {
    expressions.fold(Attributes::new(), |all, each| all.nest(ELEMENT, each))
}

fn chain(name: &str, kind: &str, hook: u32, priority: i32) -> Message {
    let hook = Attributes::new()
        .put(HOOK_NUMBER, &hook.to_be_bytes())
        .put(HOOK_PRIORITY, &priority.to_be_bytes());
    let attributes = Attributes::new()
        .text(CHAIN_TABLE, TABLE)
        .text(CHAIN_NAME, name)
        .nest(CHAIN_HOOK, hook)
        .text(CHAIN_TYPE, kind);
    Message::new(NEW_CHAIN, CREATE, &IPV4).with(attributes)
}

fn rule(chain: &str, expressions: Attributes, comment: &str) -> Message {
    let attributes = Attributes::new()
        .text(RULE_TABLE, TABLE)
        .text(RULE_CHAIN, chain)
        .nest(RULE_EXPRESSIONS, expressions)
        .put(RULE_USERDATA, &userdata(comment));
    Message::new(NEW_RULE, CREATE | APPEND, &IPV4).with(attributes)
}

fn userdata(comment: &str) -> Vec<u8> {
    let mut userdata = vec![COMMENT, u8::try_from(comment.len() + 1).unwrap_or(u8::MAX)];
    userdata.extend(comment.as_bytes());
    userdata.push(0);
    userdata
}

fn batch(inner: &[Message]) -> Vec<u8> {
    let mut bytes = Message::new(BATCH_BEGIN, 0, &BATCH).bytes();
    bytes.extend(inner.iter().cloned().flat_map(|message| message.acknowledged().bytes()));
    bytes.extend(Message::new(BATCH_END, 0, &BATCH).bytes());
    bytes
}
