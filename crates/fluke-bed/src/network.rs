//! The network of a bed: a bridge without a way out, one cable per host, and scissors.
//!
//! Cuts are made on the machine, in the bridge: nothing that a host does can undo them, and they
//! outlive its reboots.

use std::net::Ipv4Addr;

use crate::command::{self, CommandError};

/// The machine itself, on every bed.
pub const GATEWAY: u8 = 1;
/// The first host.
pub const FIRST_HOST: u8 = 11;
/// The last one.
pub const LAST_HOST: u8 = 250;
/// Beds take the first free one of `198.18.0.0/24` … `198.19.255.0/24`: kept for benchmarks (RFC
/// 2544), so that no network that somebody needs is behind it.
const RANGE: std::ops::RangeInclusive<u8> = 18..=19;

/// How many bits of an address are the same all over a bed.
const LENGTH: u32 = 24;

/// A bed's addresses: `198.A.B.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet(pub u8, pub u8);

impl Subnet {
    /// The address of the machine or of a host.
    pub fn address(self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, self.0, self.1, number)
    }

    /// The hardware address of a host, the same after every reboot.
    pub fn mac(self, number: u8) -> String {
        format!("02:fb:c6:{:02x}:{:02x}:{number:02x}", self.0, self.1)
    }

    /// The first one that `taken` does not speak of.
    pub fn free(taken: impl Fn(Subnet) -> bool) -> Option<Subnet> {
        let all = RANGE.flat_map(|a| (0..=255).map(move |b| Subnet(a, b)));
        all.into_iter().find(|subnet| !taken(*subnet))
    }

    /// Whether this machine has a route to it, to a part of it, or to more than it.
    pub fn is_routed(self, routes: &str) -> bool {
        let own = u32::from(self.address(0));
        routes.lines().filter_map(destination).any(|(address, length)| {
            // Two networks overlap if they are the same as far as the larger one goes.
            let rest = 32 - length.min(LENGTH);
            u32::from(address) >> rest == own >> rest
        })
    }
}

/// Where a route leads to: an address, and how many bits of it count. None if it leads everywhere,
/// which VPNs write as two halves.
fn destination(route: &str) -> Option<(Ipv4Addr, u32)> {
    // There may be a word in front that says what kind of route it is.
    let mut words = route.split_whitespace().take(2).take_while(|word| *word != "default");
    let (address, length) = words.find_map(|word| {
        let (address, length) = word.split_once('/').unwrap_or((word, "32"));
        Some((address.parse::<Ipv4Addr>().ok()?, length.parse::<u32>().ok()?))
    })?;
    (2..=32).contains(&length).then_some((address, length))
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "198.{}.{}.0/24", self.0, self.1)
    }
}

impl std::str::FromStr for Subnet {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no subnet of a bed");
        let parts: Vec<_> = text.trim().split('.').collect();
        match parts[..] {
            ["198", a, b, "0/24"] => {
                Ok(Self(a.parse().map_err(|_| wrong())?, b.parse().map_err(|_| wrong())?))
            }
            _ => Err(wrong()),
        }
    }
}

/// The network of one bed.
#[derive(Debug, Clone)]
pub struct Network {
    id: String,
    /// Its addresses.
    pub subnet: Subnet,
}

impl Network {
    /// Speaks of a network, whether it is there or not.
    pub fn new(id: &str, subnet: Subnet) -> Self {
        Self { id: id.to_string(), subnet }
    }

    fn bridge(&self) -> String {
        format!("fb-{}", self.id)
    }

    /// The machine's end of a host's cable.
    fn cable(&self, number: u8) -> String {
        format!("fb-{}.{number}", self.id)
    }

    /// The name of a host's network namespace.
    pub fn namespace(&self, number: u8) -> String {
        format!("fb-{}-{number}", self.id)
    }

    fn table(&self) -> String {
        format!("fluke_bed_{}", self.id.replace('-', "_"))
    }

    /// Makes bridge and scissors, unless they are there.
    pub fn make(&self) -> Result<(), CommandError> {
        let (bridge, gateway) = (self.bridge(), self.subnet.address(GATEWAY));
        if !command::holds("ip", &["link", "show", "dev", &bridge]) {
            batch(
                &[],
                &format!(
                    "link add {bridge} type bridge forward_delay 0\n\
                     addr add {gateway}/24 dev {bridge}\n\
                     link set {bridge} up\n"
                ),
            )?;
        }
        let table = self.table();
        if command::holds("nft", &["list", "table", "bridge", &table]) {
            return Ok(());
        }
        nft(&format!(
            "table bridge {table} {{
               set alone {{ type ether_addr; }}
               set cut {{ type ipv4_addr . ipv4_addr; }}
               chain lossy {{ }}
               chain check {{
                 jump lossy
                 ether saddr @alone drop
                 ether daddr @alone drop
                 ip saddr . ip daddr @cut drop
               }}
               chain forward {{ type filter hook forward priority 0; jump check; }}
               chain input {{ type filter hook input priority 0; jump check; }}
               chain output {{ type filter hook output priority 0; jump check; }}
             }}"
        ))
    }

    /// Gives a host a new network namespace with a cable to the bridge. What was in the old one is
    /// gone, as after a reboot.
    pub fn plug(&self, number: u8) -> Result<(), CommandError> {
        self.unplug(number);
        let (cable, namespace, bridge) =
            (self.cable(number), self.namespace(number), self.bridge());
        let (mac, address) = (self.subnet.mac(number), self.subnet.address(number));
        command::run("ip", &["netns", "add", &namespace])?;
        batch(
            &[],
            &format!(
                "link add {cable} type veth peer name eth0 address {mac} netns {namespace}\n\
                 link set {cable} master {bridge} up\n"
            ),
        )?;
        let inside = format!("link set lo up\naddr add {address}/24 dev eth0\nlink set eth0 up\n");
        batch(&["-n", &namespace], &inside)
    }

    /// Takes a host's cable and namespace away.
    pub fn unplug(&self, number: u8) {
        command::holds("ip", &["link", "del", &self.cable(number)]);
        command::holds("ip", &["netns", "del", &self.namespace(number)]);
    }

    /// Pulls a host's cable out of the bridge, or puts it back: the host sees it.
    pub fn carry(&self, number: u8, carry: bool) -> Result<(), CommandError> {
        let state = if carry { "up" } else { "down" };
        command::run("ip", &["link", "set", &self.cable(number), state]).map(drop)
    }

    /// From now on nothing gets to or from the host; it sees nothing of it but silence.
    pub fn isolate(&self, number: u8) -> Result<(), CommandError> {
        let mac = self.subnet.mac(number);
        nft(&format!("add element bridge {} alone {{ {mac} }}", self.table()))
    }

    /// From now on nothing gets from one address to the other.
    pub fn cut(&self, from: Ipv4Addr, to: Ipv4Addr) -> Result<(), CommandError> {
        nft(&format!("add element bridge {} cut {{ {from} . {to} }}", self.table()))
    }

    /// From now on so many of a hundred packets to or from the host are lost.
    pub fn lose(&self, number: u8, percent: u8) -> Result<(), CommandError> {
        let (table, mac) = (self.table(), self.subnet.mac(number));
        let often = match percent {
            100.. => String::new(),
            _ => format!("numgen random mod 100 < {percent}"),
        };
        let rule =
            |side: &str| format!("add rule bridge {table} lossy ether {side} {mac} {often} drop\n");
        nft(&(rule("saddr") + &rule("daddr")))
    }

    /// Undoes every cut and every loss.
    pub fn heal(&self) -> Result<(), CommandError> {
        let table = self.table();
        nft(&format!(
            "flush chain bridge {table} lossy\n\
             flush set bridge {table} alone\n\
             flush set bridge {table} cut\n"
        ))
    }

    /// Undoes the isolation of one host; cuts between pairs and losses stay.
    pub fn reunite(&self, number: u8) -> Result<(), CommandError> {
        let mac = self.subnet.mac(number);
        let table = self.table();
        // Added first: deleting what is not there is an error.
        nft(&format!(
            "add element bridge {table} alone {{ {mac} }}\n\
             delete element bridge {table} alone {{ {mac} }}\n"
        ))
    }

    /// Takes everything away.
    pub fn remove(&self) {
        let namespaces = command::run("ip", &["netns", "list"]).unwrap_or_default();
        let prefix = format!("fb-{}-", self.id);
        let names = namespaces.lines().filter_map(|line| line.split_whitespace().next());
        for name in names {
            if let Some(number) = name.strip_prefix(&prefix).and_then(|text| text.parse().ok()) {
                self.unplug(number);
            }
        }
        command::holds("ip", &["link", "del", &self.bridge()]);
        command::holds("nft", &["delete", "table", "bridge", &self.table()]);
    }
}

fn nft(script: &str) -> Result<(), CommandError> {
    command::run_with("nft", &["-f", "-"], script).map(drop)
}

/// Many `ip` commands in one process.
fn batch(options: &[&str], script: &str) -> Result<(), CommandError> {
    command::run_with("ip", &[options, &["-batch", "-"]].concat(), script).map(drop)
}

#[cfg(test)]
mod tests {
    use super::Subnet;

    #[test]
    fn a_bed_takes_the_first_subnet_that_nobody_has() {
        let routes = "default via 198.18.2.1 dev eth0\n198.18.0.0/24 dev x scope link\n\
                      198.18.1.128/25 via 198.18.0.9 dev x\n";
        let free = Subnet::free(|subnet| subnet.is_routed(routes));
        assert_eq!(free, Some(Subnet(18, 2)));
        assert_eq!(Subnet::free(|_| true), None);
    }

    #[test]
    fn a_subnet_is_routed_if_a_route_leads_to_some_of_it_and_not_only_everywhere() {
        for (route, is_routed) in [
            ("198.18.7.0/24 dev x proto kernel scope link src 198.18.7.1", true),
            ("198.18.0.0/15 via 10.0.0.1 dev x", true),
            ("198.18.4.0/22 dev x", true),
            ("192.0.0.0/4 dev x", true),
            ("198.18.7.64/26 dev x", true),
            ("198.18.7.9 via 10.0.0.1 dev x", true),
            ("blackhole 198.18.0.0/16", true),
            ("local 198.18.7.1 dev x table local", true),
            ("198.18.70.0/24 dev x", false),
            ("198.18.8.0/22 dev x", false),
            ("198.19.0.0/16 dev x", false),
            ("10.0.0.0/8 via 198.18.7.1 dev x src 198.18.7.2", false),
            ("default via 198.18.7.1 dev x", false),
            ("unreachable default dev lo", false),
            ("0.0.0.0/1 dev tun0", false),
            ("128.0.0.0/1 dev tun0", false),
            ("nexthop via 198.18.7.1 dev x weight 1", false),
            ("", false),
        ] {
            assert_eq!(Subnet(18, 7).is_routed(route), is_routed, "{route}");
        }
    }

    #[test]
    fn a_subnet_is_read_as_it_is_written() {
        for subnet in [Subnet(18, 0), Subnet(19, 255)] {
            assert_eq!(subnet.to_string().parse(), Ok(subnet));
        }
        for wrong in ["198.18.0.0/16", "192.168.0.0/24", "198.300.0.0/24", ""] {
            assert!(wrong.parse::<Subnet>().is_err(), "{wrong}");
        }
    }
}
