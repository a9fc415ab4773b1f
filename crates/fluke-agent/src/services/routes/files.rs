//! The folder of a proxy: all that Traefik reads, and nothing that it should not.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use fluke_model::gather::Gather;
use serde_json::Value;

use super::compile::{Fixed, Generation, Plan, dynamic_folder, dynamic_folders};
use super::config::Dynamic;
use crate::host::files;

const ROUTES: &str = "routes.yaml";

/// Where a process's static configuration is: a process that systemd starts again reads the same.
pub fn fixed_path(folder: &Path, generation: &Generation) -> PathBuf {
    folder.join(format!("traefik-{}.yaml", generation.as_str()))
}

/// What a process was told to listen by, as far as that can be read.
pub fn entry_points(folder: &Path, generation: &Generation) -> BTreeSet<String> {
    let fixed = files::read(&fixed_path(folder, generation)).ok().flatten().unwrap_or_default();
    let fixed: Value = serde_json::from_slice(&fixed).unwrap_or_default();
    let all = fixed["entryPoints"].as_object().into_iter().flatten();
    all.map(|(name, _)| name.clone()).gather()
}

/// What a process can take of a plan, by what it was told to listen by.
pub fn fitting(folder: &Path, plan: &Plan, generation: &Generation) -> Plan {
    plan.clone().fitting(&entry_points(folder, generation))
}

/// Whether what Traefik would read is what it should.
pub fn is_written(folder: &Path, plan: &Plan) -> io::Result<bool> {
    let dynamic = dynamic_folder(folder, &plan.fixed.generation);
    let routes = files::read(&dynamic.join(ROUTES))?;
    let fixed = files::read(&fixed_path(folder, &plan.fixed.generation))?;
    Ok(routes.as_deref() == Some(plan.dynamic.text().as_bytes())
        && fixed.as_deref() == Some(plan.fixed.text.as_bytes())
        && strangers(&dynamic)?.is_empty())
}

/// Writes what is not so already: a change of a file makes Traefik read it.
pub fn write(folder: &Path, plan: &Plan) -> io::Result<()> {
    let Fixed { generation, text } = &plan.fixed;
    tell(folder, generation, &plan.dynamic)?;
    replace(&fixed_path(folder, generation), text.as_bytes())
}

/// The same of what one process reads whenever it changes.
pub fn tell(folder: &Path, generation: &Generation, dynamic: &Dynamic) -> io::Result<()> {
    let folder = dynamic_folder(folder, generation);
    files::private_dir(&folder)?;
    replace(&folder.join(ROUTES), dynamic.text().as_bytes())?;
    strangers(&folder)?.iter().try_for_each(|path| remove(path))
}

/// Removes what only processes of the past have read.
pub fn forget_all_but(folder: &Path, needed: &[&Generation]) -> io::Result<()> {
    let each = |it: &&Generation| [fixed_path(folder, it), dynamic_folder(folder, it)];
    let needed: Vec<PathBuf> = needed.iter().flat_map(each).collect();
    let all = [fixed(folder)?, entries(&dynamic_folders(folder))?].concat();
    all.iter().filter(|path| !needed.contains(path)).try_for_each(|path| remove(path))
}

/// Removes all that any process was told.
pub fn forget_all(folder: &Path) -> io::Result<()> {
    match remove(&dynamic_folders(folder)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Last, as they tell that there is something to remove.
    fixed(folder)?.iter().try_for_each(|path| remove(path))
}

/// Whether a process was told anything.
pub fn has_any(folder: &Path) -> bool {
    fixed(folder).is_ok_and(|found| !found.is_empty())
}

/// The static configuration of every process that there was.
fn fixed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_fixed = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("traefik-")
    };
    Ok(entries(folder)?.into_iter().filter(is_fixed).collect())
}

/// The disk is not waited for: those who die are led away from meanwhile. After a power cut there is
/// no process that would read it before it is written again.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    match files::read(path)? {
        Some(old) if old == content => Ok(()),
        _ => files::replace_soon(path, content),
    }
}

/// What Traefik would read beside the routes. A file that is about to replace the routes has a name
/// that Traefik does not read.
fn strangers(dynamic: &Path) -> io::Result<Vec<PathBuf>> {
    let is_strange = |path: &PathBuf| path.file_name().is_some_and(|name| name != ROUTES);
    Ok(entries(dynamic)?.into_iter().filter(is_strange).collect())
}

/// What is in a folder; nothing where there is none.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| entry.map(|entry| entry.path())).collect(),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path)?.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
