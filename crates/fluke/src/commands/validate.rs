//! `fluke validate`: manifests or a config file, without a server.

use std::fs;
use std::path::{Path, PathBuf};

use fluke_manifest::{Loaded, Loader};
use fluke_model::diagnostic::{Diagnostic, Severity};
use fluke_server::folder::FolderTree;
use fluke_server::source::left_out;
use globset::GlobBuilder;
use serde::Serialize;

use super::Printing;
use crate::cli::{Global, ValidateArgs};
use crate::colour::Paint;
use crate::config;
use crate::diagnostics;
use crate::failure::Failure;
use crate::report::count;
use crate::screen::{self, Style};

#[cfg(test)]
mod tests;

/// Checks, and tells everything that is wrong.
pub fn run(args: &ValidateArgs, global: &Global) -> Result<(), Failure> {
    let result = check(&args.path, &args.glob)?;
    let printing = Printing::of(global);
    let json = serde_json::to_string(&result)
        .map_err(|error| Failure::new("the result cannot be shown").because(&error))?;
    match printing.document(&json) {
        Some(text) => screen::print(&text.unwrap_or(json))?,
        None => tell(&result, global)?,
    }
    if result.valid { Ok(()) } else { Err(Failure::Shown) }
}

/// What is printed with `-o json`.
#[derive(Debug, Serialize)]
struct Checked {
    valid: bool,
    files: usize,
    tasks: usize,
    services: usize,
    diagnostics: Vec<Diagnostic>,
    #[serde(skip)]
    what: What,
}

/// What was checked, for the last line.
#[derive(Debug)]
enum What {
    Folder,
    Manifest { elsewhere: usize },
    Config,
}

fn tell(result: &Checked, global: &Global) -> Result<(), Failure> {
    let errors = Style::of_stderr(global.colour);
    screen::note(&diagnostics::text(&result.diagnostics, errors));
    if !result.valid {
        let sum = diagnostics::sum(&result.diagnostics, result.files);
        screen::note(&format!("{}\n", Paint::Red.on(&sum, errors.colours)));
        return Ok(());
    }
    let (files, tasks) = (count(result.files, "file"), count(result.tasks, "task"));
    let services = match result.services {
        0 => String::new(),
        some => format!(", {}", count(some, "service")),
    };
    let good = match result.what {
        What::Folder if result.files == 0 => {
            "no manifest was found: none matches the glob".to_string()
        }
        What::Folder => format!("{files}, {tasks}{services}: all good"),
        What::Config => "all good".to_string(),
        What::Manifest { elsewhere: 0 } => "all good".to_string(),
        What::Manifest { elsewhere } => {
            format!("all good in this file, but there is {} in others", count(elsewhere, "error"))
        }
    };
    let style = Style::of_stdout(global.colour);
    screen::print(&format!("{}\n", Paint::Green.on(&good, style.colours)))
}

fn check(path: &Path, glob: &str) -> Result<Checked, Failure> {
    let wrong = |error: &std::io::Error| {
        Failure::new(format!("could not read {}", path.display())).because(error)
    };
    if fs::metadata(path).map_err(|error| wrong(&error))?.is_dir() {
        return folder(path, glob);
    }
    let text = config::read_bounded(path).map_err(|error| wrong(&error))?;
    match config::is_config(&text) {
        true => Ok(config_file(path, &text)),
        false => manifest(path, glob),
    }
}

fn folder(root: &Path, glob: &str) -> Result<Checked, Failure> {
    let loaded = load(root, glob)?;
    let services = loaded.model.as_ref().map_or(0, |model| model.services.len());
    Ok(Checked {
        services,
        valid: !Diagnostic::any_error(&loaded.diagnostics),
        files: loaded.files,
        tasks: loaded.model.map_or(0, |model| model.tasks.len()),
        diagnostics: loaded.diagnostics,
        what: What::Folder,
    })
}

/// One manifest means what it means among the others of its repository.
fn manifest(path: &Path, glob: &str) -> Result<Checked, Failure> {
    let wrong = |error: std::io::Error| {
        Failure::new(format!("could not read {}", path.display())).because(&error)
    };
    let file = fs::canonicalize(path).map_err(wrong)?;
    let root = repository(&file);
    let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
    if !GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .is_ok_and(|glob| glob.compile_matcher().is_match(&name))
    {
        return Err(Failure::new(format!("`{name}` is no manifest: it does not match `{glob}`"))
            .help("rename it, or say with --glob which files are manifests"));
    }
    let loaded = load(&root, glob)?;
    let (diagnostics, elsewhere): (Vec<_>, Vec<_>) =
        loaded.diagnostics.into_iter().partition(|d| d.file == name);
    let elsewhere = elsewhere.iter().filter(|d| d.severity == Severity::Error).count();
    let model = loaded.model.unwrap_or_default();
    let tasks = model.tasks.values().filter(|task| task.defined.file == name).count();
    let services = model.services.values().filter(|it| it.defined.file == name).count();
    Ok(Checked {
        valid: !Diagnostic::any_error(&diagnostics),
        files: 1,
        tasks,
        services,
        diagnostics,
        what: What::Manifest { elsewhere },
    })
}

fn load(root: &Path, glob: &str) -> Result<Loaded, Failure> {
    let tree = FolderTree::read(root).map_err(|error| Failure::from_error(&error))?;
    let mut loader = Loader::new(glob).map_err(|error| {
        Failure::new(format!("`{glob}` is not a pattern for files")).because(&error)
    })?;
    let mut loaded = loader.load(&tree);
    loaded.diagnostics.extend(left_out(tree.skipped()));
    Ok(loaded)
}

/// The nearest folder above that is a repository; else the file's own.
fn repository(file: &Path) -> PathBuf {
    let own = file.parent().unwrap_or(file);
    own.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(own).to_path_buf()
}

fn config_file(path: &Path, text: &[u8]) -> Checked {
    let name = path.display().to_string();
    let diagnostics = config::check(&name, text, &config::environment);
    let valid = !Diagnostic::any_error(&diagnostics);
    Checked { valid, files: 1, tasks: 0, services: 0, diagnostics, what: What::Config }
}
