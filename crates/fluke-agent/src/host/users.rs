//! Unix users, as the system's databases know them.

use std::ffi::CString;
use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User};

/// Who a command runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The login name.
    pub name: String,
    /// The user.
    pub uid: Uid,
    /// The primary group.
    pub gid: Gid,
    /// Every group, the primary one among them.
    pub groups: Vec<Gid>,
    /// The home directory.
    pub home: PathBuf,
    /// The login shell.
    pub shell: PathBuf,
}

/// Why a user cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// No such user.
    #[error("there is no user `{name}` on this host; create it, or correct `run_as`")]
    Unknown {
        /// Who was asked for.
        name: String,
    },
    /// The database did not answer.
    #[error("could not look up user `{name}` on this host: {source}")]
    Lookup {
        /// Who was asked for.
        name: String,
        /// Why.
        source: nix::Error,
    },
}

/// Looks `name` up; off the async threads, because a directory service may be slow.
pub async fn look_up(name: &str) -> Result<Identity, UserError> {
    let name = name.to_owned();
    let asked = name.clone();
    tokio::task::spawn_blocking(move || resolve(asked))
        .await
        .unwrap_or(Err(UserError::Lookup { name, source: nix::Error::EINTR }))
}

fn resolve(name: String) -> Result<Identity, UserError> {
    let user = match User::from_name(&name) {
        Ok(Some(user)) => user,
        Ok(None) => return Err(UserError::Unknown { name }),
        Err(source) => return Err(UserError::Lookup { name, source }),
    };
    let groups = CString::new(user.name.as_str())
        .map_err(|_| nix::Error::EINVAL)
        .and_then(|login| nix::unistd::getgrouplist(&login, user.gid))
        .map_err(|source| UserError::Lookup { name, source })?;
    Ok(Identity {
        name: user.name,
        uid: user.uid,
        gid: user.gid,
        groups,
        home: user.dir,
        shell: user.shell,
    })
}

/// The user that this process acts as, or its number where it has no name.
pub fn own_name() -> String {
    let uid = Uid::effective();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// The home of the user that this process acts as; `/` where it has none.
pub fn own_home() -> PathBuf {
    let set = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let known = || User::from_uid(Uid::effective()).ok().flatten().map(|user| user.dir);
    // Users of daemons are often given a home that was never made.
    let home = set.or_else(known).filter(|home| home.is_dir());
    home.unwrap_or_else(|| PathBuf::from("/"))
}

/// Whether this process may become any user.
pub fn is_root() -> bool {
    Uid::effective().is_root()
}
