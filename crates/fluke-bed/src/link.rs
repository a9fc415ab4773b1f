//! A link: a way to the server that can be slow, narrow, silent or torn.
//!
//! The kernel may know no netem, so this is a program in between: it takes connections on the
//! machine's address, and passes bytes on, late or not at all.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often a pipe looks at what the link is told.
const TICK: Duration = Duration::from_millis(5);
/// What is under way in one direction: as much as a good network would hold.
const UNDER_WAY: usize = 256;
/// What is passed on at once.
const PIECE: usize = 16 * 1024;

/// A way to a server, in the story's hands. Dropped, it tears every connection.
pub struct Link {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    to: SocketAddr,
    delay_ms: AtomicU64,
    bytes_per_second: AtomicU64,
    silent: AtomicBool,
    /// The next piece that passes is damaged.
    corrupt: AtomicBool,
    closed: AtomicBool,
    next: AtomicU64,
    pairs: Mutex<HashMap<u64, Arc<Pair>>>,
}

/// A connection: the agent's side, and the server's.
struct Pair {
    near: TcpStream,
    far: TcpStream,
    /// The far side is not to hear that the near side is gone.
    half_open: AtomicBool,
    /// Nothing gets through any more, nor does anybody hear of it.
    forgotten: AtomicBool,
}

impl Link {
    /// A link from a free port of `from`'s address to `to`.
    pub fn new(from: std::net::Ipv4Addr, to: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind((from, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            to,
            delay_ms: AtomicU64::new(0),
            bytes_per_second: AtomicU64::new(0),
            silent: AtomicBool::new(false),
            corrupt: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            next: AtomicU64::new(0),
            pairs: Mutex::default(),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if accepting.closed.load(Ordering::SeqCst) {
                    return;
                }
                accepting.clone().pass_on(near);
            }
        });
        Ok(Self { address, shared })
    }

    /// Where agents connect instead of to the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Everything arrives so much later, either way.
    pub fn delay(&self, delay: Duration) {
        self.shared.delay_ms.store(delay.as_millis() as u64, Ordering::SeqCst);
    }

    /// At most so many bytes a second get through, each way.
    pub fn limit(&self, bytes_per_second: u64) {
        self.shared.bytes_per_second.store(bytes_per_second, Ordering::SeqCst);
    }

    /// Nothing arrives any more, and nobody is told: connections stay open. What was sent in the
    /// meantime arrives after [`Link::heal`], as it would by retransmission.
    pub fn blackhole(&self) {
        self.shared.silent.store(true, Ordering::SeqCst);
    }

    /// Tears every connection, on both sides.
    pub fn drop_connections(&self) {
        self.shared.pairs().drain().for_each(|(_, pair)| pair.tear());
    }

    /// Tears every connection on the agents' side only: the server's side stays open, and silent.
    pub fn half_open(&self) {
        for pair in self.shared.pairs().values() {
            pair.half_open.store(true, Ordering::SeqCst);
            close(&pair.near);
        }
    }

    /// Forgets every connection that there is, as a NAT does that was restarted: both sides stay
    /// open, and nothing arrives any more. New connections are as good as ever.
    pub fn forget(&self) {
        self.shared.pairs().values().for_each(|pair| pair.forgotten.store(true, Ordering::SeqCst));
    }

    /// Damages the next piece that passes, in either direction.
    pub fn corrupt(&self) {
        self.shared.corrupt.store(true, Ordering::SeqCst);
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.shared.pairs().len()
    }

    /// A good link again; what is half open or forgotten is torn.
    pub fn heal(&self) {
        self.shared.delay_ms.store(0, Ordering::SeqCst);
        self.shared.bytes_per_second.store(0, Ordering::SeqCst);
        self.shared.silent.store(false, Ordering::SeqCst);
        let pairs = self.shared.pairs();
        let half = |pair: &&Arc<Pair>| pair.half_open.load(Ordering::SeqCst) || pair.is_forgotten();
        pairs.values().filter(half).for_each(|pair| pair.tear());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.drop_connections();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
    }
}

impl Pair {
    fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::SeqCst)
    }

    fn tear(&self) {
        self.half_open.store(false, Ordering::SeqCst);
        self.forgotten.store(false, Ordering::SeqCst);
        close(&self.near);
        close(&self.far);
    }
}

impl Shared {
    fn pairs(&self) -> MutexGuard<'_, HashMap<u64, Arc<Pair>>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_on(self: Arc<Self>, near: TcpStream) {
        thread::spawn(move || {
            self.wait_while_silent();
            let Ok(far) = TcpStream::connect(self.to) else { return close(&near) };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let pair =
                Arc::new(Pair { near, far, half_open: false.into(), forgotten: false.into() });
            let id = self.next.fetch_add(1, Ordering::SeqCst);
            self.pairs().insert(id, pair.clone());
            thread::scope(|scope| {
                scope.spawn(|| self.pipe(&pair, &pair.far, &pair.near));
                self.pipe(&pair, &pair.near, &pair.far);
            });
            while (pair.half_open.load(Ordering::SeqCst) || pair.is_forgotten())
                && !self.closed.load(Ordering::SeqCst)
            {
                thread::sleep(TICK);
            }
            self.pairs().remove(&id);
        });
    }

    fn wait_while_silent(&self) {
        while self.silent.load(Ordering::SeqCst) && !self.closed.load(Ordering::SeqCst) {
            thread::sleep(TICK);
        }
    }

    /// Passes on what is read, each piece at its time.
    fn pipe(&self, pair: &Pair, from: &TcpStream, to: &TcpStream) {
        let (send, receive) = sync_channel::<(Instant, Vec<u8>)>(UNDER_WAY);
        thread::scope(|scope| {
            scope.spawn(move || {
                self.write(pair, receive, to);
                // The other side hears of the end, unless it is not to hear anything.
                if !pair.half_open.load(Ordering::SeqCst) && !pair.is_forgotten() {
                    let _ = to.shutdown(Shutdown::Write);
                }
            });
            self.read(from, &send);
            drop(send);
        });
    }

    fn read(&self, mut from: &TcpStream, send: &SyncSender<(Instant, Vec<u8>)>) {
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let delay = Duration::from_millis(self.delay_ms.load(Ordering::SeqCst));
            if send.send((Instant::now() + delay, piece[..length].to_vec())).is_err() {
                return;
            }
        }
    }

    fn write(&self, pair: &Pair, receive: Receiver<(Instant, Vec<u8>)>, mut to: &TcpStream) {
        for (due, mut piece) in receive {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.wait_while_silent();
            let rate = self.bytes_per_second.load(Ordering::SeqCst);
            if rate > 0 {
                thread::sleep(Duration::from_secs_f64(piece.len() as f64 / rate as f64));
            }
            if pair.is_forgotten() {
                continue;
            }
            if self.corrupt.swap(false, Ordering::SeqCst) {
                // Behind the header of a TLS record, so that the record as such arrives.
                let at = piece.len() - 1;
                piece[at] ^= 0xff;
            }
            if to.write_all(&piece).is_err() {
                break;
            }
        }
    }
}

fn close(stream: &TcpStream) {
    let _ = stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests;
