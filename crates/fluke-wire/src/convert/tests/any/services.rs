//! Any message about services that keeps to the bounds.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use fluke_model::directory::{
    Claim, Edit, NameKey, Peer, PublicKey, Route, RouteKey, Subnet, Table, Whereabouts,
};
use fluke_model::id::{AgentName, PortName, ServiceName, VolumeName};
use fluke_model::message::{
    DirectoryEdit, MeshReport, NetworkReport, Section, SectionReport, ServicesReport, ToAgent,
    ToServer,
};
use fluke_model::policy::Policy;
use fluke_model::service::{
    ContainerSpec, DeploymentId, DeploymentReport, Health, HealthSpec, Phase, Replica, Resources,
    SnapshotService, Traffic,
};
use fluke_model::time::Timestamp;
use fluke_model::volume::Volume;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::{hash, instruction, path, text, trigger, verdict, word};

const WORD: &str = "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?";

pub(super) fn service() -> impl Strategy<Value = ServiceName> {
    WORD.prop_map(|name| ServiceName::new(name).expect("a name"))
}

fn agent() -> impl Strategy<Value = AgentName> {
    path().prop_map(|name| AgentName::new(name).expect("a name"))
}

fn replica() -> impl Strategy<Value = Replica> {
    prop_oneof![Just(Replica::Own), any::<u32>().prop_map(Replica::Number)]
}

fn id() -> impl Strategy<Value = DeploymentId> {
    hash().prop_map(DeploymentId)
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn health_spec() -> impl Strategy<Value = HealthSpec> {
    (text(), any::<(u64, u64, u32, u64)>()).prop_map(
        |(command, (interval_ms, timeout_ms, retries, start_period_ms))| HealthSpec {
            command,
            interval_ms,
            timeout_ms,
            retries,
            start_period_ms,
        },
    )
}

fn volume_name() -> impl Strategy<Value = VolumeName> {
    WORD.prop_map(|name| VolumeName::new(name).expect("a name"))
}

fn whereabouts() -> impl Strategy<Value = Whereabouts> {
    // A row of no volumes is none.
    let names = btree_set(volume_name(), 0..3);
    let volumes = btree_map(any::<u32>(), btree_map(agent(), names, 1..3), 0..3);
    let replicas = btree_map(any::<u32>(), agent(), 0..4);
    (replicas, volumes).prop_map(|(replicas, volumes)| Whereabouts { replicas, volumes })
}

fn container() -> impl Strategy<Value = ContainerSpec> {
    let said = (word(), option::of(vec(text(), 0..4)), btree_map("[A-Z_]{1,10}", text(), 0..4));
    let had = (btree_map(volume_name(), word(), 0..3), option::of(health_spec()));
    (said, had, any::<(Option<u32>, Option<u64>)>()).prop_map(
        |((image, command, env), (volumes, health), (cpu_millis, memory))| ContainerSpec {
            image,
            command,
            env,
            volumes,
            health,
            resources: Resources { cpu_millis, memory },
        },
    )
}

pub(super) fn snapshot_services() -> impl Strategy<Value = Vec<Arc<SnapshotService>>> {
    let listens = vec(any::<u16>(), 0..3);
    let body = (select(&Policy::ALL[..]), container(), vec(replica(), 1..4), listens);
    let whole = |(name, (policy, container, replicas, listens))| {
        let container = Some(Arc::new(container));
        Arc::new(SnapshotService { name, policy, container, replicas, listens })
    };
    btree_map(service(), body, 0..3).prop_map(move |all| all.into_iter().map(whole).collect())
}

fn report() -> impl Strategy<Value = DeploymentReport> {
    const PHASES: [Phase; 7] = [
        Phase::Missing,
        Phase::Pulling,
        Phase::Stopped,
        Phase::Starting,
        Phase::Running,
        Phase::Retiring,
        Phase::Failed,
    ];
    const HEALTHS: [Health; 4] =
        [Health::None, Health::Starting, Health::Healthy, Health::Unhealthy];
    let what = (id(), service(), replica(), select(&PHASES[..]), select(&HEALTHS[..]));
    let texts = (word(), option::of(word()), option::of(word()), option::of(text()));
    (what, texts, option::of(address()), any::<bool>(), verdict()).prop_map(
        |((id, service, replica, phase, health), texts, address, serves, verdict)| {
            let (image, digest, container, note) = texts;
            DeploymentReport {
                id,
                service,
                replica,
                phase,
                health,
                image,
                digest,
                container,
                address,
                serves,
                note,
                verdict,
            }
        },
    )
}

fn section_report() -> impl Strategy<Value = SectionReport> {
    (hash(), option::of(text()), btree_set(route_key(), 0..3))
        .prop_map(|(hash, problem, left_out)| SectionReport { hash, problem, left_out })
}

fn claim() -> impl Strategy<Value = Claim> {
    (subnet(), any::<u64>()).prop_map(|(subnet, since)| Claim { subnet, since: Timestamp(since) })
}

fn subnet() -> impl Strategy<Value = Subnet> {
    (1..Subnet::COUNT).prop_map(|number| Subnet::new(number).expect("in range"))
}

fn endpoints() -> impl Strategy<Value = Vec<SocketAddr>> {
    vec(any::<SocketAddr>().prop_map(without_scope), 0..4)
}

/// Flow and scope have no place in text.
fn without_scope(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let (domain, external) = (option::of(word()).boxed(), any::<Option<u16>>());
    prop_oneof![
        domain.clone().prop_map(|domain| Traffic::Http { domain }),
        (domain, external.clone()).prop_map(|(domain, external)| Traffic::Tcp { external, domain }),
        external.prop_map(|external| Traffic::Udp { external }),
    ]
}

fn edit<K: Clone + std::fmt::Debug, V: Clone + std::fmt::Debug>(
    key: impl Strategy<Value = K> + Clone,
    value: impl Strategy<Value = V>,
) -> impl Strategy<Value = Edit<K, V>> {
    let rows = (vec((key.clone(), value), 0..4), vec(key, 0..3));
    (option::of(hash()), rows, hash()).prop_map(|(from, (set, removed), to)| Edit {
        from,
        set,
        removed,
        to,
    })
}

/// In order, as tables are.
fn names() -> impl Strategy<Value = Edit<NameKey, ()>> {
    let key = (service(), option::of(address()))
        .prop_map(|(service, address)| NameKey { service, address })
        .boxed();
    edit(key, Just(())).prop_map(|mut edit| {
        edit.set.sort();
        edit.removed.sort();
        edit
    })
}

fn route_key() -> impl Strategy<Value = RouteKey> {
    let key = |(service, port): (ServiceName, String)| RouteKey {
        service,
        port: PortName::new(port).expect("a name"),
    };
    (service(), WORD).prop_map(key)
}

fn directory() -> impl Strategy<Value = DirectoryEdit> {
    let upstream = any::<(u32, u16)>()
        .prop_map(|(address, port)| SocketAddrV4::new(Ipv4Addr::from(address), port));
    let route = (traffic(), btree_set(upstream, 0..4))
        .prop_map(|(traffic, upstreams)| Route { traffic, upstreams });
    let peer = (any::<[u8; 32]>(), endpoints(), claim()).prop_map(|(key, endpoints, claim)| {
        let Claim { subnet, since } = claim;
        Peer { public_key: PublicKey(key), endpoints, subnet, since }
    });
    prop_oneof![
        names().prop_map(DirectoryEdit::Names),
        edit(route_key().boxed(), route).prop_map(DirectoryEdit::Routes),
        edit(agent().boxed(), peer).prop_map(DirectoryEdit::Peers),
        edit(service().boxed(), whereabouts()).prop_map(DirectoryEdit::Placements),
    ]
}

pub(super) fn any_to_server() -> impl Strategy<Value = ToServer> {
    const SECTIONS: [Section; 4] =
        [Section::Names, Section::Routes, Section::Peers, Section::Placements];
    let volume = (service(), replica(), volume_name())
        .prop_map(|(service, replica, name)| Volume { service, replica, name });
    let volumes = option::of(btree_set(volume, 0..4));
    let services = (any::<[bool; 2]>(), vec(report(), 0..4), vec(id(), 0..4), volumes).prop_map(
        |([whole, unseen], deployments, gone, volumes)| ServicesReport {
            whole,
            deployments,
            gone,
            volumes,
            unseen,
        },
    );
    let network = (section_report(), option::of(section_report()), section_report())
        .prop_map(|(names, routes, mesh)| NetworkReport { names, routes, mesh });
    let mesh = (any::<[u8; 32]>(), endpoints(), option::of(claim())).prop_map(
        |(key, endpoints, claim)| MeshReport { public_key: PublicKey(key), endpoints, claim },
    );
    let known = btree_map(service(), whereabouts(), 0..4).prop_map(Table::from);
    prop_oneof![
        services.prop_map(ToServer::Services),
        network.prop_map(ToServer::Network),
        mesh.prop_map(ToServer::Mesh),
        known.prop_map(ToServer::Placements),
        select(&SECTIONS[..]).prop_map(ToServer::Resend),
        Just(ToServer::Leaving),
        Just(ToServer::GoingDown),
        (instruction(), option::of(text()))
            .prop_map(|(instruction, problem)| ToServer::Settled { instruction, problem }),
    ]
}

pub(super) fn any_to_agent() -> impl Strategy<Value = ToAgent> {
    prop_oneof![
        directory().prop_map(ToAgent::Directory),
        claim().prop_map(ToAgent::Subnet),
        vec(id(), 0..4).prop_map(ToAgent::Released),
        (instruction(), option::of(service()), trigger()).prop_map(
            |(instruction, service, trigger)| ToAgent::Settle { instruction, service, trigger }
        ),
    ]
}
