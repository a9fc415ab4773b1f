//! What people and the system tell a program that has the terminal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::Terminal;
use super::keys::Key;

/// Something that was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A key was pressed.
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// Be gone for a while.
    Suspend,
    /// Come to an end.
    Stop,
}

/// Listens to keys and signals.
pub struct Inputs {
    keys: mpsc::Receiver<Key>,
    resized: Signal,
    stopped: Signal,
    interrupted: Signal,
    terminated: Signal,
    hung_up: Signal,
}

impl Inputs {
    /// Listens from now on.
    pub fn listen(terminal: &Terminal) -> io::Result<Self> {
        Ok(Self {
            keys: terminal.keys()?,
            resized: signal(SignalKind::window_change())?,
            stopped: signal(SignalKind::from_raw(nix::libc::SIGTSTP))?,
            interrupted: signal(SignalKind::interrupt())?,
            terminated: signal(SignalKind::terminate())?,
            hung_up: signal(SignalKind::hangup())?,
        })
    }

    /// What is told next. Cancel safe.
    pub async fn next(&mut self) -> Input {
        tokio::select! {
            Some(key) = self.keys.recv() => match key {
                Key::Interrupt => Input::Stop,
                Key::Suspend => Input::Suspend,
                key => Input::Key(key),
            },
            _ = self.resized.recv() => Input::Resized,
            _ = self.stopped.recv() => Input::Suspend,
            _ = self.interrupted.recv() => Input::Stop,
            _ = self.terminated.recv() => Input::Stop,
            _ = self.hung_up.recv() => Input::Stop,
        }
    }
}
