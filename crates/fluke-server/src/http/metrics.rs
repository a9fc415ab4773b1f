//! `/metrics`: Prometheus text.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use fluke_model::status::Status;
use fluke_model::time::Timestamp;
use http::header;

use super::{App, MAX_STREAMS};

const STATUSES: [Status; 6] = [
    Status::InSync,
    Status::Drifted,
    Status::Applying,
    Status::Failed,
    Status::Unknown,
    Status::Offline,
];

pub(super) async fn serve(State(app): State<App>) -> Response {
    let kind = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
    ([kind], collect(&app, Timestamp::from(SystemTime::now()))).into_response()
}

fn collect(app: &App, now: Timestamp) -> String {
    let mut page = Page::default();
    page.gauge("fluke_build_info", "The version that runs.");
    page.labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    agents(app, &mut page);
    source(app, now, &mut page);
    events(app, &mut page);
    requests(app, &mut page);
    page.0
}

fn agents(app: &App, page: &mut Page) {
    let mut by_status = BTreeMap::new();
    let mut connected = 0;
    for agent in app.registry.agents() {
        *by_status.entry(agent.status).or_insert(0) += 1;
        connected += u64::from(agent.connected);
    }
    page.gauge("fluke_agents", "Known agents by status.");
    for status in STATUSES {
        let count = by_status.get(&status).copied().unwrap_or(0);
        page.labelled(&[("status", status.as_str())], count);
    }
    page.gauge("fluke_agents_connected", "Agents whose stream is open.");
    page.value(connected);
    page.gauge("fluke_drifted_steps", "Steps that are not as they should be.");
    page.value(app.registry.drift().len() as u64);
}

fn source(app: &App, now: Timestamp, page: &mut Page) {
    let source = app.source.borrow().clone();
    page.gauge("fluke_ready", "1 if a commit is in force.");
    page.value(u64::from(app.desired.borrow().is_some()));
    if let Some(commit) = &source.commit {
        page.gauge("fluke_commit_info", "The commit in force.");
        let branch = source.branch.as_deref().unwrap_or_default();
        page.labelled(&[("commit", commit.as_str()), ("branch", branch)], 1);
    }
    if let Some(since) = source.commit_since {
        page.gauge("fluke_commit_age_seconds", "Since the commit came into force.");
        page.value(now.since(since).as_secs());
    }
    page.gauge("fluke_commit_rejected", "1 if the newest commit was rejected.");
    page.value(u64::from(source.rejected));
    page.gauge("fluke_source_unreachable", "1 if the repository did not answer last time.");
    page.value(u64::from(source.error.is_some()));
    if let Some(last) = source.last_poll {
        page.gauge("fluke_source_last_poll_age_seconds", "Since the repository last answered.");
        page.value(now.since(last).as_secs());
    }
}

fn events(app: &App, page: &mut Page) {
    let events = app.events.counts();
    page.counter("fluke_events_recorded_total", "Events recorded.");
    page.value(events.recorded);
    page.counter("fluke_events_lost_total", "Events dropped before the store took them.");
    page.value(events.lost);
    page.gauge("fluke_events_waiting", "Events that wait for the store.");
    page.value(events.waiting as u64);
    let store = app.events.store_health();
    page.gauge("fluke_event_store_up", "1 if the event store answered last time.");
    page.value(u64::from(store.is_up));
    page.counter("fluke_event_store_appends_total", "Batches that the event store took.");
    page.value(store.appends);
    page.counter("fluke_event_store_append_seconds_total", "How long it took over them.");
    page.seconds(store.append_time);
    let Some(alerter) = &app.alerter else { return };
    let alerts = alerter.counts();
    page.gauge("fluke_alerts_waiting", "Alerts that wait for the receiver.");
    page.value(alerts.waiting as u64);
    page.counter("fluke_alerts_delivered_total", "Alerts that the receiver took.");
    page.value(alerts.delivered);
    page.counter("fluke_alerts_failed_total", "Alerts that the receiver refused for good.");
    page.value(alerts.failed);
    page.counter("fluke_alerts_dropped_total", "Alerts pushed out of a full queue.");
    page.value(alerts.dropped);
}

fn requests(app: &App, page: &mut Page) {
    page.counter("fluke_http_requests_total", "Answers by class of status.");
    for (class, name) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
        page.labelled(&[("code", name)], app.0.answers[class + 1].load(Ordering::Relaxed));
    }
    page.gauge("fluke_http_streams", "Live streams that are open.");
    page.value((MAX_STREAMS - app.0.streams.available_permits()) as u64);
}

/// Prometheus text, family by family.
#[derive(Default)]
struct Page(String, &'static str);

impl Page {
    fn gauge(&mut self, name: &'static str, help: &str) {
        self.family(name, "gauge", help);
    }

    fn counter(&mut self, name: &'static str, help: &str) {
        self.family(name, "counter", help);
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.1 = name;
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, value: u64) {
        let _ = writeln!(self.0, "{} {value}", self.1);
    }

    fn seconds(&mut self, time: Duration) {
        let _ = writeln!(self.0, "{} {}", self.1, time.as_secs_f64());
    }

    fn labelled(&mut self, labels: &[(&str, &str)], value: u64) {
        let pairs: Vec<String> =
            labels.iter().map(|(key, text)| format!("{key}=\"{}\"", escaped(text))).collect();
        let _ = writeln!(self.0, "{}{{{}}} {value}", self.1, pairs.join(","));
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_break_out() {
        let mut page = Page::default();
        page.gauge("x", "Help.");
        page.labelled(&[("branch", "a\"} 1\nb\\")], 7);
        assert_eq!(page.0, "# HELP x Help.\n# TYPE x gauge\nx{branch=\"a\\\"} 1\\nb\\\\\"} 7\n");
    }
}
