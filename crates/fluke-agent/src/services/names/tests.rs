//! With real sockets on loopback; the world outside is a small server of the tests.

mod bridge;
mod client;
mod digging;
mod forwarding;
mod serving;
mod world;

use std::net::Ipv4Addr;

use fluke_model::directory::{NameKey, Names};
use fluke_model::id::ServiceName;

use super::*;

/// A server with its files.
struct Host {
    dir: tempfile::TempDir,
    server: NamesServer,
}

impl Host {
    /// One that asks nobody.
    async fn alone() -> Self {
        Self::asking(&[]).await
    }

    /// One whose `resolv.conf` names these.
    async fn asking(resolvers: &[std::net::SocketAddr]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let line = |to: &std::net::SocketAddr| format!("nameserver [{}]:{}\n", to.ip(), to.port());
        let text: String = match resolvers {
            // Nobody listens at port 1.
            [] => "nameserver [127.0.0.1]:1\n".to_owned(),
            some => some.iter().map(line).collect(),
        };
        std::fs::write(dir.path().join("resolv.conf"), text).expect("room");
        let server = started(setup(&dir, 0)).await;
        Self { dir, server }
    }

    /// Waits until a restart would find these names.
    async fn keeps(&self, names: &Names) {
        let path = self.dir.path().join("names.json");
        let is_kept = async {
            while records::look(&path).ok().flatten().as_ref() != Some(names) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(client::DEADLINE, is_kept).await.expect("kept");
    }

    async fn address(&self) -> SocketAddrV4 {
        let report = self.server.report().await.expect("it runs");
        report.address.expect("it listens")
    }
}

/// A server that listens: the port that it is given for UDP may be somebody else's for TCP, and
/// then it takes another.
async fn started(setup: Setup) -> NamesServer {
    let server = NamesServer::start(setup);
    let listens = async {
        while server.serving().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(client::DEADLINE, listens).await.expect("a port is free for both");
    server
}

fn setup(dir: &tempfile::TempDir, port: u16) -> Setup {
    Setup {
        gateway: Ipv4Addr::LOCALHOST,
        port,
        records: dir.path().join("names.json"),
        resolvers: dir.path().join("resolv.conf"),
    }
}

fn names(services: &[(&str, usize)]) -> Names {
    let row = |(name, count): &(&str, usize)| {
        let address = |n: usize| Ipv4Addr::from(0x0AC8_0100 + u32::try_from(n).expect("few"));
        let name = ServiceName::new(name).expect("a name");
        NameKey::rows(&name, (1..=*count).map(address)).collect::<Vec<_>>()
    };
    services.iter().flat_map(row).collect()
}
