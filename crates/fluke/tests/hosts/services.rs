//! Services on real hosts: containers, names, routes and mesh, with Podman, Traefik and WireGuard.

mod changing;
mod containers;
mod drifting;
mod fetching;
mod killing;
mod leaving;
mod placing;
mod ports;
mod reaching;
mod refusing;
mod socket;
mod support;
