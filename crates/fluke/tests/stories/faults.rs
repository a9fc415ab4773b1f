//! What goes wrong with processes and connections, and how it ends: as Git says.
//!
//! Server and agents are processes of their own here. Every story ends with the criterion of
//! `fluke_bed::criterion`; stories that need whole hosts are in `tests/hosts/`.

mod applies;
mod crowd;
mod kills;
mod links;
mod loops;
mod names;
mod processes;
