//! What lists and streams cost. To be run by hand:
//!
//! `cargo test --release -p fluke-server --lib -- --ignored --nocapture measure`

#![expect(clippy::print_stdout, reason = "it is what a measurement is for")]

use std::io::Write;

use crate::http::stream::ring::At;

use super::*;
use crate::changes::Change;

const AGENTS: usize = 10_000;
const CHANGES: usize = 2_000;
const TIMES: u32 = 10;

async fn crowd() -> Server {
    let server = Server::start(Setup::default()).await;
    let tasks: Vec<String> = (0..20).map(|number| format!("task-{number:02}")).collect();
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    server.commit("3f2c7d9e1b5a4c8f9e0d1c2b3a4f5e6d7c8b9a0f", &tasks);
    for number in 0..AGENTS {
        let mut agent = server.agent(&format!("web-{number:05}"));
        if number % 10 == 0 {
            agent.drifts(20);
        }
    }
    server
}

async fn timed<F: Future>(call: impl Fn() -> F) -> Duration {
    let began = std::time::Instant::now();
    for _ in 0..TIMES {
        call().await;
    }
    began.elapsed() / TIMES
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn measure_ten_thousand_agents() {
    let server = crowd().await;
    let floor = timed(|| server.get("/healthz")).await;
    println!("GET healthz                       {floor:?}");
    for path in ["agents", "agents?status=drifted", "agents?limit=100", "drift", "tasks?limit=1"] {
        let path = format!("/api/v1/{path}");
        let took = timed(|| server.get(&path)).await;
        let bytes = server.get(&path).await.text.len();
        let request = || server.client.get(server.at(&path)).header("accept-encoding", "gzip");
        let small = request().send().await.expect("an answer").bytes().await.expect("a body").len();
        let squeezed = timed(|| async {
            request().send().await.expect("an answer").bytes().await.expect("a body")
        })
        .await;
        println!("GET {path:30} {took:?}, {bytes} bytes; gzip {squeezed:?}, {small} bytes");
    }
    let body = server.get("/api/v1/agents").await.text;
    for level in [1, 6] {
        let began = std::time::Instant::now();
        let level = flate2::Compression::new(level);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(body.as_bytes()).expect("memory");
        let size = encoder.finish().expect("memory").len();
        println!("gzip level {} of all agents: {size} bytes, {:?}", level.level(), began.elapsed());
    }
}

/// How long it takes until everybody has heard of every change, by listeners.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn measure_a_change_told_to_many() {
    let server = crowd().await;
    let mut costs = Vec::new();
    for listeners in [0, 1, 200] {
        let hub = &server.app.0.hub;
        let all: Vec<_> = (0..listeners).map(|_| hub.join(None).0).collect();
        let began = std::time::Instant::now();
        let readers: Vec<_> = all
            .into_iter()
            .map(|mut listening| {
                tokio::spawn(async move {
                    let mut heard = 0;
                    while heard < CHANGES {
                        while let At::Frame(bytes) = listening.take() {
                            let lines = bytes.split(|byte| *byte == b'\n');
                            heard += lines.filter(|line| line.starts_with(b"event: agent")).count();
                        }
                        if heard < CHANGES {
                            listening.more().await;
                        }
                    }
                })
            })
            .collect();
        for number in 0..CHANGES {
            let name = AgentName::new(format!("web-{number:05}")).expect("a name");
            server.app.changes.tell(Change::Agent(name));
        }
        server.app.0.hub.reaches(server.record("the last")).await;
        for reader in readers {
            reader.await.expect("it has heard everything");
        }
        let cost = began.elapsed() / CHANGES as u32;
        println!("{listeners:3} listeners: {cost:?} a change");
        costs.push(cost);
        // What was told a moment ago would be told later.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let ratio = costs[2].as_secs_f64() / costs[1].as_secs_f64();
    println!("200 listeners cost {ratio:.1} times what 1 costs");
}
