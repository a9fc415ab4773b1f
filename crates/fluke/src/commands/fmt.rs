//! `fluke fmt`: files in canonical layout.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fluke_manifest::DEFAULT_GLOB;
use fluke_manifest::hcl::source::Source;
use fluke_manifest::tree::{EntryKind, MAX_FILE, Tree};
use fluke_server::folder::FolderTree;
use globset::GlobBuilder;

use crate::cli::{Colour, FmtArgs, Global};
use crate::colour::Paint;
use crate::config;
use crate::diagnostics;
use crate::failure::Failure;
use crate::report::count;
use crate::screen::{self, Style};

#[cfg(test)]
mod tests;

/// Formats, or tells what it would.
pub fn run(args: &FmtArgs, global: &Global) -> Result<(), Failure> {
    if args.path == Path::new("-") {
        return stdin(args.check, global.colour);
    }
    let mut sum = Sum::default();
    for file in files(&args.path)? {
        sum.add(one(&file, args.check, global.colour)?);
    }
    sum.conclude(args.check)
}

/// What became of the files.
#[derive(Debug, Default)]
struct Sum {
    changed: usize,
    broken: usize,
}

enum Outcome {
    AsItShouldBe,
    Changed,
    Broken,
}

impl Sum {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::AsItShouldBe => {}
            Outcome::Changed => self.changed += 1,
            Outcome::Broken => self.broken += 1,
        }
    }

    fn conclude(&self, check: bool) -> Result<(), Failure> {
        if check && self.changed > 0 {
            screen::note(&format!(
                "{} not formatted; `fluke fmt` does it\n",
                count(self.changed, "file")
            ));
        }
        match self.broken > 0 || (check && self.changed > 0) {
            true => Err(Failure::Shown),
            false => Ok(()),
        }
    }
}

fn one(file: &Path, check: bool, colour: Colour) -> Result<Outcome, Failure> {
    let name = file.display().to_string();
    let text = config::read_bounded(file)
        .and_then(|text| String::from_utf8(text).map_err(io::Error::other))
        .map_err(|error| Failure::new(format!("could not read {name}")).because(&error))?;
    let Some(formatted) = format(&name, &text, colour) else { return Ok(Outcome::Broken) };
    if formatted == text {
        return Ok(Outcome::AsItShouldBe);
    }
    if check {
        screen::print(&differences(&name, &text, &formatted, Style::of_stdout(colour)))?;
        return Ok(Outcome::Changed);
    }
    replace(file, &formatted)
        .map_err(|error| Failure::new(format!("could not write {name}")).because(&error))?;
    screen::print(&format!("{name}\n"))?;
    Ok(Outcome::Changed)
}

/// The canonical text; or none, and what is wrong is on stderr.
fn format(name: &str, text: &str, colour: Colour) -> Option<String> {
    match fluke_manifest::fmt::format(text) {
        Ok(formatted) => Some(formatted),
        Err(problems) => {
            let errors = Source::new(name, text.as_bytes()).errors(problems);
            screen::note(&diagnostics::text(&errors, Style::of_stderr(colour)));
            None
        }
    }
}

fn stdin(check: bool, colour: Colour) -> Result<(), Failure> {
    let mut text = String::new();
    let mut input = io::stdin().lock().take(MAX_FILE + 1);
    input
        .read_to_string(&mut text)
        .map_err(|error| Failure::new("could not read standard input").because(&error))?;
    if text.len() as u64 > MAX_FILE {
        return Err(Failure::new("standard input has over 1 MiB; such files are refused"));
    }
    let formatted = format("<stdin>", &text, colour).ok_or(Failure::Shown)?;
    match check {
        false => screen::print(&formatted),
        true if formatted == text => Ok(()),
        true => {
            screen::print(&differences("<stdin>", &text, &formatted, Style::of_stdout(colour)))?;
            Err(Failure::Shown)
        }
    }
}

/// A named file whatever its name; of a folder, the manifests.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = fs::metadata(path).map_err(|error| {
        Failure::new(format!("could not read {}", path.display())).because(&error)
    })?;
    if !found.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let tree = FolderTree::read(path).map_err(|error| Failure::from_error(&error))?;
    let glob = GlobBuilder::new(DEFAULT_GLOB).literal_separator(true).build();
    let glob = glob.map_err(|error| Failure::from_error(&error))?.compile_matcher();
    let manifests = tree.entries().iter().filter(|entry| entry.kind == EntryKind::File);
    let shown = |relative: &str| match path == Path::new(".") {
        true => PathBuf::from(relative),
        false => path.join(relative),
    };
    Ok(manifests
        .filter(|entry| glob.is_match(&*entry.path))
        .map(|entry| shown(&entry.path))
        .collect())
}

/// Each line that changes, before and after. Formatting never adds or takes away a line.
fn differences(name: &str, before: &str, after: &str, style: Style) -> String {
    let mut text = format!("{}\n", Paint::Bold.on(name, style.colours));
    let pairs = before.lines().zip(after.lines()).enumerate();
    for (at, (old, new)) in pairs.filter(|(_, (old, new))| old != new) {
        let old = Paint::Red.on(&format!("- {old}"), style.colours);
        let new = Paint::Green.on(&format!("+ {new}"), style.colours);
        text.push_str(&format!("{:>5} {old}\n{:>5} {new}\n", at + 1, ""));
    }
    text
}

/// All or nothing: the old text is there until the new one is complete.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let old = fs::metadata(&file)?;
    let new = folder.join(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
    let written = write_like(&new, text, &old).and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn write_like(path: &Path, text: &str, like: &fs::Metadata) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    // Only root can give a file away; anybody else owns it already, or keeps it.
    let _ = std::os::unix::fs::fchown(&file, Some(like.uid()), Some(like.gid()));
    file.set_permissions(like.permissions())?;
    file.sync_all()
}
