//! What hosts are told of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use fluke_model::bounds::{MAX_ADDRESSES, MAX_PLACES, MAX_ROWS, MAX_VOLUMES};
use fluke_model::directory::{
    Claim, Edit, NameKey, Peer, Placements, PublicKey, Route, RouteKey, Subnet, Table, Whereabouts,
};
use fluke_model::gather::Gather;
use fluke_model::id::{AgentName, Hash256, PortName, ServiceName, VolumeName};
use fluke_model::message::{DirectoryEdit, MeshReport, Section};
use fluke_model::time::Timestamp;

use super::parts::{hash, hash_to_proto, named, required};
use super::services::{port, traffic_from_proto, traffic_to_proto};
use super::text::at_most;
use super::{MAX_ENDPOINTS, MAX_REPLICAS};
use crate::error::WireError;
use crate::proto;
use crate::proto::server_message::Body;

pub(super) fn edit_to_proto(edit: DirectoryEdit) -> Body {
    match edit {
        DirectoryEdit::Names(edit) => Body::Names(names_to_proto(edit)),
        DirectoryEdit::Routes(edit) => Body::Routes(routes_to_proto(edit)),
        DirectoryEdit::Peers(edit) => Body::Peers(peers_to_proto(edit)),
        DirectoryEdit::Placements(edit) => Body::Placements(placements_to_proto(edit)),
    }
}

/// The ends of an edit.
fn ends(from: Option<Vec<u8>>, to: &[u8]) -> Result<(Option<Hash256>, Hash256), WireError> {
    Ok((from.map(|from| hash("from", &from)).transpose()?, hash("to", to)?))
}

/// Every row of a bounded list, each complained about by its place.
fn rows<W, T>(
    field: &str,
    wire: Vec<W>,
    row: impl Fn(W) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let placed = |(n, wire)| row(wire).map_err(|error| error.within(format_args!("{field}[{n}]")));
    at_most(field, wire, MAX_ROWS)?.into_iter().enumerate().map(placed).collect()
}

fn service(name: String) -> Result<ServiceName, WireError> {
    named("service", ServiceName::new(name))
}

fn agent(name: String) -> Result<AgentName, WireError> {
    named("agent", AgentName::new(name))
}

fn names_to_proto(edit: Edit<NameKey, ()>) -> proto::NamesEdit {
    proto::NamesEdit {
        from: edit.from.map(hash_to_proto),
        set: by_service(edit.set.into_iter().map(|(key, ())| key)),
        removed: by_service(edit.removed.into_iter()),
        to: hash_to_proto(edit.to),
    }
}

/// Rows that follow each other and are of one service say so once.
fn by_service(keys: impl Iterator<Item = NameKey>) -> Vec<proto::NameRows> {
    let mut rows: Vec<proto::NameRows> = Vec::new();
    for NameKey { service, address } in keys {
        if rows.last().is_none_or(|last| last.service != service.as_str()) {
            rows.push(proto::NameRows { service: service.into(), ..Default::default() });
        }
        match (rows.last_mut(), address) {
            (Some(last), Some(address)) => last.addresses.push(address.into()),
            (Some(last), None) => last.itself = true,
            (None, _) => {}
        }
    }
    rows
}

pub(super) fn names_from_proto(wire: proto::NamesEdit) -> Result<DirectoryEdit, WireError> {
    let (from, to) = ends(wire.from, &wire.to)?;
    let set = rows("set", wire.set, name_rows)?.into_iter().flatten().map(|key| (key, ()));
    let removed = rows("removed", wire.removed, name_rows)?.into_iter().flatten();
    let (set, removed) = (set.collect(), removed.collect());
    Ok(DirectoryEdit::Names(Edit { from, set, removed, to }))
}

fn name_rows(wire: proto::NameRows) -> Result<Vec<NameKey>, WireError> {
    let service = service(wire.service)?;
    let addresses = at_most("addresses", wire.addresses, MAX_ADDRESSES)?;
    let addresses = addresses.into_iter().map(|address| Some(Ipv4Addr::from(address)));
    let itself = wire.itself.then_some(None);
    let key = |address| NameKey { service: service.clone(), address };
    Ok(itself.into_iter().chain(addresses).map(key).collect())
}

fn routes_to_proto(edit: Edit<RouteKey, Route>) -> proto::RoutesEdit {
    let row = |(key, route): (RouteKey, Route)| proto::RouteRow {
        key: Some(key_to_proto(key)),
        traffic: Some(traffic_to_proto(&route.traffic)),
        upstreams: route.upstreams.into_iter().map(upstream_to_proto).collect(),
    };
    proto::RoutesEdit {
        from: edit.from.map(hash_to_proto),
        set: edit.set.into_iter().map(row).collect(),
        removed: edit.removed.into_iter().map(key_to_proto).collect(),
        to: hash_to_proto(edit.to),
    }
}

/// None where a newer server speaks of traffic that is not known here: routes stay as they are.
pub(super) fn routes_from_proto(
    wire: proto::RoutesEdit,
) -> Result<Option<DirectoryEdit>, WireError> {
    let (from, to) = ends(wire.from, &wire.to)?;
    let row = |row: proto::RouteRow| {
        let key = key_from_proto(required("key", row.key)?)?;
        let traffic = traffic_from_proto(required("traffic", row.traffic)?)?;
        let upstreams = at_most("upstreams", row.upstreams, MAX_ADDRESSES)?;
        let upstreams =
            upstreams.into_iter().map(upstream_from_proto).try_gather::<_, _, WireError>()?;
        Ok(traffic.map(|traffic| (key, Route { traffic, upstreams })))
    };
    let set = rows("set", wire.set, row)?;
    let removed = rows("removed", wire.removed, key_from_proto)?;
    let set: Option<Vec<_>> = set.into_iter().collect();
    Ok(set.map(|set| DirectoryEdit::Routes(Edit { from, set, removed, to })))
}

pub(super) fn key_to_proto(key: RouteKey) -> proto::RouteKey {
    proto::RouteKey { service: key.service.into(), port: key.port.into() }
}

pub(super) fn key_from_proto(wire: proto::RouteKey) -> Result<RouteKey, WireError> {
    let port = named("port", PortName::new(wire.port))?;
    Ok(RouteKey { service: service(wire.service)?, port })
}

fn upstream_to_proto(upstream: SocketAddrV4) -> proto::Upstream {
    proto::Upstream { address: u32::from(*upstream.ip()), port: upstream.port().into() }
}

fn upstream_from_proto(wire: proto::Upstream) -> Result<SocketAddrV4, WireError> {
    Ok(SocketAddrV4::new(Ipv4Addr::from(wire.address), port("port", wire.port)?))
}

fn peers_to_proto(edit: Edit<AgentName, Peer>) -> proto::PeersEdit {
    let row = |(agent, peer): (AgentName, Peer)| proto::PeerRow {
        agent: agent.into(),
        public_key: peer.public_key.0.to_vec(),
        endpoints: peer.endpoints.iter().map(SocketAddr::to_string).collect(),
        subnet: peer.subnet.number().into(),
        since_ms: peer.since.0,
    };
    proto::PeersEdit {
        from: edit.from.map(hash_to_proto),
        set: edit.set.into_iter().map(row).collect(),
        removed: edit.removed.into_iter().map(String::from).collect(),
        to: hash_to_proto(edit.to),
    }
}

pub(super) fn peers_from_proto(wire: proto::PeersEdit) -> Result<DirectoryEdit, WireError> {
    let (from, to) = ends(wire.from, &wire.to)?;
    let row = |row: proto::PeerRow| {
        let peer = Peer {
            public_key: public_key(&row.public_key)?,
            endpoints: endpoints(row.endpoints)?,
            subnet: subnet(row.subnet)?,
            since: Timestamp(row.since_ms),
        };
        Ok((agent(row.agent)?, peer))
    };
    let (set, removed) = (rows("set", wire.set, row)?, rows("removed", wire.removed, agent)?);
    Ok(DirectoryEdit::Peers(Edit { from, set, removed, to }))
}

pub(super) fn placements_to_proto(edit: Edit<ServiceName, Whereabouts>) -> proto::PlacementsEdit {
    let row = |(service, Whereabouts { replicas, volumes }): (ServiceName, Whereabouts)| {
        let replicas = replicas.into_iter().map(|(number, agent)| (number, agent.into()));
        let at = volumes.into_iter().flat_map(|(replica, hosts)| {
            hosts.into_iter().map(move |(agent, names)| proto::VolumesAt {
                replica,
                agent: agent.into(),
                names: names.into_iter().map(String::from).collect(),
            })
        });
        proto::PlacementRow {
            service: service.into(),
            replicas: replicas.gather(),
            volumes: at.collect(),
        }
    };
    proto::PlacementsEdit {
        from: edit.from.map(hash_to_proto),
        set: edit.set.into_iter().map(row).collect(),
        removed: edit.removed.into_iter().map(String::from).collect(),
        to: hash_to_proto(edit.to),
    }
}

pub(super) fn placements_from_proto(
    wire: proto::PlacementsEdit,
) -> Result<Edit<ServiceName, Whereabouts>, WireError> {
    let (from, to) = ends(wire.from, &wire.to)?;
    let row = |row: proto::PlacementRow| {
        let replicas = at_most("replicas", Vec::from_iter(row.replicas), MAX_REPLICAS)?;
        let replica = |(number, name): (u32, String)| Ok((number, agent(name)?));
        let replicas = replicas.into_iter().map(replica).try_gather::<_, _, WireError>()?;
        Ok((service(row.service)?, Whereabouts { replicas, volumes: volumes_at(row.volumes)? }))
    };
    let (set, removed) = (rows("set", wire.set, row)?, rows("removed", wire.removed, service)?);
    Ok(Edit { from, set, removed, to })
}

type VolumesAt = BTreeMap<u32, BTreeMap<AgentName, BTreeSet<VolumeName>>>;

fn volumes_at(wire: Vec<proto::VolumesAt>) -> Result<VolumesAt, WireError> {
    let mut volumes = VolumesAt::new();
    for at in at_most("volumes", wire, MAX_PLACES)? {
        let names = at_most("names", at.names, MAX_VOLUMES)?.into_iter();
        let names = names.map(|name| named("names", VolumeName::new(name)));
        let names = names.try_gather::<_, _, WireError>()?;
        volumes.entry(at.replica).or_default().insert(agent(at.agent)?, names);
    }
    Ok(volumes)
}

/// All that an agent knows, which must be what its hash says.
pub(super) fn known_placements(wire: proto::PlacementsEdit) -> Result<Placements, WireError> {
    let mut known = Table::default();
    let edit = Edit { from: None, ..placements_from_proto(wire)? };
    known.apply(edit).map_err(|error| WireError::invalid("to", error.to_string()))?;
    Ok(known)
}

pub(super) fn mesh_to_proto(report: MeshReport) -> proto::MeshReport {
    proto::MeshReport {
        public_key: report.public_key.0.to_vec(),
        endpoints: report.endpoints.iter().map(SocketAddr::to_string).collect(),
        claim: report.claim.map(claim_to_proto),
    }
}

pub(super) fn mesh_from_proto(wire: proto::MeshReport) -> Result<MeshReport, WireError> {
    Ok(MeshReport {
        public_key: public_key(&wire.public_key)?,
        endpoints: endpoints(wire.endpoints)?,
        claim: wire.claim.map(claim_from_proto).transpose()?,
    })
}

pub(super) fn claim_to_proto(claim: Claim) -> proto::Claim {
    proto::Claim { subnet: claim.subnet.number().into(), since_ms: claim.since.0 }
}

pub(super) fn claim_from_proto(wire: proto::Claim) -> Result<Claim, WireError> {
    Ok(Claim { subnet: subnet(wire.subnet)?, since: Timestamp(wire.since_ms) })
}

fn subnet(number: u32) -> Result<Subnet, WireError> {
    let number = named("subnet", u16::try_from(number))?;
    named("subnet", Subnet::try_from(number))
}

fn public_key(bytes: &[u8]) -> Result<PublicKey, WireError> {
    let key = bytes.try_into().map_err(|_| {
        WireError::invalid("public_key", format!("has {} bytes; a key has 32", bytes.len()))
    })?;
    Ok(PublicKey(key))
}

fn endpoints(wire: Vec<String>) -> Result<Vec<SocketAddr>, WireError> {
    let wire = at_most("endpoints", wire, MAX_ENDPOINTS)?;
    wire.iter().map(|endpoint| named("endpoints", endpoint.parse::<SocketAddr>())).collect()
}

pub(super) fn section_to_proto(section: Section) -> i32 {
    match section {
        Section::Names => proto::Section::Names,
        Section::Routes => proto::Section::Routes,
        Section::Peers => proto::Section::Peers,
        Section::Placements => proto::Section::Placements,
    }
    .into()
}

/// None for one that is not known.
pub(super) fn section(wire: proto::Section) -> Option<Section> {
    match wire {
        proto::Section::Names => Some(Section::Names),
        proto::Section::Routes => Some(Section::Routes),
        proto::Section::Peers => Some(Section::Peers),
        proto::Section::Placements => Some(Section::Placements),
        proto::Section::Unspecified => None,
    }
}
