//! Delivers alerts, in order, for as long as it takes.
//!
//! One worker tries the oldest alert until the receiver takes it, refuses it for good, or a day
//! has passed; the others wait behind it. Sending never waits: a full queue drops its oldest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fluke_model::event::{Event, EventKind};
use fluke_model::time::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::retry::{self, Attempt, Schedule, Verdict};
use super::{Alert, AlertSink, Owner};
use crate::events::EventSink;

/// Where alerts go, and how hard to try.
#[derive(Clone)]
pub struct AlertSettings {
    /// Receives a POST for each; may contain secrets, so it is never shown in full.
    pub url: String,
    /// For one try.
    pub timeout: Duration,
    /// Between tries.
    pub schedule: Schedule,
    /// How many may wait.
    pub capacity: usize,
}

impl AlertSettings {
    /// What is right for everybody.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            timeout: Duration::from_secs(10),
            schedule: Schedule::default(),
            capacity: 10_000,
        }
    }
}

/// Why no alerts can be sent at all.
#[derive(Debug, thiserror::Error)]
pub enum AlerterError {
    /// Not an address.
    #[error("alert_webhook is not an http or https address: {0}")]
    Url(String),
    /// No way to make requests.
    #[error(
        "the client for alert_webhook could not be made; are the system's CA certificates installed?"
    )]
    Client(#[source] reqwest::Error),
}

/// For metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlertCounts {
    /// Not delivered yet.
    pub waiting: usize,
    /// Taken by the receiver.
    pub delivered: u64,
    /// Refused for good, or too old.
    pub failed: u64,
    /// Pushed out of a full queue.
    pub dropped: u64,
}

/// Takes alerts, and delivers them behind the caller's back.
#[derive(Clone)]
pub struct Alerter(Arc<Shared>);

struct Shared {
    events: Arc<dyn EventSink>,
    capacity: usize,
    state: Mutex<State>,
    queued: Notify,
    phase: watch::Sender<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing is worth a long pause any more.
    Closing,
    /// The worker has ended.
    Closed,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Queued>,
    /// Whether the worker holds one that it took from `waiting`.
    under_way: bool,
    counts: AlertCounts,
    /// Dropped since the receiver took one last.
    dropped_in_outage: u64,
}

struct Queued {
    alert: Alert,
    since: Instant,
}

impl Alerter {
    /// Begins to deliver, until [`Self::close`]. What goes wrong is told to `events`.
    pub fn start(
        settings: AlertSettings,
        events: Arc<dyn EventSink>,
    ) -> Result<Self, AlerterError> {
        let receiver = Receiver::new(&settings)?;
        let shared = Arc::new(Shared {
            events,
            capacity: settings.capacity.max(1),
            state: Mutex::default(),
            queued: Notify::new(),
            phase: watch::Sender::new(Phase::Open),
        });
        tokio::spawn(deliver_all(shared.clone(), receiver, settings.schedule));
        Ok(Self(shared))
    }

    /// For metrics.
    pub fn counts(&self) -> AlertCounts {
        let state = self.0.state();
        AlertCounts { waiting: state.waiting.len() + usize::from(state.under_way), ..state.counts }
    }

    /// Ends the delivery: what waits is tried without long pauses, for at most `longest`.
    ///
    /// Returns how many alerts were not delivered.
    pub async fn close(&self, longest: Duration) -> usize {
        self.0.phase.send_if_modified(|phase| {
            let open = *phase == Phase::Open;
            if open {
                *phase = Phase::Closing;
            }
            open
        });
        let mut phase = self.0.phase.subscribe();
        let closed = phase.wait_for(|phase| *phase == Phase::Closed);
        let _ = tokio::time::timeout(longest, closed).await;
        let left = self.counts().waiting;
        if left > 0 {
            tracing::warn!("{left} alerts were not delivered before the end");
        }
        left
    }
}

impl AlertSink for Alerter {
    fn send(&self, alert: Alert) {
        let dropped = self.0.push(alert);
        self.0.queued.notify_one();
        if let Some((first_of_outage, alert)) = dropped {
            tracing::warn!(agent = %alert.agent, of = alert.of.name(), "an alert was dropped");
            if first_of_outage {
                self.0.tell(
                    Some(&alert),
                    format!(
                        "{} alerts wait for the receiver and no more can; the oldest are dropped \
                         until it takes alerts again",
                        self.0.capacity
                    ),
                );
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was dropped for it, and whether it is the first since a delivery.
    fn push(&self, alert: Alert) -> Option<(bool, Alert)> {
        let mut state = self.state();
        state.waiting.push_back(Queued { alert, since: Instant::now() });
        if state.waiting.len() + usize::from(state.under_way) <= self.capacity {
            return None;
        }
        let oldest = state.waiting.pop_front()?;
        state.counts.dropped += 1;
        state.dropped_in_outage += 1;
        Some((state.dropped_in_outage == 1, oldest.alert))
    }

    fn take(&self) -> Option<Queued> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        state.under_way = next.is_some();
        next
    }

    /// The alert under way has ended; returns how many were dropped before it.
    fn done(&self, delivered: bool) -> u64 {
        let mut state = self.state();
        state.under_way = false;
        match delivered {
            true => {
                state.counts.delivered += 1;
                std::mem::take(&mut state.dropped_in_outage)
            }
            false => {
                state.counts.failed += 1;
                0
            }
        }
    }

    fn tell(&self, alert: Option<&Alert>, text: String) {
        let mut event = Event::new(EventKind::AlertFailed, Timestamp::from(SystemTime::now()));
        event.agent = alert.map(|alert| alert.agent.clone());
        match alert.map(|alert| &alert.of) {
            Some(Owner::Task(task)) => event.task = Some(task.clone()),
            Some(Owner::Service(service)) => event.service = Some(service.clone()),
            None => {}
        }
        event.output = Some(text);
        self.events.record(event);
    }
}

/// The worker.
async fn deliver_all(shared: Arc<Shared>, receiver: Receiver, schedule: Schedule) {
    let mut phase = shared.phase.subscribe();
    let mut worker = Worker { shared, receiver, schedule, failures: 0 };
    loop {
        match worker.shared.take() {
            Some(queued) => worker.deliver(queued, &mut phase).await,
            None if *phase.borrow_and_update() != Phase::Open => {
                worker.shared.phase.send_replace(Phase::Closed);
                return;
            }
            // Both are safe to cancel.
            None => tokio::select! {
                () = worker.shared.queued.notified() => {}
                _ = phase.changed() => {}
            },
        }
    }
}

struct Worker {
    shared: Arc<Shared>,
    receiver: Receiver,
    schedule: Schedule,
    /// In a row, over all alerts.
    failures: u32,
}

impl Worker {
    /// Tries one alert until it is settled.
    async fn deliver(&mut self, queued: Queued, phase: &mut watch::Receiver<Phase>) {
        let Queued { alert, since } = queued;
        loop {
            match retry::judge(self.receiver.post(&alert).await) {
                Verdict::Delivered => return self.delivered(),
                Verdict::GiveUp { reason } => return self.refused(&alert, reason),
                Verdict::Retry { reason, .. } if since.elapsed() >= self.schedule.give_up_after => {
                    let hours = since.elapsed().as_secs() / 3600;
                    return self.refused(&alert, format!("given up after {hours} hours: {reason}"));
                }
                Verdict::Retry { not_before, reason } => {
                    self.failed(&alert, reason);
                    let pause = self.schedule.pause(self.failures, not_before, chance());
                    wait(pause, phase).await;
                }
            }
        }
    }

    fn delivered(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            tracing::info!("{} takes alerts again", self.receiver.shown);
        }
        let dropped = self.shared.done(true);
        if dropped > 0 {
            let text = format!("{dropped} alerts were dropped while the receiver was away");
            self.shared.tell(None, text);
        }
    }

    fn refused(&mut self, alert: &Alert, reason: String) {
        let text = format!(
            "the alert \"{}\" was not delivered to {}: {reason}",
            alert.text(),
            self.receiver.shown
        );
        tracing::warn!("{text}");
        self.shared.tell(Some(alert), text);
        self.failures = 0;
        self.shared.done(false);
    }

    /// Says so once per outage.
    fn failed(&mut self, alert: &Alert, reason: String) {
        self.failures = self.failures.saturating_add(1);
        if self.failures == 1 {
            let text = format!(
                "{} does not take alerts: {reason}; they wait and are tried again",
                self.receiver.shown
            );
            tracing::warn!("{text}");
            self.shared.tell(Some(alert), text);
        }
    }
}

/// At the end nothing is worth a long pause.
async fn wait(pause: Duration, phase: &mut watch::Receiver<Phase>) {
    const AT_THE_END: Duration = Duration::from_millis(200);
    let ends =
        tokio::time::timeout(pause, phase.wait_for(|phase| *phase != Phase::Open)).await.is_ok();
    if ends {
        tokio::time::sleep(pause.min(AT_THE_END)).await;
    }
}

fn chance() -> f64 {
    let bits = getrandom::u32().unwrap_or(u32::MAX / 2);
    f64::from(bits) / f64::from(u32::MAX)
}

/// The other end.
struct Receiver {
    client: reqwest::Client,
    url: reqwest::Url,
    /// Its host alone: paths and queries of webhooks are secrets.
    shown: String,
}

impl Receiver {
    fn new(settings: &AlertSettings) -> Result<Self, AlerterError> {
        let url = reqwest::Url::parse(&settings.url)
            .map_err(|error| AlerterError::Url(error.to_string()))?;
        let host = match (url.scheme(), url.host_str()) {
            ("http" | "https", Some(host)) => host.to_owned(),
            (scheme, _) => return Err(AlerterError::Url(format!("it begins with `{scheme}:`"))),
        };
        // Somebody else may have chosen the same before; then there is nothing to do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(settings.timeout)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("fluke/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(AlerterError::Client)?;
        Ok(Self { client, url, shown: format!("the alert webhook at {host}") })
    }

    async fn post(&self, alert: &Alert) -> Attempt {
        let request = self.client.post(self.url.clone()).json(&alert.payload());
        match request.send().await {
            Ok(response) => Attempt::Answered {
                status: response.status(),
                retry_after: response
                    .headers()
                    .get(http::header::RETRY_AFTER)
                    .and_then(|value| value.to_str().ok())
                    .and_then(|value| retry::retry_after(value, SystemTime::now())),
            },
            Err(error) => Attempt::NoAnswer(causes(&error.without_url())),
        }
    }
}

/// An error and what caused it, on one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
