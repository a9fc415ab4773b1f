//! `fluke agent`

use crate::cli::{AgentArgs, Colour, Global};
use crate::config;
use crate::config::agent::{AgentConfig, AgentFile, AgentProblem};
use crate::diagnostics;
use crate::failure::Failure;
use crate::logging;
use crate::screen::{self, Style};

/// Runs the agent until it is told to stop.
pub fn run(args: &AgentArgs, global: &Global) -> Result<(), Failure> {
    let config = load(args, global.colour)?;
    logging::start(config.log);
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
    let told = |problem: AgentProblem| Failure::from_error(&problem).help(problem.help());
    file.with_flags(args, config::environment("FLUKE_TOKEN"))
        .map_err(told)?
        .complete(&host_name())
        .map_err(told)
}

fn host_name() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn work(_config: AgentConfig) -> Result<(), Failure> {
    Err(Failure::new("the agent is not part of this build"))
}
