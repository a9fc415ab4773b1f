//! The local socket: whoever may write the file may administrate.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Owner and group may connect.
const MODE: u32 = 0o660;

/// Why there is no local socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another server has it.
    #[error(
        "another fluke server answers at {}; stop it, or set `socket` to another path", path.display()
    )]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{} exists and is not a socket; remove it, or set `socket` to another path", path.display())]
    NotASocket {
        /// Where.
        path: PathBuf,
    },
    /// The system said no.
    #[error("could not {what} {}; check that the directory is writable, or set `socket` to another path", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A socket that listens; its file is removed with it.
#[derive(Debug)]
pub struct LocalSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// Removes the file of a socket, if it is still the same.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl LocalSocket {
    /// Listens at `path`. What a dead server left there is replaced, a living one is an error.
    pub async fn bind(path: &Path) -> Result<Self, SocketError> {
        let failed =
            |what| move |source| SocketError::Io { what, path: path.to_path_buf(), source };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(failed("create the directory of"))?;
        refuse_if_taken(path).await?;

        // Made where nobody else can reach it until its mode is right, then moved into place.
        let nursery = parent.join(format!(".{:08x}", getrandom::u32().unwrap_or(0)));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&nursery)
            .map_err(failed("create a directory beside"))?;
        let made = make(&nursery.join("s"), path);
        // Empty by now, or as good as.
        let _ = fs::remove_file(nursery.join("s"));
        let _ = fs::remove_dir(&nursery);
        made.map_err(failed("listen at"))
    }

    pub(super) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

fn make(young: &Path, path: &Path) -> io::Result<LocalSocket> {
    let listener = UnixListener::bind(young)?;
    fs::set_permissions(young, fs::Permissions::from_mode(MODE))?;
    let metadata = fs::metadata(young)?;
    fs::rename(young, path)?;
    let identity = (metadata.dev(), metadata.ino());
    Ok(LocalSocket { listener, file: SocketFile { path: path.to_path_buf(), identity } })
}

/// Tells a living server from what a dead one left behind.
async fn refuse_if_taken(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(_) => return Ok(()),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NotASocket { path: path.to_path_buf() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if is_dead(&error) => Ok(()),
        Err(source) => Err(SocketError::Io { what: "look at", path: path.to_path_buf(), source }),
        Ok(_) => Err(SocketError::InUse { path: path.to_path_buf() }),
    }
}

fn is_dead(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours {
            // Left behind it does no harm: the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
