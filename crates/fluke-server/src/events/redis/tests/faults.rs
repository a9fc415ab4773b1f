//! Redis that is away, hangs, is full, or is not ours.

use futures_util::FutureExt;

use super::certificates::Certificates;
use super::*;
use crate::changes::Changes;
use crate::events::{EventLog, EventSink, QueueBounds};

/// A port that nobody listens on, for as long as the value lives.
fn nobody() -> (std::net::TcpListener, String) {
    // Bound, and given to nobody: its queue of one is all there is.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://127.0.0.1:{}", listener.local_addr().expect("an address").port());
    (listener, url)
}

async fn log_on(url: &str) -> (Arc<EventLog>, tokio::task::JoinHandle<()>) {
    let store = Arc::new(store(url));
    EventLog::start(store, Changes::default(), QueueBounds::default()).await
}

fn record(log: &EventLog, count: usize) {
    for number in 0..count {
        let mut event = Event::new(EventKind::ApplyStarted, Timestamp(0));
        event.output = Some(number.to_string());
        log.record(event);
    }
}

async fn everything_is_stored(log: &EventLog) {
    until("everything is stored", async || log.counts().waiting == 0).await;
}

#[tokio::test]
async fn a_redis_that_is_killed_and_comes_back_loses_nothing_that_waits() {
    if !redis_is_here() {
        return;
    }
    let mut redis = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (log, _writer) = log_on(&redis.url()).await;
    record(&log, 10);
    everything_is_stored(&log).await;

    redis.kill();
    record(&log, 1000);
    until("the gap is seen", async || !log.store_health().is_up).await;
    assert!(log.query(&newest(1)).await.is_err(), "the gap is said");
    assert_eq!(log.recent(&newest(2000)).await.events.len(), 1000, "what waits is shown");

    redis.start_again();
    everything_is_stored(&log).await;
    until("Redis answers queries, too", async || log.query(&newest(1)).await.is_ok()).await;
    assert_eq!(log.query(&newest(2000)).await.expect("an answer").events.len(), 1010);
    assert!(log.store_health().is_up);
    assert_eq!(log.counts().lost, 0);
}

#[tokio::test]
async fn a_restart_of_redis_between_two_calls_is_not_even_noticed() {
    if !redis_is_here() {
        return;
    }
    let mut redis = RedisServer::start(&["--appendonly", "yes"]);
    let store = store(&redis.url());
    store.append(&[event(1, None, None)]).await.expect("kept");
    assert_eq!(ids(&store, &newest(9)).await, [1]);
    redis.kill();
    redis.start_again();
    store.append(&[event(2, None, None)]).await.expect("kept over a new connection");
    assert_eq!(ids(&store, &newest(9)).await, [2, 1]);
}

#[tokio::test]
async fn a_log_starts_without_redis_and_its_ids_go_on_once_it_is_there() {
    if !redis_is_here() {
        return;
    }
    let far = u64::MAX / 4;
    let mut redis = RedisServer::start(&["--appendonly", "yes"]);
    store(&redis.url()).append(&[event(far, None, None)]).await.expect("kept");
    redis.kill();

    let (log, _writer) = log_on(&redis.url()).await;
    record(&log, 1);
    assert!(log.last_id().0 < far, "nobody could know");
    redis.start_again();
    everything_is_stored(&log).await;
    record(&log, 1);
    assert_eq!(log.last_id().0, far + 1);
}

#[tokio::test]
async fn a_redis_that_hangs_holds_up_nobody_for_long() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&[]);
    let (log, _writer) = log_on(&redis.url()).await;
    record(&log, 1);
    everything_is_stored(&log).await;
    redis.hang();

    // Recording never waits, and a server that starts does not either.
    let began = Instant::now();
    record(&log, 5000);
    let (_other, _its_writer) = log_on(&redis.url()).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());

    said(log.query(&newest(1)).await.expect_err("it hangs"), &["does it hang"]);
    // Whoever asks next does not wait at all, for as long as the answer is new.
    until("whoever asks next is told at once", async || {
        assert!(log.query(&newest(1)).await.is_err());
        let told = || log.query(&newest(1)).now_or_never();
        (0..50).all(|_| told().is_some_and(|answer| answer.is_err()))
    })
    .await;

    redis.go_on();
    everything_is_stored(&log).await;
    until("Redis answers", async || log.query(&newest(1)).await.is_ok()).await;
    let all = log.query(&newest(6000)).await.expect("an answer");
    assert_eq!((all.events.len(), log.counts().lost), (5001, 0), "nothing twice, nothing missing");
}

#[tokio::test]
async fn a_redis_that_is_not_there_is_said_to_be_so() {
    let (listener, url) = nobody();
    drop(listener);
    let error = store(&url).append(&[event(1, None, None)]).await.expect_err("nobody is there");
    said(error, &[&url, "refused", "is Redis running there?"]);
}

#[tokio::test]
async fn a_full_redis_says_what_to_do_and_keeps_all_of_a_batch_or_nothing() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"]);
    let store = store(&redis.url());
    let mut kept = 0;
    let error = loop {
        let from = kept + 1;
        let batch: Vec<_> = (from..from + 20)
            .map(|id| {
                let output = Some("x".repeat(10_000));
                Arc::new(Event { output, ..Event::clone(&event(id, None, None)) })
            })
            .collect();
        match store.append(&batch).await {
            Ok(()) => kept += 20,
            Err(error) => break error,
        }
        assert!(kept < 10_000, "it does not fill up");
    };
    said(error, &["OOM", "Redis is full", "`maxmemory`", "shorten `ttl`"]);
    assert_eq!(ids(&store, &newest(20_000)).await.len() as u64, kept);
}

#[tokio::test]
async fn a_replica_says_that_it_is_one() {
    if !redis_is_here() {
        return;
    }
    let master = RedisServer::start(&[]);
    let replica = RedisServer::start(&["--replicaof", &format!("127.0.0.1 {}", master.port)]);
    let error = store(&replica.url()).append(&[event(1, None, None)]).await;
    said(error.expect_err("read only"), &["READONLY", "this is a replica"]);
}

#[tokio::test]
async fn wrong_and_missing_passwords_are_said_without_them() {
    if !redis_is_here() {
        return;
    }
    let redis = RedisServer::start(&["--requirepass", "right"]);
    let port = redis.port;
    for (url, words) in [
        (format!("redis://127.0.0.1:{port}"), &["NOAUTH", "the password in `url`"][..]),
        (format!("redis://:s3cret@127.0.0.1:{port}"), &["the password in `url`"][..]),
        (format!("redis://fluke:s3cret@127.0.0.1:{port}"), &["the password in `url`"][..]),
    ] {
        said(store(&url).query(&newest(1)).await.expect_err("not let in"), words);
    }
    let right = store(&format!("redis://:right@127.0.0.1:{port}"));
    right.append(&[event(1, None, None)]).await.expect("let in");
}

#[tokio::test]
async fn a_user_needs_only_the_rights_that_the_manual_names() {
    if !redis_is_here() {
        return;
    }
    let rights = "user fluke on >s3cret resetkeys ~{test}:* -@all +multi +exec +discard +set +get +mget +zadd \
                  +zrange +zrevrangebylex +zrem +exists +pexpire";
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        format!("user default off\n{rights}\nuser weak on >s3cret ~* +get\n"),
    )
    .expect("written");
    let redis = RedisServer::start(&["--aclfile", file.path().to_str().expect("a path")]);
    let place = format!("127.0.0.1:{}", redis.port);
    let fluke = store(&format!("redis://fluke:s3cret@{place}"));
    fluke.append(&[event(1, Some("a"), None)]).await.expect("kept");
    *fluke.sweep_at.lock().expect("a lock") = Instant::now();
    fluke.append(&[event(2, Some("a"), None)]).await.expect("kept and swept");
    assert_eq!(ids(&fluke, &newest(9)).await, [2, 1]);
    let weak = store(&format!("redis://weak:s3cret@{place}"));
    let error = weak.append(&[event(3, None, None)]).await.expect_err("no rights");
    said(error, &["NOPERM", "needs more rights"]);
}

#[tokio::test]
async fn tls_is_checked_against_the_ca_that_was_given() {
    if !redis_is_here() {
        return;
    }
    let (ours, theirs) = (Certificates::make(), Certificates::make());
    let file = |path: std::path::PathBuf| path.to_str().expect("a path").to_string();
    let redis = RedisServer::start(&[
        "--tls-cert-file",
        &file(ours.cert_file()),
        "--tls-key-file",
        &file(ours.key_file()),
        "--tls-ca-cert-file",
        &file(ours.ca_file()),
        "--tls-auth-clients",
        "yes",
    ]);
    let url = format!("rediss://127.0.0.1:{}", redis.port);
    let files =
        |of: &Certificates| Some(TlsFiles { cert_file: of.cert_file(), key_file: of.key_file() });
    let with = |ca_file, client_files| {
        RedisStore::new(RedisSettings { ca_file, client_files, ..settings(&url) })
    };
    let good = with(Some(ours.ca_file()), files(&ours));
    good.append(&[event(1, None, None)]).await.expect("kept");
    assert_eq!(ids(&good, &newest(9)).await, [1]);

    for (case, store, words) in [
        ("the system's CAs", with(None, files(&ours)), &["UnknownIssuer", "`ca_file`"][..]),
        ("another CA", with(Some(theirs.ca_file()), files(&ours)), &["`ca_file`"][..]),
        ("no certificate of ours", with(Some(ours.ca_file()), None), &["`cert_file`"][..]),
        ("no such file", with(Some("/none.pem".into()), None), &["`ca_file` /none.pem"][..]),
        ("in the clear", store(&url.replace("rediss", "redis")), &["write rediss://"][..]),
    ] {
        match store.append(&[event(2, None, None)]).await {
            Ok(()) => panic!("{case}: taken"),
            Err(error) => said(error, words),
        }
    }
    let plain = RedisServer::start(&[]);
    let error = store(&plain.url().replace("redis://", "rediss://")).query(&newest(1)).await;
    said(error.expect_err("no TLS there"), &["write redis:// instead of rediss://"]);
}
