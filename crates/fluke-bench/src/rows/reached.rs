//! A service on three hosts: how soon a push answers, what fails meanwhile, and how soon what is dead
//! is led to no more.

mod image;
mod load;

use std::time::Instant;

use fluke_bed::{Bed, Host, Join};

use super::units::bed;
use crate::figure::{Figure, Target, Unit};
use crate::root;
use crate::row::{Bench, Row, Trouble, Turn, figures};
use load::Load;

pub(super) const ROW: Row = Row {
    id: "reached",
    what: "push → answered through the proxy by the new container; requests that fail meanwhile; \
           host or container dead → gone from names and routes",
    reach: "≤ 1 s + the container's own start, health and pull; none; ≤ 2 s",
    how: "Three hosts of the bed: a proxy with Traefik, two with a container of the service each. \
          Answered: another image, which the hosts have, is pushed; timed until a request at the \
          proxy is answered by it. Beside it: `podman run` of such an image on a host until it \
          answers there. With health: the same with a health command; beside it, with one run of \
          that. With pull: the same with an image of 8 MiB that only a registry on the proxy has; \
          beside it, with `podman pull` of one. Failed: requests that were not answered well while \
          ten more such images were pushed, one after the other, of eight visitors who ask again \
          and again, half of them on connections that they keep. Left: nothing gets to or from one of the two hosts any more; dead: its \
          container is killed, and left to people. Both are timed until the other host's DNS does \
          not name it, and until Traefik has no route to it.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 7;
/// Of what ends and comes back.
const FEW: usize = 5;
/// While visitors ask.
const UPDATES: usize = 10;
const TO_HEALTH: &str = "test -e /www/index.html";
/// What visitors ask for.
const DOMAIN: &str = "shop.example.com";
const NOBODY_RESTARTS_IT: &str = "drift {\n    policy = \"alert_only\"\n  }";

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let stage = Stage::up(bench)?;
    let mut all = vec![stage.answered(bench)?, stage.with_health(bench)?, stage.with_pull(bench)?];
    all.extend(stage.under_load(bench)?);
    all.extend(stage.left(bench));
    all.extend(stage.dead(bench));
    figures(all)
}

struct Stage {
    bed: Bed,
    edge: Host,
    apps: [Host; 2],
}

impl Stage {
    fn up(bench: &Bench) -> Result<Self, Trouble> {
        let tool = root().join("target/test-tools/bin/traefik");
        let none = |_| Trouble::NotRun("there is no Traefik; run scripts/test-tools".into());
        let traefik = tool.canonicalize().map_err(none)?;
        let bed = bed(bench)?;
        let hosts = bed.hosts(["edge-1", "app-1", "app-2"]);
        bed.brings(&traefik, "traefik");
        // Podman reads whom it may trust once.
        hosts.iter().for_each(image::trusts_registry);
        image::is_registry(&hosts[0]);
        let more = "proxy {\n    program = \"/opt/fluke/traefik\"\n  }".into();
        let edge = Join { labels: "role=edge".into(), more, ..Join::default() };
        let edge = bed.host("edge-1").joins_as(&edge);
        let apps = ["app-1", "app-2"].map(|name| bed.host(name).joins("role=app"));
        Ok(Self { bed, edge, apps })
    }

    fn answered(&self, bench: &Bench) -> Result<Option<Figure>, Trouble> {
        let push = |tag: &str| self.push(tag, &service(&format!("localhost/web:{tag}"), ""));
        self.beside_own_start(bench, "answered", push, "its own start", |tag| {
            self.own_start(tag, "", "true")
        })
    }

    fn with_health(&self, bench: &Bench) -> Result<Option<Figure>, Trouble> {
        let health = format!(
            "health {{\n    command      = \"{TO_HEALTH}\"\n    interval     = \"1s\"\n    \
             timeout      = \"1s\"\n    start_period = \"10s\"\n  }}"
        );
        let push = |tag: &str| self.push(tag, &service(&format!("localhost/web:{tag}"), &health));
        let beside = "its own start and health";
        self.beside_own_start(bench, "answered-health", push, beside, |tag| {
            self.own_start(tag, "", &format!("podman exec {tag} {TO_HEALTH}"))
        })
    }

    fn with_pull(&self, bench: &Bench) -> Result<Option<Figure>, Trouble> {
        let push = |tag: &str| {
            image::is_in_registry(&self.edge, tag);
            self.timed(tag, &service(&image::in_registry(tag), ""))
        };
        self.beside_own_start(bench, "answered-pull", push, "its own pull and start", |tag| {
            image::is_in_registry(&self.edge, tag);
            let image = image::in_registry(tag);
            let pull =
                format!("podman pull --quiet {image}; podman tag {image} localhost/web:{tag};");
            self.timed_start(tag, &pull, "true")
        })
    }

    fn under_load(&self, bench: &Bench) -> Result<[Option<Figure>; 2], Trouble> {
        let load = Load::begin(self.edge.address(), DOMAIN)?;
        for update in 0..bench.rounds(UPDATES) {
            let tag = format!("load-{update}");
            self.push(&tag, &service(&format!("localhost/web:{tag}"), ""));
        }
        let (answered, failed) = load.end()?;
        let failed = Figure::new("failed", Unit::Count, &[failed]);
        let failed = failed.map(|it| it.target(Target::AtMost(0.0)));
        Ok([Figure::new("requests", Unit::Count, &[answered]), failed])
    }

    fn beside_own_start(
        &self,
        bench: &Bench,
        id: &str,
        push: impl Fn(&str) -> f64,
        beside: &str,
        own: impl Fn(&str) -> f64,
    ) -> Result<Option<Figure>, Trouble> {
        let (mut floors, mut tags) = (0, 0);
        let (floor, ours) = bench.alternate(
            ROUNDS,
            || {
                floors += 1;
                Ok(own(&format!("{id}-floor{floors}")))
            },
            || {
                tags += 1;
                Ok(push(&format!("{id}-{tags}")))
            },
        )?;
        let figure = Figure::new(id, Unit::Seconds, &ours);
        Ok(figure.map(|figure| figure.beside(beside, &floor).target(Target::Over(1.0))))
    }

    /// The seconds from a push to an answer of what it names, which hosts have.
    fn push(&self, tag: &str, service: &str) -> f64 {
        self.apps.iter().for_each(|app| image::is_on(app, tag));
        self.timed(tag, service)
    }

    fn timed(&self, tag: &str, service: &str) -> f64 {
        let start = Instant::now();
        self.bed.commit("web.fluke.hcl", service);
        self.edge.run(&format!(
            "until [ \"$(curl --silent --max-time 2 --header 'Host: {DOMAIN}' \
             http://127.0.0.1/)\" = {tag} ]; do sleep 0.01; done"
        ));
        let took = start.elapsed().as_secs_f64();
        self.bed.until("only the new one runs", |_| {
            self.apps.iter().all(|app| app.is("test $(podman ps --all --quiet | wc -l) = 1"))
        });
        took
    }

    fn own_start(&self, tag: &str, before: &str, after: &str) -> f64 {
        image::is_on(&self.apps[0], tag);
        self.timed_start(tag, before, after)
    }

    fn timed_start(&self, tag: &str, before: &str, after: &str) -> f64 {
        let host = &self.apps[0];
        let inspect = "podman inspect --format '{{.NetworkSettings.IPAddress}}'";
        let start = Instant::now();
        host.run(&format!(
            "{before} podman run --quiet --detach --name {tag} localhost/web:{tag}; \
             a=$({inspect} {tag}); until [ \"$(curl --silent --max-time 2 http://$a:3000)\" = {tag} ]; \
             do sleep 0.01; done; {after}"
        ));
        let took = start.elapsed().as_secs_f64();
        host.run(&format!("podman rm --force --time 0 {tag}"));
        took
    }

    /// A host is dead, as far as anybody can tell.
    fn left(&self, bench: &Bench) -> [Option<Figure>; 2] {
        let other = &self.apps[1];
        self.gone(bench, "left", || self.bed.partition(other), || self.bed.reunite(other))
    }

    /// A container is dead, and stays so.
    fn dead(&self, bench: &Bench) -> [Option<Figure>; 2] {
        let other = &self.apps[1];
        self.push("frail", &service("localhost/web:frail", ""));
        self.bed.commit("web.fluke.hcl", &service("localhost/web:frail", NOBODY_RESTARTS_IT));
        self.bed.settles();
        let kill =
            || drop(other.run("kill -9 $(podman inspect --format '{{.State.Pid}}' --latest)"));
        self.gone(bench, "dead", kill, || drop(other.run("podman start --latest")))
    }

    /// How soon names and routes do not lead to the other host's container any more.
    fn gone(
        &self,
        bench: &Bench,
        id: &str,
        ends: impl Fn(),
        returns: impl Fn(),
    ) -> [Option<Figure>; 2] {
        let [here, other] = &self.apps;
        let gateway =
            here.run("ip -4 -oneline addr show fluke-br0 | grep -o 'inet [0-9.]*' | cut -c6-");
        let address = other.run(
            "podman inspect --latest --format \
             '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'",
        );
        let is_named =
            format!("dig +short +tries=1 +time=1 @{gateway} web.internal | grep -qxF {address}");
        let api = "$(ss -Hltn 'sport = :781' | awk 'NR == 1 {print $4}')";
        let is_routed = format!("curl --silent http://{api}/api/rawdata | grep -qF {address}:3000");
        let (mut names, mut routes) = (Vec::new(), Vec::new());
        for _ in 0..bench.rounds(FEW) {
            here.until(&is_named);
            self.edge.until(&is_routed);
            let start = Instant::now();
            ends();
            let until_not = |host: &Host, is_so: &str| {
                host.run(&format!("while {is_so}; do sleep 0.02; done"));
                start.elapsed().as_secs_f64()
            };
            std::thread::scope(|scope| {
                let named = scope.spawn(|| until_not(here, &is_named));
                routes.push(until_not(&self.edge, &is_routed));
                names.extend(named.join());
            });
            returns();
        }
        [(String::from(id), names), (format!("{id}-routes"), routes)].map(|(id, took)| {
            let figure = Figure::new(&id, Unit::Seconds, &took);
            figure.map(|figure| figure.target(Target::AtMost(2.0)))
        })
    }
}

fn service(image: &str, more: &str) -> String {
    format!(
        r#"
service "web" {{
  selector {{
    match_labels = {{ role = "app" }}
  }}
  image = "{image}"
  port "http" {{
    container = 3000
    domain    = "{DOMAIN}"
  }}
  {more}
}}
"#
    )
}
