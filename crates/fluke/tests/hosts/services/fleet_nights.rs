//! Nights on three hosts: whoever is cut off, dead or back, and in whatever order, in the morning
//! each replica runs once, where its data is, and names lead to all of them.
//!
//! Seeds say what happens, as in `nights.rs`.

mod happening;
mod morning;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use fluke_bed::criterion::Chronicle;

use super::nights::happening::Kind;
use super::nights::to_all_of;
use super::premises::Premises;
use super::seeds::{Account, Dice, seeds};
use super::support::{every_apply_has_an_end, has_image};
use crate::hosts::support::{Bed, Host, bed, quick};
use happening::{At, End, Happening, KINDS, Plan, Want};
use morning::{Found, Wanted, amiss};

/// How many are played where nobody says, and how much happens in each.
const NIGHTS: u64 = 2;
const HAPPENINGS: usize = 12;
/// Where nothing happens for so long, nothing is under way.
const SILENCE: Duration = Duration::from_millis(1500);

#[test]
fn whatever_happens_in_a_night_the_fleet_is_as_git_says_in_the_morning() {
    let Some(bed) = bed() else { return };
    let fleet = Fleet::set(bed);
    for seed in seeds(NIGHTS) {
        Night::of(seed, &fleet).passes();
    }
    fleet.would_know_of_a_replica_that_is_there_twice();
}

/// Three hosts, and what Git wants of them.
struct Fleet {
    bed: Bed,
    hosts: [Premises; 3],
    wanted: RefCell<Wanted>,
    /// Those that have no power.
    off: [Cell<bool>; 3],
    /// Those that are cut off.
    alone: [Cell<bool>; 3],
    /// Which volumes there were in the mornings, and who was the first in each.
    volumes: RefCell<[BTreeMap<String, String>; 3]>,
    /// What servers told of each host that are gone.
    told: RefCell<[Chronicle; 3]>,
    /// What was not as it should be when somebody last looked.
    amiss: RefCell<Vec<String>>,
}

impl Fleet {
    fn set(bed: Bed) -> Self {
        bed.server_with(quick());
        let moves_in = |host: Host| {
            has_image(&host, "1");
            has_image(&host, "2");
            Premises::of(host, &Kind::Twins.program()).joins("role=app")
        };
        let hosts = bed.hosts(["app-1", "app-2", "app-3"]).map(moves_in);
        let fleet = Self {
            bed,
            hosts,
            wanted: RefCell::default(),
            off: Default::default(),
            alone: Default::default(),
            volumes: RefCell::default(),
            told: RefCell::default(),
            amiss: RefCell::default(),
        };
        KINDS.iter().for_each(|kind| fleet.commit(*kind, Want::at_first(*kind)));
        fleet.becomes_as_git_says();
        fleet.nothing_was_lost();
        let volumes = fleet.volumes.borrow().iter().map(BTreeMap::len).sum::<usize>();
        assert_eq!(volumes, 5, "strangers', and two: {:?}", fleet.volumes);
        fleet
    }

    fn host(&self, at: At) -> &Premises {
        &self.hosts[at.0]
    }

    fn address(&self, end: End) -> Ipv4Addr {
        match end {
            End::Host(at) => self.host(at).address(),
            End::Server => self.bed.gateway(),
        }
    }

    fn commit(&self, kind: Kind, want: Want) {
        self.wanted.borrow_mut().insert(kind.name(), (kind, want));
        self.bed.commit(&format!("{}.fluke.hcl", kind.name()), &want.manifest(kind));
    }

    /// What agents have said so far of what they do.
    fn happened(&self) -> [String; 3] {
        let last = "journalctl --unit fluke-agent --lines 1 --output cat --show-cursor";
        At::ALL.map(|at| match self.off[at.0].get() {
            true => String::new(),
            false => self.host(at).try_run(last).stdout,
        })
    }

    /// Waits for more to happen, if any more does.
    fn something_happens(&self) {
        let (before, began) = (self.happened(), Instant::now());
        while self.happened() == before && began.elapsed() < SILENCE {}
    }

    /// Everybody is back, and nobody does anything any more but the agents.
    fn calms_down(&self) {
        self.is_healed();
        if !self.bed.server().is_running() {
            self.bed.server().start();
        }
        for at in At::ALL {
            if self.off[at.0].get() {
                self.has_power(at);
            }
            self.host(at).start_agent();
            self.host(at).is_left_alone();
        }
    }

    fn is_healed(&self) {
        self.bed.heal();
        self.alone.iter().for_each(|it| it.set(false));
    }

    fn has_power(&self, at: At) {
        self.host(at).comes_up();
        self.off[at.0].set(false);
    }

    fn has_no_power(&self, at: At) {
        self.host(at).goes_off(Host::kill);
        self.off[at.0].set(true);
    }

    fn is_cut_off_or_reunited(&self, at: At) {
        let was_alone = self.alone[at.0].replace(!self.alone[at.0].get());
        match was_alone {
            true => self.bed.reunite(self.host(at)),
            false => self.bed.partition(self.host(at)),
        }
    }

    fn server_goes(&self) {
        let mut told = self.told.borrow_mut();
        for (host, told) in self.hosts.iter().zip(told.iter_mut()) {
            told.read(self.bed.server(), host.name());
        }
        self.bed.server().kill();
        told.iter_mut().for_each(Chronicle::unread);
    }

    fn becomes_as_git_says(&self) {
        self.bed.settles();
        // Of a version with data that did not work out while others were killed, it is for somebody to say.
        let by_hand = r#"{"scope":"all","by":"a story"}"#;
        let (status, said) =
            self.bed.server().post("/api/v1/reconcile", by_hand).expect("an answer");
        assert_eq!(status, 202, "{said}");
        self.bed.until("it is as Git says", |_| self.is_as_git_says());
        self.bed.settles();
        assert!(self.is_as_git_says(), "it was, and is not any more");
    }

    fn is_as_git_says(&self) -> bool {
        let found = self.hosts.each_ref().map(|host| Found::on(host));
        self.amiss.replace(amiss(&self.wanted.borrow(), &found));
        self.amiss.borrow().is_empty()
    }

    /// What must never be, whatever happened.
    fn nothing_was_lost(&self) {
        for (at, host) in self.hosts.iter().enumerate() {
            host.nobody_touched_strangers();
            let now = Found::on(host).volumes;
            let before = std::mem::replace(&mut self.volumes.borrow_mut()[at], now.clone());
            for (volume, first) in before.iter().filter(|(_, first)| !first.is_empty()) {
                assert_eq!(now.get(volume), Some(first), "{volume} of {}", host.name());
            }
            let gone: Vec<_> = before.keys().filter(|it| !now.contains_key(*it)).collect();
            assert!(gone.is_empty(), "{gone:?} of {}", host.name());
            assert_eq!(host.had_two(), "", "two ran with one volume on {}", host.name());
            every_apply_has_an_end(&self.bed, host, &self.told.borrow()[at]);
        }
    }

    /// That all is well says nothing if nobody would have told.
    fn would_know_of_a_replica_that_is_there_twice(&self) {
        self.commit(Kind::Twins, Want::at_first(Kind::Twins));
        self.becomes_as_git_says();
        let run = "podman run --detach --label fluke.service.name=twins --label fluke.replica=0 \
                   --volume fluke.twins.data-0.0:/data localhost/web:1";
        for host in &self.hosts {
            host.stop_agent();
            host.run(&format!("{run} sh -c \"{}\"", Kind::Twins.program()));
        }
        assert!(!self.is_as_git_says());
        let amiss = self.amiss.borrow().join("\n");
        let homes = format!("fluke.twins.data-0.0 is on {:?}", At::ALL);
        assert!(amiss.contains("twins.0 is on") && amiss.contains(&homes), "{amiss}");
        self.bed.until("two have one volume", |_| {
            self.hosts.iter().filter(|host| !host.had_two().is_empty()).count() == 1
        });
    }
}

/// One night.
struct Night<'a> {
    plan: Plan,
    dice: Dice,
    fleet: &'a Fleet,
    account: Account,
}

impl<'a> Night<'a> {
    fn of(seed: u64, fleet: &'a Fleet) -> Self {
        Self { plan: Plan::of(seed), dice: Dice::of(seed), fleet, account: Account::of(seed) }
    }

    fn passes(mut self) {
        let Plan { night, server_dies } = self.plan;
        if server_dies {
            self.wants(KINDS.map(|kind| Want::in_the_evening(kind, night)));
            self.fleet.becomes_as_git_says();
        }
        for _ in 0..HAPPENINGS {
            let happening = Happening::drawn(&mut self.dice, self.plan);
            self.happens(happening);
            let waits = self.dice.below(4);
            (0..waits).for_each(|_| self.fleet.something_happens());
        }
        self.account.notes("it dawns");
        self.fleet.calms_down();
        let morning = |kind| Want::drawn_for_the_morning(&mut self.dice, kind, night);
        let wants = KINDS.map(morning);
        self.wants(wants);
        self.fleet.becomes_as_git_says();
        self.account.notes("it is as Git says");
        self.fleet.nothing_was_lost();
        self.account.is_over();
    }

    fn wants(&mut self, wants: [Want; 3]) {
        for (kind, want) in KINDS.into_iter().zip(wants) {
            self.happens(Happening::Commit(kind, want));
        }
    }

    fn happens(&mut self, happening: Happening) {
        self.account.notes(&happening.to_string());
        let fleet = self.fleet;
        let server = fleet.bed.server();
        match happening {
            Happening::Commit(kind, want) => fleet.commit(kind, want),
            Happening::Power(at) if fleet.off[at.0].get() => fleet.has_power(at),
            Happening::Power(at) => fleet.has_no_power(at),
            Happening::Server if server.is_running() => fleet.server_goes(),
            Happening::Server => server.start(),
            Happening::Island(at) => fleet.is_cut_off_or_reunited(at),
            Happening::Mute(from, to) => fleet.bed.mute(fleet.address(from), fleet.address(to)),
            Happening::Cut(one, other) => fleet.bed.cut(fleet.address(one), fleet.address(other)),
            Happening::Heal => fleet.is_healed(),
            Happening::Podman(_, _, at)
            | Happening::Command(_, at)
            | Happening::Agent(at)
            | Happening::Reboot(at) => self.happens_on(at, happening),
        }
    }

    /// Where there is no power, nothing happens.
    fn happens_on(&self, at: At, happening: Happening) {
        let host = self.fleet.host(at);
        match happening {
            _ if self.fleet.off[at.0].get() => {}
            Happening::Podman(what, kind, _) => host.somebody_does(&to_all_of(what, kind)),
            Happening::Command(what, _) => host.somebody_does(what),
            Happening::Agent(_) if host.is_active("fluke-agent") => host.stop_agent(),
            Happening::Agent(_) => host.start_agent(),
            _ => {
                host.goes_off(Host::stop);
                host.comes_up();
            }
        }
    }
}

impl Drop for Night<'_> {
    fn drop(&mut self) {
        self.fleet.amiss.borrow().iter().for_each(|it| self.account.notes(it));
    }
}
