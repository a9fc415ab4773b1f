//! The bed: a fleet of real hosts on one machine, for stories about fleets.
//!
//! A host is a privileged container with systemd as PID 1, its own address, its own disk and its
//! own Podman. It can be cut off, frozen, powered off and rebooted. Two layers:
//!
//! - [`site`]: hosts and the network between them. What `cargo bed` drives; every call returns a
//!   `Result`.
//! - [`Bed`]: a site for one story, with a Git repository, a real `fluke server` and real agents.
//!   Its verbs panic when the bed itself is at fault, and a bed that is dropped leaves nothing
//!   behind.
//!
//! Where thousands of agents are wanted and no hosts, there is [`swarm`].
//!
//! ```no_run
//! # use fluke_bed::Bed;
//! let Some(bed) = Bed::up("path/to/fluke") else { return };
//! let web = bed.host("web-1").joins("role=web");
//! bed.commit("web.fluke.hcl", "task \"page\" { … }");
//! bed.settles();
//! bed.partition(&web);
//! bed.until("the server misses it", |bed| !bed.agent("web-1").connected);
//! bed.heal();
//! bed.settles();
//! ```

mod account;
mod agent;
mod alerts;
mod api;
mod bed;
pub mod command;
pub mod criterion;
mod host;
pub mod image;
mod link;
pub mod machine;
pub mod network;
mod places;
mod repository;
mod server;
pub mod site;
pub mod swarm;
mod tap;
mod turns;

pub use agent::Join;
pub use alerts::Alerts;
pub use bed::{Bed, Seen};
pub use host::{Host, Told};
pub use link::Link;
pub use repository::Repository;
pub use server::{Server, ServerOptions, TOKEN, Tls};
pub use tap::{Moment, Tap};
