//! The network that containers of services are in: what it should be, and what is attached to it.

#[cfg(target_os = "linux")]
mod own_view;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fluke_model::directory::Subnet;
use fluke_model::gather::Gather;

use super::plan;
use super::podman::{Network, NetworkSubnet};

/// What it is called, in Podman.
pub const NETWORK: &str = "fluke";
/// What it is called, in the kernel.
pub const INTERFACE: &str = "fluke-br0";

/// The network as it should be. Names are answered by the agent and not by Podman.
pub fn wanted(subnet: Subnet) -> Network {
    Network {
        name: NETWORK.into(),
        driver: "bridge".into(),
        network_interface: INTERFACE.into(),
        dns_enabled: false,
        subnets: Some(vec![NetworkSubnet {
            subnet: format!("{}/24", subnet.network()),
            gateway: Some(subnet.gateway().into()),
        }]),
    }
}

/// What is to be thought of the one that was found.
pub fn judge(found: Option<&Network>, subnet: Subnet) -> plan::Network {
    let wanted = wanted(subnet);
    let Some(found) = found else { return plan::Network::Missing };
    let differences = [
        (found.driver != wanted.driver, format!("it is made by {}", found.driver)),
        (found.subnets != wanted.subnets, "its subnet is another".into()),
        (
            found.network_interface != wanted.network_interface,
            format!("its bridge is {}", found.network_interface),
        ),
        (found.dns_enabled, "Podman answers names in it".into()),
    ];
    match differences.into_iter().find(|(differs, _)| *differs) {
        Some((_, how)) => plan::Network::Other(how),
        None => plan::Network::Ready,
    }
}

/// The kernel's view of interfaces.
#[derive(Debug, Clone)]
pub struct Interfaces {
    /// Where `sysfs` is.
    pub sys: PathBuf,
    /// Where `procfs` is.
    pub proc: PathBuf,
}

impl Interfaces {
    /// What is attached to the bridge; nothing where there is no bridge.
    pub fn ports(&self) -> BTreeSet<String> {
        let Ok(ports) = std::fs::read_dir(self.class().join(INTERFACE).join("brif")) else {
            return BTreeSet::new();
        };
        ports.flatten().filter_map(|port| port.file_name().into_string().ok()).gather()
    }

    /// The number of an interface of the host.
    pub fn number(&self, interface: &str) -> Option<u32> {
        number(&self.class().join(interface).join("ifindex"))
    }

    /// The number of the other end of a container's interface, where it can be told.
    pub fn other_end(&self, process: i32) -> Option<u32> {
        own_view::other_end(&self.root_of(process), &self.sys)
    }

    /// The port of the bridge that a process's interface ends at, where each says so of the other: in
    /// a network that is not its container's, a number may be anybody's.
    pub fn own_port(&self, process: i32) -> Option<u32> {
        let (other, own) = (self.other_end(process)?, self.own_end(process)?);
        let leads_back = |port: &String| {
            let peer = number(&self.class().join(port).join("iflink"));
            self.number(port) == Some(other) && peer == Some(own)
        };
        self.ports().iter().any(leads_back).then_some(other)
    }

    /// The number of a container's interface as the container has it, where it can be told.
    fn own_end(&self, process: i32) -> Option<u32> {
        own_view::own_end(&self.root_of(process), &self.sys)
    }

    fn root_of(&self, process: i32) -> PathBuf {
        self.proc.join(process.to_string()).join("root")
    }

    fn class(&self) -> PathBuf {
        self.sys.join("class/net")
    }
}

fn number(path: &Path) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(not(target_os = "linux"))]
mod own_view {
    pub fn other_end(_: &std::path::Path, _: &std::path::Path) -> Option<u32> {
        None
    }

    pub fn own_end(_: &std::path::Path, _: &std::path::Path) -> Option<u32> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(number: u16) -> Subnet {
        Subnet::new(number).expect("in range")
    }

    #[test]
    fn every_fact_about_the_network_counts() {
        assert_eq!(judge(None, subnet(7)), plan::Network::Missing);
        assert_eq!(judge(Some(&wanted(subnet(7))), subnet(7)), plan::Network::Ready);
        type Spoil = fn(&mut Network);
        let spoils: [Spoil; 5] = [
            |it| it.driver = "macvlan".into(),
            |it| it.subnets = wanted(subnet(8)).subnets,
            |it| it.subnets.iter_mut().flatten().for_each(|it| it.gateway = None),
            |it| it.network_interface = "br0".into(),
            |it| it.dns_enabled = true,
        ];
        for spoil in spoils {
            let mut found = wanted(subnet(7));
            spoil(&mut found);
            assert!(matches!(judge(Some(&found), subnet(7)), plan::Network::Other(_)));
        }
    }
}
