//! What may happen in a night.

use std::fmt;

use crate::hosts::services::seeds::Dice;
use crate::hosts::services::support::{HTTP, service};

/// Which version of a service Git wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Absent,
    /// That becomes well; by its image's tag.
    Good(&'static str),
    /// That runs, and never becomes well.
    Ill,
    /// Whose program is not there.
    Broken,
    /// Whose image nobody has.
    Missing,
}

/// What a replica keeps its data in.
pub const VOLUME: &str = "volume \"data\" {\n    path = \"/data\"\n  }";

/// A service that the host may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Stateless; well once it listens.
    Web,
    /// Stateless, and asked how it is.
    Asked,
    /// With a volume, and a second to end.
    Db,
    /// Two replicas, each with a volume of its own.
    Twins,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Web, Self::Asked, Self::Db, Self::Twins];

    pub fn name(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Asked => "asked",
            Self::Db => "db",
            Self::Twins => "twins",
        }
    }

    /// What its containers are labelled with as their replicas; nothing where they have no number.
    pub fn replicas(self) -> &'static [&'static str] {
        match self {
            Self::Twins => &["0", "1"],
            _ => &[""],
        }
    }

    fn has_volume(self) -> bool {
        matches!(self, Self::Db | Self::Twins)
    }

    /// What Git says of it.
    pub fn manifest(self, version: Version) -> String {
        self.manifest_with(version, &self.own_lines())
    }

    /// The same, with other lines of its own.
    pub fn manifest_with(self, version: Version, own: &str) -> String {
        let tag = match version {
            Version::Absent => return String::new(),
            Version::Good(tag) => tag,
            Version::Ill | Version::Broken | Version::Missing => "1",
        };
        let more = [own.to_string(), self.command(version), self.health(version)].join("\n  ");
        let text = service(self.name(), tag, &more);
        match version {
            Version::Missing => text.replace("localhost/web:", "localhost/none:"),
            _ => text,
        }
    }

    fn own_lines(self) -> String {
        match self {
            Self::Web => HTTP.into(),
            Self::Asked => String::new(),
            Self::Db => VOLUME.into(),
            Self::Twins => format!("replicas = 2\n  {VOLUME}"),
        }
    }

    fn command(self, version: Version) -> String {
        let line = match version {
            Version::Broken => return "command = [\"/bin/none\"]".into(),
            _ => self.program(),
        };
        format!("command = [\"/bin/sh\", \"-c\", \"{line}\"]")
    }

    /// Serves until it is told to end. Whoever has a volume holds its lock for as long as it lives,
    /// and writes down that somebody else did: the kernel lets go of a lock with its holder, however
    /// that ends, and nobody learns before it that it has ended. Who was the first of all is kept.
    pub fn program(self) -> String {
        let locks = "exec 9>>/data/lock; flock -n 9 || echo $HOSTNAME >>/data/twice; \
                     test -s /data/made || echo $HOSTNAME >/data/made; ";
        let (locks, ends) = match self {
            _ if !self.has_volume() => ("", "exit 0"),
            Self::Db => (locks, "sleep 1; exit 0"),
            _ => (locks, "exit 0"),
        };
        format!("{locks}trap '{ends}' TERM; httpd -f -p 3000 -h /www 9>&- & wait")
    }

    fn health(self, version: Version) -> String {
        let command = match (self, version) {
            (_, Version::Ill) => "false",
            (Self::Asked | Self::Db, _) => "wget -qO- localhost:3000",
            _ => return String::new(),
        };
        format!(
            "health {{\n    command  = \"{command}\"\n    interval = \"500ms\"\n    \
             timeout  = \"5s\"\n    retries  = 2\n  }}"
        )
    }
}

/// Something that happens.
#[derive(Debug, Clone, Copy)]
pub enum Happening {
    /// Git says something else.
    Commit(Kind, Version),
    /// Somebody does this to every container of a service.
    Podman(&'static str, Kind),
    /// Somebody does this on the host.
    Command(&'static str),
    /// The agent is stopped, or started again.
    Agent,
    /// The server is killed, or started again.
    Server,
    /// The host goes down in good order, and comes back.
    Reboot,
    /// It loses its power, and gets it back.
    PowerCut,
}

/// What is done to containers without a volume alone: whoever does it to others may have two with
/// one volume, and nobody can keep them from it. Podman also starts again what was stopped, though
/// its successor runs; and it forgets what is started while it is removed, and lets it run.
const FOR_THE_STATELESS: &[&str] = &["podman restart --time 1", "podman rm --force --time 1"];

/// What somebody may do to a container; its id follows.
const TO_CONTAINERS: &[&str] = &[
    "podman kill",
    "podman stop --time 1",
    "podman restart --time 1",
    "podman rm --force --time 1",
    "podman pause",
    "podman unpause",
    "podman update --memory 100m",
    "podman network disconnect fluke",
    "podman rename --",
];

/// What may become of everything else. Not that the network is removed: where a container starts
/// at that moment its bridge is left, and Podman makes no network beside it.
pub const TO_THE_HOST: &[&str] = &[
    "ip link delete fluke-br0",
    "systemctl kill --signal=KILL --kill-whom=main podman.service",
    "systemctl stop podman.socket podman.service; systemctl start podman.socket",
];

/// Without a warning; systemd starts it again.
pub const AGENT_IS_KILLED: &str =
    "systemctl kill --signal=KILL --kill-whom=main fluke-agent.service";

impl Happening {
    pub fn drawn(dice: &mut Dice) -> Self {
        match dice.below(20) {
            0..7 => Self::Commit(dice.one_of(&Kind::ALL), Version::drawn(dice)),
            7..12 => Self::somebody(dice),
            12..14 => Self::Command(dice.one_of(TO_THE_HOST)),
            14..17 => Self::Command(AGENT_IS_KILLED),
            17 => Self::Agent,
            18 => Self::Server,
            _ => dice.one_of(&[Self::Reboot, Self::PowerCut]),
        }
    }

    fn somebody(dice: &mut Dice) -> Self {
        let (what, kind) = to_containers(dice, &Kind::ALL);
        Self::Podman(what, kind)
    }
}

/// What somebody does, and to which of these services.
pub fn to_containers(dice: &mut Dice, kinds: &[Kind]) -> (&'static str, Kind) {
    let (what, mut kinds) = (dice.one_of(TO_CONTAINERS), kinds.to_vec());
    kinds.retain(|kind| !(kind.has_volume() && FOR_THE_STATELESS.contains(&what)));
    (what, dice.one_of(&kinds))
}

impl Version {
    const GOOD: [Self; 2] = [Self::Good("1"), Self::Good("2")];

    pub fn drawn(dice: &mut Dice) -> Self {
        match dice.below(10) {
            0..5 => dice.one_of(&Self::GOOD),
            5..7 => Self::Absent,
            7..9 => Self::Ill,
            _ => dice.one_of(&[Self::Broken, Self::Missing]),
        }
    }

    /// What can be waited for.
    pub fn drawn_for_the_morning(dice: &mut Dice) -> Self {
        dice.one_of(&[Self::Good("1"), Self::Good("2"), Self::Absent])
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(kind, version) => write!(f, "Git says {version:?} of {}", kind.name()),
            Self::Podman(what, kind) => write!(f, "somebody does `{what}` to {}", kind.name()),
            Self::Command(what) => write!(f, "`{what}`"),
            Self::Agent => write!(f, "the agent is stopped, or started again"),
            Self::Server => write!(f, "the server is killed, or started again"),
            Self::Reboot => write!(f, "the host is rebooted"),
            Self::PowerCut => write!(f, "the host loses its power"),
        }
    }
}
