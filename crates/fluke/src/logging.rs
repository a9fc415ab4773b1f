//! Logs of server and agent: to stderr, as text or JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

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
    fn filter(self) -> &'static str {
        match self {
            Self::Debug => "warn,fluke=debug",
            Self::Info => "warn,fluke=info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
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
    start_with("warn,fluke_server::source=error", LogFormat::Text);
}

fn start_with(filter: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Another logger that is there already is as good.
    let _ = match format {
        LogFormat::Json => logs.json().flatten_event(true).with_timer(SystemTime).try_init(),
        // The journal has its own clock.
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            logs.with_ansi(colours).without_time().try_init()
        }
        LogFormat::Text => logs.with_ansi(colours).with_timer(SystemTime).try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_a_filter() {
        for &(name, level) in Level::ALL {
            let filter = EnvFilter::try_new(level.filter()).expect(name);
            assert!(filter.to_string().contains(name) || level == Level::Warn, "{name}: {filter}");
        }
    }
}
