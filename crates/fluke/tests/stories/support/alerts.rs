//! A receiver of alerts: a real HTTP server that can be told to fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tokio::sync::Notify;

#[derive(Clone, Default)]
pub struct AlertReceiver {
    inner: Arc<Inner>,
    url: String,
}

#[derive(Default)]
struct Inner {
    received: Mutex<Vec<Value>>,
    refuse: AtomicUsize,
    arrived: Notify,
}

impl AlertReceiver {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let receiver = Self { inner: Arc::default(), url: format!("http://{address}/alerts") };
        let app = Router::new().route("/alerts", post(take)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The next so many deliveries fail.
    pub fn refuse(&self, count: usize) {
        self.inner.refuse.store(count, Ordering::SeqCst);
    }

    pub fn received(&self) -> Vec<Value> {
        self.inner.received.lock().expect("alerts").clone()
    }

    /// In short: `drift_detected pending_manual`, `drift_remediated success`.
    pub fn told(&self) -> Vec<String> {
        let short = |alert: &Value| {
            let detail = alert["remediation_status"].as_str().or(alert["outcome"].as_str());
            format!("{} {}", alert["event"].as_str().unwrap_or("?"), detail.unwrap_or(""))
        };
        self.received().iter().map(|alert| short(alert).trim().to_string()).collect()
    }

    /// Waits until so many have arrived.
    pub async fn arrive(&self, count: usize) {
        loop {
            let arrived = self.inner.arrived.notified();
            if self.received().len() >= count {
                return;
            }
            let patience = std::time::Duration::from_secs(60);
            tokio::time::timeout(patience, arrived).await.expect("an alert arrives");
        }
    }
}

async fn take(State(receiver): State<AlertReceiver>, Json(alert): Json<Value>) -> StatusCode {
    let inner = &receiver.inner;
    let refused =
        inner.refuse.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    if refused.is_ok() {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    inner.received.lock().expect("alerts").push(alert);
    inner.arrived.notify_waiters();
    StatusCode::OK
}
