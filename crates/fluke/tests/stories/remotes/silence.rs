//! A remote that takes the connection and says nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::*;

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

const PLAIN: &str = "  agent_tokens = [\"t\"]\n  tls {\n    enabled = false\n  }\n";

#[test]
fn a_server_whose_git_hangs_serves_is_not_ready_and_stops_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/infra.git", listener.local_addr().expect("bound"));
    let folder = tempfile::tempdir().expect("a folder");
    let git = format!("  git {{\n    url = \"{url}\"\n  }}\n");
    let mut server = ServerProgram::start(folder.path(), &(PLAIN.to_string() + &git), &[]);
    let (mut held, _) = listener.accept().expect("git comes");
    let agent = agent(folder.path(), "a", &format!("grpc://{}", server.grpc), "t", &[]);
    agent.says(&[" connected"]);
    assert!(get(&server.http, "/healthz").starts_with("HTTP/1.1 200"));
    let ready = get(&server.http, "/readyz");
    assert!(
        ready.starts_with("HTTP/1.1 503") && ready.contains("no commit is in force"),
        "{ready}"
    );
    let (_, events) = server.fluke(&["get", "events", "-o", "json"], &[]);
    assert!(!events.contains("apply_started") && !events.contains("check"), "{events}");

    let began = Instant::now();
    server.program.signal(Signal::SIGTERM);
    assert!(server.program.ends().success());
    // Far less than the minute that the remote would be given.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    // Ends when the last process that holds the connection is gone: none outlives the server.
    held.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let _ = std::io::copy(&mut held, &mut std::io::sink()).expect("git is gone, too");
}

#[test]
fn a_repository_that_comes_late_makes_the_server_ready_and_an_outage_is_logged_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("repository");
    let git =
        format!("  git {{\n    url = \"{}\"\n    poll_interval = \"1s\"\n  }}\n", path.display());
    let server = ServerProgram::start(folder.path(), &(PLAIN.to_string() + &git), &[]);
    server.program.says(&["the source cannot be read", "there is no repository at"]);
    assert!(get(&server.http, "/readyz").starts_with("HTTP/1.1 503"));
    assert!(get(&server.http, "/metrics").contains("fluke_source_unreachable 1"));
    let repository = repository(folder.path());
    server.program.says(&["the source can be read again"]);
    server.program.says(&["commit in force"]);
    assert!(get(&server.http, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(&server.http, "/metrics").contains("fluke_source_last_poll_age_seconds"));
    let log = server.program.log();
    assert_eq!(log.matches("the source cannot be read").count(), 1, "{log}");

    let old = repository.head();
    repository.git(&["commit", "--quiet", "--amend", "--message=rewritten"]);
    let new = repository.head();
    let short = |id: &fluke_model::id::CommitId| id.short().to_string();
    server.program.says(&["commit in force", &short(&old), &short(&new), "force-push"]);
}

/// How often `git` was started, by the arguments that tell.
fn calls(file: &std::path::Path, word: &str) -> usize {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').any(|argument| argument == word)).count()
}

#[test]
fn a_poll_without_news_starts_one_git_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls_file = folder.path().join("calls");
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {}\nPATH=${{PATH#*:}} exec git \"$@\"\n",
        calls_file.display()
    );
    std::fs::write(bin.join("git"), script).expect("a script");
    std::fs::set_permissions(bin.join("git"), PermissionsExt::from_mode(0o755)).expect("ours");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let url = repository(folder.path()).path().display().to_string();
    let git = format!("  git {{\n    url = \"{url}\"\n    poll_interval = \"1s\"\n  }}\n");
    let body = PLAIN.to_string() + &git;
    let server = ServerProgram::start(folder.path(), &body, &[("PATH", &path)]);
    server.program.says(&["commit in force"]);
    let began = Instant::now();
    while calls(&calls_file, "ls-remote") < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "no polls");
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = std::fs::read_to_string(&calls_file).expect("calls");
    assert_eq!(calls(&calls_file, "fetch"), 1, "{text}");
    assert_eq!(calls(&calls_file, "cat-file"), 2, "{text}");
    // One to make the mirror, one to fetch, two that read; the rest are polls.
    let all = std::fs::read_to_string(&calls_file).expect("calls").lines().count();
    let polls = calls(&calls_file, "ls-remote");
    assert!(all - polls <= 4, "{text}");
}
