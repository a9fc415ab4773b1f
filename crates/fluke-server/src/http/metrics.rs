//! `/metrics`: Prometheus text, in one pass over what is known.
//!
//! Nothing here has a label that grows with the fleet: whoever wants to know which agent it is
//! asks the API.

mod page;
mod process;

use std::time::SystemTime;

use axum::extract::State;
use axum::response::Response;
use fluke_model::api::ReplicaCounts;
use fluke_model::policy::Policy;
use fluke_model::status::Status;
use fluke_model::time::Timestamp;
use http::StatusCode;

use super::App;
use super::overview::{Asked, Overview, Overviews};
use super::problem::{Problem, Sort};
use crate::meter::{Counter, EXECUTORS, Refused};
use crate::services::listing::{self, Tally};
use page::Page;

/// What the HTTP side counts on its way.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// By the first digit of their status.
    classes: [Counter; 6],
    refused: [Counter; 5],
    /// Pushes that had the repository read, that did not, and that were refused.
    pub pushes: [Counter; 3],
}

/// Why requests are refused, with the statuses that say so.
const REFUSALS: [(&str, &[StatusCode]); 5] = [
    ("unauthorized", &[StatusCode::UNAUTHORIZED]),
    ("forbidden", &[StatusCode::FORBIDDEN]),
    ("misdirected", &[StatusCode::MISDIRECTED_REQUEST]),
    ("rate", &[StatusCode::TOO_MANY_REQUESTS]),
    ("busy", &[StatusCode::SERVICE_UNAVAILABLE]),
];
const PUSHES: [&str; 3] = ["polled", "ignored", "refused"];

impl Answers {
    pub fn count(&self, status: StatusCode, problem: Option<Sort>) {
        self.classes[usize::from(status.as_u16() / 100).min(5)].add_one();
        if problem == Some(Sort::Unavailable) {
            // Not for the load: no commit is in force, or the event store is away.
            return;
        }
        let refused = REFUSALS.iter().zip(&self.refused).find(|(it, _)| it.1.contains(&status));
        refused.into_iter().for_each(|(_, count)| count.add_one());
    }
}

pub(super) async fn serve(State(app): State<App>, asked: Asked) -> Result<Response, Problem> {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let page =
        move |app: &App| Ok(Overview::text(kind, collect(app, Timestamp::from(SystemTime::now()))));
    Overviews::answer(app, asked, Box::new(page)).await
}

pub(super) fn collect(app: &App, now: Timestamp) -> String {
    let mut page = Page::default();
    page.gauge("fluke_build_info", "The version that runs.");
    page.labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    agents(app, &mut page);
    services(app, &mut page);
    work(app, &mut page);
    source(app, now, &mut page);
    events(app, &mut page);
    alerts(app, &mut page);
    requests(app, &mut page);
    process::collect(app.0.started, &mut page);
    page.finish()
}

fn agents(app: &App, page: &mut Page) {
    let census = app.registry.census();
    page.gauge("fluke_agents", "Known agents by status.");
    for status in Status::ALL {
        let count = census.by_status.get(&status).copied().unwrap_or(0);
        page.labelled(&[("status", status.as_str())], count);
    }
    page.gauge("fluke_agents_connected", "Agents whose stream is open.");
    page.value(census.connected);
    page.gauge("fluke_steps", "Steps and containers that known agents are held to.");
    page.value(census.steps);
    page.gauge(
        "fluke_drifted_steps",
        "Steps and containers that are not as they should be, by policy.",
    );
    for policy in Policy::ALL {
        let count = census.drifted.get(&policy).copied().unwrap_or(0);
        page.labelled(&[("policy", policy.as_str())], count);
    }
    page.counter("fluke_agents_refused_total", "Agents that were not let in, by reason.");
    for why in Refused::ALL {
        page.labelled(&[("reason", why.as_str())], app.meter.refusals(why));
    }
}

fn services(app: &App, page: &mut Page) {
    let now = tokio::time::Instant::now().into_std();
    let book = app.desk.book();
    let services: Vec<Tally> = listing::tallies(&book, now).collect();
    let (free, lacking) = book.view().claims.counts();
    drop(book);
    page.gauge("fluke_subnets", "Subnets that are free for hosts, and that hosts lack.");
    page.labelled(&[("count", "free")], free as u64);
    page.labelled(&[("count", "lacking")], lacking as u64);
    page.gauge("fluke_services", "Services of the commit in force, by status.");
    for status in Status::ALL {
        let count = services.iter().filter(|it| it.status == status).count();
        page.labelled(&[("status", status.as_str())], count as u64);
    }
    let help =
        "Services that lack something: all their replicas, some of them, a way in from outside.";
    page.gauge("fluke_services_lacking", help);
    let lacking = |lacks: fn(&Tally) -> bool| services.iter().filter(|it| lacks(it)).count() as u64;
    page.labelled(&[("what", "all")], lacking(lacks_all));
    page.labelled(&[("what", "some")], lacking(lacks_some));
    page.labelled(&[("what", "way")], lacking(|it| it.lacks_a_way));
    let sum = |count: fn(&ReplicaCounts) -> u32| -> u64 {
        services.iter().map(|it| u64::from(count(&it.replicas))).sum()
    };
    page.gauge("fluke_replicas", "Replicas of all services, by what is counted.");
    page.labelled(&[("count", "wanted")], sum(|counts| counts.wanted));
    page.labelled(&[("count", "running")], sum(|counts| counts.running));
    page.labelled(&[("count", "serving")], sum(|counts| counts.serving));
    page.labelled(&[("count", "failed")], sum(|counts| counts.failed));
}

fn lacks_all(service: &Tally) -> bool {
    service.replicas.serving == 0 && service.replicas.wanted > 0
}

fn lacks_some(service: &Tally) -> bool {
    !lacks_all(service) && service.replicas.serving < service.replicas.wanted
}

fn work(app: &App, page: &mut Page) {
    let meter = &app.meter;
    let help = "From the first instruction of a cycle to its last answer.";
    page.histogram("fluke_cycle_duration_seconds", help);
    page.durations(&[("applied", "no")], &meter.quiet_cycles);
    page.durations(&[("applied", "yes")], &meter.applying_cycles);
    let help = "From a check's instruction to its answer, the network's time included.";
    page.histogram("fluke_check_duration_seconds", help);
    page.durations(&[], &meter.checks);
    page.counter("fluke_steps_checked_total", "Steps that agents have looked at.");
    page.value(meter.steps_checked.get());
    page.histogram("fluke_apply_duration_seconds", "How long applies took, by executor.");
    for (kind, applies) in EXECUTORS.iter().zip(&meter.applies) {
        page.durations(&[("executor", kind)], applies);
    }
    page.counter("fluke_apply_failures_total", "Applies that did not put it right, by executor.");
    for (kind, failures) in EXECUTORS.iter().zip(&meter.apply_failures) {
        page.labelled(&[("executor", kind)], failures.get());
    }
    page.gauge("fluke_reconciles_open", "Manual reconciles that are under way.");
    page.value(app.reconciles.open() as u64);
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
    page.counter("fluke_source_polls_total", "How often the repository was asked.");
    page.value(app.polls.all.get());
    page.counter("fluke_source_poll_failures_total", "How often it did not answer.");
    page.value(app.polls.failed.get());
    page.counter("fluke_webhooks_total", "Pushes that were told, by what came of them.");
    for (result, count) in PUSHES.iter().zip(&app.0.answers.pushes) {
        page.labelled(&[("result", result)], count.get());
    }
}

fn events(app: &App, page: &mut Page) {
    let events = app.events.counts();
    page.counter("fluke_events_recorded_total", "Events recorded, by kind.");
    for (kind, count) in app.events.recorded() {
        page.labelled(&[("kind", kind.as_str())], count);
    }
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
}

fn alerts(app: &App, page: &mut Page) {
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
    let answers = &app.0.answers;
    page.counter("fluke_http_requests_total", "Answers by class of status.");
    for (class, name) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().enumerate() {
        page.labelled(&[("code", name)], answers.classes[class + 1].get());
    }
    page.counter("fluke_http_refused_total", "Requests that were refused, by reason.");
    for ((reason, _), count) in REFUSALS.iter().zip(&answers.refused) {
        page.labelled(&[("reason", reason)], count.get());
    }
    page.gauge("fluke_http_connections", "Connections of people and programs that are open.");
    page.value(app.connections() as u64);
    page.gauge("fluke_http_streams", "Live streams that are open.");
    page.value((app.0.network.open_streams() + app.0.local.open_streams()) as u64);
}
