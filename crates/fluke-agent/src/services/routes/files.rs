//! The folder of a proxy: all that Traefik reads, and nothing that it should not.

use std::io;
use std::path::{Path, PathBuf};

use super::compile::{Fixed, Generation, Plan, dynamic_folder};
use crate::host::files;

const ROUTES: &str = "routes.yaml";

/// Where a process's static configuration is: a process that systemd starts again reads the same.
pub fn fixed_path(folder: &Path, generation: &Generation) -> PathBuf {
    folder.join(format!("traefik-{}.yaml", generation.as_str()))
}

/// Whether what Traefik would read is what it should.
pub fn is_written(folder: &Path, plan: &Plan) -> io::Result<bool> {
    let dynamic = dynamic_folder(folder);
    let routes = files::read(&dynamic.join(ROUTES))?;
    let fixed = files::read(&fixed_path(folder, &plan.fixed.generation))?;
    Ok(routes.as_deref() == Some(plan.dynamic.text().as_bytes())
        && fixed.as_deref() == Some(plan.fixed.text.as_bytes())
        && strangers(&dynamic)?.is_empty())
}

/// Writes what is not so already: a change of a file makes Traefik read it.
pub fn write(folder: &Path, plan: &Plan) -> io::Result<()> {
    let dynamic = dynamic_folder(folder);
    files::private_dir(&dynamic)?;
    let Fixed { generation, text } = &plan.fixed;
    replace(&fixed_path(folder, generation), text.as_bytes())?;
    replace(&dynamic.join(ROUTES), plan.dynamic.text().as_bytes())?;
    strangers(&dynamic)?.iter().try_for_each(|path| remove(path))
}

/// Removes what only processes of the past have read.
pub fn forget_all_but(folder: &Path, generation: &Generation) -> io::Result<()> {
    let current = fixed_path(folder, generation);
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("traefik-") && path != current {
            remove(&path)?;
        }
    }
    Ok(())
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    match files::read(path)? {
        Some(old) if old == content => Ok(()),
        _ => files::replace(path, content),
    }
}

/// What Traefik would read beside the routes. A file that is about to replace the routes has a name
/// that Traefik does not read.
fn strangers(dynamic: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dynamic) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name != ROUTES) {
            found.push(path);
        }
    }
    Ok(found)
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
