//! `fluke man`: the manual pages, made from the command line itself and from what it cannot say.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::failure::Failure;
use crate::screen;

mod sections;
#[cfg(test)]
mod tests;

/// One page.
struct ManPage {
    /// `fluke-get-agents.1`
    file: String,
    text: String,
}

/// Prints the first page, or writes all of them.
pub fn run(args: &ManArgs) -> Result<(), Failure> {
    let pages = pages()?;
    match &args.dir {
        Some(dir) => write(dir, &pages),
        None => screen::print(pages.first().map_or("", |page| page.text.as_str())),
    }
}

fn write(dir: &Path, pages: &[ManPage]) -> Result<(), Failure> {
    let failed = |what: String, error: &std::io::Error| {
        Failure::new(what).because(error).help("name a folder that you may write to with --dir")
    };
    std::fs::create_dir_all(dir)
        .map_err(|error| failed(format!("could not make the folder {}", dir.display()), &error))?;
    for page in pages {
        let file = dir.join(&page.file);
        std::fs::write(&file, &page.text)
            .map_err(|error| failed(format!("could not write {}", file.display()), &error))?;
    }
    screen::print(&format!("{} pages are in {}\n", pages.len(), dir.display()))
}

/// Every page, that of the program itself first.
fn pages() -> Result<Vec<ManPage>, Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, &mut pages)?;
    Ok(pages)
}

fn collect(command: &Command, pages: &mut Vec<ManPage>) -> Result<(), Failure> {
    pages.push(page(command)?);
    command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
        .try_for_each(|inner| collect(inner, pages))
}

fn page(command: &Command) -> Result<ManPage, Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_string();
    let title = name.to_uppercase();
    let version = concat!("fluke ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(title).source(version).manual("fluke manual");
    let mut text = Vec::new();
    let made = man
        .render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| man.render_synopsis_section(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| match command.get_subcommands().next() {
            Some(_) => man.render_subcommands_section(&mut text),
            None => Ok(()),
        })
        .and_then(|()| man.render_options_section(&mut text));
    made.map_err(|error| Failure::new(format!("could not make the page {name}")).because(&error))?;
    let text = String::from_utf8_lossy(&text).into_owned() + &sections::all(&name, command);
    Ok(ManPage { file: format!("{name}.1"), text })
}
