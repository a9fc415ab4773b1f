//! Logs of server and agent: to stderr, as text or JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::SubscriberInitExt;

/// How much is logged, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogConfig {
    /// From here upwards.
    pub level: Level,
    /// For people or for machines.
    pub format: LogFormat,
}

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Everything.
    Debug,
    /// What happens.
    #[default]
    Info,
    /// What should be looked at.
    Warn,
    /// What went wrong.
    Error,
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

impl Level {
    /// All, with the names used in configs.
    pub const ALL: &[(&str, Level)] = &[
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("warn", Self::Warn),
        ("error", Self::Error),
    ];

    /// Libraries say too much below `warn`; `RUST_LOG` has the last word.
    fn filter(self) -> Targets {
        let (libraries, ours) = match self {
            Self::Debug => (LevelFilter::WARN, LevelFilter::DEBUG),
            Self::Info => (LevelFilter::WARN, LevelFilter::INFO),
            Self::Warn => (LevelFilter::WARN, LevelFilter::WARN),
            Self::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        };
        Targets::new().with_default(libraries).with_target("fluke", ours)
    }
}

impl LogFormat {
    /// All, with the names used in configs.
    pub const ALL: &[(&str, LogFormat)] = &[("text", Self::Text), ("json", Self::Json)];
}

/// Starts to log; a second call changes nothing.
pub fn start(config: LogConfig) {
    start_with(config.level.filter(), config.format);
}

/// Starts to log what goes wrong, but not what becomes of manifests: that is told otherwise.
pub fn start_beside_narrator() {
    let filter = Level::Warn.filter().with_target("fluke_server::source", LevelFilter::ERROR);
    start_with(filter, LogFormat::Text);
}

/// Filters know targets and levels, and nothing of what is within spans: that would take a regex
/// engine along into every agent.
fn start_with(filter: Targets, format: LogFormat) {
    let filter = std::env::var("RUST_LOG").ok().and_then(|set| set.parse().ok()).unwrap_or(filter);
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let logs = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let logs = match format {
        LogFormat::Json => logs.json().flatten_event(true).with_timer(SystemTime).boxed(),
        // The journal has its own clock.
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            logs.with_ansi(colours).without_time().boxed()
        }
        LogFormat::Text => logs.with_ansi(colours).with_timer(SystemTime).boxed(),
    };
    // Another logger that is there already is as good.
    let _ = Registry::default().with(logs.with_filter(filter)).try_init();
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    use super::*;

    #[test]
    fn at_every_level_our_own_lines_are_logged_and_libraries_only_when_they_complain() {
        for &(name, level) in Level::ALL {
            let filter = level.filter();
            let ours: LevelFilter = name.parse().expect(name);
            let libraries = ours.min(LevelFilter::WARN);
            for (target, most) in [("fluke_server::source", ours), ("h2::codec", libraries)] {
                let logged = |at: &tracing::Level| filter.would_enable(target, at);
                let all = [
                    tracing::Level::ERROR,
                    tracing::Level::WARN,
                    tracing::Level::INFO,
                    tracing::Level::DEBUG,
                    tracing::Level::TRACE,
                ];
                assert!(all.iter().all(|at| logged(at) == (*at <= most)), "{name}, {target}");
            }
        }
    }
}
