//! The whole terminal: taken while something moves on it, and given back whatever happens.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, Once, PoisonError};

use nix::sys::termios::{self, FlushArg, LocalFlags, SetArg, SpecialCharacterIndices, Termios};
use tokio::sync::mpsc;

use crate::fit;

pub mod inputs;
pub mod keys;
#[cfg(test)]
mod tests;

use keys::Key;

/// Another screen, without a cursor, on which long lines do not wrap.
const TAKE: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l\u{1b}[2J";
/// Everything as it was.
const GIVE_BACK: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// What is between these two appears at once.
const TOGETHER: (&str, &str) = ("\u{1b}[?2026h", "\u{1b}[?2026l");

/// How to give back the terminal that is taken now. There is one in a process.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

struct Taken {
    out: File,
    keys: Option<(File, Termios)>,
}

/// A terminal that is taken, for as long as this lives.
pub struct Terminal {
    out: File,
    keys: Option<File>,
    canvas: Canvas,
}

impl Terminal {
    /// Takes the terminal at `out`, and its keys where they can be had from `keys`.
    pub fn take(out: BorrowedFd<'_>, keys: BorrowedFd<'_>) -> io::Result<Self> {
        give_back_on_panic();
        let keys = match termios::tcgetattr(keys) {
            Ok(_) => Some(File::from(keys.try_clone_to_owned()?)),
            Err(_) => None,
        };
        let out = File::from(out.try_clone_to_owned()?);
        let mut terminal = Self { out, keys, canvas: Canvas::default() };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&mut self) -> io::Result<()> {
        let keys = match &self.keys {
            None => None,
            Some(keys) => {
                let before = termios::tcgetattr(keys)?;
                termios::tcsetattr(keys, SetArg::TCSANOW, &key_by_key(&before))?;
                Some((keys.try_clone()?, before))
            }
        };
        *taken() = Some(Taken { out: self.out.try_clone()?, keys });
        self.canvas = Canvas::default();
        self.out.write_all(TAKE.as_bytes())
    }

    /// Makes the terminal show these lines, by changing only what is different.
    pub fn draw(&mut self, lines: &[String], size: Size) -> io::Result<()> {
        self.out.write_all(self.canvas.update(lines, size).as_bytes())
    }

    /// Gives the terminal back until this process is told to go on.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // Whoever stopped us says when to go on; this returns then.
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP)?;
        self.enter()
    }

    /// The keys that are pressed from now on; none where there is no keyboard.
    pub fn keys(&self) -> io::Result<mpsc::Receiver<Key>> {
        let (tell, told) = mpsc::channel(64);
        if let Some(keys) = &self.keys {
            let mut keys = keys.try_clone()?;
            // Nothing can end a read of a terminal, so nobody waits for this thread.
            std::thread::Builder::new().name("keys".into()).spawn(move || {
                let mut bytes = [0; 256];
                while let Ok(count @ 1..) = keys.read(&mut bytes) {
                    let pressed = keys::decode(&bytes[..count]);
                    if pressed.into_iter().any(|key| tell.blocking_send(key).is_err()) {
                        return;
                    }
                }
            })?;
        }
        Ok(told)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Keys come at once, are not shown, and mean nothing to the system.
fn key_by_key(before: &Termios) -> Termios {
    let mut after = before.clone();
    after.local_flags &=
        !(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG | LocalFlags::IEXTEN);
    after.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
    after.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
    after
}

/// Does nothing where nothing is taken. Where it fails there is nobody to tell.
fn give_back() {
    let Some(mut taken) = taken().take() else { return };
    let _ = taken.out.write_all(GIVE_BACK.as_bytes());
    if let Some((keys, before)) = taken.keys {
        let _ = termios::tcflush(keys.as_fd(), FlushArg::TCIFLUSH);
        let _ = termios::tcsetattr(keys.as_fd(), SetArg::TCSANOW, &before);
    }
}

fn taken() -> std::sync::MutexGuard<'static, Option<Taken>> {
    // What is within is whole, whoever panicked.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A panic tells its story on the terminal that people see afterwards.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
    });
}

/// How many columns and rows there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// What a terminal shows now.
#[derive(Debug, Default)]
struct Canvas {
    shown: Vec<String>,
    size: Size,
}

impl Canvas {
    /// What has to be written so that these lines are shown; nothing if they are.
    fn update(&mut self, lines: &[String], size: Size) -> String {
        let mut text = String::new();
        if self.size != size {
            text.push_str("\u{1b}[2J");
            self.shown = vec![String::new(); size.height];
            self.size = size;
        }
        for (row, shown) in self.shown.iter_mut().enumerate() {
            let line = fit::clip(lines.get(row).map_or("", String::as_str), size.width);
            if line != *shown {
                // Erasing behind a line that fills its row would take its last character.
                let erase = if fit::shown_width(&line) < size.width { "\u{1b}[K" } else { "" };
                text.push_str(&format!("\u{1b}[{};1H{line}{erase}", row + 1));
                *shown = line;
            }
        }
        match text.is_empty() {
            true => text,
            false => format!("{}{text}{}", TOGETHER.0, TOGETHER.1),
        }
    }
}
