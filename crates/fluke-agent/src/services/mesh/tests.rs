//! With real WireGuard in networks of their own: each host is a thread in a namespace, its programs
//! are children of that thread. A bridge in another namespace joins them.

mod containers;
mod hosts;
mod kernel;
mod tunnels;
