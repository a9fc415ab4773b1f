//! One question as it came, and the answers that can be made of it: DNS on the wire, and no more.

use std::net::Ipv4Addr;

use domain::base::iana::{Class, ExtendedErrorCode, Opcode, OptRcode, Rcode, Rtype};
use domain::base::message_builder::{AdditionalBuilder, PushError, StaticCompressor};
use domain::base::name::{Label, Name};
use domain::base::opt::{ExtendedError, Opt, OptRecord};
use domain::base::{Message, MessageBuilder, Serial, Ttl};
use domain::rdata::{A, Soa};

use super::zone::{NEGATIVE_TTL, POSITIVE_TTL, ZONE};

/// What fits where a client says nothing (RFC 1035), and the least that one may say (RFC 6891).
const PLAIN: usize = 512;
/// What passes everywhere without being cut up on its way (DNS Flag Day 2020).
pub const DATAGRAM: usize = 1232;
/// What the two bytes before a message over TCP can say.
const STREAM: usize = u16::MAX as usize;
/// No honest question is longer.
pub const LONGEST: usize = 4096;

/// How a question came, and so how much its answer may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// In one datagram.
    Udp,
    /// In a stream.
    Tcp,
}

/// A packet that is no question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoQuestion {
    /// Nobody waits for an answer, or none must be given.
    Ignore,
    /// Say so.
    Refuse(Vec<u8>),
}

/// A packet that asks one thing, and can be read to its end.
#[derive(Debug, Clone)]
pub struct Question {
    message: Message<Vec<u8>>,
    limit: usize,
    edns: Option<Edns>,
}

#[derive(Debug, Clone, Copy)]
struct Edns {
    /// Where its record begins.
    at: usize,
    size: u16,
    version: u8,
    dnssec_ok: bool,
}

/// What is said about a question.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// How it went.
    pub rcode: Option<OptRcode>,
    /// Whether it is about the zone that is ours.
    pub authoritative: bool,
    /// The addresses, first things first.
    pub addresses: Vec<Ipv4Addr>,
    /// Where the zone's own record goes, if it does.
    pub soa: Option<Section>,
    /// For people; only those who speak EDNS are told.
    pub why: Option<(ExtendedErrorCode, String)>,
}

/// Part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// What was asked for.
    Answer,
    /// Whose word it is that there is nothing.
    Authority,
}

impl Question {
    /// Reads a packet.
    pub fn read(packet: &[u8], transport: Transport) -> Result<Self, NoQuestion> {
        let message = Message::from_slice(packet).map_err(|_| NoQuestion::Ignore)?;
        let header = message.header();
        if header.qr() {
            return Err(NoQuestion::Ignore);
        }
        let is_known = header.opcode() == Opcode::QUERY;
        let rcode = if is_known { Rcode::FORMERR } else { Rcode::NOTIMP };
        let refuse = || NoQuestion::Refuse(bare(message, rcode));
        if packet.len() > LONGEST || message.sole_question().is_err() {
            return Err(refuse());
        }
        let edns = edns_of(message).map_err(|()| refuse())?;
        let limit = match (transport, edns) {
            (Transport::Tcp, _) => STREAM,
            (Transport::Udp, None) => PLAIN,
            (Transport::Udp, Some(edns)) => usize::from(edns.size).clamp(PLAIN, DATAGRAM),
        };
        let message = Message::from_octets(packet.to_vec()).map_err(|_| NoQuestion::Ignore)?;
        let question = Self { message, limit, edns };
        if is_known {
            return Ok(question);
        }
        let no = Reply { rcode: Some(OptRcode::NOTIMP), ..Reply::default() };
        Err(NoQuestion::Refuse(question.reply(&no)))
    }

    /// The labels of the name that is asked for, in small letters, without the root.
    pub fn labels(&self) -> Vec<Vec<u8>> {
        let Ok(question) = self.message.sole_question() else { return Vec::new() };
        let labels = question.qname().iter().filter(|label| !label.is_root());
        labels.map(|label: &Label| label.as_slice().to_ascii_lowercase()).collect()
    }

    /// What kind of record is asked for.
    pub fn kind(&self) -> (Rtype, Class) {
        match self.message.sole_question() {
            Ok(question) => (question.qtype(), question.qclass()),
            Err(_) => (Rtype::ANY, Class::NONE),
        }
    }

    /// Whether it is in a version of EDNS that is not known here.
    pub fn is_of_the_future(&self) -> bool {
        self.edns.is_some_and(|edns| edns.version > 0)
    }

    /// The question to be asked elsewhere: the same, but for a number of ours and a size that is
    /// not cut up on its way.
    pub fn to_ask(&self, id: u16) -> Message<Vec<u8>> {
        let mut message = self.message.clone();
        message.header_mut().set_id(id);
        let Some(edns) = self.edns.filter(|edns| usize::from(edns.size) > DATAGRAM) else {
            return message;
        };
        // A root name is one byte, the type two; the size comes next.
        let mut octets = message.into_octets();
        let size = (DATAGRAM as u16).to_be_bytes();
        octets[edns.at + 3..edns.at + 5].copy_from_slice(&size);
        Message::from_octets(octets).unwrap_or_else(|_| self.message.clone())
    }

    /// The answer of somebody else, with the number of the question and as much of it as fits.
    pub fn relay(&self, answer: Message<Vec<u8>>) -> Vec<u8> {
        let mut answer = answer;
        answer.header_mut().set_id(self.message.header().id());
        if answer.as_slice().len() <= self.limit {
            return answer.into_octets();
        }
        let header = answer.header();
        let mut cut = builder().start_error(&self.message, header.rcode());
        cut.header_mut().set_flags(header.flags());
        cut.header_mut().set_tc(true);
        let mut cut = cut.additional();
        let rcode = OptRcode::from_rcode(header.rcode());
        // It fits: a question and no more.
        let _ = self.push_opt(&mut cut, rcode, None);
        cut.finish().into_target()
    }

    /// Puts `reply` into a packet that is no larger than the client can take; what does not fit is
    /// left out and the rest marked as cut.
    pub fn reply(&self, reply: &Reply) -> Vec<u8> {
        let rcode = reply.rcode.unwrap_or(OptRcode::NOERROR);
        let why = reply.why.as_ref().map(|(code, text)| (*code, text.as_str()));
        let asked = self.message.header();
        let mut answer = builder().start_error(&self.message, rcode.rcode());
        answer.header_mut().set_aa(reply.authoritative);
        answer.header_mut().set_cd(asked.cd());
        answer.header_mut().set_ra(true);
        answer.set_push_limit(self.limit - self.size_of_opt(why));
        let name = self.message.sole_question().ok().map(|question| question.into_qname());
        let records = name.iter().flat_map(|name| {
            let record =
                move |address: &Ipv4Addr| (name, Class::IN, POSITIVE_TTL, A::new(*address));
            reply.addresses.iter().map(record)
        });
        let mut whole = true;
        for record in records {
            if answer.push(record).is_err() {
                whole = false;
                break;
            }
        }
        if reply.soa == Some(Section::Answer) {
            whole &= answer.push(soa(POSITIVE_TTL)).is_ok();
        }
        let mut answer = answer.authority();
        if reply.soa == Some(Section::Authority) {
            whole &= answer.push(soa(NEGATIVE_TTL)).is_ok();
        }
        let mut answer = answer.additional();
        answer.set_push_limit(self.limit);
        whole &= self.push_opt(&mut answer, rcode, why).is_ok();
        answer.header_mut().set_tc(!whole);
        answer.finish().into_target()
    }

    fn size_of_opt(&self, why: Option<(ExtendedErrorCode, &str)>) -> usize {
        // Name, type, size, flags, length; then the option's type, length and code.
        let option = why.map_or(0, |(_, text)| 4 + 2 + text.len());
        self.edns.map_or(0, |_| 11 + option)
    }

    fn push_opt(
        &self,
        answer: &mut AdditionalBuilder<StaticCompressor<Vec<u8>>>,
        rcode: OptRcode,
        why: Option<(ExtendedErrorCode, &str)>,
    ) -> Result<(), PushError> {
        let Some(edns) = self.edns else { return Ok(()) };
        answer.opt(|opt| {
            opt.set_udp_payload_size(DATAGRAM as u16);
            opt.set_dnssec_ok(edns.dnssec_ok);
            opt.set_rcode(rcode);
            let error = why.map(|(code, text)| ExtendedError::<Vec<u8>>::new_with_str(code, text));
            match error {
                Some(Ok(error)) => opt.push(&error),
                _ => Ok(()),
            }
        })
    }
}

/// Whether `answer` is one to `asked`: of its number, and about the same thing.
pub fn is_answer(answer: &Message<Vec<u8>>, asked: &Message<Vec<u8>>) -> bool {
    // Some leave out a question that they could not read.
    let nameless = answer.header().qr()
        && answer.header().id() == asked.header().id()
        && answer.header_counts().qdcount() == 0
        && answer.header().rcode() != Rcode::NOERROR;
    nameless || answer.is_answer(asked)
}

/// A no to a packet from somebody who is not served here; nothing to one that is no question.
pub fn refusal(packet: &[u8]) -> Option<Vec<u8>> {
    let message = Message::from_slice(packet).ok()?;
    (!message.header().qr()).then(|| bare(message, Rcode::REFUSED))
}

/// Finds the one record that may be there, and on the way that all others can be read.
fn edns_of(message: &Message<[u8]>) -> Result<Option<Edns>, ()> {
    let mut found = None;
    let mut records = message.additional().map_err(drop)?;
    loop {
        let at = records.pos();
        let Some(record) = records.next() else { return Ok(found) };
        let record = record.map_err(drop)?;
        if record.rtype() != Rtype::OPT {
            continue;
        }
        let is_root = message.as_slice().get(at) == Some(&0);
        let record = record.to_record::<Opt<_>>().map_err(drop)?.ok_or(())?;
        if !is_root || found.is_some() {
            return Err(());
        }
        let opt = OptRecord::from(record);
        found = Some(Edns {
            at,
            size: opt.udp_payload_size(),
            version: opt.version(),
            dnssec_ok: opt.dnssec_ok(),
        });
    }
}

/// A header alone, for what cannot be read any further.
fn bare(message: &Message<[u8]>, rcode: Rcode) -> Vec<u8> {
    let asked = message.header();
    let mut answer = builder();
    let header = answer.header_mut();
    header.set_id(asked.id());
    header.set_qr(true);
    header.set_opcode(asked.opcode());
    header.set_rd(asked.rd());
    header.set_ra(true);
    header.set_rcode(rcode);
    answer.finish().into_target()
}

fn builder() -> MessageBuilder<StaticCompressor<Vec<u8>>> {
    let target = StaticCompressor::new(Vec::with_capacity(PLAIN));
    MessageBuilder::from_target(target).expect("memory has room for a header")
}

type OwnName = Name<&'static [u8]>;

/// The zone's own record; how long a no may be remembered is the last of it, and its own time.
fn soa(ttl: Ttl) -> (OwnName, Class, Ttl, Soa<OwnName>) {
    let name = |octets: &'static [u8]| Name::from_octets(octets).expect("a name of ours");
    let day = Ttl::from_secs(86_400);
    let data = Soa::new(
        name(b"\x02ns\x08internal\0"),
        name(b"\x0ahostmaster\x08internal\0"),
        Serial(1),
        day,
        day,
        day,
        NEGATIVE_TTL,
    );
    (name(ZONE), Class::IN, ttl, data)
}
