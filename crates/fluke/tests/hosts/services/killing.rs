//! An agent that is killed in the middle of a change, whichever it is, comes back and finishes it.

use std::collections::BTreeSet;

use fluke_bed::criterion::Chronicle;
use fluke_model::event::{Event, EventKind};
use fluke_model::verdict::Outcome;

use super::support::{
    HTTP, STATE, address, answer, containers, described, every_apply_has_an_end, has_image,
    is_proxy, is_registry, resolved, running, runs_one, service, shop, traefik,
};
use crate::hosts::support::{Bed, Host, Join, Moment, Tap, bed};

const DATA: &str = "volume \"data\" {\n    path = \"/data\"\n  }";

#[test]
fn an_agent_killed_before_podman_hears_of_a_change_makes_it_when_it_is_back() {
    survives_a_life(Moment::Before);
}

#[test]
fn an_agent_killed_while_podman_makes_a_change_finds_what_became_of_it() {
    survives_a_life(Moment::During);
}

#[test]
fn an_agent_killed_before_it_hears_that_a_change_was_made_does_not_make_it_twice() {
    survives_a_life(Moment::After);
}

/// A host that runs `web`, from a registry and led to by its own proxy, `db`, with a volume, and a
/// container that is nobody's business.
struct Scene {
    bed: Bed,
    host: Host,
    tap: Tap,
    moment: Moment,
    /// Somebody's own container, and when it was started.
    stranger: (String, String),
}

/// All that may happen to a service; the agent dies once over every kind of change in each of it.
fn survives_a_life(moment: Moment) {
    let Some(bed) = bed() else { return };
    let scene = Scene::set(bed, moment);
    let first = ["POST networks/create", "POST volumes/create", "POST images/pull"];
    let made = ["POST containers/create", "POST containers/*/start"];
    let goes = ["POST containers/*/stop", "DELETE containers/*"];

    scene.is_killed_over(&[&first[..], &made].concat(), || scene.commit(Some("1"), Some("1")));
    scene.becomes(Some("1"), Some("1"));
    scene
        .host
        .run("echo kept > $(podman volume inspect --format '{{.Mountpoint}}' fluke.db.data)/it");

    let web = running(&scene.host, "web").remove(0);
    // Podman may find it running again before it is through with stopping it, and complain.
    let stop = format!("podman stop --time 0 {web}");
    scene.is_killed_over(&made[1..], || drop(scene.host.try_run(&stop)));
    scene.becomes(Some("1"), Some("1"));
    assert_eq!(running(&scene.host, "web"), [web], "it is the same");

    scene.is_killed_over(&[&first[2..], &made, &goes].concat(), || {
        scene.commit(Some("2"), Some("1"));
        scene.is_killed_in_the_drain();
    });
    scene.becomes(Some("2"), Some("1"));

    scene.is_killed_over(&[&made[..], &goes].concat(), || scene.commit(Some("2"), Some("2")));
    scene.becomes(Some("2"), Some("2"));

    scene.is_killed_over(&goes, || scene.commit(None, None));
    scene.becomes(None, None);
    scene.commit(None, Some("2"));
    scene.becomes(None, Some("2"));
    scene.everything_is_on_record();
}

impl Scene {
    fn set(bed: Bed, moment: Moment) -> Self {
        bed.brings(&traefik(), "traefik");
        let host = bed.host("app-1");
        for tag in ["1", "2"] {
            has_image(&host, tag);
            is_registry(&host, tag);
        }
        let id = host.run("podman run --detach --name stranger localhost/web:1");
        let stranger = (id.clone(), started(&host, &id));
        let tap = Tap::on(&host);
        let Join { more, .. } = is_proxy();
        let more = format!("{more}\n  containers {{\n    socket = \"{}\"\n  }}", tap.path());
        let host = host.joins_as(&Join { labels: "role=app".into(), more, ..Join::default() });
        Self { bed, host, tap, moment, stranger }
    }

    /// Git says that these versions are to run.
    fn commit(&self, web: Option<&str>, db: Option<&str>) {
        let web = web.map(|tag| service("web", tag, HTTP).replace("localhost/", "app-1:5000/"));
        let db = db.map(|tag| service("db", tag, DATA));
        let text = [web, db].into_iter().flatten().collect::<String>();
        self.bed.commit("services.fluke.hcl", &text);
    }

    /// The agent is killed over each of these, and over anything else that comes up on the way.
    fn is_killed_over(&self, kinds: &[&str], change: impl FnOnce()) {
        self.tap.ends_agent(self.moment);
        change();
        let kinds: BTreeSet<String> = kinds.iter().map(|kind| kind.to_string()).collect();
        self.bed.until(&format!("it was killed over {kinds:?}"), |_| {
            self.tap.ended_over().is_superset(&kinds)
        });
    }

    /// The new one serves, the old one still runs for whoever it has to answer.
    fn is_killed_in_the_drain(&self) {
        self.bed.until("the old one is led to no more", |_| {
            containers(&self.host, "web").len() == 2 && shop(&self.host) == "2"
        });
        let said = described(&self.bed);
        assert!(said.contains("app-1:5000/web:1"), "what retires has an image: {said}");
        self.host.kill_agent();
    }

    /// Waits until the host is exactly as Git says, left alone.
    fn becomes(&self, web: Option<&str>, db: Option<&str>) {
        let killed_over = self.tap.spares_agent();
        self.bed.until(&format!("it is {web:?} and {db:?} after {killed_over:?}"), |_| {
            self.runs("web", web) && self.runs("db", db) && self.is_led_to(web)
        });
        self.bed.settles();
        assert!(self.runs("web", web) && self.runs("db", db), "{}", self.bed.account());
        let all = self.host.run("podman ps --all --external --quiet --no-trunc");
        let mut all: Vec<&str> = all.lines().collect();
        let ours = [running(&self.host, "web"), running(&self.host, "db")].concat();
        all.retain(|it| !ours.iter().any(|own| own == it));
        assert_eq!(all, [self.stranger.0.as_str()], "nothing else is there");
        assert_eq!(started(&self.host, &self.stranger.0), self.stranger.1, "nobody touched it");
    }

    /// Whether a service runs once in this version, or not at all.
    fn runs(&self, name: &str, tag: Option<&str>) -> bool {
        let (now, all) = (running(&self.host, name), containers(&self.host, name));
        let Some(tag) = tag else { return all.is_empty() };
        let at = |it: &String| format!("http://{}:3000", address(&self.host, it));
        now.len() == 1
            && all == now
            && answer(&self.host, &at(&now[0])) == tag
            && self.has_data(&now[0])
    }

    /// Whether what was written to a volume is there still, where there is one.
    fn has_data(&self, container: &str) -> bool {
        let read = format!("podman exec {container} cat /data/it");
        let find = "cat $(podman volume inspect --format '{{.Mountpoint}}' fluke.db.data)/it";
        let has_volume = self.host.is(&format!("podman exec {container} test -d /data"));
        !has_volume || self.host.try_run(&read).stdout == self.host.try_run(find).stdout
    }

    /// Whether names and routes lead to the container that runs, and to nothing else.
    fn is_led_to(&self, web: Option<&str>) -> bool {
        let now = running(&self.host, "web");
        match (web, now.first()) {
            (Some(tag), Some(it)) => {
                let only = [address(&self.host, it)];
                resolved(&self.host, it, "web.internal") == only && shop(&self.host) == tag
            }
            (None, None) => shop(&self.host).is_empty(),
            _ => false,
        }
    }

    /// Whatever began has an end in the events, also what was interrupted; and all state is sound.
    fn everything_is_on_record(&self) {
        assert_eq!(
            self.host
                .run("cat $(podman volume inspect --format '{{.Mountpoint}}' fluke.db.data)/it"),
            "kept"
        );
        every_apply_has_an_end(&self.bed, &self.host, &Chronicle::default());
        let ended = self.bed.events_of("app-1", EventKind::ApplyFinished);
        let is_interrupted = |it: &&Event| it.outcome == Some(Outcome::Interrupted);
        assert!(ended.iter().filter(is_interrupted).count() > 3, "{}", self.bed.account());
    }
}

fn started(host: &Host, container: &str) -> String {
    host.run(&format!("podman inspect --format '{{{{.State.StartedAt}}}}' {container}"))
}

/// A service that the proxy leads to as NAME.example.com.
fn led_to(name: &str) -> String {
    service(name, "1", &HTTP.replace("shop.", &format!("{name}.")))
}

#[test]
fn agents_killed_as_soon_as_names_routes_or_peers_are_written_lead_everybody_right() {
    let Some(bed) = bed() else { return };
    bed.hosts(["edge-1", "app-1", "app-2"]);
    bed.brings(&traefik(), "traefik");
    let edge = bed.host("edge-1").joins_as(&Join { labels: "role=edge".into(), ..is_proxy() });
    let app = bed.host("app-1").joins("role=app");
    has_image(&app, "1");
    let says = |name: &str| {
        answer(&edge, &format!("--header 'Host: {name}.example.com' http://127.0.0.1/")) == "1"
    };
    bed.commit("s0.fluke.hcl", &led_to("s0"));
    bed.until("the first one is led to", |_| says("s0"));

    let is_written = |host: &Host, file: &str| {
        host.until(&format!("find {STATE}/services/{file} -newer /tmp/mark | grep -q ."));
    };
    let mark = || [&edge, &app].map(|host| host.run("touch /tmp/mark"));
    let written = [("names.json", "s1"), ("traefik/dynamic", "s2"), ("routes.json", "s3")];
    for (file, name) in written {
        mark();
        bed.commit(&format!("{name}.fluke.hcl"), &led_to(name));
        is_written(&edge, file);
        edge.kill_agent();
        app.kill_agent();
    }
    mark();
    has_image(&bed.host("app-2"), "1");
    let other = bed.host("app-2").joins("role=app");
    is_written(&edge, "peers.json");
    edge.kill_agent();
    is_written(&app, "peers.json");
    app.kill_agent();

    for name in ["s0", "s1", "s2", "s3"] {
        let found = [&app, &other].map(|host| (host, runs_one(&bed, host, name)));
        let mut all = found.each_ref().map(|(host, it)| address(host, it));
        all.sort();
        for (host, container) in &found {
            bed.until("names are right everywhere", |_| {
                resolved(host, container, &format!("{name}.internal")) == all
            });
        }
        for at in &all {
            bed.until("the proxy reaches all of them", |_| {
                answer(&edge, &format!("http://{at}:3000")) == "1"
            });
        }
        bed.until("the proxy leads to them", |_| (0..4).all(|_| says(name)));
    }
    bed.settles();
    for host in [&edge, &app, &other] {
        assert_eq!(host.run("wg show fluke0 peers | wc -l"), "2", "{}", host.name());
        every_apply_has_an_end(&bed, host, &Chronicle::default());
    }
}
