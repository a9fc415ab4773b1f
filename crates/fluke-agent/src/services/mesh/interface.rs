//! The interface itself: looked at, and told. Makes no decisions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use fluke_model::directory::Subnet;
use rustix::io::Errno;
use tokio::time::{sleep, timeout};

use super::MeshError;
use super::device::{Device, Order};
use super::endpoints::Own;
use super::key::PrivateKey;
use super::net::Net;
use super::netlink::message::Message;
use super::netlink::nftables::Chain;
use super::netlink::route::{self, Address, Link};
use super::netlink::{Family, Socket, nftables, wireguard};
use super::plan::{Change, Seen, SeenLink};
use super::uapi;
use super::userspace::{self, Keeper};
use crate::host::daemon;
use crate::services::bridge::INTERFACE as BRIDGE;

/// Whether the host forwards packets between its networks.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// What the kernel calls its own WireGuard.
const KERNEL: &str = "wireguard";
/// What it calls an interface that a program serves.
const PROGRAM: &str = "tun";
/// Where such programs have their sockets.
const SOCKETS: &str = "/var/run/wireguard";
/// How long a program that was started may take to have a port.
const BEGINNING: Duration = Duration::from_secs(1);
/// How long a program that was killed may take to go; only one that hangs in the kernel takes longer.
const BURIAL: Duration = Duration::from_secs(5);
/// Between looks whether it has.
const PAUSE: Duration = Duration::from_millis(10);
/// Interfaces that lead out only by another one, if at all.
const VIRTUAL: [&str; 5] = ["bridge", "dummy", "macvlan", PROGRAM, KERNEL];

/// An interface by its name, whether it is there or not.
#[derive(Debug)]
pub struct Interface {
    /// What it is called.
    pub name: String,
    /// The program that serves it where the kernel does not.
    pub program: PathBuf,
    /// Who keeps that program running.
    pub keeper: Keeper,
    /// Where such programs have their sockets.
    pub sockets: PathBuf,
}

impl Interface {
    /// The usual one, under a name.
    pub fn called(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            program: super::PROGRAM.into(),
            keeper: Keeper::here(),
            sockets: SOCKETS.into(),
        }
    }

    /// Whether there is one that serves WireGuard, or rules of ours.
    pub fn is_there(&self) -> bool {
        let has_link = self.link().ok().flatten().is_some_and(|link| is_wireguard(&link));
        has_link || comments().is_ok_and(|rules| !rules.is_empty())
    }

    /// All that can be seen of it, on a host with this subnet.
    pub async fn look(&self, own: Subnet) -> Result<Seen, MeshError> {
        let link = self.link().map_err(|source| self.unseen("the interface", source))?;
        let forwarding = std::fs::read_to_string(FORWARDING);
        let rules = comments().map_err(|source| self.unseen("the rules of nftables", source))?;
        let shut = self.shut(own);
        let mut seen = Seen {
            shut: shut.map_err(|source| self.unseen("the rules of iptables", source))?,
            forwarding: forwarding.is_ok_and(|text| text.trim() == "1"),
            rules,
            ..Seen::default()
        };
        if let Some(link) = link {
            match self.device(&link).await {
                Err(MeshError::Unseen { source, .. }) if is_silence(&link, &source) => {
                    seen.stuck = true;
                }
                device => seen.device = device?,
            }
            let around = self.around(&link);
            seen.link = Some(around.map_err(|source| self.unseen("its addresses", source))?);
        }
        Ok(seen)
    }

    /// Makes one change.
    pub async fn make(
        &self,
        change: &Change,
        key: &PrivateKey,
        own: Subnet,
    ) -> Result<(), MeshError> {
        let done = match change {
            Change::Create => return self.create().await,
            Change::Replace => return self.replace().await,
            Change::Forwarding => std::fs::write(FORWARDING, "1"),
            Change::Rules => {
                let (batch, confirmed) = nftables::replace(&self.name, Net::of_containers(own));
                Socket::open(Family::Netfilter).and_then(|socket| socket.tell(&batch, confirmed))
            }
            Change::Open(chain) => self.open(*chain, own),
            Change::Key => self.tell(&Order::Key(key)).await,
            Change::Port(port) => self.tell(&Order::Port(*port)).await,
            Change::Peer(peer, order) => self.tell(&Order::Peer(*peer, order)).await,
            Change::Mtu(mtu) => self.change(|index| route::set_mtu(index, *mtu)),
            Change::Up => self.change(route::link_up),
            Change::AddAddress(net) => self.change(|index| route::add_address(index, *net)),
            Change::RemoveAddress(net) => self.change(|index| route::remove_address(index, *net)),
            Change::AddRoute(net) => self.change(|index| route::add_route(index, *net, own.host())),
            Change::RemoveRoute(net, metric) => {
                gone(self.change(|index| route::remove_route(index, *net, *metric)))
            }
        };
        done.map_err(|source| MeshError::NotMade { source })
    }

    /// Removes it, and the rules with it; what is not there is fine, and what is somebody else's
    /// stays.
    pub async fn remove(&self) -> Result<(), MeshError> {
        let removed = async {
            if let Some(link) = self.link()?.filter(is_wireguard) {
                gone(Socket::open(Family::Route)?.change(route::delete_link(link.index)))?;
            }
            let (batch, confirmed) = nftables::remove();
            Socket::open(Family::Netfilter)?.tell(&batch, confirmed)?;
            for chain in Chain::ALL {
                let (batch, confirmed) = nftables::close(chain, &self.openings(chain)?);
                if confirmed > 0 {
                    Socket::open(Family::Netfilter)?.tell(&batch, confirmed)?;
                }
            }
            Ok(())
        };
        removed.await.map_err(|source| MeshError::NotMade { source })
    }

    /// The number of the interface, if it is there.
    pub fn index(&self) -> Option<u32> {
        self.link().ok().flatten().map(|link| link.index)
    }

    /// The networks that this host is in or leads to, and that are in the way of the mesh; not those
    /// of this interface, nor of the bridge of its containers.
    pub fn foreign(&self) -> io::Result<BTreeSet<Net>> {
        let socket = Socket::open(Family::Route)?;
        let mut ours = BTreeSet::new();
        for name in [&self.name, BRIDGE] {
            ours.extend(found(socket.ask(route::get_link(name)))?.map(|link| link.index));
        }
        let mut nets = BTreeSet::new();
        socket.list(route::get_routes(), |_, body| {
            let is_ours = |it: &route::Route| it.index.is_some_and(|index| ours.contains(&index));
            nets.extend(route::read_route(body).filter(|it| !is_ours(it)).map(|it| it.to));
        })?;
        socket.list(route::get_addresses(), |_, body| {
            let address = route::read_address(body).filter(|it| !ours.contains(&it.index));
            if let Some((IpAddr::V4(address), bits)) = address.map(|it| (it.ip, it.bits)) {
                nets.insert(Net::around(address, bits));
            }
        })?;
        nets.retain(|net| net.is_in_the_way());
        Ok(nets)
    }

    /// How long packets to all of these may be on their way; none where that cannot be told of any.
    pub fn underlay(&self, to: impl Iterator<Item = IpAddr>) -> io::Result<Option<u32>> {
        let socket = Socket::open(Family::Route)?;
        let mut links = BTreeMap::new();
        let mut least = None;
        for to in to {
            // What is not to be reached now has no length.
            let Ok((_, way)) = socket.ask(route::get_way(to)) else { continue };
            let mtu = match route::read_way(&way) {
                (_, Some(mtu)) => Some(mtu),
                (None, None) => None,
                (Some(index), None) => match links.entry(index) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(unknown) => {
                        let link = found(socket.ask(route::get_link_at(index)))?;
                        *unknown.insert(link.map(|link| link.mtu))
                    }
                },
            };
            least = least.into_iter().chain(mtu).min();
        }
        Ok(least)
    }

    /// The host's own addresses, but for those of this interface and of the bridge of its containers:
    /// a tunnel through itself leads nowhere.
    pub fn own_addresses(&self) -> io::Result<Vec<Own>> {
        let socket = Socket::open(Family::Route)?;
        let mut addresses = Vec::new();
        socket.list(route::get_addresses(), |_, body| {
            addresses.extend(route::read_address(body).filter(|it| it.global));
        })?;
        // Of all interfaces only these are asked for: a host has one for each container, and to
        // tell of it takes the kernel longer than all the rest.
        let mut links = BTreeMap::new();
        for address in &addresses {
            if let Entry::Vacant(link) = links.entry(address.index) {
                link.insert(found(socket.ask(route::get_link_at(address.index)))?);
            }
        }
        let is_ours = |link: &Link| link.name == self.name || link.name == BRIDGE;
        let leads_out = |link: &&Link| link.up && !link.loopback && !is_ours(link);
        let own = |it: &Address| {
            let link = links.get(&it.index)?.as_ref().filter(leads_out)?;
            let is_virtual = VIRTUAL.contains(&link.kind.as_str());
            Some(Own { ip: it.ip, bits: it.bits, is_virtual })
        };
        Ok(addresses.iter().filter_map(own).collect())
    }

    /// The chains of iptables that keep out what is ours.
    fn shut(&self, own: Subnet) -> io::Result<Vec<Chain>> {
        let mut shut = Vec::new();
        for chain in Chain::ALL {
            if self.is_shut(chain, own)? {
                shut.push(chain);
            }
        }
        Ok(shut)
    }

    fn is_shut(&self, chain: Chain, own: Subnet) -> io::Result<bool> {
        let body = match Socket::open(Family::Netfilter)?.ask(nftables::get_their_chain(chain)) {
            Ok((_, body)) => body,
            Err(error) if is(&error, Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error),
        };
        let rules = rules(nftables::get_their_rules(chain))?;
        let is_there = |wanted| rules.iter().any(|rule| rule.comment == wanted);
        let is_open = nftables::openings(chain, &self.name, own).into_iter().all(is_there);
        Ok(!is_open && nftables::is_closed(&body, &rules))
    }

    fn open(&self, chain: Chain, own: Subnet) -> io::Result<()> {
        let (batch, confirmed) = nftables::open(chain, &self.name, own, &self.openings(chain)?);
        Socket::open(Family::Netfilter)?.tell(&batch, confirmed)
    }

    /// The rules in iptables' chain that were made here.
    fn openings(&self, chain: Chain) -> io::Result<Vec<nftables::Rule>> {
        let mut rules = rules(nftables::get_their_rules(chain))?;
        let beginning = nftables::opening(&self.name);
        rules.retain(|rule| rule.comment.starts_with(&beginning));
        Ok(rules)
    }

    fn link(&self) -> io::Result<Option<Link>> {
        found(Socket::open(Family::Route)?.ask(route::get_link(&self.name)))
    }

    /// What WireGuard has, whoever it is here.
    async fn device(&self, link: &Link) -> Result<Device, MeshError> {
        let device = match link.kind.as_str() {
            KERNEL => self.kernel_device(),
            PROGRAM => match uapi::say(&self.socket(), uapi::GET).await {
                Ok(answer) => uapi::read(&answer),
                Err(error) => Err(error),
            },
            kind => {
                let (interface, kind) = (self.name.clone(), kind.to_owned());
                return Err(MeshError::Foreign { interface, kind });
            }
        };
        device.map_err(|source| self.unseen("WireGuard's state", source))
    }

    fn kernel_device(&self) -> io::Result<Device> {
        let (socket, family) = kernel()?;
        let mut device = Device::default();
        socket.list(wireguard::get_device(family, &self.name), |_, body| {
            wireguard::read_device(body, &mut device);
        })?;
        Ok(device)
    }

    /// What the kernel has of it besides.
    fn around(&self, link: &Link) -> io::Result<SeenLink> {
        let mut seen = SeenLink { up: link.up, mtu: link.mtu, ..SeenLink::default() };
        let socket = Socket::open(Family::Route)?;
        socket.list(route::get_addresses(), |_, body| {
            let address = route::read_address(body).filter(|it| it.index == link.index);
            if let Some((IpAddr::V4(address), bits)) = address.map(|it| (it.ip, it.bits)) {
                seen.addresses.insert(Net { address, bits });
            }
        })?;
        socket.list(route::get_routes(), |_, body| {
            let route = route::read_route(body).filter(|it| it.index == Some(link.index));
            seen.routes.extend(route.map(|it| ((it.to, it.metric), it.source)));
        })?;
        Ok(seen)
    }

    async fn create(&self) -> Result<(), MeshError> {
        let made = Socket::open(Family::Route)
            .and_then(|socket| socket.change(route::new_wireguard(&self.name)));
        match made {
            Ok(()) => Ok(()),
            // Somebody was quicker; what it is, the next look tells.
            Err(error) if is(&error, Errno::EXIST) => Ok(()),
            Err(error) if is(&error, Errno::OPNOTSUPP) => {
                userspace::start(&self.program, self.keeper, &self.name, &self.socket()).await?;
                self.comes_up().await;
                Ok(())
            }
            Err(source) => Err(MeshError::NotMade { source }),
        }
    }

    /// Waits until the program has taken a port, any: one that is set before that is refused without a
    /// word where somebody else has it. A program that takes none by itself is not waited for.
    async fn comes_up(&self) {
        let has_port = async {
            loop {
                let answer = uapi::say(&self.socket(), uapi::GET).await;
                if answer.and_then(|it| uapi::read(&it)).is_ok_and(|it| it.port != 0) {
                    return;
                }
                sleep(PAUSE).await;
            }
        };
        let _ = timeout(BEGINNING, has_port).await;
    }

    /// Ends the program that serves it, and with it the interface, and makes it anew.
    async fn replace(&self) -> Result<(), MeshError> {
        let stuck = |why: String| MeshError::Stuck { interface: self.name.clone(), why };
        let name = self.name.clone();
        let killed = tokio::task::spawn_blocking(move || daemon::kill_servers(&name)).await;
        if killed.unwrap_or_default() == 0 {
            return Err(stuck("no process is seen to have it open".to_owned()));
        }
        let gone = async {
            while self.link()?.is_some() {
                sleep(PAUSE).await;
            }
            io::Result::Ok(())
        };
        match timeout(BURIAL, gone).await {
            Ok(gone) => gone.map_err(|source| self.unseen("the interface", source))?,
            Err(_) => return Err(stuck(format!("it was killed {} s ago", BURIAL.as_secs()))),
        }
        self.create().await
    }

    async fn tell(&self, order: &Order<'_>) -> io::Result<()> {
        match self.link()? {
            None => Err(Errno::NODEV.into()),
            Some(link) if link.kind == KERNEL => {
                let (socket, family) = kernel()?;
                socket.change(wireguard::set_device(family, &self.name, order))
            }
            Some(_) => uapi::accepted(&uapi::say(&self.socket(), &uapi::words(order)).await?),
        }
    }

    fn change(&self, message: impl FnOnce(u32) -> Message) -> io::Result<()> {
        let link = self.link()?.ok_or(Errno::NODEV)?;
        Socket::open(Family::Route)?.change(message(link.index))
    }

    fn socket(&self) -> PathBuf {
        self.sockets.join(format!("{}.sock", self.name))
    }

    fn unseen(&self, what: &'static str, source: io::Error) -> MeshError {
        MeshError::Unseen { interface: self.name.clone(), what, source }
    }
}

fn is_wireguard(link: &Link) -> bool {
    [KERNEL, PROGRAM].contains(&link.kind.as_str())
}

/// The interface that was asked for, if it is there.
fn found(answer: io::Result<(u16, Vec<u8>)>) -> io::Result<Option<Link>> {
    match answer {
        Ok((_, body)) => match route::read_link(&body) {
            Some(link) => Ok(Some(link)),
            None => Err(io::ErrorKind::InvalidData.into()),
        },
        Err(error) if is(&error, Errno::NODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether this is how a program is that hangs.
fn is_silence(link: &Link, error: &io::Error) -> bool {
    link.kind == PROGRAM && error.kind() == io::ErrorKind::TimedOut
}

/// The kernel's WireGuard, if it has one.
fn kernel() -> io::Result<(Socket, u16)> {
    let socket = Socket::open(Family::Generic)?;
    let (_, body) = socket.ask(wireguard::get_family())?;
    let family = wireguard::read_family(&body).ok_or(io::ErrorKind::InvalidData)?;
    // What is left of the conversation must not be taken for the next answer.
    Ok((Socket::open(Family::Generic)?, family))
}

/// The rules that are asked for; none where there is no such table.
fn rules(of: Message) -> io::Result<Vec<nftables::Rule>> {
    let mut rules = Vec::new();
    let listed = Socket::open(Family::Netfilter)?.list(of, |_, body| {
        rules.push(nftables::read_rule(body));
    });
    match listed {
        Err(error) if !is(&error, Errno::NOENT) => Err(error),
        _ => Ok(rules),
    }
}

/// The comments of our rules that are in force, sorted.
fn comments() -> io::Result<Vec<String>> {
    let ours = rules(nftables::get_rules())?.into_iter().filter(nftables::Rule::is_ours);
    let mut comments: Vec<String> = ours.map(|rule| rule.comment).collect();
    comments.sort();
    Ok(comments)
}

/// To remove what is not there is done already.
fn gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if is(&error, Errno::SRCH) || is(&error, Errno::NODEV) => Ok(()),
        done => done,
    }
}

fn is(error: &io::Error, code: Errno) -> bool {
    error.raw_os_error() == Some(code.raw_os_error())
}
