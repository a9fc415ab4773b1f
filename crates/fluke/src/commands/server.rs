//! `fluke server`

use std::path::Path;

use crate::cli::{Colour, Global, ServerArgs};
use crate::config::{self, server::ServerConfig};
use crate::diagnostics;
use crate::failure::Failure;
use crate::logging;
use crate::screen::{self, Style};

/// Runs the server until it is told to stop.
pub fn run(args: &ServerArgs, global: &Global) -> Result<(), Failure> {
    let config = load(&args.config, global.colour)?;
    logging::start(config.log);
    serve(config, &args.config)
}

/// Reads the config; what is wrong with it is on stderr.
pub fn load(path: &Path, colour: Colour) -> Result<ServerConfig, Failure> {
    let text = config::load(path)?;
    let name = path.display().to_string();
    config::read_server(&name, &text, &config::environment).map_err(|problems| {
        screen::note(&diagnostics::text(&problems, Style::of_stderr(colour)));
        let what = format!("the config {name} cannot be used: {}", diagnostics::sum(&problems, 1));
        Failure::new(what).help(format!("`fluke validate {name}` checks it without starting"))
    })
}

fn serve(_config: ServerConfig, _reread: &Path) -> Result<(), Failure> {
    Err(Failure::new("the server is not part of this build"))
}
