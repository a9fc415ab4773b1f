//! Unix users, as the system's databases know them.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::unistd::{Gid, Uid, User};
use tokio::time::Instant;

/// How long what was looked up is known: about as long as a cycle of checks takes.
const KNOWN_FOR: Duration = Duration::from_secs(1);

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

/// Users who were looked up a moment ago, so that each of many commands need not ask again.
#[derive(Debug, Default)]
pub struct Known(Mutex<Vec<(String, Instant, Arc<Identity>)>>);

impl Known {
    /// Looks `name` up, if he is not known. That there is nobody of that name is not remembered.
    pub async fn look_up(&self, name: &str) -> Result<Arc<Identity>, UserError> {
        if let Some(identity) = self.recall(name) {
            return Ok(identity);
        }
        let identity = Arc::new(look_up(name).await?);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push((name.to_owned(), Instant::now(), identity.clone()));
        Ok(identity)
    }

    fn recall(&self, name: &str) -> Option<Arc<Identity>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, since, _)| since.elapsed() < KNOWN_FOR);
        known.iter().find(|(known, ..)| known == name).map(|(.., identity)| identity.clone())
    }

    /// Knows nobody any more: something was done that may have changed who they are.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_user_is_looked_up_once_until_a_moment_has_passed_or_something_was_done() {
        let known = Known::default();
        let ask = async || known.look_up("nobody").await.expect("every system has nobody");
        let first = ask().await;
        assert!(Arc::ptr_eq(&first, &ask().await), "asked once");
        tokio::time::advance(KNOWN_FOR).await;
        let second = ask().await;
        assert!(!Arc::ptr_eq(&first, &second), "asked again after a while");
        known.forget();
        assert!(!Arc::ptr_eq(&second, &ask().await), "asked again once something was done");
    }

    #[tokio::test]
    async fn that_somebody_is_unknown_is_not_remembered() {
        let known = Known::default();
        for _ in 0..2 {
            let error = known.look_up("no-such-user").await.expect_err("nobody");
            assert!(matches!(error, UserError::Unknown { .. }), "{error}");
        }
        assert!(known.recall("no-such-user").is_none());
    }
}
