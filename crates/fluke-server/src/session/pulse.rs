//! Whether the machine at the other end lives, as its kernel shows: it answers the questions of
//! ours, whatever its programs do.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::{getsockopt_impl, libc, sockopt_impl};

/// A quiet connection is asked after so long, and again so often.
const ASKED_EVERY: u32 = 1;
/// After so many questions without an answer the kernel ends the connection: long after it was
/// noticed here.
const QUESTIONS: u32 = 30;
/// A machine that has not answered for so long is silent.
const SILENT: Duration = Duration::from_millis(1600);
/// How soon a silent one is looked at again.
const AGAIN: Duration = Duration::from_millis(200);
/// No look follows another sooner.
const LEAST: Duration = Duration::from_millis(50);

sockopt_impl!(
    /// What the kernel knows of a connection.
    TcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    libc::tcp_info
);

/// A connection whose kernel is asked.
#[derive(Debug)]
pub(super) struct Pulse {
    socket: OwnedFd,
}

/// What a look at it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub is_silent: bool,
    /// When to look again.
    pub next: Duration,
}

impl Pulse {
    /// Has the kernel ask every second.
    pub(super) fn take(socket: OwnedFd) -> io::Result<Self> {
        setsockopt(&socket, sockopt::TcpKeepIdle, &ASKED_EVERY)?;
        setsockopt(&socket, sockopt::TcpKeepInterval, &ASKED_EVERY)?;
        setsockopt(&socket, sockopt::TcpKeepCount, &QUESTIONS)?;
        setsockopt(&socket, sockopt::KeepAlive, &true)?;
        Ok(Self { socket })
    }

    /// How long nothing has come of the other machine.
    pub(super) fn silence(&self) -> io::Result<Duration> {
        let info = getsockopt(&self.socket, TcpInfo)?;
        let last = info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv);
        Ok(Duration::from_millis(last.into()))
    }
}

/// Pure: a live machine is looked at about once a second, and never later than it may be missed.
pub(super) fn judge(silence: Duration) -> Look {
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

    #[tokio::test]
    async fn a_kernel_that_lives_answers_though_its_program_says_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (_stream, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (accepted, _) = accepted.expect("a connection");
        let socket = accepted.as_fd().try_clone_to_owned().expect("a handle");
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
