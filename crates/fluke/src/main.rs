//! `fluke`: one binary that plays every part; the subcommand chooses which.
//!
//! This crate knows arguments, config files, output and exit codes, and nothing of how a server
//! or an agent works. It alone prints.

mod cli;
mod client;
mod colour;
mod commands;
mod config;
mod diagnostics;
mod document;
mod failure;
mod fit;
mod live;
mod logging;
mod program;
mod report;
mod sanitise;
mod screen;
mod suggest;
mod table;
mod terminal;
mod top;
mod view;
mod when;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(objection) = cli.command.objection(&cli.global) {
        Cli::command().error(ErrorKind::ArgumentConflict, objection).exit();
    }
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            screen::note(&failure.text());
            failure.exit_code()
        }
    }
}
