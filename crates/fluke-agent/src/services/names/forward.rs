//! Asks the host's resolvers what is not ours.
//!
//! Each time with a number and a port that nobody can guess, and only an answer to what was asked
//! is taken, so that a stranger cannot slip in another.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use domain::base::Message;
use domain::base::iana::Rcode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::question::{Question, Transport, is_answer};
use super::resolvers::Resolvers;
use super::zone::unanswered;

/// How long one of them has.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than was said that we can take.
const BUFFER: usize = 4096;

/// Asks others.
#[derive(Debug)]
pub struct Forwarder {
    resolvers: Resolvers,
    /// The one that answered last is asked first: a dead one costs its patience once.
    good: AtomicUsize,
}

impl Forwarder {
    /// Asks these.
    pub fn new(resolvers: Resolvers) -> Self {
        Self { resolvers, good: AtomicUsize::new(0) }
    }

    /// What the first of them says that has something to say, ready for the client.
    pub async fn ask(&self, question: &Question, transport: Transport) -> Vec<u8> {
        let servers = self.resolvers.now();
        let first = self.good.load(Ordering::Relaxed);
        let mut lame = None;
        for turn in 0..servers.len() {
            let at = (first + turn) % servers.len();
            match ask_one(servers[at], question, transport).await {
                Ok(answer) if is_lame(&answer) => lame = lame.or(Some(answer)),
                Ok(answer) => {
                    self.good.store(at, Ordering::Relaxed);
                    return question.relay(answer);
                }
                Err(error) => tracing::debug!(server = %servers[at], %error, "no answer"),
            }
        }
        match lame {
            Some(answer) => question.relay(answer),
            None if servers.is_empty() => unanswered(question, "this host has no other resolver"),
            None => unanswered(question, "no resolver of this host answered"),
        }
    }
}

/// Another may know better.
fn is_lame(answer: &Message<Vec<u8>>) -> bool {
    matches!(answer.header().rcode(), Rcode::SERVFAIL | Rcode::NOTIMP | Rcode::REFUSED)
}

async fn ask_one(
    server: SocketAddr,
    question: &Question,
    transport: Transport,
) -> io::Result<Message<Vec<u8>>> {
    if transport == Transport::Tcp {
        return timeout(PATIENCE, over_tcp(server, question)).await?;
    }
    let answer = timeout(PATIENCE, over_udp(server, question)).await??;
    if !answer.header().tc() {
        return Ok(answer);
    }
    // A cut answer is better than none.
    match timeout(PATIENCE, over_tcp(server, question)).await {
        Ok(Ok(whole)) => Ok(whole),
        _ => Ok(answer),
    }
}

async fn over_udp(server: SocketAddr, question: &Question) -> io::Result<Message<Vec<u8>>> {
    let anywhere: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // The kernel picks a port at random, and lets in nobody but the server.
    let socket = UdpSocket::bind(anywhere).await?;
    socket.connect(server).await?;
    let asked = question.to_ask(random_id()?);
    socket.send(asked.as_slice()).await?;
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let answer = Message::from_octets(buffer[..length].to_vec());
        if let Some(answer) = answer.ok().filter(|answer| is_answer(answer, &asked)) {
            return Ok(answer);
        }
    }
}

async fn over_tcp(server: SocketAddr, question: &Question) -> io::Result<Message<Vec<u8>>> {
    let mut stream = TcpStream::connect(server).await?;
    let asked = question.to_ask(random_id()?);
    write(&mut stream, asked.as_slice()).await?;
    let answer = read(&mut stream, usize::from(u16::MAX)).await?;
    let answer = Message::from_octets(answer).ok().filter(|answer| is_answer(answer, &asked));
    answer.ok_or_else(|| io::Error::other("the answer is to another question"))
}

fn random_id() -> io::Result<u16> {
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(u16::from_be_bytes(id))
}

/// One message of a stream.
pub async fn read(stream: &mut TcpStream, longest: usize) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > longest {
        return Err(io::Error::other("the message is too long"));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// Sends one message into a stream, with its length in the same packet.
pub async fn write(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let mut framed = Vec::with_capacity(message.len() + 2);
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    stream.write_all(&framed).await
}
