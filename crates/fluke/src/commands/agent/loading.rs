//! File, variables and flags together.

use fluke_model::diagnostic::Diagnostic;
use fluke_model::id::Hash256;

use super::succession::Footing;
use crate::cli::{AgentArgs, Colour};
use crate::config;
use crate::config::agent::{AgentConfig, AgentFile, AgentProblem};
use crate::config::variables::{Variables, VariablesError};
use crate::diagnostics;
use crate::failure::Failure;
use crate::screen::{self, Style};

/// What an agent is told, and what that was read from.
pub struct Loaded {
    pub config: AgentConfig,
    pub footing: Footing,
}

/// Why an agent cannot be told anything.
pub enum LoadError {
    Variables(VariablesError),
    Unreadable(Failure),
    File { name: String, problems: Vec<Diagnostic> },
    Flags(AgentProblem),
}

/// Reads everything anew.
pub fn load(args: &AgentArgs) -> Result<Loaded, LoadError> {
    let variables = variables(args).map_err(LoadError::Variables)?;
    let text = match &args.config {
        None => None,
        Some(path) => Some((path, config::load(path).map_err(LoadError::Unreadable)?)),
    };
    let file = match &text {
        None => AgentFile::default(),
        Some((path, text)) => {
            let name = path.display().to_string();
            config::read_agent(&name, text, &|name| variables.get(name))
                .map_err(|problems| LoadError::File { name, problems })?
        }
    };
    let config = file
        .with_flags(args, variables.get("FLUKE_TOKEN"))
        .and_then(|file| file.complete(&host_name()))
        .map_err(LoadError::Flags)?;
    let hash = text.map(|(_, text)| Hash256::of(&text));
    Ok(Loaded { config, footing: Footing::new(hash, variables) })
}

/// Those of the file that the arguments name.
pub fn variables(args: &AgentArgs) -> Result<Variables, VariablesError> {
    Variables::load(args.env_file.as_deref())
}

impl LoadError {
    /// For somebody who starts an agent; what is wrong with the file is then on stderr.
    pub fn told(self, colour: Colour) -> Failure {
        match self {
            Self::Variables(error) => Failure::from_error(&error),
            Self::Unreadable(failure) => failure,
            Self::File { name, problems } => {
                screen::note(&diagnostics::text(&problems, Style::of_stderr(colour)));
                let sum = diagnostics::sum(&problems, 1);
                Failure::new(format!("the config {name} cannot be used: {sum}"))
                    .help(format!("`fluke validate {name}` checks it without starting"))
            }
            Self::Flags(problem) => {
                let is_usage = matches!(problem, AgentProblem::Flag { .. });
                Failure::from_error(&problem).help(problem.help()).usage(is_usage)
            }
        }
    }

    /// For a log.
    pub fn one_line(&self) -> String {
        match self {
            Self::Variables(error) => error.to_string(),
            Self::Unreadable(failure) => failure.text().trim().replace('\n', "; "),
            Self::File { problems, .. } => diagnostics::one_line(problems),
            Self::Flags(problem) => problem.to_string(),
        }
    }
}

fn host_name() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
