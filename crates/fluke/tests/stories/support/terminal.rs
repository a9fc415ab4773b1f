//! A terminal with a program on it: keys go in, a screen comes out.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, ttyname};

/// Longer than anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pseudo-terminal, and `fluke` on it.
pub struct TerminalProgram {
    child: Child,
    keys: File,
    slave: std::os::fd::OwnedFd,
    before: Termios,
    seen: Arc<Mutex<Seen>>,
}

/// What has come out so far.
#[derive(Default)]
struct Seen {
    screen: Vec<String>,
    everything: String,
}

impl TerminalProgram {
    /// `fluke ARGUMENTS` against the server at `socket`.
    pub fn start(arguments: &[&str], socket: &Path, width: u16, height: u16) -> Self {
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(Some(&size), None).expect("a terminal");
        let before = tcgetattr(&slave).expect("its settings");
        let end = || slave.try_clone().expect("a descriptor");
        // It is the program's own terminal, so that it hears of its size.
        let child = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_fluke")])
            .args(arguments)
            .env("FLUKE_SERVER", format!("unix://{}", socket.display()))
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("setsid runs fluke");
        let mut output = File::from(master.try_clone().expect("a descriptor"));
        let seen = Arc::<Mutex<Seen>>::default();
        let keep = seen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut pending = Vec::new();
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                pending.extend_from_slice(&bytes[..count]);
                let whole = match std::str::from_utf8(&pending) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let text = String::from_utf8_lossy(&pending[..whole]).into_owned();
                pending.drain(..whole);
                let mut seen = keep.lock().expect("what was seen");
                seen.everything.push_str(&text);
                seen.screen = screen(&seen.everything);
            }
        });
        Self { child, keys: File::from(master), slave, before, seen }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("keys");
    }

    pub fn resize(&self, width: u16, height: u16) {
        let name = ttyname(&self.slave).expect("a terminal has a name");
        let (rows, columns) = (height.to_string(), width.to_string());
        let done = Command::new("stty")
            .arg("-F")
            .arg(name)
            .args(["rows", &rows, "cols", &columns])
            .status()
            .expect("stty runs");
        assert!(done.success());
    }

    /// Waits until a line on the screen has all of these words.
    pub fn shows(&self, words: &[&str]) -> String {
        self.waits(&format!("{words:?} in a line"), |screen| {
            let line = screen.iter().find(|line| words.iter().all(|word| line.contains(word)));
            line.cloned()
        })
    }

    /// Waits until no line on the screen has this word.
    pub fn no_longer_shows(&self, word: &str) {
        self.waits(&format!("no {word:?}"), |screen| {
            (!screen.iter().any(|line| line.contains(word))).then_some(())
        });
    }

    fn waits<T>(&self, what: &str, found: impl Fn(&[String]) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if let Some(found) = found(&screen) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "never {what} on:\n{}", screen.join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn screen(&self) -> Vec<String> {
        self.seen.lock().expect("what was seen").screen.clone()
    }

    fn everything(&self) -> String {
        self.seen.lock().expect("what was seen").everything.clone()
    }

    /// Signals the program itself, not setsid.
    pub fn signal(&self, signal: Signal) {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(children).expect("setsid's child");
        let process = children.split_whitespace().next().map(|id| id.parse().expect("a number"));
        // Without one, setsid had no need to fork.
        kill(Pid::from_raw(process.unwrap_or(self.child.id() as i32)), signal).expect("it runs");
    }

    /// Waits for a good end, looks at whether the terminal is as it was, and returns what was
    /// written to it since.
    pub fn ends_well(mut self) -> String {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            let screen = self.screen().join("\n");
            assert!(began.elapsed() < PATIENCE, "it does not end:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(tcgetattr(&self.slave).expect("its settings"), self.before);
        assert!(status.success(), "{status}");
        loop {
            let everything = self.everything();
            if let Some((_, since)) = everything.rsplit_once("\u{1b}[?25h\u{1b}[?1049l") {
                return since.to_string();
            }
            assert!(began.elapsed() < PATIENCE, "never given back: {everything:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for TerminalProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a terminal shows after these bytes: only as much of one as fluke uses.
fn screen(bytes: &str) -> Vec<String> {
    let mut rows = vec![String::new(); 100];
    let mut row = 0;
    let mut rest = bytes;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\u{1b}' => {
                let Some(end) = rest.find(|c: char| c.is_ascii_alphabetic()) else { break };
                let (parameters, last) = (&rest[..end], &rest[end..=end]);
                match last {
                    "H" => {
                        let number = parameters.trim_start_matches('[').split(';').next();
                        row = number.and_then(|text| text.parse::<usize>().ok()).unwrap_or(1) - 1;
                        rows[row].clear();
                    }
                    "J" => rows.iter_mut().for_each(String::clear),
                    _ => {}
                }
                rest = &rest[end + 1..];
            }
            '\r' => {}
            '\n' => row = (row + 1).min(rows.len() - 1),
            c => rows[row].push(c),
        }
    }
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}
