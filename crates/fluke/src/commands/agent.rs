//! `fluke agent`

mod loading;
mod standing;
mod succession;

use std::time::Duration;

use fluke_agent::{Ending, ServicesConfig};
use fluke_model::message::NodeType;
use fluke_wire::client::{ClientTls, Target};
use futures_util::{Stream, stream};

use crate::cli::{AgentArgs, Global};
use crate::commands::{Signal, Signals, in_one_thread};
use crate::config::agent::AgentConfig;
use crate::failure::Failure;
use crate::logging;
use loading::Loaded;
use standing::Noted;
use succession::{Footing, Myself};

pub use standing::{Standing, State};
pub use succession::Identity;

/// How long a command may go on when the agent is told to stop; less than systemd waits.
const STOP_GRACE: Duration = Duration::from_secs(60);

/// Runs the agent until it is told to stop; on SIGHUP it becomes what is on disk by then.
pub fn run(args: &AgentArgs, global: &Global) -> Result<(), Failure> {
    let myself = Myself::now();
    let mut loaded = loading::load(args).map_err(|error| error.told(global.colour))?;
    logging::start(loaded.config.log);
    tell_what_has_no_effect(&loaded.config);
    loop {
        match work(&loaded, args, &myself)? {
            Ending::Stop => return Ok(()),
            Ending::HandOver => {
                let error = myself.succeed(&variables_for_exec(args));
                tracing::error!(%error, program = %myself.program().display(),
                    "the program cannot be run; this one goes on");
            }
        }
        loaded = loading::load(args).map_err(|error| error.told(global.colour))?;
    }
}

/// Those on disk now, so that the successor and its commands have what a restart would give them.
fn variables_for_exec(args: &AgentArgs) -> Vec<(String, String)> {
    loading::variables(args).map(|variables| variables.pairs().to_vec()).unwrap_or_default()
}

/// Settings for parts that are still to come are accepted, but not in silence.
fn tell_what_has_no_effect(config: &AgentConfig) {
    for (setting, is_set) in [("logs_endpoint", config.logs_endpoint.is_some())] {
        if is_set {
            tracing::warn!("`{setting}` has no effect yet");
        }
    }
}

fn work(loaded: &Loaded, args: &AgentArgs, myself: &Myself) -> Result<Ending, Failure> {
    let settings = settings(loaded.config.clone())?;
    in_one_thread(async {
        let signals = Signals::listen()?;
        let noted = Noted::new(&settings.state_dir);
        let endings = endings(signals, args, myself, loaded.footing.clone());
        fluke_agent::run_until(settings, endings, |status| noted.note(&status))
            .await
            .map_err(|error| Failure::new("the agent could not be started").because(&error))
    })
}

/// What signals mean: to stop, or to make way for what is on disk, if that is of any use.
fn endings(
    signals: Signals,
    args: &AgentArgs,
    myself: &Myself,
    footing: Footing,
) -> impl Stream<Item = Ending> {
    stream::unfold((signals, footing), async move |(mut signals, footing)| {
        loop {
            match signals.next().await {
                Signal::Stop => return Some((Ending::Stop, (signals, footing))),
                Signal::Reload => {
                    if let Some(ending) = reload(&mut signals, args, myself, &footing).await {
                        return Some((ending, (signals, footing)));
                    }
                }
            }
        }
    })
}

/// Trying out a new program takes its time, and a stop does not wait for it.
async fn reload(
    signals: &mut Signals,
    args: &AgentArgs,
    myself: &Myself,
    footing: &Footing,
) -> Option<Ending> {
    let mut due = std::pin::pin!(succession::is_due(args, myself, footing));
    loop {
        // Both branches are cancel-safe: a signal that was not taken is still there, and the
        // trial goes on.
        tokio::select! {
            biased;
            signal = signals.next() => if let Signal::Stop = signal {
                return Some(Ending::Stop);
            },
            is_due = &mut due => return is_due.then_some(Ending::HandOver),
        }
    }
}

fn settings(config: AgentConfig) -> Result<fluke_agent::AgentConfig, Failure> {
    let ca_pem = match &config.tls.ca_file {
        None => None,
        Some(path) => Some(std::fs::read(path).map_err(|error| {
            Failure::new(format!("could not read the CA file {}", path.display()))
                .because(&error)
                .help("set `ca_file` to a PEM file that this user can read")
        })?),
    };
    let tls = ClientTls {
        ca_pem,
        insecure_skip_verify: config.tls.insecure_skip_verify,
        ca_fingerprint: config.tls.ca_fingerprint,
    };
    Ok(fluke_agent::AgentConfig {
        name: config.name,
        labels: config.labels,
        version: env!("CARGO_PKG_VERSION").to_string(),
        target: Target { url: config.server_url, token: config.token, tls },
        state_dir: config.state_dir,
        node_type: if config.proxy.is_some() { NodeType::Proxy } else { NodeType::Worker },
        default_shell: config.execution.default_shell.to_string_lossy().into_owned(),
        command_timeout: config.execution.command_timeout,
        allow: fluke_agent::Allow {
            executors: config.allow.executors,
            run_as: config.allow.run_as,
            stated: config.allow.stated,
        },
        parallel_checks: parallel_checks(),
        stop_grace: STOP_GRACE,
        services: Some(ServicesConfig {
            socket: config.containers.socket,
            exclusive: config.containers.exclusive,
            keep_images: config.containers.keep_images,
            pull_timeout: config.containers.pull_timeout,
            proxy: config.proxy,
            mesh: config.mesh,
            ..ServicesConfig::default()
        }),
    })
}

/// Checks wait for their commands more than they work.
pub fn parallel_checks() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from) * 2
}
