//! Somebody between an agent and its Podman: hears what is asked for, passes it on, and may end the
//! agent over it.
//!
//! The tap is a socket that the agent is told to be Podman's. Behind it is the host's real one. So a
//! story chooses the very moment of a change at which an agent dies, without a word to the agent.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::agent::UNIT;
use crate::host::Host;
use crate::site::Site;

/// Where hosts have the folder that the tap's socket is in.
const FOLDER: &str = "/opt/fluke";
/// Where Podman listens on every host.
const PODMAN: &str = "run/podman/podman.sock";
/// No request of an agent is longer.
const LONGEST: usize = 4 << 20;

/// When an agent is ended, of a request that it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Podman has not heard it.
    Before,
    /// Podman has heard it, and is at work.
    During,
    /// Podman has done it, and the agent has not heard so.
    After,
}

/// Between the agent of one host and its Podman. Dropped, nobody gets through any more.
pub struct Tap {
    socket: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    // Not the host itself, which would keep its bed.
    site: Site,
    host: String,
    is_closed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    moment: Option<Moment>,
    /// The kinds of request that cost an agent its life.
    ended_over: BTreeSet<String>,
}

impl Tap {
    /// Passes everything on, for now.
    pub fn on(host: &Host) -> Self {
        let name = format!("podman-{}.sock", host.name);
        let site = host.bed.site.clone();
        let socket = site.folder().join("bin").join(name);
        let listener = UnixListener::bind(&socket).expect("a place for a socket");
        let shared = Arc::new(Shared {
            site,
            host: host.name.clone(),
            is_closed: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for agent in listener.incoming().flatten() {
                if accepting.is_closed.load(Ordering::SeqCst) {
                    return;
                }
                let shared = accepting.clone();
                // A connection that ends early is what a story with a tap is about.
                thread::spawn(move || drop(shared.answer(agent)));
            }
        });
        Self { socket, shared }
    }

    /// Where the host has it: what goes into the agent's config.
    pub fn path(&self) -> String {
        let name = self.socket.file_name().unwrap_or_default();
        format!("{FOLDER}/{}", name.to_string_lossy())
    }

    /// From now on the agent is ended over the first request of each kind that changes something.
    pub fn ends_agent(&self, moment: Moment) {
        *self.shared.state() = State { moment: Some(moment), ended_over: BTreeSet::new() };
    }

    /// From now on it is left alone. Which kinds of request it was ended over so far.
    pub fn spares_agent(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.shared.state()).ended_over
    }

    /// Which kinds of request the agent was ended over so far.
    pub fn ended_over(&self) -> BTreeSet<String> {
        self.shared.state().ended_over.clone()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        // Has the listener look.
        let _ = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request, in Podman's words.
    fn answer(&self, mut agent: UnixStream) -> io::Result<()> {
        let request = Request::read(&mut agent)?;
        let moment = self.moment(&request);
        if moment == Some(Moment::Before) {
            self.end_agent();
            return Ok(());
        }
        let mut podman = self.podman()?;
        podman.write_all(&request.bytes)?;
        match moment {
            Some(Moment::During) => self.end_agent(),
            Some(_) => {
                podman.read_to_end(&mut Vec::new())?;
                self.end_agent();
            }
            None => pass_on(agent, podman)?,
        }
        Ok(())
    }

    /// Whether the agent is ended over a request, and when.
    fn moment(&self, request: &Request) -> Option<Moment> {
        let mut state = self.state();
        let moment = state.moment?;
        let is_first = request.changes_something() && state.ended_over.insert(request.kind.clone());
        is_first.then_some(moment)
    }

    fn podman(&self) -> io::Result<UnixStream> {
        let pid = self.site.pid(&self.host).map_err(io::Error::other)?;
        let root = Path::new("/proc").join(pid).join("root");
        UnixStream::connect(root.join(PODMAN))
    }

    /// As a crash would. It may be dead already: two of its requests can be under way.
    fn end_agent(&self) {
        let kill = ["systemctl", "kill", "--signal=KILL", "--kill-whom=main", UNIT];
        let _ = self.site.exec(&self.host, &kill, "");
    }
}

/// Both ways, until either ends.
fn pass_on(mut agent: UnixStream, mut podman: UnixStream) -> io::Result<()> {
    let (mut listening, hung_up) = (agent.try_clone()?, podman.try_clone()?);
    let waits = thread::spawn(move || {
        // It has said all that it had to: what comes now is its end.
        let _ = io::copy(&mut listening, &mut io::sink());
        let _ = hung_up.shutdown(Shutdown::Both);
    });
    let passed = io::copy(&mut podman, &mut agent);
    let _ = agent.shutdown(Shutdown::Both);
    let _ = waits.join();
    passed.map(drop)
}

/// What an agent asks for.
struct Request {
    /// `POST containers/*/start`.
    kind: String,
    /// All of it, and that nothing comes after it.
    bytes: Vec<u8>,
}

impl Request {
    fn read(from: &mut impl Read) -> io::Result<Self> {
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            if let Some(whole) = Self::parse(&bytes) {
                return Ok(whole);
            }
            match from.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ if bytes.len() > LONGEST => return Err(io::ErrorKind::InvalidData.into()),
                count => bytes.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// A request, if all of it is there.
    fn parse(bytes: &[u8]) -> Option<Self> {
        const END: &[u8] = b"\r\n\r\n";
        let end = bytes.windows(END.len()).position(|window| window == END)?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let body = bytes.get(end + END.len()..end + END.len() + length.unwrap_or(0usize))?;
        let bytes = [head.as_bytes(), b"\r\nConnection: close", END, body].concat();
        Some(Self { kind: kind(head.lines().next()?)?, bytes })
    }

    fn changes_something(&self) -> bool {
        !self.kind.starts_with("GET ")
    }
}

/// `POST /v4.0.0/libpod/containers/0b2f…/start?x HTTP/1.1` as `POST containers/*/start`.
fn kind(line: &str) -> Option<String> {
    const ID: usize = 64;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let path = path.split_once("/libpod/").map_or(path, |(_, path)| path);
    let path = path.split('?').next()?;
    let short = |part: &str| if part.len() == ID { "*".to_owned() } else { part.to_owned() };
    let path: Vec<String> = path.split('/').map(short).collect();
    Some(format!("{method} {}", path.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_once_its_body_is() {
        let head = "POST /v4.0.0/libpod/containers/create HTTP/1.1\r\nHost: podman\r\nContent-Length: 4\r\n\r\n";
        assert!(Request::parse(head.as_bytes()).is_none());
        assert!(Request::parse(format!("{head}{{}}").as_bytes()).is_none());
        let whole = Request::parse(format!("{head}body").as_bytes()).expect("it is");
        assert_eq!(whole.kind, "POST containers/create");
        let said = String::from_utf8(whole.bytes).expect("text");
        assert!(said.ends_with("\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"), "{said}");
    }

    #[test]
    fn requests_are_of_a_kind_whichever_container_they_are_about() {
        let id = "a".repeat(64);
        for (line, kind, changes) in [
            (
                format!("POST /v4.0.0/libpod/containers/{id}/start HTTP/1.1"),
                "POST containers/*/start",
                true,
            ),
            (
                format!("DELETE /v4.0.0/libpod/containers/{id}?force=true HTTP/1.1"),
                "DELETE containers/*",
                true,
            ),
            ("GET /v4.0.0/libpod/events?stream=true HTTP/1.1".into(), "GET events", false),
        ] {
            let request = Request::parse(format!("{line}\r\n\r\n").as_bytes()).expect("whole");
            assert_eq!((request.kind.as_str(), request.changes_something()), (kind, changes));
        }
    }
}
