//!
use fluke_agent::host::process::*;
use std::time::{Duration, Instant};
fn floor() -> Duration {
    let s = Instant::now();
    for _ in 0..100 {
        let st =
            std::process::Command::new("/bin/sh").args(["-c", "test -d /"]).status().expect("x");
        assert!(st.success());
    }
    s.elapsed()
}
async fn one(stop: &Stop, env: &[(std::ffi::OsString, std::ffi::OsString)]) {
    let c = Command::new("/bin/sh", "/")
        .args(["-c", "test -d /"])
        .envs(env.iter().map(|(a, b)| (a, b)));
    let f = run(
        c,
        Limits { timeout: Duration::from_secs(300), grace: GRACE, leftovers: Leftovers::Kill },
        stop.clone(),
    )
    .await
    .expect("x");
    assert_eq!(f.end, End::Exited(0));
}
fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("rt");
    let (_s, stop) = Stop::new();
    let env: Vec<_> = std::env::vars_os().collect();
    for _ in 0..7 {
        let f = floor();
        let st = stop.clone();
        let e = env.clone();
        let a = rt.block_on(async {
            tokio::spawn(async move {
                let s = Instant::now();
                for _ in 0..100 {
                    one(&st, &e).await
                }
                s.elapsed()
            })
            .await
            .expect("x")
        });
        let b = rt.block_on(async {
            use futures_util::StreamExt;
            let s = Instant::now();
            futures_util::stream::iter(0..100)
                .map(|_| one(&stop, &env))
                .buffer_unordered(4)
                .for_each(|_| async {})
                .await;
            s.elapsed()
        });
        let c = rt.block_on(async {
            use futures_util::StreamExt;
            let s = Instant::now();
            futures_util::stream::iter(0..100)
                .map(|_| {
                    let st = stop.clone();
                    let e = env.clone();
                    tokio::spawn(async move { one(&st, &e).await })
                })
                .buffer_unordered(4)
                .for_each(|_| async {})
                .await;
            s.elapsed()
        });
        eprintln!(
            "floor {f:?} seq {a:?} ({:.2}) par1 {b:?} parN {c:?} ({:.2})",
            a.as_secs_f64() / f.as_secs_f64(),
            c.as_secs_f64() / f.as_secs_f64()
        );
    }
}
