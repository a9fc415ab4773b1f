//! What Git says of a service, in few lines: what is not set is not told.

use fluke_model::api::ServiceView;
use fluke_model::service::{HealthSpec, Port, Traffic};

use super::way_in;
use crate::report::Report;
use crate::view::task::selector;
use crate::when;

/// Units of memory, the largest first.
const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

type Fields<'a> = Vec<(&'a str, String)>;

/// Tells it under a heading of its own.
pub(super) fn tell(report: &mut Report, service: &ServiceView) {
    let mut fields = vec![
        ("description", service.description.clone().unwrap_or_else(|| "none".into())),
        ("defined", service.defined.clone()),
        ("policy", service.policy.as_str().to_string()),
        ("selector", selector(&service.selector)),
        ("image", service.image.clone()),
        ("replicas", replicas(service)),
    ];
    add(&mut fields, "ports", service.ports.iter().map(port).collect());
    add_container(&mut fields, service);
    report.heading("Definition");
    report.fields(2, &fields);
}

/// Several values under one name, a line each.
fn add<'a>(fields: &mut Fields<'a>, name: &'a str, values: Vec<String>) {
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    fields.extend(names.zip(values));
}

/// Several values in one line, if there are any.
fn add_line<'a>(fields: &mut Fields<'a>, name: &'a str, values: &[String], between: &str) {
    if !values.is_empty() {
        fields.push((name, values.join(between)));
    }
}

fn replicas(service: &ServiceView) -> String {
    let moves = service.reschedule_after_ms.map(when::as_written);
    match (service.replicas, moves) {
        (None, _) => "one on each matching host".into(),
        (Some(replicas), None) => replicas.to_string(),
        (Some(replicas), Some(after)) => {
            format!("{replicas} (they move from a host away for {after})")
        }
    }
}

fn port(port: &Port) -> String {
    let (domain, external) = match &port.traffic {
        Traffic::Http { domain } => (domain.as_deref(), None),
        Traffic::Tcp { external, domain } => (domain.as_deref(), *external),
        Traffic::Udp { external } => (None, *external),
    };
    let protocol = port.traffic.protocol();
    let way = way_in(domain, external, protocol);
    let from = way.unwrap_or_else(|| "within the mesh alone".into());
    format!("{}: {}/{protocol}, from {from}", port.name, port.container)
}

fn add_container(fields: &mut Fields<'_>, service: &ServiceView) {
    let ServiceView { command, env, volumes, health, cpu_millis, memory, .. } = service;
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    add_line(fields, "command", &words, " ");
    add_line(fields, "env", env, ", ");
    let volumes = volumes.iter().map(|(name, path)| format!("{name}: {path}")).collect();
    add(fields, "volumes", volumes);
    fields.extend(health.as_ref().map(|it| ("health", in_words(it))));
    let cpu = cpu_millis.map(|millis| format!("cpu {}", f64::from(millis) / 1000.0));
    let memory = memory.map(|bytes| format!("memory {}", amount(bytes)));
    let limits: Vec<String> = cpu.into_iter().chain(memory).collect();
    add_line(fields, "resources", &limits, ", ");
}

/// As a shell takes it literally.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn in_words(health: &HealthSpec) -> String {
    let HealthSpec { command, interval_ms, timeout_ms, retries, start_period_ms } = health;
    let (interval, timeout) = (when::as_written(*interval_ms), when::as_written(*timeout_ms));
    let start = match start_period_ms {
        0 => String::new(),
        period => format!(", start period {}", when::as_written(*period)),
    };
    format!("{command} (every {interval}, timeout {timeout}, retries {retries}{start})")
}

/// In the largest unit of which it is a whole number.
fn amount(bytes: u64) -> String {
    let fits = UNITS.iter().find(|(size, _)| bytes.is_multiple_of(*size));
    fits.map_or_else(|| format!("{bytes}B"), |(size, unit)| format!("{}{unit}", bytes / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_words_are_as_they_could_be_written() {
        for (bytes, told) in [
            (256 << 20, "256MiB"),
            (3 << 29, "1536MiB"),
            (8 << 30, "8GiB"),
            (10_000_001, "10000001B"),
        ] {
            assert_eq!(amount(bytes), told);
        }
        for (word, told) in [("--port=3000", "--port=3000"), ("", "''"), ("it's", r"'it'\''s'")] {
            assert_eq!(quoted(word), told);
        }
    }
}
