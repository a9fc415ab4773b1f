//! Netlink, as far as services need it: a few messages on a plain socket.
//!
//! [`message`] and the modules beside it put bytes together and take them apart, and are pure; the
//! sockets here only carry them. The kernel answers a request before `send` returns, so that asking
//! is a matter of microseconds and needs no waiting.

pub mod message;
pub mod nftables;
pub mod route;
pub mod sockets;
pub mod wireguard;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv,
    send, socket_with, sockopt,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use message::{Message, Part, parts};

/// Larger than any message of the kernel, which sends at most 32 KiB at once.
const BUFFER: usize = 64 * 1024;
/// How many datagrams one answer may have: a million routes are less.
const MOST: usize = 100_000;
/// Answers are there at once; a kernel that takes so long is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// The kernel's part that is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Links, addresses, routes.
    Route,
    /// WireGuard, and others under a name.
    Generic,
    /// nftables.
    Netfilter,
    /// Sockets.
    Sockets,
}

impl Family {
    fn protocol(self) -> Option<Protocol> {
        match self {
            // Number 0, which is what there is without one.
            Self::Route => None,
            Self::Generic => Some(rustix::net::netlink::GENERIC),
            Self::Netfilter => Some(rustix::net::netlink::NETFILTER),
            Self::Sockets => Some(rustix::net::netlink::SOCK_DIAG),
        }
    }
}

/// A conversation with the kernel.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// With this part of it.
    pub fn open(family: Family) -> io::Result<Self> {
        let socket = open(family, SocketFlags::CLOEXEC)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Has something changed; the kernel's no is an error.
    pub fn change(&self, message: Message) -> io::Result<()> {
        self.tell(&message.acknowledged().bytes(), 1)
    }

    /// Sends a batch of which `confirmed` messages are confirmed.
    pub fn tell(&self, bytes: &[u8], confirmed: usize) -> io::Result<()> {
        self.send(bytes)?;
        let mut left = confirmed;
        self.receive(|part| match part {
            Part::Error(0) => {
                left = left.saturating_sub(1);
                Ok(left == 0)
            }
            Part::Error(code) => Err(io::Error::from_raw_os_error(code)),
            Part::Done | Part::Data { .. } => Ok(false),
        })
    }

    /// Asks for one thing.
    pub fn ask(&self, message: Message) -> io::Result<(u16, Vec<u8>)> {
        self.send(&message.bytes())?;
        let mut answer = None;
        self.receive(|part| match part {
            Part::Data { kind, body } => {
                answer = Some((kind, body.to_vec()));
                Ok(true)
            }
            Part::Error(0) | Part::Done => Ok(true),
            Part::Error(code) => Err(io::Error::from_raw_os_error(code)),
        })?;
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Asks for all there is of something.
    pub fn list(&self, message: Message, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.send(&message.listing().bytes())?;
        self.receive(|part| match part {
            Part::Data { kind, body } => {
                each(kind, body);
                Ok(false)
            }
            Part::Error(0) | Part::Done => Ok(true),
            Part::Error(code) => Err(io::Error::from_raw_os_error(code)),
        })
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match send(&self.0, bytes, SendFlags::empty())? {
            sent if sent == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Hands over what comes until `each` has enough.
    fn receive(&self, mut each: impl FnMut(Part<'_>) -> io::Result<bool>) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        for _ in 0..MOST {
            let (length, _) = recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            for part in parts(&buffer[..length.min(BUFFER)]) {
                if each(part)? {
                    return Ok(());
                }
            }
        }
        Err(io::ErrorKind::QuotaExceeded.into())
    }
}

/// What the kernel tells unasked.
#[derive(Debug)]
pub struct Events(AsyncFd<OwnedFd>);

impl Events {
    /// Of links, addresses and routes, from now on.
    pub fn open() -> io::Result<Self> {
        let socket = open(Family::Route, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        bind(&socket, &SocketAddrNetlink::new(0, route::GROUPS))?;
        #[expect(unsafe_code, reason = "the compiler cannot see that a descriptor stays the same")]
        // SAFETY: an `OwnedFd` is open and the same until it is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        Ok(Self(registered?))
    }

    /// Waits for something of which `matters` says so. What was missed for want of room does.
    pub async fn heard(&self, mut matters: impl FnMut(u16, &[u8]) -> bool) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|socket| take(socket.get_ref(), &mut matters)) {
                Ok(Ok(false)) | Err(_) => {}
                Ok(Ok(true)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
            }
        }
    }

    /// Forgets what was told so far.
    pub fn forget(&self) {
        for _ in 0..MOST {
            match take(self.0.get_ref(), &mut |_, _| false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => {}
            }
        }
    }
}

/// One datagram: whether anything in it matters.
fn take(socket: &OwnedFd, matters: &mut impl FnMut(u16, &[u8]) -> bool) -> io::Result<bool> {
    let mut buffer = vec![0; BUFFER];
    let length = match recv(socket, &mut buffer[..], RecvFlags::empty()) {
        Ok((length, _)) => length,
        Err(rustix::io::Errno::NOBUFS) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let mut any = false;
    for part in parts(&buffer[..length.min(BUFFER)]) {
        if let Part::Data { kind, body } = part {
            any |= matters(kind, body);
        }
    }
    Ok(any)
}

fn open(family: Family, flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, family.protocol())?)
}

#[cfg(test)]
mod tests;
