//! The least that can be connected: one TLS stream by the wire's client, heartbeats, and nothing
//! around it.

use std::path::Path;

use fluke_model::id::{AgentName, InstanceId};
use fluke_model::label::Labels;
use fluke_model::message::{Hello, Holdings, NodeType, ToServer};
use fluke_model::secret::Secret;
use fluke_wire::client::{ClientTls, ServerUrl, Session, Target, connect};
use tokio::time::interval;

use crate::row::Trouble;

/// Connects as an agent of that name, and stays until the server ends the session.
pub fn stay(url: &str, token: &str, ca_file: &Path, name: &str) -> Result<(), Trouble> {
    let failed = |error: &dyn std::fmt::Display| Trouble::failed("stay connected", error);
    let ca_pem = std::fs::read(ca_file).map_err(|error| failed(&error))?;
    let target = Target {
        url: url.parse::<ServerUrl>().map_err(|error| failed(&error))?,
        token: Secret::new(token),
        tls: ClientTls { ca_pem: Some(ca_pem), ..ClientTls::default() },
    };
    let hello = Hello {
        name: AgentName::new(name).map_err(|error| failed(&error))?,
        labels: Labels::default(),
        version: env!("CARGO_PKG_VERSION").into(),
        executors: vec!["shell".into()],
        node_type: NodeType::Worker,
        snapshot: None,
        instance: InstanceId(1),
        previous: None,
        tables: Holdings::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    runtime.block_on(async {
        let session = connect(&target, hello).await.map_err(|error| failed(&error))?;
        let Session { welcome, outgoing, mut incoming } = session;
        let mut beats = interval(welcome.heartbeat);
        loop {
            tokio::select! {
                _ = beats.tick() => {
                    outgoing.send(ToServer::Heartbeat).await.map_err(|error| failed(&error))?;
                }
                message = incoming.next() => match message {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return Ok(()),
                },
            }
        }
    })
}
