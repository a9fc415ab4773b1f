//! Whether the machine at the other end lives, as its kernel shows: it answers the questions of
//! ours, whatever its programs do.
//!
//! One task looks at all connections, at those whose time has come together: a session wakes up when
//! its machine falls silent or answers again, and for nothing else.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::{getsockopt_impl, libc, sockopt_impl};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::clock::until;

/// A quiet connection is asked after so long, and again so often.
const ASKED_EVERY: u32 = 1;
/// After so many questions without an answer the kernel ends the connection: long after it was
/// noticed here.
const QUESTIONS: u32 = 30;
/// A machine that has not answered for so long is silent.
const SILENT: Duration = Duration::from_millis(1600);
/// How soon a silent one is looked at again.
const AGAIN: Duration = Duration::from_millis(200);
/// No look follows another sooner, and those that are due within it are looked at together.
const LEAST: Duration = Duration::from_millis(50);
/// After so many looks others may go on.
const AT_ONCE: usize = 256;

sockopt_impl!(
    /// What the kernel knows of a connection.
    TcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    libc::tcp_info
);

/// Where connections are handed in to be looked at.
#[derive(Debug, Clone)]
pub(crate) struct Pulses {
    new: mpsc::UnboundedSender<Looked>,
}

impl Pulses {
    /// Starts the one who looks; ends with the last who may hand something in.
    pub(crate) fn start() -> Self {
        let (new, handed_in) = mpsc::unbounded_channel();
        tokio::spawn(look_after(handed_in));
        Self { new }
    }

    /// Has a connection looked at for as long as what comes out of this is held.
    pub(super) fn feel(&self, socket: OwnedFd) -> io::Result<Felt> {
        let pulse = Arc::new(Pulse::take(socket)?);
        let (tells, told) = watch::channel(false);
        // Whoever looks ends no sooner than whoever may hand something in.
        let _ = self.new.send(Looked { pulse: Arc::downgrade(&pulse), told: tells });
        Ok(Felt { _pulse: pulse, told, is_silent: false })
    }
}

/// A connection that is looked at.
#[derive(Debug)]
pub(super) struct Felt {
    /// Nobody else keeps the socket open.
    _pulse: Arc<Pulse>,
    told: watch::Receiver<bool>,
    is_silent: bool,
}

impl Felt {
    /// Waits until the machine has fallen silent, or answers again. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        if self.told.changed().await.is_err() {
            // The connection is over, which its session hears of.
            std::future::pending().await
        }
    }

    /// Whether it is silent, where that is news.
    pub(super) fn news(&mut self) -> Option<bool> {
        let is_silent = *self.told.borrow_and_update();
        (std::mem::replace(&mut self.is_silent, is_silent) != is_silent).then_some(is_silent)
    }
}

/// A connection, and who is told of it.
#[derive(Debug)]
struct Looked {
    pulse: Weak<Pulse>,
    told: watch::Sender<bool>,
}

impl Looked {
    /// Looks at it, and says when to look again; never, where nobody holds it any more or it is over.
    fn look(&self) -> Option<Duration> {
        let silence = self.pulse.upgrade()?.silence().ok()?;
        let Look { is_silent, next } = judge(silence);
        self.told.send_if_modified(|told| std::mem::replace(told, is_silent) != is_silent);
        Some(next)
    }
}

async fn look_after(mut handed_in: mpsc::UnboundedReceiver<Looked>) {
    let mut round = Round { began: Instant::now(), due: BTreeMap::new() };
    loop {
        // Both are safe to cancel: a queue, a timer.
        tokio::select! {
            looked = handed_in.recv() => match looked {
                Some(looked) => round.take(looked, Instant::now()),
                None => return,
            },
            () = until(round.next()) => round.look(Instant::now()).await,
        }
    }
}

/// Who is looked at when: all whose time comes in the same span of [`LEAST`] together, at its end.
struct Round {
    began: Instant,
    due: BTreeMap<u64, Vec<Looked>>,
}

impl Round {
    fn next(&self) -> Option<Instant> {
        self.due.keys().next().map(|span| self.began + LEAST * u32::try_from(*span).unwrap_or(0))
    }

    fn take(&mut self, looked: Looked, at: Instant) {
        let span = at.saturating_duration_since(self.began).as_micros().div_ceil(LEAST.as_micros());
        self.due.entry(span as u64).or_default().push(looked);
    }

    /// Looks at all that are due.
    async fn look(&mut self, now: Instant) {
        let over = now.saturating_duration_since(self.began).as_micros() / LEAST.as_micros();
        let later = self.due.split_off(&(over as u64 + 1));
        let due = std::mem::replace(&mut self.due, later);
        for (at, looked) in due.into_values().flatten().enumerate() {
            if let Some(next) = looked.look() {
                self.take(looked, now + next);
            }
            if at % AT_ONCE == AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// A connection whose kernel is asked.
#[derive(Debug)]
struct Pulse {
    socket: OwnedFd,
}

/// What a look at it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    is_silent: bool,
    /// When to look again.
    next: Duration,
}

impl Pulse {
    /// Has the kernel ask every second.
    fn take(socket: OwnedFd) -> io::Result<Self> {
        setsockopt(&socket, sockopt::TcpKeepIdle, &ASKED_EVERY)?;
        setsockopt(&socket, sockopt::TcpKeepInterval, &ASKED_EVERY)?;
        setsockopt(&socket, sockopt::TcpKeepCount, &QUESTIONS)?;
        setsockopt(&socket, sockopt::KeepAlive, &true)?;
        Ok(Self { socket })
    }

    /// How long nothing has come of the other machine.
    fn silence(&self) -> io::Result<Duration> {
        let info = getsockopt(&self.socket, TcpInfo)?;
        let last = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
        Ok(Duration::from_millis(last.into()))
    }
}

/// Pure: a live machine is looked at about once a second, and never later than it may be missed.
fn judge(silence: Duration) -> Look {
    let is_silent = silence >= SILENT;
    let next = if is_silent { AGAIN } else { (SILENT - silence).max(LEAST) };
    Look { is_silent, next }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_machine_is_missed_as_soon_as_it_may_be() {
        let ms = Duration::from_millis;
        for (silence, is_silent, next) in [
            (0, false, 1600),
            (900, false, 700),
            (1590, false, 50),
            (1600, true, 200),
            (9000, true, 200),
        ] {
            assert_eq!(judge(ms(silence)), Look { is_silent, next: ms(next) }, "{silence} ms");
        }
    }

    async fn connection() -> ((TcpStream, TcpStream), OwnedFd) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stream, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stream, (accepted, _)) = (stream.expect("open"), accepted.expect("open"));
        let socket = accepted.as_fd().try_clone_to_owned().expect("a handle");
        ((stream, accepted), socket)
    }

    #[tokio::test]
    async fn a_machine_is_looked_at_when_its_time_comes_and_for_as_long_as_somebody_cares() {
        let (_streams, socket) = connection().await;
        let pulse = Arc::new(Pulse::take(socket).expect("options that Linux has"));
        let (told, is_silent) = watch::channel(true);
        let now = Instant::now();
        let mut round = Round { began: now, due: BTreeMap::new() };
        round.take(Looked { pulse: Arc::downgrade(&pulse), told }, now + LEAST / 2);
        assert_eq!(round.next(), Some(now + LEAST), "with all others of its span");
        round.look(now).await;
        assert!(!is_silent.has_changed().expect("open"), "its time has not come");
        round.look(now + LEAST).await;
        assert!(!*is_silent.borrow(), "it lives, and that is told");
        let next = round.next().expect("it is looked at again");
        assert!(next > now + LEAST && next <= now + LEAST * 2 + SILENT, "{:?}", next - now);
        drop(pulse);
        round.look(next).await;
        assert_eq!(round.next(), None);
        assert!(is_silent.has_changed().is_err(), "nobody will say anything of it any more");
    }

    #[tokio::test]
    async fn a_kernel_that_lives_answers_though_its_program_says_nothing() {
        let (_streams, socket) = connection().await;
        let pulse = Pulse::take(socket).expect("options that Linux has");
        // It never grows to what would be taken for silence, however long this goes on.
        let (mut longest, mut before, mut answers) = (Duration::ZERO, Duration::ZERO, 0);
        while answers < 2 {
            let silence = pulse.silence().expect("told");
            answers += u32::from(silence < before);
            (longest, before) = (longest.max(silence), silence);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(
            longest >= Duration::from_millis(500),
            "nothing but answers was heard: {longest:?}"
        );
    }
}
