//! What may happen to three hosts in a night.

use std::fmt;

use crate::hosts::services::nights::happening::{
    AGENT_IS_KILLED, Kind, TO_THE_HOST, VOLUME, Version, to_containers,
};
use crate::hosts::services::seeds::Dice;

/// The services: one on every host, one that may be anywhere, and one with data.
pub const KINDS: [Kind; 3] = [Kind::Web, Kind::Asked, Kind::Twins];

/// What Git wants of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    pub version: Version,
    /// How many there are of it; none: one on every host.
    pub replicas: Option<u32>,
    /// Of which night its volume is, where it has one: what nobody has yet has to find its place while
    /// everything else happens.
    pub of_night: u64,
}

impl Want {
    /// What there is in the beginning.
    pub fn at_first(kind: Kind) -> Self {
        let replicas = (kind != Kind::Web).then_some(2);
        Self { version: Version::Good("1"), replicas, of_night: 0 }
    }

    /// All that can be there of it has its place.
    pub fn in_the_evening(kind: Kind, night: u64) -> Self {
        let replicas = (kind != Kind::Web).then_some(3);
        Self { version: Version::Good("1"), replicas, of_night: night }
    }

    fn drawn(dice: &mut Dice, kind: Kind, plan: Plan) -> Self {
        let (version, replicas) = (Version::drawn(dice), replicas(dice, kind));
        let before = match plan.server_dies {
            true => plan.night,
            // Now and then it has its old data again.
            false => plan.night.saturating_sub(1),
        };
        let of_night = dice.one_of(&[plan.night, plan.night, before]);
        Self { version, replicas, of_night }
    }

    /// What can be waited for. One is on every host, so that there is a place to ask for names.
    pub fn drawn_for_the_morning(dice: &mut Dice, kind: Kind, night: u64) -> Self {
        let version = match kind {
            Kind::Web => dice.one_of(&[Version::Good("1"), Version::Good("2")]),
            _ => Version::drawn_for_the_morning(dice),
        };
        Self { version, replicas: replicas(dice, kind), of_night: night }
    }

    /// What its volume is called.
    pub fn volume(self) -> String {
        format!("data-{}", self.of_night)
    }

    /// What Git says.
    pub fn manifest(self, kind: Kind) -> String {
        let mut lines = Vec::new();
        if let Some(replicas) = self.replicas {
            // They move while nights go on.
            lines.push(format!("replicas = {replicas}\n  reschedule_after = \"3s\""));
        }
        if kind == Kind::Twins {
            lines.push(VOLUME.replace("\"data\"", &format!("\"{}\"", self.volume())));
        }
        kind.manifest_with(self.version, &lines.join("\n  "))
    }
}

/// The one that may be anywhere may also be everywhere.
fn replicas(dice: &mut Dice, kind: Kind) -> Option<u32> {
    match kind {
        Kind::Web => None,
        Kind::Asked => dice.one_of(&[Some(1), Some(2), Some(3), None]),
        _ => dice.one_of(&[Some(1), Some(2), Some(3)]),
    }
}

/// What kind of night it is.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub night: u64,
    /// Then all volumes have their places in the evening. What only one host has heard of, and a
    /// server that has died since, nobody knows for as long as that host is away: a volume that is
    /// new that moment may be made again elsewhere. If the server lives, it may not, whatever happens.
    pub server_dies: bool,
}

impl Plan {
    pub fn of(night: u64) -> Self {
        Self { night, server_dies: night.is_multiple_of(2) }
    }
}

/// One of the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(pub usize);

impl At {
    pub const ALL: [Self; 3] = [Self(0), Self(1), Self(2)];
}

/// One end of a way: a host, or the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Host(At),
    Server,
}

/// Something that happens.
#[derive(Debug, Clone, Copy)]
pub enum Happening {
    /// Git says something else.
    Commit(Kind, Want),
    /// Somebody does this to every container of a service on a host.
    Podman(&'static str, Kind, At),
    /// Somebody does this on a host.
    Command(&'static str, At),
    /// The agent of a host is stopped, or started again.
    Agent(At),
    /// The server is killed, or started again.
    Server,
    /// A host loses its power, or gets it back: it may be away for long.
    Power(At),
    /// A host goes down in good order, and comes back.
    Reboot(At),
    /// Nothing gets to or from a host, or all of it again.
    Island(At),
    /// Nothing gets from the one to the other any more.
    Mute(End, End),
    /// Nothing gets between the two any more.
    Cut(End, End),
    /// Every way is free.
    Heal,
}

impl Happening {
    pub fn drawn(dice: &mut Dice, plan: Plan) -> Self {
        let at = dice.one_of(&At::ALL);
        match dice.below(24) {
            0..6 => {
                let kind = dice.one_of(&KINDS);
                Self::Commit(kind, Want::drawn(dice, kind, plan))
            }
            6..9 => {
                let (what, kind) = to_containers(dice, &KINDS);
                Self::Podman(what, kind, at)
            }
            9 => Self::Command(dice.one_of(TO_THE_HOST), at),
            10 => Self::Command("ip link delete fluke0", at),
            11..13 => Self::Command(AGENT_IS_KILLED, at),
            13 => Self::Agent(at),
            14..16 if plan.server_dies => Self::Server,
            14..16 | 20..22 => Self::Island(at),
            16..19 => Self::Power(at),
            19 => Self::Reboot(at),
            22 => Self::on_the_way(dice, at),
            _ => Self::Heal,
        }
    }

    fn on_the_way(dice: &mut Dice, at: At) -> Self {
        let others = At::ALL.into_iter().filter(|other| *other != at).map(End::Host);
        let others: Vec<End> = others.chain([End::Server]).collect();
        let (one, other) = (End::Host(at), dice.one_of(&others));
        dice.one_of(&[Self::Mute(one, other), Self::Mute(other, one), Self::Cut(one, other)])
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "app-{}", self.0 + 1)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(at) => write!(f, "{at}"),
            Self::Server => write!(f, "the server"),
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.replicas {
            Some(replicas) => write!(f, "{:?}, {replicas} of it,", self.version)?,
            None => write!(f, "{:?}, everywhere,", self.version)?,
        }
        write!(f, " volumes of night {},", self.of_night)
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(kind, want) => write!(f, "Git says {want} of {}", kind.name()),
            Self::Podman(what, kind, at) => {
                write!(f, "{at}: somebody does `{what}` to {}", kind.name())
            }
            Self::Command(what, at) => write!(f, "{at}: `{what}`"),
            Self::Agent(at) => write!(f, "{at}: the agent is stopped, or started again"),
            Self::Server => write!(f, "the server is killed, or started again"),
            Self::Power(at) => write!(f, "{at}: the power goes, or comes back"),
            Self::Reboot(at) => write!(f, "{at}: the host is rebooted"),
            Self::Island(at) => write!(f, "{at}: the host is cut off, or reunited"),
            Self::Mute(from, to) => write!(f, "nothing gets from {from} to {to}"),
            Self::Cut(one, other) => write!(f, "nothing gets between {one} and {other}"),
            Self::Heal => write!(f, "every way is free"),
        }
    }
}
