//! What goes wrong with whole hosts and the network between them, and how it ends: as Git says.
//!
//! Every story ends with the criterion of `fluke_bed::criterion`. What needs no host of its own
//! is in `tests/stories/faults.rs`.

mod kills;
mod network;
mod witness;
