//! `fluke dev`

use crate::cli::{DevArgs, Global};
use crate::failure::Failure;
use crate::logging::{self, LogConfig};

/// Runs server and agent in one process until it is told to stop.
pub fn run(args: &DevArgs, _global: &Global) -> Result<(), Failure> {
    logging::start(LogConfig::default());
    try_out(args)
}

fn try_out(_args: &DevArgs) -> Result<(), Failure> {
    Err(Failure::new("server and agent are not part of this build"))
}
