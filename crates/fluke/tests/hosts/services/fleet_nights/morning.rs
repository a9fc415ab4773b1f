//! What is on the hosts in the morning, and what of it is not as it should be.

use std::collections::{BTreeMap, BTreeSet};

use super::happening::{At, KINDS, Want};
use crate::hosts::services::nights::happening::{Kind, Version};
use crate::hosts::services::premises::VOLUMES;
use crate::hosts::support::Host;

/// What Git wants.
pub type Wanted = BTreeMap<&'static str, (Kind, Want)>;

/// What is on one host, by its own account.
#[derive(Debug, Clone, Default)]
pub struct Found {
    containers: Vec<Container>,
    /// What volumes there are, and which container was the first in each.
    pub volumes: BTreeMap<String, String>,
    /// Where the name of each service leads to there, and what answers.
    led: BTreeSet<(String, String, String)>,
}

/// A container, whoever's, in whatever state.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Container {
    id: String,
    /// Of a service, or what a stranger is called.
    of: String,
    /// Which of its replicas; `-` for a host's own one.
    replica: String,
    state: String,
    image: String,
    /// Where it is reached, if it runs.
    address: Option<String>,
}

impl Found {
    /// Looks at everything on a host.
    pub fn on(host: &Host) -> Self {
        let line = r#".[] | .Labels as $its | ["is", .Id, $its["fluke.service.name"] // .Names[0],
                      $its["fluke.replica"] // "-", .State, .Image] | join(" ")"#;
        let at = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let names = KINDS.map(Kind::name).join(" ");
        let said = host.try_run(&format!(
            r#"podman ps --all --external --format json | jq --raw-output '{line}'
               podman ps --quiet | xargs --no-run-if-empty podman inspect --format 'at {{{{.Id}}}} {at}'
               for it in {VOLUMES}/*/_data; do echo has $(basename $(dirname $it)) $(cat $it/made); done
               gateway=$(ip -4 -oneline address show dev fluke-br0 | awk '{{print $4}}' | cut -d/ -f1)
               for name in {names}; do
                   for at in $(dig +short +tries=1 +time=1 @$gateway $name.internal); do
                       echo leads $name $at $(curl --silent --fail --max-time 2 http://$at:3000)
                   done
               done"#
        ));
        Self::told(&said.stdout)
    }

    fn told(said: &str) -> Self {
        let mut found = Self::default();
        said.lines().for_each(|line| found.takes(line));
        found
    }

    fn takes(&mut self, line: &str) {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["is", id, of, replica, state, image] => self.containers.push(Container {
                id: id.into(),
                of: of.into(),
                replica: replica.into(),
                state: state.into(),
                image: image.into(),
                address: None,
            }),
            ["at", id, address] => {
                let its = self.containers.iter_mut().filter(|it| it.id == id);
                its.for_each(|it| it.address = Some(address.into()));
            }
            ["has", volume, ref made @ ..] => {
                self.volumes.insert(volume.into(), made.join(" "));
            }
            ["leads", name, at, ref answer @ ..] => {
                self.led.insert((name.into(), at.into(), answer.join(" ")));
            }
            _ => {}
        }
    }
}

/// Everything that is not as it should be, in words.
pub fn amiss(wanted: &Wanted, hosts: &[Found; 3]) -> Vec<String> {
    let morning = Morning { wanted, hosts };
    let mut amiss = morning.left_over();
    amiss.extend(morning.misplaced());
    amiss.extend(morning.misled());
    for (kind, want) in wanted.values() {
        match kind {
            Kind::Twins => amiss.extend(morning.apart_from_data(*kind, *want)),
            _ if want.replicas.is_some() => amiss.extend(morning.crowded(*kind)),
            _ => {}
        }
    }
    amiss
}

struct Morning<'a> {
    wanted: &'a Wanted,
    hosts: &'a [Found; 3],
}

impl Morning<'_> {
    fn containers(&self) -> impl Iterator<Item = (At, &Container)> {
        let of = |at: At| self.hosts[at.0].containers.iter().map(move |it| (at, it));
        At::ALL.into_iter().flat_map(of)
    }

    /// The hosts on which something of a replica is.
    fn places(&self, of: &str, replica: &str) -> Vec<At> {
        let is_it = |it: &Container| it.of == of && it.replica == replica;
        self.containers().filter(|(_, it)| is_it(it)).map(|(at, _)| at).collect()
    }

    /// The image that a service should have, if there should be any of it.
    fn tag(&self, of: &str) -> Option<&'static str> {
        match self.wanted.get(of)?.1.version {
            Version::Good(tag) => Some(tag),
            _ => None,
        }
    }

    fn is_wanted(&self, it: &Container) -> bool {
        let (tag, state) = match it.of.as_str() {
            "idle" => (Some("1"), "exited"),
            "stranger" => (Some("1"), "running"),
            of => (self.tag(of), "running"),
        };
        let is_of_it = match self.wanted.get(it.of.as_str()).map(|(_, want)| want.replicas) {
            Some(Some(count)) => it.replica.parse().is_ok_and(|number: u32| number < count),
            _ => it.replica == "-",
        };
        let image = tag.map(|tag| format!("localhost/web:{tag}"));
        is_of_it && it.state == state && image.is_some_and(|image| image == it.image)
    }

    /// Whatever should not be there, or not like this.
    fn left_over(&self) -> Vec<String> {
        let others = self.containers().filter(|(_, it)| !self.is_wanted(it));
        let said = others.map(|(at, it)| {
            format!("{at} has {}.{} ({}) {} of {}", it.of, it.replica, it.id, it.state, it.image)
        });
        said.collect()
    }

    /// Each replica is there once; each host's own one on every host.
    fn misplaced(&self) -> Vec<String> {
        let mut amiss = Vec::new();
        let mut is_everywhere = |of: &str| {
            let places = self.places(of, "-");
            if places != At::ALL {
                amiss.push(format!("{of} is on {places:?}"));
            }
        };
        is_everywhere("idle");
        is_everywhere("stranger");
        let wanted = self.wanted.iter().filter(|(of, _)| self.tag(of).is_some());
        let mut twice = Vec::new();
        for (of, (_, want)) in wanted {
            let Some(count) = want.replicas else {
                is_everywhere(of);
                continue;
            };
            for number in 0..count {
                let places = self.places(of, &number.to_string());
                if places.len() != 1 {
                    twice.push(format!("{of}.{number} is on {places:?}, not on one"));
                }
            }
        }
        amiss.extend(twice);
        amiss
    }

    /// No host has two more than another.
    fn crowded(&self, kind: Kind) -> Vec<String> {
        let count =
            |found: &Found| found.containers.iter().filter(|it| it.of == kind.name()).count();
        let counts = self.hosts.each_ref().map(count);
        match counts.iter().max() > counts.iter().min().map(|least| least + 1).as_ref() {
            true => vec![format!("{} is spread like {counts:?}", kind.name())],
            false => Vec::new(),
        }
    }

    /// No volume has two homes, and each replica is at that of its own.
    fn apart_from_data(&self, kind: Kind, want: Want) -> Vec<String> {
        let mut homes: BTreeMap<String, Vec<At>> = BTreeMap::new();
        for at in At::ALL {
            let ours = self.hosts[at.0].volumes.keys().filter(|it| it.starts_with("fluke."));
            ours.for_each(|it| homes.entry(it.clone()).or_default().push(at));
        }
        let doubled = homes.iter().filter(|(_, homes)| homes.len() > 1);
        let mut amiss: Vec<_> =
            doubled.map(|(it, homes)| format!("{it} is on {homes:?}")).collect();
        for number in 0..want.replicas.unwrap_or_default() {
            let volume = format!("fluke.{}.{}.{number}", kind.name(), want.volume());
            let places = self.places(kind.name(), &number.to_string());
            let home = homes.remove(&volume).unwrap_or_default();
            if places.iter().any(|at| !home.contains(at)) {
                amiss.push(format!("{volume} is on {home:?}, and its replica on {places:?}"));
            }
        }
        amiss
    }

    /// Names lead to all that run and to nothing else, on every host, and all of it answers.
    fn misled(&self) -> Vec<String> {
        let runs = |(_, it): &(At, &Container)| self.wanted.contains_key(it.of.as_str());
        let led_to = |(_, it): (At, &Container)| {
            let tag = self.tag(&it.of)?.to_string();
            Some((it.of.clone(), it.address.clone()?, tag))
        };
        let right: BTreeSet<_> = self.containers().filter(runs).filter_map(led_to).collect();
        let wrong = At::ALL.into_iter().filter(|at| self.hosts[at.0].led != right);
        let said = wrong.map(|at| {
            let led = &self.hosts[at.0].led;
            let (more, less) = (led.difference(&right), right.difference(led));
            let (more, less): (Vec<_>, Vec<_>) = (more.collect(), less.collect());
            format!("on {at} names lead to {more:?}, which they should not, and lack {less:?}")
        });
        said.collect()
    }
}

#[cfg(test)]
mod tests;
