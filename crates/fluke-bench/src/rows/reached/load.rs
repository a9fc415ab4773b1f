//! Visitors, for as long as something else is measured.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use reqwest::Client;
use reqwest::header::HOST;

use crate::row::Trouble;

/// Each asks, and asks again as soon as there is an answer and a moment has passed.
const VISITORS: usize = 8;
const MOMENT: Duration = Duration::from_millis(10);
/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests without end.
pub struct Load {
    tally: Arc<Tally>,
    thread: JoinHandle<std::io::Result<()>>,
}

#[derive(Default)]
struct Tally {
    is_over: AtomicBool,
    answered: AtomicU64,
    failed: AtomicU64,
}

impl Load {
    /// Visitors come to `domain` at a proxy.
    pub fn begin(proxy: Ipv4Addr, domain: &'static str) -> Result<Self, Trouble> {
        // Whoever comes first sets it, and a client needs one, whether it speaks TLS or not.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failed = |error: reqwest::Error| Trouble::failed("make a client", error);
        let keeps = client(usize::MAX).map_err(failed)?;
        let does_not_keep = client(0).map_err(failed)?;
        let tally = Arc::<Tally>::default();
        let noted = tally.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let url = format!("http://{proxy}/");
            let visit = |at: usize| {
                let client = if at.is_multiple_of(2) { &keeps } else { &does_not_keep };
                visit(client, &url, domain, &noted)
            };
            runtime.block_on(futures_util::future::join_all((0..VISITORS).map(visit)));
            Ok(())
        });
        Ok(Self { tally, thread })
    }

    /// They leave: how many requests were answered, and how many were not.
    pub fn end(self) -> Result<(f64, f64), Trouble> {
        self.tally.is_over.store(true, Ordering::Relaxed);
        let ended =
            self.thread.join().unwrap_or_else(|_| Err(std::io::Error::other("it panicked")));
        ended.map_err(|error| Trouble::failed("have visitors", error))?;
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64;
        Ok((count(&self.tally.answered), count(&self.tally.failed)))
    }
}

fn client(idle: usize) -> reqwest::Result<Client> {
    Client::builder().no_proxy().pool_max_idle_per_host(idle).timeout(PATIENCE).build()
}

async fn visit(client: &Client, url: &str, domain: &str, tally: &Tally) {
    while !tally.is_over.load(Ordering::Relaxed) {
        let of = match is_answered(client, url, domain).await {
            Ok(()) => &tally.answered,
            Err(_) => &tally.failed,
        };
        of.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(MOMENT).await;
    }
}

/// Wholly, and well.
async fn is_answered(client: &Client, url: &str, domain: &str) -> reqwest::Result<()> {
    let answer = client.get(url).header(HOST, domain).send().await?.error_for_status()?;
    answer.bytes().await.map(drop)
}
