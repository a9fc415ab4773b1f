//! Those who send packets: Traefik leads each of them to where it led them first, for as long as they
//! do not pause, whatever became of that container. So they are parted from it.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddrV4;

use fluke_model::directory::Routes;
use fluke_model::service::Traffic;

use crate::services::mesh::netlink::{Family, Socket, sockets};

/// Where packets are led.
pub fn ends(routes: &Routes) -> BTreeSet<SocketAddrV4> {
    let routes = routes.rows().values();
    let of_packets = routes.filter(|it| matches!(it.traffic, Traffic::Udp { external: Some(_) }));
    of_packets.flat_map(|it| it.upstreams.iter().copied()).collect()
}

/// Ends what leads to these: the next packet of each sender is led anew.
pub fn part_from(gone: &BTreeSet<SocketAddrV4>) -> io::Result<()> {
    let socket = Socket::open(Family::Sockets)?;
    let mut found = Vec::new();
    socket.list(sockets::all(), |_, body| {
        found.extend(sockets::peer(body).filter(|(peer, _)| gone.contains(peer)));
    })?;
    for (_, id) in found {
        match socket.change(sockets::destroy(&id)) {
            // It ended by itself.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            ended => ended?,
        }
    }
    Ok(())
}
