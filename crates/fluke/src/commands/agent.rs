//! `fluke agent`

use std::time::Duration;

use fluke_model::message::NodeType;
use fluke_wire::client::{ClientTls, Target};

use crate::cli::{AgentArgs, Colour, Global};
use crate::commands::{Signal, Signals, in_one_thread};
use crate::config;
use crate::config::agent::{AgentConfig, AgentFile, AgentProblem};
use crate::diagnostics;
use crate::failure::Failure;
use crate::logging;
use crate::screen::{self, Style};

/// How long a command may go on when the agent is told to stop; less than systemd waits.
const STOP_GRACE: Duration = Duration::from_secs(60);

/// Runs the agent until it is told to stop.
pub fn run(args: &AgentArgs, global: &Global) -> Result<(), Failure> {
    let config = load(args, global.colour)?;
    logging::start(config.log);
    tell_what_has_no_effect(&config);
    work(config)
}

/// File and flags together; what is wrong with the file is on stderr.
fn load(args: &AgentArgs, colour: Colour) -> Result<AgentConfig, Failure> {
    let file = match &args.config {
        None => AgentFile::default(),
        Some(path) => {
            let text = config::load(path)?;
            let name = path.display().to_string();
            config::read_agent(&name, &text, &config::environment).map_err(|problems| {
                screen::note(&diagnostics::text(&problems, Style::of_stderr(colour)));
                let what =
                    format!("the config {name} cannot be used: {}", diagnostics::sum(&problems, 1));
                Failure::new(what)
                    .help(format!("`fluke validate {name}` checks it without starting"))
            })?
        }
    };
    let told = |problem: AgentProblem| {
        let is_usage = matches!(problem, AgentProblem::Flag { .. });
        Failure::from_error(&problem).help(problem.help()).usage(is_usage)
    };
    file.with_flags(args, config::environment("FLUKE_TOKEN"))
        .map_err(told)?
        .complete(&host_name())
        .map_err(told)
}

/// Settings for parts that are still to come are accepted, but not in silence.
fn tell_what_has_no_effect(config: &AgentConfig) {
    for (setting, is_set) in [
        ("proxy", config.proxy),
        ("logs_endpoint", config.logs_endpoint.is_some()),
        ("containers.exclusive", config.exclusive_containers),
    ] {
        if is_set {
            tracing::warn!("`{setting}` has no effect yet");
        }
    }
}

fn host_name() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn work(config: AgentConfig) -> Result<(), Failure> {
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
    let settings = fluke_agent::AgentConfig {
        name: config.name,
        labels: config.labels,
        version: env!("CARGO_PKG_VERSION").to_string(),
        target: Target { url: config.server_url, token: config.token, tls },
        state_dir: config.state_dir,
        node_type: if config.proxy { NodeType::Proxy } else { NodeType::Worker },
        default_shell: config.execution.default_shell.to_string_lossy().into_owned(),
        command_timeout: config.execution.command_timeout,
        allow: fluke_agent::Allow {
            executors: config.allow.executors,
            run_as: config.allow.run_as,
        },
        parallel_checks: parallel_checks(),
        stop_grace: STOP_GRACE,
    };
    in_one_thread(async {
        let mut signals = Signals::listen()?;
        let stop = async move { while let Signal::Reload = signals.next().await {} };
        fluke_agent::run(settings, stop, |_| {})
            .await
            .map_err(|error| Failure::new("the agent could not be started").because(&error))
    })
}

/// Checks wait for their commands more than they work.
pub fn parallel_checks() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from) * 2
}
