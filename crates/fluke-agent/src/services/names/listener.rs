//! The task that listens: it owns the sockets and the table, and so knows what is answered.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fluke_model::directory::Names;
use fluke_model::id::{Hash256, ServiceName};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::forward::{self, Forwarder};
use super::question::{self, Question, Transport};
use super::shares::{Share, Shares};
use super::zone::{Verdict, answer, unanswered};

/// Questions that others are asked at the same time.
const MOST_FORWARDED: usize = 256;
/// Of these, for one client.
const MOST_FORWARDED_EACH: usize = 64;
/// Connections at the same time; more wait in the kernel.
const MOST_CONNECTIONS: usize = 64;
/// Of these, for one client; more are hung up on.
const MOST_CONNECTIONS_EACH: usize = 16;
/// Questions in one connection.
const MOST_QUESTIONS: usize = 128;
/// How long a connection may be silent, or slow with one message.
const IDLE: Duration = Duration::from_secs(5);
/// Between tries to listen: the first wait, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How the listener is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Where it listens, or why nobody does. It is tried again.
    pub address: Result<SocketAddrV4, String>,
    /// What it answers from, if it knows anything.
    pub table: Option<Hash256>,
}

/// What the listener is told.
#[derive(Debug)]
pub enum Order {
    /// Answer from this.
    Serve(Arc<Names>, oneshot::Sender<Report>),
    /// Say how you are.
    Report(oneshot::Sender<Report>),
}

/// What answering takes, of which every connection has a part.
#[derive(Debug)]
struct Desk {
    names: watch::Sender<Option<Arc<Names>>>,
    turns: Mutex<HashMap<ServiceName, usize>>,
    forwarder: Forwarder,
    forwarded: Semaphore,
    forwarded_each: Arc<Shares>,
}

/// Listens until its orders end.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddrV4,
    desk: Arc<Desk>,
    orders: mpsc::Receiver<Order>,
    tries: u32,
}

struct Sockets {
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
    address: SocketAddrV4,
}

enum End {
    Dismissed,
    Broken(io::Error),
}

impl Listener {
    /// One that will answer from `names` at `address`.
    pub fn new(
        address: SocketAddrV4,
        names: Option<Arc<Names>>,
        forwarder: Forwarder,
        orders: mpsc::Receiver<Order>,
    ) -> Self {
        let desk = Desk {
            names: watch::Sender::new(names),
            turns: Mutex::default(),
            forwarder,
            forwarded: Semaphore::new(MOST_FORWARDED),
            forwarded_each: Shares::new(MOST_FORWARDED_EACH),
        };
        Self { address, desk: Arc::new(desk), orders, tries: 0 }
    }

    /// Listens, and where that fails tries again, until nobody gives orders any more.
    pub async fn run(mut self) {
        let mut order = None;
        loop {
            let opened = open(self.address);
            if let Some(order) = order.take() {
                let address = opened.as_ref().map(|sockets| sockets.address);
                self.obey(order, address.map_err(io::Error::to_string));
            }
            let error = match opened {
                Ok(sockets) => match self.serve(sockets).await {
                    End::Dismissed => return,
                    End::Broken(error) => error,
                },
                Err(error) => error,
            };
            self.report_once(&error);
            self.tries = self.tries.saturating_add(1);
            match timeout(self.wait(), self.orders.recv()).await {
                Ok(Some(next)) => order = Some(next),
                Ok(None) => return,
                Err(_) => {}
            }
        }
    }

    fn wait(&self) -> Duration {
        let doubled = FIRST_WAIT * 2_u32.saturating_pow(self.tries.saturating_sub(1).min(8));
        doubled.min(LONGEST_WAIT)
    }

    fn report_once(&self, error: &io::Error) {
        if self.tries == 0 {
            tracing::warn!(address = %self.address, %error, "names are not answered; trying again");
        }
    }

    fn obey(&self, order: Order, address: Result<SocketAddrV4, String>) {
        let asker = match order {
            Order::Report(asker) => asker,
            Order::Serve(names, asker) => {
                let is_known = |service: &ServiceName| names.named(service).next().is_some();
                self.desk.turns().retain(|service, _| is_known(service));
                self.desk.names.send_replace(Some(names));
                asker
            }
        };
        let table = self.desk.names.borrow().as_ref().map(|names| names.hash());
        // Who does not wait any more does not need to know.
        let _ = asker.send(Report { address, table });
    }

    async fn serve(&mut self, sockets: Sockets) -> End {
        let Sockets { udp, tcp, address } = sockets;
        tracing::info!(%address, "answering names");
        let (mut errands, mut connections) = (JoinSet::new(), JoinSet::new());
        let connections_each = Shares::new(MOST_CONNECTIONS_EACH);
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => self.obey(order, Ok(address)),
                    None => return End::Dismissed,
                },
                received = udp.recv_from(&mut buffer) => match received {
                    Ok((length, client)) => {
                        self.tries = 0;
                        self.datagram(&udp, &buffer[..length], client, &mut errands);
                    }
                    Err(error) => return End::Broken(error),
                },
                (stream, client) = accept(&tcp), if connections.len() < MOST_CONNECTIONS => {
                    let share = connections_each.take(client.ip());
                    if let Some(share) = share.filter(|_| self.is_served(client)) {
                        connections.spawn(converse(stream, self.desk.clone(), share));
                    }
                }
                Some(_) = errands.join_next(), if !errands.is_empty() => {}
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }

    fn datagram(
        &self,
        udp: &Arc<UdpSocket>,
        packet: &[u8],
        client: SocketAddr,
        errands: &mut JoinSet<()>,
    ) {
        if !self.is_served(client) {
            question::refusal(packet).iter().for_each(|no| send(udp, no, client));
            return;
        }
        match self.desk.decide(packet, Transport::Udp) {
            Verdict::Ignore => {}
            Verdict::Answer(answer) => send(udp, &answer, client),
            Verdict::Forward(question) => {
                let (udp, desk) = (udp.clone(), self.desk.clone());
                errands.spawn(async move {
                    let answer = desk.forward(&question, Transport::Udp, client.ip()).await;
                    send(&udp, &answer, client);
                });
            }
        }
    }

    /// Containers of this host, and the host itself, which asks from the gateway's address. The
    /// world, where it finds a way here, gets no resolver to misuse.
    fn is_served(&self, client: SocketAddr) -> bool {
        let network = |address: Ipv4Addr| u32::from(address) >> 8;
        match client.ip() {
            IpAddr::V4(client) => network(client) == network(*self.address.ip()),
            IpAddr::V6(_) => false,
        }
    }
}

const TOO_BUSY: &str = "too many questions wait for this host's resolvers";

impl Desk {
    fn turns(&self) -> std::sync::MutexGuard<'_, HashMap<ServiceName, usize>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, packet: &[u8], transport: Transport) -> Verdict {
        let names = self.names.borrow().clone();
        answer(packet, transport, names.as_deref(), |service| self.turn(service))
    }

    fn turn(&self, service: &ServiceName) -> usize {
        let mut turns = self.turns();
        let turn = turns.entry(service.clone()).or_default();
        *turn = turn.wrapping_add(1);
        *turn
    }

    async fn forward(&self, question: &Question, transport: Transport, client: IpAddr) -> Vec<u8> {
        match (self.forwarded_each.take(client), self.forwarded.try_acquire()) {
            (Some(_share), Ok(_held)) => self.forwarder.ask(question, transport).await,
            _ => unanswered(question, TOO_BUSY),
        }
    }
}

/// Answers what comes in one connection, in its order.
async fn converse(mut stream: TcpStream, desk: Arc<Desk>, share: Share) {
    for _ in 0..MOST_QUESTIONS {
        let packet = timeout(IDLE, forward::read(&mut stream, question::LONGEST)).await;
        let Ok(Ok(packet)) = packet else { return };
        let answer = match desk.decide(&packet, Transport::Tcp) {
            Verdict::Ignore => return,
            Verdict::Answer(answer) => answer,
            Verdict::Forward(question) => {
                desk.forward(&question, Transport::Tcp, share.client()).await
            }
        };
        let Ok(Ok(())) = timeout(IDLE, forward::write(&mut stream, &answer)).await else { return };
    }
}

async fn accept(tcp: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match tcp.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                sleep(FIRST_WAIT).await;
            }
        }
    }
}

/// Sends what can be sent at once: a client that hears nothing asks again.
fn send(udp: &UdpSocket, packet: &[u8], client: SocketAddr) {
    if let Err(error) = udp.try_send_to(packet, client) {
        tracing::debug!(%client, %error, "an answer was lost");
    }
}

/// Both sockets, also where the address is not there yet: Podman's bridge comes with the first
/// container and goes with the last.
fn open(address: SocketAddrV4) -> io::Result<Sockets> {
    let udp = socket(Type::DGRAM, Protocol::UDP, address)?;
    let udp = UdpSocket::from_std(udp.into())?;
    let SocketAddr::V4(address) = udp.local_addr()? else {
        return Err(io::Error::other("the address has another family"));
    };
    let tcp = socket(Type::STREAM, Protocol::TCP, address)?;
    tcp.listen(128)?;
    Ok(Sockets { udp: Arc::new(udp), tcp: TcpListener::from_std(tcp.into())?, address })
}

fn socket(kind: Type, protocol: Protocol, address: SocketAddrV4) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.set_freebind_v4(true)?;
    if kind == Type::STREAM {
        // Connections of one that ended must not keep out its successor.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}
