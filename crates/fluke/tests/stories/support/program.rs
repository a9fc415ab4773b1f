//! The real program as a server or an agent, with its config in a folder and its log kept.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Program {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Program {
    /// `fluke ARGUMENTS`, with nothing of this process's environment that fluke reads.
    pub fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fluke"));
        command.args(arguments).stdin(Stdio::null());
        for name in ["FLUKE_SERVER", "FLUKE_API_TOKEN", "FLUKE_CA_FILE", "FLUKE_TOKEN"] {
            command.env_remove(name);
        }
        command.envs(environment.iter().copied());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fluke starts");
        let log = Arc::<Mutex<String>>::default();
        let keep = |pipe: Box<dyn std::io::Read + Send>| {
            let log = log.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let mut log = log.lock().expect("a log");
                    log.push_str(&line);
                    log.push('\n');
                }
            });
        };
        keep(Box::new(child.stdout.take().expect("a pipe")));
        keep(Box::new(child.stderr.take().expect("a pipe")));
        Self { child, log }
    }

    pub fn log(&self) -> String {
        self.log.lock().expect("a log").clone()
    }

    /// Waits until the log has all of these in one line, and returns that line.
    pub fn says(&self, words: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let log = self.log();
            let said = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
            if let Some(line) = said {
                return line.to_string();
            }
            assert!(began.elapsed() < PATIENCE, "never said {words:?}:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }

    /// Waits for its end.
    pub fn ends(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server as an operator would start it.
pub struct ServerProgram {
    pub program: Program,
    pub grpc: String,
    pub http: String,
    folder: PathBuf,
}

impl ServerProgram {
    /// `body` stands in the `server` block beside addresses and folders.
    pub fn start(folder: &Path, body: &str, environment: &[(&str, &str)]) -> Self {
        write_config(folder, body);
        let config = folder.join("server.hcl").display().to_string();
        let program = Program::start(&["server", "--config", &config], environment);
        let up = program.says(&["the server is up"]);
        let field = |name: &str| {
            let plain = strip_colours(&up);
            let (_, rest) = plain.split_once(name).expect("an address");
            rest.split_whitespace().next().expect("an address").to_string()
        };
        let (grpc, http) = (field("grpc="), field("http="));
        Self { program, grpc, http, folder: folder.to_path_buf() }
    }

    /// Writes another config, and has it read.
    pub fn reload(&self, body: &str) {
        write_config(&self.folder, body);
        self.program.signal(Signal::SIGHUP);
    }

    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("cache/tls/ca.pem")
    }

    /// Runs a command of the CLI against it; status and everything printed.
    pub fn fluke(&self, arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fluke"));
        command.args(arguments).stdin(Stdio::null());
        let socket = format!("unix://{}", self.folder.join("fluke.sock").display());
        command.env("FLUKE_SERVER", socket).envs(environment.iter().copied());
        let output = command.output().expect("fluke runs");
        let both = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&both).into_owned())
    }

    /// Waits until `fluke get agents` says this.
    pub fn agents_show(&self, words: &[&str]) {
        let began = Instant::now();
        loop {
            let (_, shown) = self.fluke(&["get", "agents"], &[]);
            if words.iter().all(|word| shown.contains(word)) {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "never {words:?}:\n{shown}\n{}",
                self.program.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn write_config(folder: &Path, body: &str) {
    let (socket, cache) = (folder.join("fluke.sock"), folder.join("cache"));
    let text = format!(
        "server {{\n  listen_grpc = \"127.0.0.1:0\"\n  listen_http = \"127.0.0.1:0\"\n  \
         socket = \"{}\"\n  cache_dir = \"{}\"\n{body}\n}}\n",
        socket.display(),
        cache.display()
    );
    std::fs::write(folder.join("server.hcl"), text).expect("a config");
}

fn strip_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, behind)| behind);
    }
    plain + rest
}
