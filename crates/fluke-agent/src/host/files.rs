//! Files that survive a power cut: written beside, synced, renamed.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// How many damaged files of one name are kept for people to look at.
const KEPT: u32 = 20;

/// Replaces `path` with `content`: a reader, also one after a crash, sees all of it or the old one.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_known(path, content).map(drop)
}

/// The same, and says by what the file is known again that was put there; whatever became of it since.
pub fn replace_known(path: &Path, content: &[u8]) -> io::Result<Metadata> {
    let file = exchange(path, content, File::sync_all)?;
    sync_dir_of(path)?;
    file.metadata()
}

/// The same without waiting for the disk: after a power cut there may be anything, or nothing.
pub fn replace_soon(path: &Path, content: &[u8]) -> io::Result<()> {
    exchange(path, content, |_| Ok(())).map(drop)
}

fn exchange(path: &Path, content: &[u8], sync: fn(&File) -> io::Result<()>) -> io::Result<File> {
    let beside = beside(path, ".new");
    let mut file = private().create(true).truncate(true).open(&beside)?;
    let written = file.write_all(content).and_then(|()| sync(&file));
    written.and_then(|()| std::fs::rename(&beside, path)).inspect_err(|_| {
        // A half-written file would only take up room on a disk that may be full.
        let _ = std::fs::remove_file(&beside);
    })?;
    Ok(file)
}

/// Opens `path`, which exists, to add to its end.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// Adds `bytes`; once this returns, they are there after a power cut. A file that was removed since
/// it was opened is not found.
pub fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_data()?;
    match file.metadata()?.nlink() {
        0 => Err(io::ErrorKind::NotFound.into()),
        _ => Ok(()),
    }
}

/// Adds `bytes`; a power cut may still lose them.
pub fn append_soon(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)
}

/// Reads all of `path`; nothing if there is none.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes `path`, for good.
pub fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)?;
    sync_dir_of(path)
}

/// Puts a damaged file aside as `NAME.corrupt-N`, and returns where it is.
pub fn quarantine(path: &Path) -> io::Result<PathBuf> {
    let name = |n: u32| beside(path, &format!(".corrupt-{n}"));
    let free = (1..KEPT).find(|n| !name(*n).exists()).unwrap_or(KEPT);
    std::fs::rename(path, name(free))?;
    sync_dir_of(path)?;
    Ok(name(free))
}

/// Makes a directory that only its owner may enter; one that is there stays as it is.
pub fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a directory and those above it.
pub async fn make_dirs(path: &Path) -> io::Result<()> {
    tokio::fs::create_dir_all(path).await
}

/// Removes a directory with all in it; one that is not there is fine.
pub async fn remove_dir(path: &Path) -> io::Result<()> {
    match tokio::fs::remove_dir_all(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Moves a directory to a place where there is none, or an empty one.
pub async fn move_dir(from: &Path, to: &Path) -> io::Result<()> {
    tokio::fs::rename(from, to).await
}

/// Whether there is nothing at `path`, or an empty directory.
pub async fn is_vacant(path: &Path) -> io::Result<bool> {
    match tokio::fs::read_dir(path).await {
        Ok(mut entries) => Ok(entries.next_entry().await?.is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Takes hold of `path` for as long as the result lives; `None` if somebody else has. The file then
/// holds the number of this process, for [`holder`].
pub fn lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    let file = match private().create(true).truncate(false).open(path) {
        // To hold a file it is enough to read it.
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            File::open(path).map_err(|_| error)?
        }
        opened => opened?,
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => {
            // Who holds it is good to know, and no more: a disk without room keeps nobody out.
            let _ = lock.set_len(0).and_then(|()| (&*lock).write_all(own_number().as_bytes()));
            Ok(Some(lock))
        }
        Err((_, nix::Error::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

fn own_number() -> String {
    format!("{}\n", std::process::id())
}

/// The process that holds `path`, if there is one that can be seen. Does not try to take hold
/// itself: that could keep somebody else from it.
pub fn holder(path: &Path) -> Option<u32> {
    let path = std::fs::canonicalize(path).ok()?;
    let number: u32 = std::fs::read_to_string(&path).ok()?.trim().parse().ok()?;
    let open = std::fs::read_dir(format!("/proc/{number}/fd")).ok()?.flatten();
    let mut links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    // A number alone may be somebody else's by now.
    links.any(|link| link == path).then_some(number)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Makes a rename last.
fn sync_dir_of(path: &Path) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_for_its_owner_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        assert_eq!(read(&path).expect("readable"), None);
        std::fs::write(dir.path().join("file.new"), "of a crash, and longer").expect("room");
        type Replace = fn(&Path, &[u8]) -> io::Result<()>;
        let ways: [(&str, Replace); 4] = [
            ("first", replace),
            ("2nd", replace),
            ("the third", replace_soon),
            ("4", replace_soon),
        ];
        for (content, replace) in ways {
            replace(&path, content.as_bytes()).expect("room");
            assert_eq!(read(&path).expect("readable"), Some(content.into()));
        }
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 1, "nothing beside");
    }

    #[test]
    fn damaged_files_are_kept_apart_and_not_without_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        for n in 1..30 {
            std::fs::write(&path, "damaged").expect("room");
            let aside = quarantine(&path).expect("moved");
            let expected = format!("file.corrupt-{}", n.min(KEPT));
            assert_eq!(aside, dir.path().join(expected));
        }
        assert!(!path.exists());
    }

    #[test]
    fn a_lock_keeps_others_out_until_it_is_dropped() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("lock");
        assert_eq!(holder(&path), None);
        let first = lock(&path).expect("possible").expect("free");
        assert!(lock(&path).expect("possible").is_none());
        assert_eq!(holder(&path), Some(std::process::id()));
        drop(first);
        assert_eq!(holder(&path), None, "a number alone tells nothing");
        assert!(lock(&path).expect("possible").is_some());
    }
}
