//! The web UI as people use it: in a real Chromium, against real servers.
//!
//! One browser for the whole binary, and a profile of its own for every story.

/// Servers, repositories and agents: the same as in the other stories.
#[allow(dead_code, unused_imports, reason = "shared with stories.rs, which uses all of it")]
#[path = "stories"]
mod stories {
    pub mod support;
}

mod browser {
    mod agent;
    mod connection;
    mod crowd;
    mod driver;
    mod events;
    mod every_page;
    mod fleet;
    mod keyboard;
    mod misconduct;
    mod pictures;
    mod reconcile;
    mod services;
    mod signing_in;
    mod source;
    mod stage;
    mod task;
}
