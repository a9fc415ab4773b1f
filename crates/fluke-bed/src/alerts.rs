//! A receiver of alerts: a small real HTTP server on the machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

/// The largest alert that is taken.
const MOST: u64 = 1024 * 1024;

/// Takes every alert that is sent to it.
pub struct Alerts {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Alerts {
    /// Listens on a free port of this machine.
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port for alerts");
        let address = listener.local_addr().expect("an address for alerts");
        let received = Arc::<Mutex<Vec<Value>>>::default();
        let into = received.clone();
        // Ends with the process: a listener costs nothing.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(alert) = take(stream) {
                    into.lock().unwrap_or_else(PoisonError::into_inner).push(alert);
                }
            }
        });
        Self { address, received }
    }

    /// For `alert_webhook`.
    pub fn url(&self) -> String {
        format!("http://{}/alerts", self.address)
    }

    /// Everything so far, in the order of its arrival.
    pub fn received(&self) -> Vec<Value> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// In short: `drift_detected web-1 certs`, with the task or the service.
    pub fn told(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_string();
        let short = |alert: &Value| {
            let of = alert.get("task").unwrap_or(&alert["service"]);
            [&alert["event"], &alert["agent"]["name"], of].map(text).join(" ")
        };
        self.received().iter().map(short).collect()
    }
}

fn take(stream: TcpStream) -> Option<Value> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?.take(MOST));
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; usize::min(length, MOST as usize)];
    reader.read_exact(&mut body).ok()?;
    let alert = serde_json::from_slice(&body).ok()?;
    (&stream)
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .ok()?;
    Some(alert)
}
