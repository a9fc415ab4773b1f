//! History in Redis: there again after a restart, and no reason to stop when it is away.

#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../../../fluke-server/src/events/redis/fixture.rs"]
mod redis;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fluke_model::api::Events;
use fluke_model::event::EventKind;
use fluke_server::events::redis::{RedisAddress, RedisSettings};
use fluke_server::server::History;
use fluke_server::trust::Grant;

use super::support::{Fleet, Host, Options, Repository, TOKEN};
use redis::{RedisServer, redis_is_here};

const PATIENCE: Duration = Duration::from_secs(60);

fn keeps(root: &str, file: &str) -> String {
    format!(
        "task \"{file}\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  shell \"file\" {{\n    check   = \"test -f {root}/{file}\"\n    command = \"touch {root}/{file}\"\n  }}\n}}\n"
    )
}

fn in_redis(redis: &RedisServer) -> History {
    History::Redis(RedisSettings {
        address: RedisAddress::parse(&redis.url()).expect("a url"),
        prefix: "fluke".into(),
        ttl: Duration::from_secs(3600),
        ca_file: None,
        client_files: None,
    })
}

async fn fleet_on(redis: &RedisServer) -> Fleet {
    Fleet::with(Options { history: in_redis(redis), ..Options::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_there_again_after_a_restart_of_the_server() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let mut fleet = fleet_on(&redis).await;
    let _host = fleet.join("web-1", "").await;
    fleet.commit("a page", &keeps(&fleet.root("web-1"), "page")).await;
    fleet.settles().await;

    fleet.stop_server().await;
    fleet.start_server().await;
    fleet.until("the agent is back", |fleet| fleet.agent("web-1").connected).await;
    fleet.settles().await;

    let events = fleet.events(&[]).await;
    let of = |kind| events.iter().filter(|event| event.kind == kind).count();
    let told = fleet.told().await;
    assert_eq!(of(EventKind::ApplyFinished), 1, "{told}");
    assert_eq!(of(EventKind::AgentConnected), 2, "{told}");
    assert_eq!(of(EventKind::AgentDisconnected), 1, "last words are kept: {told}");
    assert!(events.is_sorted_by(|a, b| a.id < b.id), "ids grow over a restart: {told}");
    assert!(fleet.fluke(&["describe", "agent", "web-1"]).await.stdout.contains("apply_finished"));
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_kept_while_redis_is_away_and_nothing_is_missing_afterwards() {
    if !redis_is_here() {
        return;
    }
    let mut redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let fleet = fleet_on(&redis).await;
    let host = fleet.join("web-1", "").await;
    fleet.settles().await;
    redis.kill();

    fleet.commit("a page", &keeps(&fleet.root("web-1"), "page")).await;
    fleet.settles().await;
    assert!(host.has("page"));
    let told = fleet.fluke(&["get", "events"]).await;
    assert_eq!(told.code, 1, "{told:?}");
    for part in ["history is not to be had now", &redis.url(), "is Redis running there?"] {
        assert!(told.stderr.contains(part), "{part}: {told:?}");
    }
    let told = fleet.fluke(&["describe", "agent", "web-1"]).await;
    assert!(told.stdout.contains("only those since it is away"), "{told:?}");
    assert!(told.stdout.contains("apply_finished"), "{told:?}");

    redis.start_again();
    fleet
        .until("all is stored", |fleet| {
            fleet.server().events.counts().waiting == 0
                && fleet.server().events.store_health().is_up
        })
        .await;
    let told = fleet.fluke(&["get", "events"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    let told = told.stdout;
    for kind in ["agent_connected", "commit_accepted", "apply_started", "apply_finished"] {
        assert!(told.contains(kind), "{kind} is missing: {told}");
    }
    assert!(!told.contains("events_lost"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_and_works_without_its_redis() {
    if !redis_is_here() {
        return;
    }
    let mut redis = RedisServer::start(&[]);
    redis.kill();
    let fleet = fleet_on(&redis).await;
    let host = fleet.join("web-1", "").await;
    fleet.commit("a page", &keeps(&fleet.root("web-1"), "page")).await;
    fleet.settles().await;
    assert!(host.has("page"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_hangs_does_not_slow_the_loop() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let fleet = fleet_on(&redis).await;
    let host = fleet.join("web-1", "").await;
    fleet.settles().await;
    redis.hang();
    let began = Instant::now();
    for file in ["a", "b", "c"] {
        fleet.commit(file, &keeps(&fleet.root("web-1"), file)).await;
        fleet.until("it is there", |_| host.has(file)).await;
        fleet.settles().await;
    }
    // Each of some twenty events would have taken five seconds to be given up.
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert!(
        !fleet.server().events.store_health().is_up || fleet.server().events.counts().waiting > 0
    );
    redis.go_on();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_stays_with_its_token_over_a_restart() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let other = "another-token-for-stories";
    let bound = Grant::bound("other", other, &[], Default::default()).expect("a grant");
    let grants = vec![Grant::any(TOKEN), bound];
    let options = Options { history: in_redis(&redis), grants, ..Options::default() };
    let mut fleet = Fleet::with(options).await;
    let mut host = fleet.join("web-1", "").await;
    host.stop_agent().await;
    fleet.stop_server().await;
    fleet.start_server().await;

    let folder = tempfile::tempdir().expect("a folder");
    let _stranger =
        Host::start("web-1", "", other, fleet.server().grpc, folder.path().to_path_buf());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let refused = fleet.events(&[EventKind::AgentRefused]).await;
        if let Some(event) = refused.first() {
            let why = event.output.as_deref().unwrap_or_default();
            assert!(why.contains("known under another token"), "{why}");
            break;
        }
        assert!(Instant::now() < deadline, "the stranger is not refused");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    host.start_agent();
    fleet.until("its own agent is let in", |fleet| fleet.agent("web-1").connected).await;
}

/// The real program, as systemd would run it.
struct Program {
    process: Child,
}

impl Program {
    fn start(config: &Path) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_fluke"))
            .args(["server", "--config"])
            .arg(config)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("fluke starts");
        Self { process }
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What `fluke get events` shows, once it shows `count` of a kind.
fn events(socket: &Path, kind: &str, count: usize) -> Events {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = Command::new(env!("CARGO_BIN_EXE_fluke"))
            .args(["get", "events", "-o", "json"])
            .env("FLUKE_SERVER", format!("unix://{}", socket.display()))
            .output()
            .expect("fluke runs");
        if let Ok(events) = serde_json::from_slice::<Events>(&output.stdout)
            && events.events.iter().filter(|event| event.kind.as_str() == kind).count() >= count
        {
            return events;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(Instant::now() < deadline, "there are no {count} of {kind}: {said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_program_finds_its_history_after_kill_9() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&["--requirepass", "a-p4ssword"]);
    let folder = tempfile::tempdir().expect("a folder");
    let repository = Repository::new(folder.path().join("repository"));
    repository.commit("begin", &[("README.md", "what hosts should be\n")]);
    let socket = folder.path().join("fluke.sock");
    let config = folder.path().join("server.hcl");
    let text = format!(
        r#"server {{
  listen_grpc  = "127.0.0.1:0"
  listen_http  = "127.0.0.1:0"
  socket       = "{socket}"
  cache_dir    = "{cache}"
  agent_tokens = ["{TOKEN}"]

  git {{
    url = "{repository}"
  }}

  event_store {{
    backend = "redis"
    redis {{
      url    = "redis://:a-p4ssword@127.0.0.1:{port}/1"
      prefix = "stories"
      ttl    = "1h"
    }}
  }}
}}
"#,
        socket = socket.display(),
        cache = folder.path().join("cache").display(),
        repository = repository.path().display(),
        port = redis.port,
    );
    std::fs::write(&config, text).expect("a config");

    let mut server = Program::start(&config);
    let before = events(&socket, "commit_accepted", 1);
    // Shown, it may still wait for Redis.
    let deadline = Instant::now() + PATIENCE;
    let kept = || {
        let keys = Command::new("redis-cli")
            .args(["-p", &redis.port.to_string(), "-a", "a-p4ssword", "-n", "1"])
            .args(["zcard", "{stories}:events"])
            .output()
            .expect("redis-cli");
        String::from_utf8_lossy(&keys.stdout).trim().parse::<usize>().unwrap_or_default()
    };
    while kept() < before.events.len() {
        assert!(Instant::now() < deadline, "nothing is kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.kill();
    let _again = Program::start(&config);
    let after = events(&socket, "commit_accepted", 2);
    assert!(before.events.iter().all(|event| after.events.contains(event)), "{after:?}");
}
