//! The end of a proxy: its host is none any more.

use std::path::Path;
use std::time::Duration;

use super::{RoutesError, Supervisor, SupervisorError, Systemd, files};

/// After the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// However often it failed.
const LONGEST: Duration = Duration::from_secs(600);

/// Ends what there still is of a proxy, however often that has to be tried.
pub async fn end_what_is_left(folder: &Path) {
    let mut pause = FIRST;
    while files::has_any(folder) {
        match end(&mut Systemd::default(), folder).await {
            Ok(()) => tracing::info!("this host is no proxy any more: Traefik was told to end"),
            Err(error) => {
                tracing::warn!(%error, ?pause, "Traefik could not be ended; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}

/// Has Traefik end, in its own time, and removes what it was told. What it was given by others, its
/// certificates, and what it wrote, its log, stay.
pub async fn end(supervisor: &mut impl Supervisor, folder: &Path) -> Result<(), RoutesError> {
    let running = match supervisor.running().await {
        // Nobody could have started it.
        Err(SupervisorError::NoSystemd) => Vec::new(),
        running => running?,
    };
    for one in running {
        supervisor.stop(&one.generation).await?;
    }
    let not_written = |why| RoutesError::NotWritten { folder: folder.into(), why };
    files::forget_all(folder).map_err(not_written)
}
