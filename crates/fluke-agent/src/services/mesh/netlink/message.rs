//! The form of all netlink messages: a header, a fixed part, attributes within attributes.

use std::ffi::CString;

/// A request.
pub const REQUEST: u16 = 0x1;
/// Say that it is done.
pub const ACK: u16 = 0x4;
/// All there is.
pub const DUMP: u16 = 0x300;
/// Fail if it is there.
pub const EXCLUSIVE: u16 = 0x200;
/// Make it if it is not there.
pub const CREATE: u16 = 0x400;
/// Behind those that are there.
pub const APPEND: u16 = 0x800;

const HEADER: usize = 16;
const NOOP: u16 = 1;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const OVERRUN: u16 = 4;
/// Says that an attribute holds others.
const NESTED: u16 = 0x8000;
/// What is the kind of an attribute, and no flag of it.
const KIND: u16 = 0x3fff;

/// A message to the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
}

impl Message {
    /// A request with its fixed part.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        Self { kind, flags: REQUEST | flags, body: padded(fixed) }
    }

    /// With these attributes.
    pub fn with(mut self, attributes: Attributes) -> Self {
        self.body.extend(attributes.0);
        self
    }

    /// To be confirmed.
    pub fn acknowledged(mut self) -> Self {
        self.flags |= ACK;
        self
    }

    /// For all there is.
    pub fn listing(mut self) -> Self {
        self.flags |= DUMP;
        self
    }

    /// As it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(HEADER + self.body.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(HEADER + self.body.len());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(self.flags.to_ne_bytes());
        // Its number, and who sends it: one request at a time on a socket of its own needs neither.
        bytes.extend([0; 8]);
        bytes.extend(&self.body);
        bytes
    }
}

/// Attributes, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// And one more.
    pub fn put(mut self, kind: u16, value: &[u8]) -> Self {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(padded(value));
        self
    }

    /// And one that is text with an end.
    pub fn text(self, kind: u16, value: &str) -> Self {
        let value = CString::new(value).unwrap_or_default();
        self.put(kind, value.as_bytes_with_nul())
    }

    /// And one that holds others.
    pub fn nest(self, kind: u16, inner: Attributes) -> Self {
        self.put(NESTED | kind, &inner.0)
    }
}

/// One part of what the kernel sends.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// What was asked for.
    Data {
        /// Of which kind.
        kind: u16,
        /// All behind the header.
        body: &'a [u8],
    },
    /// It was not done, for this reason; 0: it was.
    Error(i32),
    /// That was all.
    Done,
}

/// What a datagram of the kernel consists of; what is cut off is left out.
pub fn parts(datagram: &[u8]) -> impl Iterator<Item = Part<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        loop {
            let (kind, body) = next(&mut rest)?;
            match kind {
                NOOP => {}
                DONE => return Some(Part::Done),
                ERROR => return Some(Part::Error(-number(body).unwrap_or(0))),
                OVERRUN => return Some(Part::Error(rustix::io::Errno::NOBUFS.raw_os_error())),
                kind => return Some(Part::Data { kind, body }),
            }
        }
    })
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk()?)).ok()?;
    let kind = u16::from_ne_bytes(*rest.get(4..)?.first_chunk()?);
    let body = rest.get(HEADER..length)?;
    *rest = rest.get(align(length)..).unwrap_or_default();
    Some((kind, body))
}

/// The attributes behind the fixed part of a body.
pub fn attributes(body: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(align(fixed)..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..length)?;
        rest = rest.get(align(length)..).unwrap_or_default();
        Some((kind & KIND, value))
    })
}

/// A number of four bytes.
pub fn number(value: &[u8]) -> Option<i32> {
    value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
}

/// Text up to its end.
pub fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn padded(value: &[u8]) -> Vec<u8> {
    let mut bytes = value.to_vec();
    bytes.resize(align(value.len()), 0);
    bytes
}

fn align(length: usize) -> usize {
    length.next_multiple_of(4)
}
