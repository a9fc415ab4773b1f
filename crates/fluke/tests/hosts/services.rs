//! Services on real hosts: containers, names, routes and mesh, with Podman, Traefik and WireGuard.

mod ailing;
mod alone;
mod certificates;
mod changing;
mod cloning;
mod containers;
mod draining;
mod drifting;
mod fetching;
mod fleet_nights;
mod killing;
mod leaving;
mod nights;
mod placing;
mod ports;
mod premises;
mod proxying;
mod reaching;
mod refusing;
mod secrets;
mod seeds;
mod socket;
mod support;
