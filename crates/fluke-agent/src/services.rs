//! The services' lane: containers, names, routes and mesh of this host, kept as they should be.

pub mod mesh;
pub mod names;
pub mod observe;
pub mod plan;
pub mod podman;
pub mod routes;
