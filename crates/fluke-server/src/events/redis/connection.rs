//! A connection that is made when it is needed, and made anew after every failure.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, Pipeline, RedisFuture, RedisResult,
    TlsCertificates, Value,
};
use tokio::time::timeout;

use super::RedisSettings;
use super::error::explain;
use crate::events::StoreError;

/// The longest that a call takes, connecting included; less than the log's own patience.
const CALL: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(3);
/// How often a command is tried again where a cluster has moved its data.
const CLUSTER_RETRIES: u32 = 3;

/// To one server, or to a cluster. Clones share what is below.
#[derive(Clone)]
pub enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(one) => one.req_packed_command(command),
            Self::Cluster(cluster) => cluster.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(one) => one.req_packed_commands(commands, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(one) => one.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}

/// Calls of one kind, which wait for no calls of another.
pub struct Lane {
    settings: Arc<RedisSettings>,
    open: tokio::sync::Mutex<Option<Connection>>,
    /// For so long a failure is the answer to everybody: a Redis that hangs is not waited for by
    /// each caller anew.
    rest: Duration,
    failed: Mutex<Option<(Instant, StoreError)>>,
}

impl Lane {
    pub fn new(settings: Arc<RedisSettings>, rest: Duration) -> Self {
        Self { settings, open: tokio::sync::Mutex::default(), rest, failed: Mutex::default() }
    }

    /// Does `work` with a connection. It may be done twice, and only half.
    pub async fn call<'a, T>(
        &'a self,
        work: impl Fn(Connection) -> BoxFuture<'a, RedisResult<T>> + Send + Sync,
    ) -> Result<T, StoreError> {
        if let Some(error) = self.failed_just_now() {
            return Err(error);
        }
        let reason = match timeout(CALL, self.attempt(&work)).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => explain(&error, self.settings.address.speaks_tls()),
            Err(_) => format!("no answer within {} s; does it hang?", CALL.as_secs()),
        };
        // Whatever it was, a new connection (to a new address, with new certificates) may help.
        // Somebody who is connecting at this moment has nothing to close.
        if let Ok(mut open) = self.open.try_lock() {
            *open = None;
        }
        let error = StoreError::Failed { place: self.settings.address.to_string(), reason };
        *self.failed() = Some((Instant::now(), error.clone()));
        Err(error)
    }

    /// Another lane has found Redis well: it is asked again.
    pub fn take_heart(&self) {
        *self.failed() = None;
    }

    async fn attempt<'a, T>(
        &'a self,
        work: &(impl Fn(Connection) -> BoxFuture<'a, RedisResult<T>> + Send + Sync),
    ) -> RedisResult<T> {
        let (connection, is_old) = self.connection().await?;
        match work(connection).await {
            // It was closed while nobody looked: Redis was restarted, or somebody in between.
            Err(error) if is_old && error.is_unrecoverable_error() => {
                *self.open.lock().await = None;
                work(self.connection().await?.0).await
            }
            done => done,
        }
    }

    async fn connection(&self) -> RedisResult<(Connection, bool)> {
        let mut open = self.open.lock().await;
        if let Some(connection) = &*open {
            return Ok((connection.clone(), true));
        }
        let connection = connect(&self.settings).await?;
        *open = Some(connection.clone());
        Ok((connection, false))
    }

    fn failed_just_now(&self) -> Option<StoreError> {
        let mut failed = self.failed();
        if failed.as_ref().is_some_and(|(when, _)| when.elapsed() >= self.rest) {
            *failed = None;
        }
        failed.as_ref().map(|(_, error)| error.clone())
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, Option<(Instant, StoreError)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn connect(settings: &RedisSettings) -> RedisResult<Connection> {
    let address = &settings.address;
    let certificates = match address.speaks_tls() {
        true => Some(read_certificates(settings).await?),
        false => None,
    };
    if address.is_cluster {
        let mut builder = ClusterClientBuilder::new(address.nodes.clone())
            .connection_timeout(CONNECT)
            .response_timeout(CALL)
            .retries(CLUSTER_RETRIES);
        if let Some(certificates) = certificates {
            builder = builder.certs(certificates);
        }
        return Ok(Connection::Cluster(builder.build()?.get_async_connection().await?));
    }
    let node = address.nodes[0].clone();
    let client = match certificates {
        Some(certificates) => Client::build_with_tls(node, certificates)?,
        None => Client::open(node)?,
    };
    let patience = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(None);
    let mut connection = client.get_multiplexed_async_connection_with_config(&patience).await?;
    // Whoever may not do anything is told so here. The driver of the connection does not get over
    // a transaction whose very beginning is refused.
    let mut probe = Pipeline::new();
    probe.cmd("MULTI").ignore().cmd("DISCARD").ignore().exec_async(&mut connection).await?;
    Ok(Connection::One(connection))
}

/// Read for every connection: a certificate that was renewed counts from then on.
async fn read_certificates(settings: &RedisSettings) -> io::Result<TlsCertificates> {
    let root_cert = match &settings.ca_file {
        Some(file) => Some(read_pem("ca_file", file).await?),
        None => None,
    };
    let client_tls = match &settings.client_files {
        Some(files) => Some(ClientTlsConfig {
            client_cert: read_pem("cert_file", &files.cert_file).await?,
            client_key: read_pem("key_file", &files.key_file).await?,
        }),
        None => None,
    };
    Ok(TlsCertificates { client_tls, root_cert })
}

async fn read_pem(what: &str, file: &Path) -> io::Result<Vec<u8>> {
    let wrong = |why: &str| io::Error::other(format!("`{what}` {}: {why}", file.display()));
    let read = tokio::fs::read(file).await.map_err(|error| wrong(&error.to_string()))?;
    match read.windows(10).any(|part| part == b"-----BEGIN") {
        true => Ok(read),
        false => Err(wrong("there is no PEM in it")),
    }
}
