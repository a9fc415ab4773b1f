//! The names that were last known, kept for the next start.

use std::io;
use std::path::Path;

use fluke_model::directory::Names;

use crate::host::files;

/// What is kept at `path`; nothing where there is none. What cannot be read is put aside.
pub fn load(path: &Path) -> Option<Names> {
    match look(path) {
        Ok(names) => names,
        Err(error) => {
            let aside = files::quarantine(path);
            tracing::error!(
                path = %path.display(), %error, ?aside,
                "the kept names are damaged; names are answered once the server has told them"
            );
            None
        }
    }
}

/// What is kept at `path`.
pub fn look(path: &Path) -> io::Result<Option<Names>> {
    let Some(content) = files::read(path)? else { return Ok(None) };
    serde_json::from_slice(&content).map(Some).map_err(io::Error::other)
}

/// Keeps `names` at `path`.
pub async fn save(path: &Path, names: &Names) -> io::Result<()> {
    let content = serde_json::to_vec(names).map_err(io::Error::other)?;
    let path = path.to_owned();
    let saved = tokio::task::spawn_blocking(move || files::replace(&path, &content)).await;
    saved.map_err(io::Error::other)?
}
