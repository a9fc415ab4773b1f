//! Drives Chromium over its DevTools protocol, and tells stories in the words of a person: press
//! the button of this name, read what is there.
//!
//! The protocol goes over two pipes (`--remote-debugging-pipe`), so nothing else can speak to the
//! browser, and it ends when this process does, however that comes about.

mod accessibility;
mod axe;
mod chromium;
mod conduct;
mod connection;
mod keys;
mod page;
mod picture;

pub use chromium::{can_run, skip, visitor};
pub use page::{Page, Scheme};
pub use picture::style_is_recorded;

use std::path::PathBuf;
use std::time::Duration;

/// Longer than anything may take on a busy machine; a story that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The repository's own folder.
fn workspace() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.canonicalize().expect("the workspace")
}
