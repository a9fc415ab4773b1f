//! Ports of this host: whether they are somebody else's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use super::compile::Gate;

/// Whether a port could be listened on.
pub fn is_free(gate: Gate, listen: Option<IpAddr>) -> bool {
    let everywhere = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let places = listen.map_or(everywhere.to_vec(), |listen| vec![listen]);
    let bind = |listen| match gate {
        Gate::Tcp(port) => TcpListener::bind(SocketAddr::new(listen, port)).map(drop),
        Gate::Udp(port) => share(SocketAddr::new(listen, port)),
    };
    // Whatever else is wrong, Traefik says it better.
    let is_taken = |error: io::Error| error.kind() == io::ErrorKind::AddrInUse;
    !places.into_iter().any(|listen| bind(listen).is_err_and(is_taken))
}

/// Takes a port for packets, and lets it go: as Traefik does, beside any other that is its own. One
/// that leaves has it for as long as connections last that others of its ports have.
fn share(at: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&at.into())
}
