//! The network: one byte stream a connection, in order, with delays, and all that goes wrong.
//!
//! A partition holds bytes back, as TCP does; what was held back arrives when it heals. A reset
//! reaches both ends at once. A machine that loses power says nothing to anybody.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::dice::Dice;
use crate::trace::HostId;

/// How much may be on its way before a writer has to wait, in bytes.
const WINDOW: usize = 256 * 1024;
/// How many connections may wait to be accepted.
const BACKLOG: usize = 64;

/// Which way bytes do not get through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// To the agent.
    Down,
    /// Neither.
    Both,
}

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The agent's.
    Agent,
    /// The server's.
    Server,
}

/// The network between all hosts and the server.
#[derive(Debug, Clone)]
pub struct Net(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    /// One for each link: the runtime wakes those who wait for the same thing in any order, and
    /// what happens on one link must not depend on what happens at that moment on another.
    dice: Vec<Dice>,
    links: Vec<Link>,
    pipes: Vec<Arc<Mutex<Pipe>>>,
    /// Where a server that lives takes connections.
    door: Option<mpsc::Sender<PipeEnd>>,
}

/// What lies between one host and the server.
#[derive(Debug, Clone, Copy)]
struct Link {
    blocked: Option<Way>,
    delay: Duration,
}

const USUAL_DELAY: Duration = Duration::from_millis(5);

impl Net {
    /// Everything works.
    pub fn new(hosts: usize, seed: u64) -> Self {
        let dice = (0..hosts).map(|host| Dice::new(seed, 10_000 + host as u64)).collect();
        let links = vec![Link { blocked: None, delay: USUAL_DELAY }; hosts];
        Self(Arc::new(Mutex::new(Inner { dice, links, pipes: Vec::new(), door: None })))
    }

    /// A server begins to listen.
    pub fn listen(&self) -> mpsc::Receiver<PipeEnd> {
        let (door, arrivals) = mpsc::channel(BACKLOG);
        self.lock().door = Some(door);
        arrivals
    }

    /// Nobody listens any more.
    pub fn close_door(&self) {
        self.lock().door = None;
    }

    /// Connects a host with the server, as TCP would.
    pub async fn connect(&self, host: HostId) -> io::Result<PipeEnd> {
        let (delay, door) = {
            let inner = self.lock();
            match inner.links[host] {
                Link { blocked: Some(_), .. } => (None, None),
                Link { delay, .. } => (Some(delay), inner.door.clone()),
            }
        };
        let Some(delay) = delay else { return std::future::pending().await };
        tokio::time::sleep(2 * delay).await;
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let door = door.ok_or_else(refused)?;
        let pipe = Arc::new(Mutex::new(Pipe::new(host)));
        let end = |end| PipeEnd { pipe: pipe.clone(), net: self.clone(), end, timer: None };
        let (ours, theirs) = (end(End::Agent), end(End::Server));
        self.lock().pipes.push(pipe.clone());
        door.try_send(theirs).map_err(|_| refused())?;
        Ok(ours)
    }

    /// Bytes do not get through, until [`Net::heal`].
    pub fn partition(&self, host: HostId, way: Way) {
        self.lock().links[host].blocked = Some(way);
    }

    /// All that a link had is over; what was held back arrives.
    pub fn heal(&self, host: HostId) {
        let mut inner = self.lock();
        inner.links[host] = Link { blocked: None, delay: USUAL_DELAY };
        for pipe in inner.pipes_of(host) {
            lock(&pipe).wake_all();
        }
    }

    /// Everything takes this long from now on.
    pub fn slow_down(&self, host: HostId, delay: Duration) {
        self.lock().links[host].delay = delay;
    }

    /// Every connection of a host is reset.
    pub fn reset(&self, host: HostId) {
        for pipe in self.lock().pipes_of(host) {
            lock(&pipe).reset();
        }
    }

    /// The process at one end is gone, and the system closes what it had open.
    pub fn process_gone(&self, end: End, of: Option<HostId>) {
        let inner = self.lock();
        for pipe in inner.pipes.iter().filter(|pipe| of.is_none_or(|host| lock(pipe).host == host))
        {
            lock(pipe).hang_up(end);
        }
    }

    /// The machine at one end is gone, and says nothing.
    pub fn machine_gone(&self, end: End, of: Option<HostId>) {
        let inner = self.lock();
        for pipe in inner.pipes.iter().filter(|pipe| of.is_none_or(|host| lock(pipe).host == host))
        {
            lock(pipe).lose(end);
        }
    }

    /// Connections that are not closed at both ends.
    pub fn open_connections(&self) -> usize {
        let mut inner = self.lock();
        inner.tidy();
        inner.pipes.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }

    /// When what is sent now arrives.
    fn arrival(&self, host: HostId) -> Instant {
        let inner = self.lock();
        let delay = inner.links[host].delay;
        Instant::now() + delay + inner.dice[host].millis(0, delay.as_millis() as u64 / 2)
    }

    fn is_blocked(&self, host: HostId, reader: End) -> bool {
        match (self.lock().links[host].blocked, reader) {
            (None, _) => false,
            (Some(Way::Both), _) => true,
            (Some(way), End::Server) => way == Way::Up,
            (Some(way), End::Agent) => way == Way::Down,
        }
    }
}

impl Inner {
    fn pipes_of(&mut self, host: HostId) -> Vec<Arc<Mutex<Pipe>>> {
        self.tidy();
        self.pipes.iter().filter(|pipe| lock(pipe).host == host).cloned().collect()
    }

    fn tidy(&mut self) {
        self.pipes.retain(|pipe| !lock(pipe).lanes.iter().all(|lane| lane.writer_gone));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection.
#[derive(Debug)]
struct Pipe {
    host: HostId,
    /// What the agent writes, and what the server writes.
    lanes: [Lane; 2],
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<(Instant, Vec<u8>)>,
    waiting: usize,
    newest: Option<Instant>,
    /// No more is written.
    ended: bool,
    /// Whoever wrote here has let go of the connection.
    writer_gone: bool,
    broken: bool,
    /// Nothing that is written here arrives, and nobody says so.
    lost: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(host: HostId) -> Self {
        Self { host, lanes: Default::default() }
    }

    fn reset(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.broken = true);
        self.wake_all();
    }

    fn hang_up(&mut self, end: End) {
        if self.lanes[end as usize].lost {
            // Of another life, which went with its machine.
            return;
        }
        let (written, read) = (end as usize, 1 - end as usize);
        self.lanes[written].ended = true;
        self.lanes[written].writer_gone = true;
        self.lanes[read].broken = true;
        self.wake_all();
    }

    fn lose(&mut self, end: End) {
        self.lanes[end as usize].writer_gone = true;
        self.lanes.iter_mut().for_each(|lane| lane.lost = true);
    }

    fn wake_all(&mut self) {
        for lane in &mut self.lanes {
            lane.reader.take().into_iter().chain(lane.writer.take()).for_each(Waker::wake);
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct PipeEnd {
    pipe: Arc<Mutex<Pipe>>,
    net: Net,
    end: End,
    timer: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for PipeEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let pipe = this.pipe.clone();
        let host = lock(&pipe).host;
        let blocked = this.net.is_blocked(host, this.end);
        let mut pipe = lock(&pipe);
        let lane = &mut pipe.lanes[1 - this.end as usize];
        if lane.broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        lane.reader = Some(cx.waker().clone());
        if blocked || lane.lost {
            return Poll::Pending;
        }
        let Some((arrives, bytes)) = lane.queue.front_mut() else {
            return if lane.ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        if *arrives > Instant::now() {
            let mut timer = Box::pin(sleep_until(*arrives));
            if timer.as_mut().poll(cx).is_pending() {
                this.timer = Some(timer);
                return Poll::Pending;
            }
        }
        let taken = bytes.len().min(into.remaining());
        into.put_slice(&bytes[..taken]);
        bytes.drain(..taken);
        if bytes.is_empty() {
            lane.queue.pop_front();
        }
        lane.waiting -= taken;
        lane.writer.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PipeEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let host = lock(&self.pipe).host;
        let arrives = self.net.arrival(host);
        let mut pipe = lock(&self.pipe);
        let lane = &mut pipe.lanes[self.end as usize];
        if lane.broken || lane.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = bytes.len().min(WINDOW - lane.waiting);
        if taken == 0 && !bytes.is_empty() {
            lane.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        // In order: nothing overtakes what was sent before.
        let arrives = lane.newest.map_or(arrives, |newest| newest.max(arrives));
        lane.newest = Some(arrives);
        lane.waiting += taken;
        lane.queue.push_back((arrives, bytes[..taken].to_vec()));
        lane.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = lock(&self.pipe);
        let lane = &mut pipe.lanes[self.end as usize];
        lane.ended = true;
        lane.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        let mut pipe = lock(&self.pipe);
        let lane = &mut pipe.lanes[self.end as usize];
        lane.ended = true;
        lane.writer_gone = true;
        lane.reader.take().into_iter().for_each(Waker::wake);
        // Nobody reads any more what the other end writes.
        let other = &mut pipe.lanes[1 - self.end as usize];
        other.broken |= !other.lost;
        other.writer.take().into_iter().for_each(Waker::wake);
    }
}
