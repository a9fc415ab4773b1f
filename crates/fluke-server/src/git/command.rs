//! Running `git` so that nothing but its arguments decides what it does.
//!
//! No configuration of the machine or the user, no hooks, no prompts, no protocol but the one
//! that is needed, nothing inherited from the environment, never longer than allowed, and never
//! a process left behind.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use base64::Engine;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::GitConfig;
use super::url::Transport;

/// What of the environment reaches `git`: how to find programs, proxies and trusted CAs.
const INHERITED: &[&str] = &[
    "PATH",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The most that is kept of what a `git` prints; a listing of one branch is far less.
const MAX_PRINTED: usize = 64 * 1024;

/// `git`, ready to be run for one repository.
#[derive(Clone)]
pub(super) struct Program {
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
}

/// A `git` that came to its end.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Why a `git` did not come to its end.
#[derive(Debug)]
pub(super) enum RunError {
    Start(std::io::Error),
    TooLong,
}

impl Program {
    /// For `config`, with `directory` as its home and working directory.
    pub(super) fn new(config: &GitConfig, directory: &Path) -> Self {
        let mut environment: Vec<(OsString, OsString)> = INHERITED
            .iter()
            .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
            .collect();
        let mut set = |name: &str, value: &OsStr| environment.push((name.into(), value.into()));
        for (name, value) in [
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_PROTOCOL_FROM_USER", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            // Spares git an `ssh -G` to find out.
            ("GIT_SSH_VARIANT", "ssh"),
            ("GIT_ALLOW_PROTOCOL", config.url.transport().allowed()),
        ] {
            set(name, OsStr::new(value));
        }
        match &config.ca_file {
            Some(file) => set("GIT_SSL_CAINFO", file.as_os_str()),
            None => {
                for (ours, theirs) in
                    [("SSL_CERT_FILE", "GIT_SSL_CAINFO"), ("SSL_CERT_DIR", "GIT_SSL_CAPATH")]
                {
                    if let Some(value) = std::env::var_os(ours) {
                        set(theirs, &value);
                    }
                }
            }
        }
        set("HOME", directory.as_os_str());
        // Nothing above the directory is ever taken for a repository.
        set("GIT_CEILING_DIRECTORIES", directory.parent().unwrap_or(directory).as_os_str());
        set("GIT_CONFIG_GLOBAL", global_config(config, directory).as_os_str());
        set("GIT_SSH_COMMAND", &ssh_command(config));
        let settings = settings(config);
        set("GIT_CONFIG_COUNT", OsStr::new(&settings.len().to_string()));
        for (at, (key, value)) in settings.iter().enumerate() {
            set(&format!("GIT_CONFIG_KEY_{at}"), OsStr::new(key));
            set(&format!("GIT_CONFIG_VALUE_{at}"), OsStr::new(value));
        }
        Self { environment, directory: directory.to_path_buf() }
    }

    /// A `git` in its own process group, with nothing to read and nothing connected yet.
    pub(super) fn command(&self) -> std::process::Command {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new(program());
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Runs `git` to its end, or ends it and all that it started after `limit`.
    pub(super) async fn run<I>(&self, arguments: I, limit: Duration) -> Result<Finished, RunError>
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let mut command = self.command();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = tokio::process::Command::from(command)
            .kill_on_drop(true)
            .spawn()
            .map_err(RunError::Start)?;
        let mut group = Group(child);
        tokio::time::timeout(limit, group.finish()).await.map_err(|_| RunError::TooLong)
    }
}

/// Where `git` is. Started by its path it is spawned; by its name, in an environment of its own, the
/// whole server would be forked for it, and the copy of ten thousand agents' memory be kept apart
/// page by page until `git` runs.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).map(|folder| folder.join("git"));
    let mut places = places.filter(|place| place.is_absolute() && place.is_file());
    places.next().unwrap_or_else(|| PathBuf::from("git"))
}

/// A child and all that it started; what still runs when this is dropped is killed.
struct Group(tokio::process::Child);

impl Group {
    async fn finish(&mut self) -> Finished {
        // The child is reaped last: until then its id, and so its group, is not another's.
        let (stdout, stderr) = tokio::join!(tail(self.0.stdout.take()), tail(self.0.stderr.take()));
        let status = self.0.wait().await.unwrap_or_else(|_| failed_status());
        Finished { status, stdout, stderr }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            // It may have ended by itself just now.
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

fn failed_status() -> ExitStatus {
    use std::os::unix::process::ExitStatusExt;
    ExitStatus::from_raw(1 << 8)
}

/// Reads to the end and keeps the last [`MAX_PRINTED`] bytes.
async fn tail(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 8 * 1024];
    if let Some(mut pipe) = pipe {
        while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
            kept.extend_from_slice(&chunk[..count]);
            if kept.len() > 2 * MAX_PRINTED {
                kept.drain(..kept.len() - MAX_PRINTED);
            }
        }
    }
    kept.drain(..kept.len().saturating_sub(MAX_PRINTED));
    String::from_utf8_lossy(&kept).into_owned()
}

/// Where the one file of settings is that also the `git upload-pack` of a local path reads.
pub(super) fn global_config(config: &GitConfig, directory: &Path) -> PathBuf {
    match config.url.transport() {
        Transport::File => directory.join("gitconfig"),
        _ => PathBuf::from("/dev/null"),
    }
}

/// Lets a local repository be read that belongs to somebody else: reading runs nothing of it.
pub(super) const GLOBAL_CONFIG: &str = "[safe]\n\tdirectory = *\n";

/// Settings go through the environment: arguments can be seen by everybody on the machine.
fn settings(config: &GitConfig) -> Vec<(String, String)> {
    let mut settings: Vec<(String, String)> = [
        ("core.hooksPath", "/dev/null"),
        ("core.fsmonitor", "false"),
        ("core.askPass", ""),
        ("credential.helper", ""),
        ("fetch.fsckObjects", "true"),
        ("transfer.fsckObjects", "true"),
        ("fetch.recurseSubmodules", "false"),
        ("fetch.writeCommitGraph", "false"),
        ("submodule.recurse", "false"),
        ("protocol.allow", "never"),
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
        (
            "http.followRedirects",
            if config.authorization().is_some() { "false" } else { "initial" },
        ),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_string(), value.to_string()))
    .collect();
    if let Some(credentials) = config.authorization() {
        let pair = format!("{}:{}", credentials.user, credentials.password);
        let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
        settings.push(("http.extraHeader".into(), format!("Authorization: Basic {encoded}")));
    }
    settings
}

/// `ssh` that reads no configuration, asks nothing and trusts only hosts that are known.
fn ssh_command(config: &GitConfig) -> OsString {
    let mut words = vec![
        "ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes -o UpdateHostKeys=no".into(),
        "-o ConnectTimeout=15 -o ServerAliveInterval=10 -o ServerAliveCountMax=3".into(),
        "-o ForwardAgent=no -o ClearAllForwardings=yes -o PermitLocalCommand=no".to_string(),
    ];
    if let Some(file) = &config.known_hosts_file {
        words.push(ssh_option("UserKnownHostsFile", file));
        words.push("-o GlobalKnownHostsFile=/dev/null".to_string());
    }
    if let Some(file) = &config.ssh_key_file {
        words.push(ssh_option("IdentityFile", file));
        words.push("-o IdentitiesOnly=yes".to_string());
    }
    words.join(" ").into()
}

/// `-o 'Name="path"'`: quoted once for the shell that git uses, once for ssh, whose `%` is special.
fn ssh_option(name: &str, path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%%").replace('"', "\\\"");
    format!("-o '{name}=\"{}\"'", path.replace('\'', r"'\''"))
}
