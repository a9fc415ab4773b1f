//! A fleet that keeps what it has on disk, and servers that come and go.

use super::*;

/// A host as it is, whatever a server thinks of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    pub(super) is_connected: bool,
    /// Whether it has said what it knows; before that it is told nothing.
    pub(super) has_spoken: bool,
    pub(super) matches: bool,
    /// Whether what it runs is not well.
    pub(super) is_ill: bool,
    /// Whether it was forgotten, and has not come since.
    pub(super) is_forgotten: bool,
    /// What it was last told to run.
    pub(super) told: BTreeSet<Piece>,
    pub(super) volumes: BTreeSet<Piece>,
    /// What it last heard of others.
    pub(super) table: Placements,
}

/// A fleet that lives longer than its server.
pub(super) struct Fleet {
    pub(super) lab: Lab,
    /// How many of each of the two.
    pub(super) wants: [Option<u32>; 2],
    pub(super) machines: BTreeMap<&'static str, Machine>,
}

impl Fleet {
    /// All of them connected, and `web` on them.
    pub(super) fn of(hosts: &[&'static str], replicas: u32) -> Self {
        let machine = Machine { is_connected: true, matches: true, ..Machine::default() };
        let machines = hosts.iter().map(|host| (*host, machine.clone())).collect();
        let lab = Lab::settled(None);
        let mut fleet = Self { lab, wants: [Some(replicas), None], machines };
        fleet.commit();
        hosts.iter().for_each(|host| fleet.comes(host));
        hosts.iter().for_each(|host| fleet.works(host));
        fleet
    }

    pub(super) fn comes(&mut self, host: &'static str) {
        let machine = self.machines.get_mut(host).expect("one of them");
        (machine.is_connected, machine.is_forgotten) = (true, false);
        let (labels, table) = (labels(machine.matches), machine.table.clone());
        self.lab.sessions += 1;
        self.lab.told.remove(&name(host));
        let now = Now { instant: self.lab.now, wall: Timestamp(1) };
        let came = came(labels, NodeType::Worker);
        self.lab.book.hear(&name(host), SessionId(self.lab.sessions), came, now);
        self.lab.turn();
        self.hear();
        self.lab.says(host, Word::Placements(table));
        self.machine(host).has_spoken = true;
        self.reports(host, true);
    }

    pub(super) fn leaves(&mut self, host: &'static str) {
        self.machine(host).has_spoken = false;
        if std::mem::take(&mut self.machine(host).is_connected) {
            self.lab.says(host, Word::Left);
            self.hear();
        }
    }

    pub(super) fn relabels(&mut self, host: &'static str, matches: bool) {
        self.machine(host).matches = matches;
        if self.machines[host].is_connected {
            self.leaves(host);
            self.comes(host);
        }
    }

    /// What it should run it runs, with volumes; also while nobody is there to be told.
    pub(super) fn works(&mut self, host: &'static str) {
        let machine = self.machine(host);
        let told = machine.told.clone();
        machine.volumes.extend(told);
        machine.is_ill = false;
        self.reports(host, false);
    }

    /// What it runs is not well any more.
    pub(super) fn falls_ill(&mut self, host: &'static str) {
        self.machine(host).is_ill = true;
        self.reports(host, false);
    }

    /// Somebody says that a host will not come back; it may all the same.
    pub(super) fn forgets(&mut self, host: &'static str) {
        if !self.machines[host].is_connected {
            self.machine(host).is_forgotten = true;
            self.lab.says(host, Word::Forgotten);
            self.hear();
        }
    }

    /// Somebody removes what a host has of a replica.
    pub(super) fn loses(&mut self, host: &'static str, piece: Piece) {
        self.machine(host).volumes.remove(&piece);
        self.reports(host, false);
    }

    pub(super) fn reports(&mut self, host: &'static str, whole: bool) {
        let machine = &self.machines[host];
        if !machine.is_connected {
            return;
        }
        let deployment = |piece: &Piece| DeploymentReport {
            id: DeploymentId(Hash256::of(format!("{host} {piece:?}").as_bytes())),
            service: called(piece.0),
            serves: machine.volumes.contains(piece) && !machine.is_ill,
            container: machine.volumes.contains(piece).then(|| host.to_owned()),
            ..super::report(usize::from(host.as_bytes()[0]), (piece.1, true, false))
        };
        let deployments: Vec<_> = machine.told.iter().map(deployment).collect();
        let volumes: Volumes = machine.volumes.iter().map(|piece| data(*piece)).collect();
        let is_gone = |id: &&DeploymentId| !deployments.iter().any(|it| it.id == **id);
        let known = &self.lab.book.view.hosts[host].deployments;
        let gone = known.values().map(|it| &it.id).filter(is_gone).copied().collect();
        let report =
            ServicesReport { whole, deployments, gone, volumes: Some(volumes), unseen: false };
        self.lab.says(host, Word::Services(report));
        self.hear();
    }

    pub(super) fn wants(&mut self, replicas: Option<u32>) {
        self.wants_of(0, replicas);
    }

    pub(super) fn wants_of(&mut self, service: usize, replicas: Option<u32>) {
        self.wants[service] = replicas;
        self.commit();
    }

    pub(super) fn commit(&mut self) {
        let wanted = self.wants.iter().enumerate();
        let wanted = wanted.filter_map(|(which, wants)| Some(stateful_one(which, (*wants)?)));
        let services = wanted.map(|service| (service.name.clone(), Arc::new(service)));
        self.lab.book.want(&services.collect::<Services>());
        self.lab.turn();
        self.hear();
    }

    pub(super) fn passes(&mut self, seconds: u64) {
        self.lab.passes(Duration::from_secs(seconds));
        self.hear();
    }

    /// Another server takes over, to which nobody has come yet; says who was connected.
    pub(super) fn begins_anew(&mut self) -> Vec<&'static str> {
        let now = self.lab.now;
        self.lab = Lab::of(Book::new(now), now);
        let mut connected = Vec::new();
        for (host, machine) in &mut self.machines {
            machine.has_spoken = false;
            if std::mem::take(&mut machine.is_connected) {
                connected.push(*host);
            }
        }
        self.commit();
        connected
    }

    /// Another server takes over, which knows what those say who come to it: first these, who may
    /// have been away for long, and in the end all who were connected. Whoever is told something
    /// does it before the next one comes.
    pub(super) fn restarts(&mut self, first: &[&'static str]) {
        let connected = self.begins_anew();
        for host in first.iter().copied().chain(connected) {
            if !self.machines[host].is_connected {
                self.comes(host);
                self.passes(1);
                let all: Vec<_> = self.machines.keys().copied().collect();
                all.into_iter().for_each(|host| self.works(host));
            }
        }
        self.passes(SETTLING.as_secs());
    }

    /// Everybody who has spoken hears what is said of others, and all hold to what they are told.
    pub(super) fn hear(&mut self) {
        for (host, machine) in self.machines.iter_mut().filter(|(_, it)| it.is_connected) {
            if machine.has_spoken {
                machine.table = self.lab.book.directory.placements.table().clone();
            }
            let Some(placed) = self.lab.told.get(&name(host)).and_then(|own| own.placed.as_ref())
            else {
                continue;
            };
            let pieces = (0..self.wants.len()).flat_map(|which| {
                let numbers = placed.get(&called(which)).into_iter().flatten();
                numbers.map(move |number| (which, *number))
            });
            let is_for_it =
                |(which, number): &Piece| self.wants[*which].is_some_and(|count| *number < count);
            machine.told = pieces.filter(|it| machine.matches && is_for_it(it)).collect();
        }
    }

    pub(super) fn machine(&mut self, host: &'static str) -> &mut Machine {
        self.machines.get_mut(host).expect("one of them")
    }

    pub(super) fn place(&self, number: u32) -> Option<String> {
        self.lab.placed().get(&number).map(|host| host.to_string())
    }

    /// Who has data of a replica of `web`.
    pub(super) fn owners(&self, number: u32) -> Vec<&'static str> {
        self.owners_of((0, number))
    }

    pub(super) fn owners_of(&self, piece: Piece) -> Vec<&'static str> {
        let has = |(_, machine): &(_, &Machine)| machine.volumes.contains(&piece);
        self.machines.iter().filter(has).map(|(host, _)| *host).collect()
    }
}
