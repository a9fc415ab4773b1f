//! The image that hosts boot from: named by the hash of its recipe, built once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fluke_model::id::Hash256;

use crate::command::{self, CommandError};
use crate::machine;
use crate::places::{self, FileError, Lock, doing};
use crate::site::PODMAN;

const RECIPE: &str = include_str!("../image/recipe.sh");
/// Where a release needs more.
const MORE: &[(&str, &str)] = &[("trixie", include_str!("../image/trixie.sh"))];
const REPOSITORY: &str = "localhost/fluke-bed";
/// The release of Debian that hosts have, where it is not this machine's.
const SUITE: &str = "FLUKE_BED_SUITE";

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It is not there, and must not be built.
    #[error("the image of the bed's hosts is not built; run `cargo bed image` as root")]
    Missing,
    /// apt does not say where Debian comes from.
    #[error("apt knows no mirror of {own}, this machine's release; is there a sources.list?")]
    NoMirror {
        /// This machine's release.
        own: String,
    },
    /// The recipe failed.
    #[error("the image could not be built; {} tells why: {end}", .log.display())]
    Recipe {
        /// All that was said.
        log: PathBuf,
        /// The last of it.
        end: String,
    },
    /// A program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Files cannot be had.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The image's name; another recipe has another.
pub fn name() -> String {
    let suite = suite();
    let hash = Hash256::of(format!("{suite}\n{}", recipe(&suite)).as_bytes());
    format!("{REPOSITORY}:{}", &hash.to_string()[..12])
}

/// What is done for a release.
fn recipe(suite: &str) -> String {
    let more = MORE.iter().find(|(of, _)| *of == suite);
    format!("{RECIPE}{}", more.map_or("", |(_, script)| script))
}

/// Builds the image unless it is there; a second process waits for the first.
pub fn ensure() -> Result<String, ImageError> {
    let name = name();
    if exists(&name) {
        return Ok(name);
    }
    if !machine::may_install() {
        return Err(ImageError::Missing);
    }
    let _alone = Lock::wait(&places::cache().join("image.lock"))?;
    if !exists(&name) {
        build(&name)?;
    }
    Ok(name)
}

/// Builds it anew.
pub fn rebuild() -> Result<String, ImageError> {
    let name = name();
    let _alone = Lock::wait(&places::cache().join("image.lock"))?;
    build(&name)?;
    Ok(name)
}

/// Removes the images of all recipes, and the packages that were downloaded for them.
pub fn remove_all() -> Result<(), ImageError> {
    let list = ["images", "--quiet", "--no-trunc", REPOSITORY];
    let ids = command::run("podman", &[PODMAN, &list].concat())?;
    let ids: Vec<_> = ids.split_whitespace().collect();
    if !ids.is_empty() {
        command::run("podman", &[PODMAN, &["rmi", "--force"], &ids].concat())?;
    }
    let cache = places::cache();
    match cache.exists() {
        true => Ok(std::fs::remove_dir_all(&cache).map_err(doing("remove", &cache))?),
        false => Ok(()),
    }
}

fn exists(name: &str) -> bool {
    command::holds("podman", &[PODMAN, &["image", "exists", name]].concat())
}

fn build(name: &str) -> Result<(), ImageError> {
    let cache = places::cache();
    let log = cache.join("image.log");
    let root = InMemory::mount(&cache.join("root"))?;
    let sources = sources()?;
    let mirror = sources.split_whitespace().nth(1).unwrap_or_default();
    let output = std::fs::File::create(&log).map_err(doing("write", &log))?;
    let errors = output.try_clone().map_err(doing("write", &log))?;
    let (suite, script) = (suite(), cache.join("recipe.sh"));
    std::fs::write(&script, recipe(&suite)).map_err(doing("write", &script))?;
    let status = Command::new("bash")
        .args([script.as_os_str(), root.0.as_os_str(), cache.as_os_str()])
        .args([&suite, mirror, &sources])
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status();
    if !status.is_ok_and(|status| status.success()) {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let end: Vec<_> = said.lines().rev().take(3).collect();
        let end = end.into_iter().rev().collect::<Vec<_>>().join("; ");
        return Err(ImageError::Recipe { log, end });
    }
    import(&root.0, name)
}

fn import(root: &Path, name: &str) -> Result<(), ImageError> {
    let change = "CMD [\"/sbin/init\"]";
    let podman = PODMAN.join(" ");
    // A pipe, so that the image is never on the disk twice.
    let line =
        format!("tar -C \"$0\" -c . | podman {podman} import --quiet --change '{change}' - \"$1\"");
    let script = format!("set -o pipefail; {line}");
    command::run("bash", &["-c", &script, &root.to_string_lossy(), name])?;
    Ok(())
}

/// The release that hosts have: the one that is asked for, or this machine's. What is built here
/// runs there; on an older one it may not.
fn suite() -> String {
    let asked = std::env::var(SUITE).ok().filter(|suite| !suite.is_empty());
    asked.unwrap_or_else(own_suite)
}

/// This machine's release.
fn own_suite() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or("unknown").trim_matches('"').to_string()
}

/// apt's lines for the hosts' release, from wherever this machine gets its own.
fn sources() -> Result<String, ImageError> {
    let own = own_suite();
    let format = "$(CREATED_BY) $(SITE) $(RELEASE) $(COMPONENT)";
    let targets = command::run("apt-get", &["indextargets", "--format", format])?;
    let sources = choose_sources(&targets, &own, &suite());
    if sources.is_empty() { Err(ImageError::NoMirror { own }) } else { Ok(sources) }
}

/// The distribution's own parts, the release itself first; nothing of third parties. Another
/// release is at the same places, under its own name.
fn choose_sources(targets: &str, own: &str, suite: &str) -> String {
    let mut lines = Vec::new();
    for part in ["", "-updates", "-security"] {
        for target in targets.lines() {
            let words: Vec<_> = target.split_whitespace().collect();
            if let ["Packages", site, release, component @ ("main" | "universe")] = words[..]
                && release.strip_prefix(own) == Some(part)
            {
                lines.push(format!("deb {site} {suite}{part} {component}"));
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines.join("\n")
}

/// A folder in memory, gone when dropped.
struct InMemory(PathBuf);

impl InMemory {
    fn mount(path: &Path) -> Result<Self, ImageError> {
        std::fs::create_dir_all(path).map_err(doing("make", path))?;
        // Left over from a build that was killed.
        while command::holds("umount", &["--lazy", "--recursive", &path.to_string_lossy()]) {}
        let options = ["-t", "tmpfs", "-o", "size=3g,mode=755", "fluke-bed"];
        command::run("mount", &[&options[..], &[&path.to_string_lossy()]].concat())?;
        Ok(Self(path.to_path_buf()))
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        command::holds("umount", &["--recursive", &self.0.to_string_lossy()]);
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::choose_sources;

    const TARGETS: &str = "Packages http://a.example/debian-security bookworm-security main\n\
                           Packages http://b.example/other bookworm stable\n\
                           Packages http://a.example/debian bookworm main\n\
                           DEP-11 http://a.example/debian bookworm main\n\
                           Packages http://a.example/debian bookworm main\n\
                           Packages http://a.example/debian bookworm contrib\n\
                           Packages http://c.example/pgdg bookworm-pgdg main\n";

    #[test]
    fn only_the_distribution_itself_is_a_source_and_the_release_comes_first() {
        assert_eq!(
            choose_sources(TARGETS, "bookworm", "bookworm"),
            "deb http://a.example/debian bookworm main\n\
             deb http://a.example/debian-security bookworm-security main"
        );
    }

    #[test]
    fn another_release_is_where_this_machine_s_own_is() {
        assert_eq!(
            choose_sources(TARGETS, "bookworm", "trixie"),
            "deb http://a.example/debian trixie main\n\
             deb http://a.example/debian-security trixie-security main"
        );
        assert_eq!(choose_sources(TARGETS, "bullseye", "trixie"), "");
    }
}
