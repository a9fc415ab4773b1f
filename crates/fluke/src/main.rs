//! `fluke`: one binary that plays every part; the subcommand chooses which.
#![allow(dead_code)]
mod cli;
mod client;
mod colour;
mod document;
mod failure;
mod sanitise;
mod screen;
mod suggest;
mod table;
mod when;

fn main() {}
