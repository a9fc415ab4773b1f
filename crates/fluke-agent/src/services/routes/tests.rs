//! Stories with a real Traefik, started with the very files that the proxy wrote.
//!
//! A test has addresses of its own in `127.0.0.0/8`, so that all of them run side by side.

mod acme;
mod falls;
mod foreman;
mod packets;
mod ports;
mod repairs;
mod requests;
mod stage;
mod takeovers;
mod tls;
