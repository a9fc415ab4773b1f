//! Nights on one host: whatever happens to it, and in whatever order, it ends as Git says.
//!
//! A seed says what happens, and most of when; how far the host is with what happened before is its
//! own affair. `FLUKE_NIGHT=7` plays the seventh night, `FLUKE_NIGHTS=20` twenty of them.

pub mod happening;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fluke_bed::criterion::Chronicle;

use super::premises::{Premises, VOLUMES};
use super::seeds::{Account, Dice, seeds};
use super::support::{address, answer, every_apply_has_an_end, has_image, is_asked_for, running};
use crate::hosts::support::{Bed, Host, bed, quick};
use happening::{Happening, Kind, Version};

/// How many are played where nobody says, and how much happens in each.
const NIGHTS: u64 = 3;
const HAPPENINGS: usize = 12;
/// Where nothing happens for so long, nothing is under way.
const SILENCE: Duration = Duration::from_millis(1500);

/// What Podman says of what happens, wherever it keeps that itself.
const HEARD: &str = "/run/podman-events";
const HEARS: &str = "[Unit]\nStartLimitIntervalSec=0\n\n\
    [Service]\nExecStart=/bin/sh -c 'exec podman events --format json >>/run/podman-events'\n\
    Restart=always\n\n[Install]\nWantedBy=multi-user.target\n";

#[test]
fn whatever_happens_in_a_night_the_host_is_as_git_says_in_the_morning() {
    let Some(bed) = bed() else { return };
    let scene = Scene::set(bed);
    for seed in seeds(NIGHTS) {
        Night::of(seed, &scene).passes();
    }
    scene.would_know_of_two_with_one_volume();
}

/// A host with everything that Git may want, and with what must not be touched.
struct Scene {
    bed: Bed,
    host: Premises,
    wanted: RefCell<BTreeMap<&'static str, Version>>,
    /// Which volumes there are, and what somebody wrote to them.
    volumes: String,
    /// What servers told that are gone.
    told: RefCell<Chronicle>,
}

impl Scene {
    fn set(bed: Bed) -> Self {
        bed.server_with(quick());
        let host = bed.host("app-1");
        has_image(&host, "1");
        has_image(&host, "2");
        host.unit("podman-events.service", HEARS);
        host.run("systemctl enable --quiet --now podman-events");
        let host = Premises::of(host, &Kind::Twins.program()).joins("role=app");
        let mut scene = Self {
            bed,
            host,
            wanted: RefCell::default(),
            volumes: String::new(),
            told: RefCell::default(),
        };
        for kind in Kind::ALL {
            scene.commit(kind, Version::Good("1"));
        }
        scene.becomes_as_git_says();
        scene.bed.until("Podman is heard", |_| scene.lives().contains("start"));
        scene.host.run(&format!("for it in {VOLUMES}/*/_data; do echo of $it > $it/it; done"));
        scene.volumes = scene.volumes_now();
        assert_eq!(scene.volumes.lines().count(), 4, "{}", scene.volumes);
        scene
    }

    fn commit(&self, kind: Kind, version: Version) {
        self.wanted.borrow_mut().insert(kind.name(), version);
        self.bed.commit(&format!("{}.fluke.hcl", kind.name()), &kind.manifest(version));
    }

    /// Podman's own account of what happened since the host came up; it grows.
    fn happened(&self) -> String {
        self.host.try_run(&format!("stat --format %s {HEARD}")).stdout
    }

    /// Waits for more to happen, if any more does.
    fn something_happens(&self) {
        let (before, began) = (self.happened(), Instant::now());
        while self.happened() == before && began.elapsed() < SILENCE {}
    }

    /// Everybody is back, and nobody does anything any more but the agent.
    fn calms_down(&self) {
        if !self.bed.server().is_running() {
            self.bed.server().start();
        }
        self.host.start_agent();
        self.host.is_left_alone();
    }

    fn becomes_as_git_says(&self) {
        // It makes nothing more of what Git said before; what that left may go afterwards.
        self.bed.settles();
        // Of a version with data that did not work out while others were killed, it is for somebody to say.
        is_asked_for(&self.bed);
        let wanted = format!("it is {:?}", self.wanted.borrow());
        let is_so = || self.found() == self.expected() && self.limits() == "0";
        self.bed.until(&wanted, |_| is_so() && self.all_answer());
        self.bed.settles();
        assert_eq!(self.found(), self.expected(), "{}", self.bed.account());
        assert_eq!(self.limits(), "0", "Git says nothing of limits");
    }

    /// Every container there is, whoever's, in whatever state: one line each.
    fn found(&self) -> Vec<String> {
        let line = r#".[] | .Labels as $its | [$its["fluke.service.name"] // .Names[0],
                      $its["fluke.replica"] // "", .State, .Image] | join(" ")"#;
        let list = "podman ps --all --external --format json";
        let said = self.host.try_run(&format!("{list} | jq --raw-output '{line}'")).stdout;
        let mut found: Vec<_> = said.lines().map(str::to_string).collect();
        found.sort();
        found
    }

    /// How much memory containers may use, each that Podman tells; Podman 4 knows of no change.
    fn limits(&self) -> String {
        let each = "xargs --no-run-if-empty podman inspect --format '{{.HostConfig.Memory}}'";
        self.host.try_run(&format!("podman ps --all --quiet | {each} | sort --unique")).stdout
    }

    /// What should be there.
    fn expected(&self) -> Vec<String> {
        let mut expected = vec!["idle  exited localhost/web:1".to_string()];
        expected.push("stranger  running localhost/web:1".into());
        for kind in Kind::ALL {
            let Some(Version::Good(tag)) = self.wanted.borrow().get(kind.name()).copied() else {
                continue;
            };
            let line = |it: &&str| format!("{} {it} running localhost/web:{tag}", kind.name());
            expected.extend(kind.replicas().iter().map(line));
        }
        expected.sort();
        expected
    }

    fn all_answer(&self) -> bool {
        let answers = |name: &&str, version: &Version| {
            let Version::Good(tag) = version else { return true };
            let at = |it: &String| format!("http://{}:3000", address(&self.host, it));
            running(&self.host, name).iter().all(|it| answer(&self.host, &at(it)) == *tag)
        };
        self.wanted.borrow().iter().all(|(name, version)| answers(name, version))
    }

    fn is_off_and_on(&self, goes_off: impl FnOnce(&Host)) {
        self.host.goes_off(goes_off);
        self.host.comes_up();
    }

    fn volumes_now(&self) -> String {
        self.host.run(&format!("cd {VOLUMES} && grep --with-filename . */_data/it"))
    }

    /// What must never be, whatever happened.
    fn nothing_was_lost(&self) {
        self.host.nobody_touched_strangers();
        assert_eq!(self.volumes_now(), self.volumes, "data is never removed");
        assert_eq!(self.host.had_two(), "", "two ran with one volume: {}", self.lives());
        every_apply_has_an_end(&self.bed, &self.host, &self.told.borrow());
    }

    /// What Podman says of who started and ended, since the host came up.
    fn lives(&self) -> String {
        // Podman 4 says when as a text, Podman 5 as a number.
        let line = r#"select(.Type == "container")
                      | [.Time // .timeNano, .ID[:12], .Name, .Status] | join(" ")"#;
        self.host.try_run(&format!("jq --raw-output '{line}' {HEARD}")).stdout
    }

    /// That there never were two says nothing if nobody would have told.
    fn would_know_of_two_with_one_volume(&self) {
        self.commit(Kind::Db, Version::Good("1"));
        self.becomes_as_git_says();
        let (program, run) =
            (Kind::Db.program(), "podman run --detach --volume fluke.db.data:/data");
        self.host.run(&format!("{run} localhost/web:1 sh -c \"{program}\""));
        self.bed.until("it is known", |_| !self.host.had_two().is_empty());
    }

    fn server_goes(&self) {
        let mut told = self.told.borrow_mut();
        told.read(self.bed.server(), self.host.name());
        self.bed.server().kill();
        told.unread();
    }
}

/// One night.
struct Night<'a> {
    dice: Dice,
    scene: &'a Scene,
    account: Account,
}

impl<'a> Night<'a> {
    fn of(seed: u64, scene: &'a Scene) -> Self {
        Self { dice: Dice::of(seed), scene, account: Account::of(seed) }
    }

    fn passes(mut self) {
        for _ in 0..HAPPENINGS {
            let happening = Happening::drawn(&mut self.dice);
            self.happens(happening);
            let waits = self.dice.below(4);
            (0..waits).for_each(|_| self.scene.something_happens());
        }
        self.account.notes("it dawns");
        self.scene.calms_down();
        for kind in Kind::ALL {
            let version = Version::drawn_for_the_morning(&mut self.dice);
            self.happens(Happening::Commit(kind, version));
        }
        self.scene.becomes_as_git_says();
        self.account.notes("it is as Git says");
        self.scene.nothing_was_lost();
        self.account.is_over();
    }

    fn happens(&mut self, happening: Happening) {
        self.account.notes(&happening.to_string());
        let Scene { bed, host, .. } = self.scene;
        match happening {
            Happening::Commit(kind, version) => self.scene.commit(kind, version),
            Happening::Podman(what, kind) => host.somebody_does(&to_all_of(what, kind)),
            Happening::Command(what) => host.somebody_does(what),
            Happening::Agent if host.is_active("fluke-agent") => host.stop_agent(),
            Happening::Agent => host.start_agent(),
            Happening::Server if bed.server().is_running() => self.scene.server_goes(),
            Happening::Server => bed.server().start(),
            Happening::Reboot => self.scene.is_off_and_on(Host::stop),
            Happening::PowerCut => self.scene.is_off_and_on(Host::kill),
        }
    }
}

/// What is done to each container of a service, if there are any.
pub fn to_all_of(what: &str, kind: Kind) -> String {
    let list = format!("podman ps --all --quiet --filter label=fluke.service.name={}", kind.name());
    let name = if what.contains("rename") { " theirs-$RANDOM" } else { "" };
    format!("{list} | xargs --no-run-if-empty -I ID {what} ID{name}")
}
