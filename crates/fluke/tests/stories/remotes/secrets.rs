//! No secret leaves its place: not into logs, events, the API, or anybody's arguments.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;

const AGENT_TOKEN: &str = "s3cret-agent-token";
const API_TOKEN: &str = "s3cret-api-token";
const GIT_PASSWORD: &str = "s3cret-git-password";
const WEBHOOK: &str = "s3cret-webhook";
const ALERTS: &str = "s3cret-alert-path";
const WRONG: &str = "s3cret-wrong-token";
const VALUE: &str = "s3cret-of-the-host";

/// Everything that all processes of this machine were ever seen to have as arguments.
struct Watcher {
    seen: Arc<Mutex<BTreeMap<String, ()>>>,
    over: Arc<AtomicBool>,
}

impl Watcher {
    fn start() -> Self {
        let (seen, over) =
            (Arc::<Mutex<BTreeMap<String, ()>>>::default(), Arc::<AtomicBool>::default());
        let (table, stop) = (seen.clone(), over.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                for process in std::fs::read_dir("/proc").expect("processes").flatten() {
                    if let Ok(arguments) = std::fs::read(process.path().join("cmdline")) {
                        let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
                        table.lock().expect("a table").insert(text, ());
                    }
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { seen, over }
    }

    fn all(&self) -> String {
        let seen = self.seen.lock().expect("a table");
        seen.keys().map(|line| line.to_string() + "\n").collect()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

/// A forge that wants a password, and refuses it: enough for a password to be used and talked of.
fn forge() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    format!("http://bot:{GIT_PASSWORD}@{address}/infra.git")
}

fn call(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.write_all(request.as_bytes()).expect("written");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(address: &str, path: &str, token: &str) -> String {
    let head = format!("host: x\r\nauthorization: Bearer {token}\r\nconnection: close");
    call(address, &format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n"))
}

/// Stands before the real git, and writes down what it is called with.
fn git_that_tells(folder: &Path) -> (String, std::path::PathBuf) {
    let (bin, calls) = (folder.join("bin"), folder.join("calls"));
    std::fs::create_dir(&bin).expect("a folder");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\nPATH=${{PATH#*:}} exec git \"$@\"\n",
        calls.display()
    );
    std::fs::write(bin.join("git"), script).expect("a script");
    std::fs::set_permissions(bin.join("git"), PermissionsExt::from_mode(0o755)).expect("ours");
    (format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH")), calls)
}

fn config(url: &str) -> String {
    format!(
        "  agent_tokens = [\"$AGENT_TOKEN\"]\n  api_tokens = [\"$API_TOKEN\"]\n  tls {{\n    enabled = false\n  }}\n  \
         git {{\n    url = \"{url}\"\n    webhook_secret = \"$WEBHOOK\"\n    poll_interval = \"1s\"\n  }}\n  \
         drift {{\n    policy = \"remediate_and_alert\"\n    alert_webhook = \"http://127.0.0.1:1/{ALERTS}\"\n  }}\n  \
         log {{\n    level = \"debug\"\n  }}\n"
    )
}

#[test]
fn no_secret_is_in_logs_events_answers_or_arguments() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let watcher = Watcher::start();
    let repository = Repository::new(folder.join("repository"));
    // Drifts, fails, and prints what it should not.
    let manifest = "task \"t\" {\n  selector {\n    match_labels = {}\n  }\n  shell \"s\" {\n    check   = \"echo $VALUE; false\"\n    command = \"echo $VALUE >&2; exit 3\"\n    env     = { VALUE = \"$HOST_VALUE\" }\n  }\n}\n";
    repository.commit("a task", &[("a.fluke.hcl", manifest)]);
    let (path, calls) = git_that_tells(folder);
    let environment = [
        ("AGENT_TOKEN", AGENT_TOKEN),
        ("API_TOKEN", API_TOKEN),
        ("WEBHOOK", WEBHOOK),
        ("PATH", path.as_str()),
    ];
    let good = folder.join("good");
    let bad = folder.join("bad");
    [&good, &bad].iter().for_each(|path| std::fs::create_dir(path).expect("a folder"));
    let server = ServerProgram::start(
        &good,
        &config(&repository.path().display().to_string()),
        &environment,
    );
    let refused = ServerProgram::start(&bad, &config(&forge()), &environment);
    refused.program.says(&["refused the credentials"]);

    let state = folder.join("agent.hcl");
    let text = format!(
        "agent {{\n  server_url = \"grpc://{}\"\n  name = \"a\"\n  token = \"$TOKEN\"\n  state_dir = \"{}\"\n  log {{\n    level = \"debug\"\n  }}\n}}\n",
        server.grpc,
        folder.join("state").display()
    );
    std::fs::write(&state, text).expect("a config");
    let arguments = ["agent", "--config", state.to_str().expect("plain")];
    let agent = Program::start(&arguments, &[("TOKEN", AGENT_TOKEN), ("HOST_VALUE", VALUE)]);
    let stranger = super::agent(folder, "stranger", &format!("grpc://{}", server.grpc), WRONG, &[]);
    stranger.says(&["does not accept the token"]);
    server.agents_show(&["failed"]);

    let mut told = vec![
        ("a refused call", get(&server.http, "/api/v1/agents", WRONG)),
        (
            "a push that is not signed",
            call(
                &server.http,
                &format!(
                    "POST /webhooks/git HTTP/1.1\r\nhost: x\r\nx-gitlab-event: Push Hook\r\nx-gitlab-token: {WRONG}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}"
                ),
            ),
        ),
    ];
    for path in ["agents", "agents/a", "tasks", "tasks/t", "drift", "events?limit=1000", "source"] {
        let answer = get(&server.http, &format!("/api/v1/{path}"), API_TOKEN);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        told.push(("an answer", answer));
        told.push(("an answer", get(&refused.http, &format!("/api/v1/{path}"), API_TOKEN)));
    }
    told.push(("metrics", get(&server.http, "/metrics", API_TOKEN)));
    told.push(("the server's log", server.program.log()));
    told.push(("the log of the one that is refused", refused.program.log()));
    told.push(("the agent's log", agent.log()));
    told.push(("the stranger's log", stranger.log()));
    told.push(("arguments of git", std::fs::read_to_string(calls).expect("calls")));
    told.push(("arguments of everybody", watcher.all()));
    told.push(("the mirror's config", mirror_config(&good)));
    assert!(told.iter().any(|(_, text)| text.contains("a wrong token")), "events were read");
    assert!(told.iter().any(|(_, text)| text.contains("•••")), "output was masked");
    // The encoded form of what git sends is as good as the password.
    let encoded = base64_of(&format!("bot:{GIT_PASSWORD}"));
    for (place, text) in &told {
        // The host's own value stands where the manifest's author put it: in no place of ours.
        for secret in
            [AGENT_TOKEN, API_TOKEN, GIT_PASSWORD, WEBHOOK, ALERTS, WRONG, VALUE, &encoded]
        {
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{secret} is in {place}");
        }
    }
}

fn mirror_config(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("cache/git/mirror.git/config")).expect("a mirror")
}

fn base64_of(text: &str) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for three in text.as_bytes().chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        for at in 0..=three.len() {
            encoded.push(char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    encoded
}
