//! Does what was planned. Decides nothing.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use fluke_agent::services::leaving;
use nix::unistd::{Group, User};

use super::plan::{Action, Content};
use crate::commands::update::swap::Beside;
use crate::failure::Failure;
use crate::program::{Program, try_out};

/// Does one thing.
pub async fn perform(action: &Action) -> Result<(), Failure> {
    let done = match action {
        Action::MakeFolder(path) => make_folder(path),
        Action::Remember(path, record) => {
            write(path, 0o644, ("root", "root"), record.text().as_bytes())
        }
        Action::Write { path, mode, owner, content } => {
            let text = match content {
                Content::Plain(text) => text.as_str(),
                Content::Hidden(text) => text.expose(),
            };
            write(path, *mode, *owner, text.as_bytes())
        }
        Action::TakeLeave(mark) => write(mark, 0o600, ("root", "root"), b""),
        Action::CopyProgram(from, to) => return copy(from, to).await,
        Action::AddUser(name, home) => {
            let home = home.to_string_lossy();
            // A group that others are in outlives the user.
            let has_group = Group::from_name(name).is_ok_and(|group| group.is_some());
            let group = if has_group { format!("--gid={name}") } else { "--user-group".into() };
            let useradd = ["--system", &group, "--no-create-home", "--home-dir", &home];
            let shell = ["--shell", "/usr/sbin/nologin", "--comment", "fluke server", name];
            return run("useradd", &[&useradd[..], &shell[..]].concat()).await;
        }
        Action::DeleteUser(name) => return run("userdel", &[name]).await,
        Action::Systemctl(arguments) => return run("systemctl", arguments).await,
        Action::EndProxy(_, places) => return ended(action, leaving::end_proxy(places).await),
        Action::LeaveMesh => return ended(action, leaving::leave_mesh().await),
        Action::RemoveNetwork(places) => {
            return ended(action, leaving::remove_network(places).await);
        }
        Action::Remove(path) => gone(std::fs::remove_file(path)),
        Action::RemoveTree(path) => gone(std::fs::remove_dir_all(path)),
        Action::RemoveEmpty(path) => match std::fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => gone(removed),
        },
    };
    done.map_err(|error| Failure::new(format!("could not {action}")).because(&error))
}

fn ended<E: std::error::Error>(action: &Action, done: Result<(), E>) -> Result<(), Failure> {
    done.map_err(|error| Failure::new(format!("could not {action}")).because(&error))
}

async fn run(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let done = Program::new(program, arguments).output().await;
    done.map(drop).map_err(|error| Failure::from_error(&error))
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)?;
    // Whatever the umask says.
    std::fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// What is not there any more need not be removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Whole, with its mode and its owner, or not at all.
fn write(path: &Path, mode: u32, owner: (&str, &str), content: &[u8]) -> io::Result<()> {
    let mut beside = path.file_name().unwrap_or_default().to_owned();
    beside.push(".new");
    let beside = path.with_file_name(beside);
    gone(std::fs::remove_file(&beside))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file
        .write_all(content)
        .and_then(|()| give_to(&beside, owner))
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&beside, path));
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn give_to(path: &Path, (user, group): (&str, &str)) -> io::Result<()> {
    let missing = |what: &str| io::Error::other(format!("there is no {what}"));
    let user = User::from_name(user)?.ok_or_else(|| missing(&format!("user {user}")))?;
    let group = Group::from_name(group)?.ok_or_else(|| missing(&format!("group {group}")))?;
    std::os::unix::fs::chown(path, Some(user.uid.as_raw()), Some(group.gid.as_raw()))
}

async fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| {
        Failure::new(format!("could not copy {} to {}", from.display(), to.display()))
            .because(error)
    };
    let mut candidate = Beside::of(to).candidate().map_err(|error| failed(&error))?;
    let content = std::fs::read(from).map_err(|error| failed(&error))?;
    candidate.write(&content).map_err(|error| failed(&error))?;
    candidate.finish().map_err(|error| failed(&error))?;
    try_out(candidate.path()).await.map_err(|error| failed(&error))?;
    candidate.take_the_place().map_err(|error| failed(&error))
}
