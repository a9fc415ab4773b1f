//! `fluke eval`: an expression in the scope of the manifests.

use fluke_manifest::Loader;
use fluke_server::folder::FolderTree;

use super::Printing;
use crate::cli::{EvalArgs, Format, Global};
use crate::diagnostics;
use crate::document::{Document, yaml};
use crate::failure::Failure;
use crate::screen::{self, Style};

/// Prints the value: over several lines on a terminal, on one in a pipe.
pub fn run(args: &EvalArgs, global: &Global) -> Result<(), Failure> {
    let printing = Printing::of(global);
    let tree = FolderTree::read(&args.path).map_err(|error| Failure::from_error(&error))?;
    let mut loader = Loader::new(&args.glob).map_err(|error| Failure::from_error(&error))?;
    let json = match loader.evaluate(&tree, &args.expression) {
        Ok(json) => json,
        Err(problems) => {
            screen::note(&diagnostics::text(&problems, Style::of_stderr(global.colour)));
            return Err(Failure::Shown);
        }
    };
    let value = Document::parse(&json)
        .map_err(|error| Failure::new("the value cannot be shown").because(&error))?;
    screen::print(&match printing.format {
        Format::Yaml => yaml::render(&value),
        _ if printing.style().is_terminal() => value.to_json(),
        _ => value.to_json_line(),
    })
}
