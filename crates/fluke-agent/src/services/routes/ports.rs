//! Ports of this host: whether they are somebody else's.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

use super::compile::Gate;

/// Whether a port could be listened on.
pub fn is_free(gate: Gate, listen: Option<IpAddr>) -> bool {
    let everywhere = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let places = listen.map_or(everywhere.to_vec(), |listen| vec![listen]);
    // Whatever else is wrong, Traefik says it better.
    let is_taken = |error: io::Error| error.kind() == io::ErrorKind::AddrInUse;
    !places.into_iter().any(|listen| take(gate, listen).is_err_and(is_taken))
}

/// Takes a port, until it is dropped.
fn take(gate: Gate, listen: IpAddr) -> io::Result<Socket> {
    let (port, kind, protocol) = match gate {
        Gate::Tcp(port) => (port, Type::STREAM, Protocol::TCP),
        Gate::Udp(port) => (port, Type::DGRAM, Protocol::UDP),
    };
    let at = SocketAddr::new(listen, port);
    let socket = Socket::new(Domain::for_address(at), kind, Some(protocol))?;
    match gate {
        // It is not listened on: a Traefik that comes up just then would be kept out, and end.
        Gate::Tcp(_) => socket.set_reuse_address(true)?,
        // As Traefik does, beside any other that is its own. One that leaves has it for as long as
        // connections last that others of its ports have.
        Gate::Udp(_) => socket.set_reuse_port(true)?,
    }
    socket.bind(&at.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn whoever_looks_at_a_port_keeps_nobody_from_listening_there() {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let look = take(Gate::Tcp(0), here).expect("any");
        let port = look.local_addr().expect("bound").as_socket().expect("of IP").port();
        let _listener = TcpListener::bind((here, port)).expect("nobody listens there");
        drop(look);
        assert!(!is_free(Gate::Tcp(port), Some(here)), "now somebody does");
    }
}
