//! What services are, and how they are.

use std::net::Ipv4Addr;
use std::sync::Arc;

use fluke_model::bounds::{
    self, MAX_DEPLOYMENTS, MAX_DOMAIN, MAX_IMAGE, MAX_PORTS, MAX_VOLUMES_OF_HOST,
};
use fluke_model::gather::Gather;
use fluke_model::id::{Hash256, ServiceName, VolumeName};
use fluke_model::message::{NetworkReport, SectionReport, ServicesReport};
use fluke_model::policy::Policy;
use fluke_model::service::{
    ContainerSpec, DeploymentId, DeploymentReport, Health, HealthSpec, Phase, Replica, Resources,
    SnapshotService, Traffic,
};
use fluke_model::verdict::{Drift, Verdict};
use fluke_model::volume::{Volume, Volumes};

use super::directory::{key_from_proto, key_to_proto};
use super::from_agent::{drifted_from_proto, undecided_from_proto};
use super::parts::{hash, hash_to_proto, named, policy, policy_to_proto, required};
use super::text::{at_most, bounded, clip, line};
use super::{MAX_DIFF, MAX_LEFT_OUT, MAX_REASON, MAX_REPLICAS};
use crate::error::WireError;
use crate::proto;

pub(super) fn service_to_proto(service: &SnapshotService, hash: Hash256) -> proto::Service {
    proto::Service {
        name: service.name.to_string(),
        hash: hash_to_proto(hash),
        policy: policy_to_proto(service.policy),
        container: service.container.as_deref().map(container_to_proto),
        replicas: service.replicas.iter().map(|replica| replica_to_proto(*replica)).collect(),
        listens: service.listens.iter().copied().map(u32::from).collect(),
    }
}

/// The service under the hash that the server gave it.
pub(super) fn service_from_proto(
    wire: proto::Service,
) -> Result<(Hash256, SnapshotService), WireError> {
    let announced = hash("hash", &wire.hash)?;
    let name = named("name", ServiceName::new(&wire.name))?;
    let policy = policy(wire.policy());
    if wire.replicas.is_empty() {
        return Err(WireError::invalid("replicas", "are missing; a host has at least one"));
    }
    let replicas = at_most("replicas", wire.replicas, MAX_REPLICAS)?;
    let listens = at_most("listens", wire.listens, MAX_PORTS)?;
    let container = container_from_proto(required("container", wire.container)?);
    let container = container.map_err(|error| error.within("container"))?;
    let mut service = SnapshotService {
        name,
        policy: policy.unwrap_or(Policy::AlertOnly),
        container: Some(Arc::new(container)),
        replicas: replicas.into_iter().map(replica_from_proto).collect(),
        listens: listens.into_iter().map(|it| port("listens", it)).collect::<Result<_, _>>()?,
    };
    if service.hash() != announced {
        service.container = None;
    }
    Ok((announced, service))
}

fn container_to_proto(container: &ContainerSpec) -> proto::Container {
    let volumes = container.volumes.iter();
    proto::Container {
        image: container.image.clone(),
        command: container.command.clone().map(|words| proto::Command { words }),
        env: container.env.clone(),
        volumes: volumes.map(|(name, path)| (name.to_string(), path.clone())).gather(),
        health: container.health.as_ref().map(|health| proto::HealthSpec {
            command: health.command.clone(),
            interval_ms: health.interval_ms,
            timeout_ms: health.timeout_ms,
            retries: health.retries,
            start_period_ms: health.start_period_ms,
        }),
        cpu_millis: container.resources.cpu_millis,
        memory: container.resources.memory,
    }
}

fn container_from_proto(wire: proto::Container) -> Result<ContainerSpec, WireError> {
    let volume = |(name, path): (String, String)| -> Result<_, WireError> {
        Ok((named("volumes", VolumeName::new(name))?, path))
    };
    let spec = ContainerSpec {
        image: line("image", wire.image, MAX_IMAGE)?,
        command: wire.command.map(|command| command.words),
        env: wire.env.into_iter().gather(),
        volumes: wire.volumes.into_iter().map(volume).try_gather()?,
        health: wire.health.map(health_spec),
        resources: Resources { cpu_millis: wire.cpu_millis, memory: wire.memory },
    };
    // The same that manifests are held to: what Git says arrives.
    bounds::container(&spec).map_err(|excess| WireError::invalid("spec", excess.to_string()))?;
    Ok(spec)
}

fn health_spec(wire: proto::HealthSpec) -> HealthSpec {
    HealthSpec {
        command: wire.command,
        interval_ms: wire.interval_ms,
        timeout_ms: wire.timeout_ms,
        retries: wire.retries,
        start_period_ms: wire.start_period_ms,
    }
}

fn replica_to_proto(replica: Replica) -> proto::Replica {
    proto::Replica { number: replica.number() }
}

fn replica_from_proto(wire: proto::Replica) -> Replica {
    wire.number.map_or(Replica::Own, Replica::Number)
}

pub(super) fn traffic_to_proto(traffic: &Traffic) -> proto::Traffic {
    let (protocol, domain, external) = match traffic {
        Traffic::Http { domain } => (proto::Protocol::Http, domain.clone(), None),
        Traffic::Tcp { external, domain } => (proto::Protocol::Tcp, domain.clone(), *external),
        Traffic::Udp { external } => (proto::Protocol::Udp, None, *external),
    };
    proto::Traffic { protocol: protocol.into(), domain, external: external.map(u32::from) }
}

/// None for a protocol that is not known.
pub(super) fn traffic_from_proto(wire: proto::Traffic) -> Result<Option<Traffic>, WireError> {
    let protocol = wire.protocol();
    let domain = wire.domain.map(|domain| line("domain", domain, MAX_DOMAIN)).transpose()?;
    let external = wire.external.map(|external| port("external", external)).transpose()?;
    Ok(match protocol {
        proto::Protocol::Http => Some(Traffic::Http { domain }),
        proto::Protocol::Tcp => Some(Traffic::Tcp { external, domain }),
        proto::Protocol::Udp => Some(Traffic::Udp { external }),
        proto::Protocol::Unspecified => None,
    })
}

pub(super) fn port(field: &str, number: u32) -> Result<u16, WireError> {
    u16::try_from(number)
        .map_err(|_| WireError::invalid(field, format!("is {number}; ports end at 65535")))
}

pub(super) fn deployment_id(field: &str, bytes: &[u8]) -> Result<DeploymentId, WireError> {
    hash(field, bytes).map(DeploymentId)
}

pub(super) fn services_to_proto(report: ServicesReport) -> proto::ServicesReport {
    proto::ServicesReport {
        whole: report.whole,
        deployments: report.deployments.into_iter().map(deployment_to_proto).collect(),
        gone: report.gone.iter().map(|id| hash_to_proto(id.0)).collect(),
        volumes: report.volumes.map(volumes_to_proto),
        unseen: report.unseen,
    }
}

pub(super) fn services_from_proto(
    wire: proto::ServicesReport,
) -> Result<ServicesReport, WireError> {
    let deployments = at_most("deployments", wire.deployments, MAX_DEPLOYMENTS)?;
    let deployment = |(n, deployment)| {
        let place = |error: WireError| error.within(format_args!("deployments[{n}]"));
        deployment_from_proto(deployment).map_err(place)
    };
    let gone = at_most("gone", wire.gone, MAX_DEPLOYMENTS)?;
    Ok(ServicesReport {
        whole: wire.whole,
        deployments: deployments
            .into_iter()
            .enumerate()
            .map(deployment)
            .collect::<Result<_, _>>()?,
        gone: gone.iter().map(|id| deployment_id("gone", id)).collect::<Result<_, _>>()?,
        volumes: wire.volumes.map(volumes_from_proto).transpose()?,
        unseen: wire.unseen,
    })
}

fn volumes_to_proto(volumes: Volumes) -> proto::VolumesReport {
    let volume = |volume: Volume| proto::Volume {
        service: volume.service.into(),
        replica: Some(replica_to_proto(volume.replica)),
        name: volume.name.into(),
    };
    proto::VolumesReport { volumes: volumes.into_iter().map(volume).collect() }
}

fn volumes_from_proto(wire: proto::VolumesReport) -> Result<Volumes, WireError> {
    let volume = |(n, wire): (usize, proto::Volume)| {
        let volume = || {
            Ok(Volume {
                service: named("service", ServiceName::new(&wire.service))?,
                replica: replica_from_proto(required("replica", wire.replica)?),
                name: named("name", VolumeName::new(&wire.name))?,
            })
        };
        volume().map_err(|error: WireError| error.within(format_args!("volumes[{n}]")))
    };
    let volumes = at_most("volumes", wire.volumes, MAX_VOLUMES_OF_HOST)?;
    volumes.into_iter().enumerate().map(volume).try_gather()
}

fn deployment_to_proto(report: DeploymentReport) -> proto::Deployment {
    proto::Deployment {
        id: hash_to_proto(report.id.0),
        service: report.service.into(),
        replica: Some(replica_to_proto(report.replica)),
        phase: phase_to_proto(report.phase),
        health: health_to_proto(report.health),
        image: clip(report.image, MAX_IMAGE),
        digest: report.digest.map(|digest| clip(digest, MAX_IMAGE)),
        container: report.container.map(|container| clip(container, MAX_IMAGE)),
        address: report.address.map(u32::from),
        serves: report.serves,
        note: report.note.map(|note| clip(note, MAX_REASON)),
        verdict: Some(verdict_to_proto(report.verdict)),
    }
}

fn deployment_from_proto(wire: proto::Deployment) -> Result<DeploymentReport, WireError> {
    use proto::deployment::Verdict as Wire;
    let (phase, health) = (phase(wire.phase()), health(wire.health()));
    let text =
        |field, text: Option<String>| text.map(|text| bounded(field, text, MAX_IMAGE)).transpose();
    let note = wire.note.map(|note| bounded("note", note, MAX_REASON)).transpose()?;
    let verdict = match wire.verdict {
        Some(Wire::Satisfied(proto::Satisfied {})) => Verdict::Satisfied,
        Some(Wire::Drifted(drifted)) => drifted_from_proto(drifted)?,
        Some(Wire::Undecided(undecided)) => undecided_from_proto(undecided)?,
        None => verdict_of(phase, note.as_deref()),
    };
    Ok(DeploymentReport {
        id: deployment_id("id", &wire.id)?,
        service: named("service", ServiceName::new(&wire.service))?,
        replica: replica_from_proto(required("replica", wire.replica)?),
        phase,
        health,
        image: bounded("image", wire.image, MAX_IMAGE)?,
        digest: text("digest", wire.digest)?,
        container: text("container", wire.container)?,
        address: wire.address.map(Ipv4Addr::from),
        serves: wire.serves,
        note,
        verdict,
    })
}

fn verdict_to_proto(verdict: Verdict) -> proto::deployment::Verdict {
    use proto::deployment::Verdict as Wire;
    match verdict {
        Verdict::Satisfied => Wire::Satisfied(proto::Satisfied {}),
        Verdict::Drifted(Drift { reason, diff }) => Wire::Drifted(proto::Drifted {
            reason: clip(reason, MAX_REASON),
            diff: diff.map(|diff| clip(diff, MAX_DIFF)),
        }),
        Verdict::Error { reason } => {
            Wire::Undecided(proto::Undecided { reason: clip(reason, MAX_REASON) })
        }
    }
}

/// For an agent that says how far it is and nothing else.
fn verdict_of(phase: Phase, note: Option<&str>) -> Verdict {
    match phase {
        Phase::Running | Phase::Retiring => Verdict::Satisfied,
        _ => Verdict::Drifted(Drift::because(note.unwrap_or(phase.as_str()))),
    }
}

fn phase_to_proto(phase: Phase) -> i32 {
    match phase {
        Phase::Missing => proto::Phase::Missing,
        Phase::Pulling => proto::Phase::Pulling,
        Phase::Stopped => proto::Phase::Stopped,
        Phase::Starting => proto::Phase::Starting,
        Phase::Running => proto::Phase::Running,
        Phase::Retiring => proto::Phase::Retiring,
        Phase::Failed => proto::Phase::Failed,
    }
    .into()
}

fn phase(wire: proto::Phase) -> Phase {
    match wire {
        proto::Phase::Missing => Phase::Missing,
        proto::Phase::Pulling => Phase::Pulling,
        proto::Phase::Stopped => Phase::Stopped,
        proto::Phase::Starting => Phase::Starting,
        proto::Phase::Running => Phase::Running,
        proto::Phase::Retiring => Phase::Retiring,
        proto::Phase::Failed | proto::Phase::Unspecified => Phase::Failed,
    }
}

fn health_to_proto(health: Health) -> i32 {
    match health {
        Health::None => proto::Health::None,
        Health::Starting => proto::Health::Starting,
        Health::Healthy => proto::Health::Healthy,
        Health::Unhealthy => proto::Health::Unhealthy,
    }
    .into()
}

fn health(wire: proto::Health) -> Health {
    match wire {
        proto::Health::None | proto::Health::Unspecified => Health::None,
        proto::Health::Starting => Health::Starting,
        proto::Health::Healthy => Health::Healthy,
        proto::Health::Unhealthy => Health::Unhealthy,
    }
}

pub(super) fn network_to_proto(report: NetworkReport) -> proto::NetworkReport {
    proto::NetworkReport {
        names: Some(section_to_proto(report.names)),
        routes: report.routes.map(section_to_proto),
        mesh: Some(section_to_proto(report.mesh)),
    }
}

pub(super) fn network_from_proto(wire: proto::NetworkReport) -> Result<NetworkReport, WireError> {
    Ok(NetworkReport {
        names: section("names", required("names", wire.names)?)?,
        routes: wire.routes.map(|routes| section("routes", routes)).transpose()?,
        mesh: section("mesh", required("mesh", wire.mesh)?)?,
    })
}

fn section_to_proto(report: SectionReport) -> proto::SectionReport {
    proto::SectionReport {
        hash: hash_to_proto(report.hash),
        problem: report.problem.map(|problem| clip(problem, MAX_REASON)),
        left_out: report.left_out.into_iter().take(MAX_LEFT_OUT).map(key_to_proto).collect(),
    }
}

fn section(field: &str, wire: proto::SectionReport) -> Result<SectionReport, WireError> {
    let section = || {
        let problem = wire.problem.map(|it| bounded("problem", it, MAX_REASON)).transpose()?;
        let left_out = at_most("left_out", wire.left_out, MAX_LEFT_OUT)?.into_iter();
        let left_out = left_out.map(key_from_proto).try_gather()?;
        Ok(SectionReport { hash: hash("hash", &wire.hash)?, problem, left_out })
    };
    section().map_err(|error: WireError| error.within(field))
}
