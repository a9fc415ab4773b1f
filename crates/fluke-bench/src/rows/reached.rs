//! A service on three hosts: how soon a push answers, and how soon a dead host is led to no more.

use std::time::Instant;

use fluke_bed::{Bed, Host, Join};

use super::units::bed;
use crate::figure::{Figure, Target, Unit};
use crate::root;
use crate::row::{Bench, Row, Trouble, Turn, figures};

pub(super) const ROW: Row = Row {
    id: "reached",
    what: "push → answered through the proxy by the new container; host cut off → gone from names",
    reach: "≤ 1 s + the container's own start; ≤ 2 s",
    how: "Three hosts of the bed: a proxy with Traefik, two with a container of the service each. \
          Answered: another image, which the hosts have, is pushed; timed until a request at the \
          proxy is answered by it. Beside it: `podman run` of such an image on a host until it \
          answers there. Left: nothing gets to or from one of the two any more; timed until the \
          other one's DNS does not name its container.",
    turn: Turn::Always,
    measure,
};

const ROUNDS: usize = 7;

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let stage = Stage::up(bench)?;
    let answered = stage.answered(bench)?;
    let left = stage.left(bench)?;
    figures([answered, left])
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
        bed.hosts(["edge-1", "app-1", "app-2"]);
        bed.brings(&traefik, "traefik");
        let more = "proxy {\n    program = \"/opt/fluke/traefik\"\n  }".into();
        let edge = Join { labels: "role=edge".into(), more, ..Join::default() };
        let edge = bed.host("edge-1").joins_as(&edge);
        let apps = ["app-1", "app-2"].map(|name| bed.host(name).joins("role=app"));
        Ok(Self { bed, edge, apps })
    }

    fn answered(&self, bench: &Bench) -> Result<Option<Figure>, Trouble> {
        let (mut floors, mut tag) = (0, 0);
        let (floor, ours) = bench.alternate(
            ROUNDS,
            || {
                floors += 1;
                Ok(self.own_start(&format!("floor{floors}")))
            },
            || {
                tag += 1;
                Ok(self.push(&tag.to_string()))
            },
        )?;
        let figure = Figure::new("answered", Unit::Seconds, &ours);
        let beside = "its own start";
        Ok(figure.map(|figure| figure.beside(beside, &floor).target(Target::Over(1.0))))
    }

    /// The seconds from a push to an answer of what it names.
    fn push(&self, tag: &str) -> f64 {
        self.apps.iter().for_each(|app| has_image(app, tag));
        let start = Instant::now();
        self.bed.commit("web.fluke.hcl", &service(tag));
        self.edge.run(&format!(
            "until [ \"$(curl --silent --max-time 2 --header 'Host: shop.example.com' \
             http://127.0.0.1/)\" = {tag} ]; do sleep 0.01; done"
        ));
        let took = start.elapsed().as_secs_f64();
        self.bed.until("only the new one runs", |_| {
            self.apps.iter().all(|app| app.is("test $(podman ps --all --quiet | wc -l) = 1"))
        });
        took
    }

    fn own_start(&self, tag: &str) -> f64 {
        let host = &self.apps[0];
        has_image(host, tag);
        let inspect = "podman inspect --format '{{.NetworkSettings.IPAddress}}'";
        let start = Instant::now();
        host.run(&format!(
            "podman run --quiet --detach --name {tag} localhost/web:{tag}; a=$({inspect} {tag}); \
             until [ \"$(curl --silent --max-time 2 http://$a:3000)\" = {tag} ]; do sleep 0.01; done"
        ));
        let took = start.elapsed().as_secs_f64();
        host.run(&format!("podman rm --force --time 0 {tag}"));
        took
    }

    fn left(&self, bench: &Bench) -> Result<Option<Figure>, Trouble> {
        let [here, other] = &self.apps;
        let gateway =
            here.run("ip -4 -oneline addr show fluke-br0 | grep -o 'inet [0-9.]*' | cut -c6-");
        let named = |count: usize| {
            format!("[ $(dig +short +tries=1 +time=1 @{gateway} web.internal | wc -l) = {count} ]")
        };
        let mut took = Vec::new();
        for _ in 0..bench.rounds(ROUNDS) {
            here.until(&named(2));
            let start = Instant::now();
            self.bed.partition(other);
            here.run(&format!("until {}; do sleep 0.02; done", named(1)));
            took.push(start.elapsed().as_secs_f64());
            self.bed.reunite(other);
        }
        let figure = Figure::new("left", Unit::Seconds, &took);
        Ok(figure.map(|figure| figure.target(Target::AtMost(2.0))))
    }
}

/// A web server's image on the host, that answers with its tag.
fn has_image(host: &Host, tag: &str) {
    host.run(&format!(
        "set -e; root=$(mktemp -d); mkdir -p $root/bin $root/www; cp /bin/busybox $root/bin/; \
         ln -s busybox $root/bin/httpd; echo {tag} >$root/www/index.html; \
         tar -C $root -c . | podman import --quiet \
         --change 'CMD [\"/bin/httpd\",\"-f\",\"-p\",\"3000\",\"-h\",\"/www\"]' - localhost/web:{tag}; \
         rm -r $root"
    ));
}

fn service(tag: &str) -> String {
    format!(
        r#"
service "web" {{
  selector {{
    match_labels = {{ role = "app" }}
  }}
  image = "localhost/web:{tag}"
  port "http" {{
    container = 3000
    domain    = "shop.example.com"
  }}
}}
"#
    )
}
