//! Containers on a host with Podman: looked at, killed, and left alone.

mod idle;

use fluke_bed::{Bed, Host};

use crate::figure::{Figure, Target, Unit};
use crate::row::{Bench, Row, Trouble, Turn, figures};
use crate::rows::units::bed;
use crate::stage::{Feed, reconcile};

pub(super) use idle::ROW as IDLE;

pub(super) const CHECKED: Row = Row {
    id: "containers",
    what: "100 satisfied container checks; killed container → running again",
    reach: "≤ 10 ms; ≤ 300 ms + its own start",
    how: "On a host of the bed with Podman: services with a container each, an agent, and a server \
          outside, over TLS. Checked: 100 of them run; a reconcile of the whole host is timed from \
          the order to the server's knowing, with names and mesh looked at as well. Just-changed: \
          the same less than a second after Podman wrote to its database; by its time alone, a file \
          that young cannot be told from one that changes once more, so that Podman is asked. Beside \
          both: one list of all containers over Podman's socket, by a connection that is open. \
          Running: the \
          first process of a container is killed, of another one each time; timed until the new one \
          writes to its volume. Beside it: a container like it that nobody keeps, from the request \
          to Podman's socket to start it until it writes.",
    turn: Turn::Always,
    measure,
};

const CONTAINERS: usize = 100;
/// So many are wanted at once.
const BATCH: usize = 20;
const CHECKS: usize = 31;
const CHANGES: usize = 7;
const KILLS: usize = 11;
/// Until Podman's database is no longer young: see `memory.rs` of the agent's lane.
const QUIET: &str = "sleep 1.5";
/// Something is written to Podman's database that concerns none of the containers.
const CHANGE: &str = "podman volume create young; podman volume rm young";
/// Between rounds, so that none takes part in what another one leaves to be done.
const CALM: &str = "sleep 1";
/// What a container does: it says when it starts, and stays.
const COMMAND: &str = "echo >>/data/started; exec sleep 1000000";

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let bed = bed(bench)?;
    let host = host_with_image(&bed);
    let killed = killed(bench, &bed, &host)?;
    let [checked, changed] = checked(bench, &bed, &host)?;
    figures([checked, changed, killed])
}

fn checked(bench: &Bench, bed: &Bed, host: &Host) -> Result<[Option<Figure>; 2], Trouble> {
    runs(bed, CONTAINERS);
    let mut feed = Feed::open(&bed.server().socket())?;
    host.run(QUIET);
    let (floor, ours) =
        bench.alternate(CHECKS, || list(host), || reconcile(bed.server(), &mut feed))?;
    let (young_floor, young) = bench.alternate(
        CHANGES,
        || list(host),
        || {
            host.run(CHANGE);
            reconcile(bed.server(), &mut feed)
        },
    )?;
    let figure = |id: &str, ours: &[f64], floor: &[f64]| {
        let figure = Figure::new(id, Unit::Seconds, ours);
        figure.map(|figure| figure.beside("one list by Podman", floor))
    };
    let checked = figure("checked", &ours, &floor);
    let checked = checked.map(|figure| figure.target(Target::AtMost(0.01)));
    Ok([checked, figure("just-changed", &young, &young_floor)])
}

fn killed(bench: &Bench, bed: &Bed, host: &Host) -> Result<Option<Figure>, Trouble> {
    // What dies again and again is started less and less often: each round has its own.
    runs(bed, KILLS);
    host.run(&format!(
        "podman create --quiet --name own --network fluke --volume own:/data localhost/web:1 \
         /bin/sh -c '{COMMAND}'"
    ));
    // Both print the seconds between an act and the next time that a container writes.
    let timed = |volume: &str, act: &str| {
        let said = host.run(&format!(
            "f=$(podman volume inspect --format '{{{{.Mountpoint}}}}' {volume})/started; \
             touch $f; n=$(wc -l <$f); {act}; until [ $(wc -l <$f) -gt $n ]; do sleep 0.005; done; \
             awk -v t=$t -v s=$(date --reference=$f +%s.%N) 'BEGIN {{ printf \"%.6f\", s - t }}'"
        ));
        let why = || Trouble::failed("time a container", format!("it said {said:?}"));
        said.trim().parse::<f64>().map_err(|_| why())
    };
    let kill = |service: &str| {
        let filter = format!("--filter label=fluke.service.name={service}");
        format!("p=$(podman ps {filter} --format '{{{{.Pid}}}}'); t=$(date +%s.%N); kill -KILL $p")
    };
    let mut round = 0;
    let start = format!(
        "t=$(date +%s.%N); curl --silent --fail --request POST --unix-socket {SOCKET} \
         http://podman/v4.0.0/libpod/containers/own/start"
    );
    let (floor, ours) = bench.alternate(
        KILLS,
        || {
            host.run(CALM);
            let took = timed("own", &start);
            host.run(&format!("podman stop --time 0 own; {CALM}"));
            took
        },
        || {
            let service = format!("s{}", round % KILLS);
            round += 1;
            let took = timed(&format!("fluke.{service}.data"), &kill(&service));
            bed.settles();
            took
        },
    )?;
    let figure = Figure::new("running", Unit::Seconds, &ours);
    let beside = "its own start";
    Ok(figure.map(|figure| figure.beside(beside, &floor).target(Target::Over(0.3))))
}

const SOCKET: &str = "/run/podman/podman.sock";

/// The seconds that Podman takes to list every container, over a connection that it has answered
/// once.
fn list(host: &Host) -> Result<f64, Trouble> {
    let url = "'http://podman/v4.0.0/libpod/containers/json?all=true'";
    let said = host.run(&format!(
        "curl --silent --fail --unix-socket {SOCKET} --write-out '%{{time_total}}\\n' \
         --output /dev/null {url} --output /dev/null {url} | tail --lines=1"
    ));
    said.trim().parse().map_err(|_| Trouble::failed("ask Podman", format!("it said {said:?}")))
}

/// A host with an agent, and the image that all containers are made of.
fn host_with_image(bed: &Bed) -> Host {
    let host = bed.host("app-1").joins("");
    host.run(
        "set -e; root=$(mktemp -d); mkdir -p $root/bin $root/data; cp /bin/busybox $root/bin/; \
         for name in sh sleep; do ln -s busybox $root/bin/$name; done; \
         tar -C $root -c . | podman import --quiet - localhost/web:1; rm -r $root",
    );
    host
}

/// Waits until so many services run, each with its container.
fn runs(bed: &Bed, count: usize) {
    let batches = (BATCH..count).step_by(BATCH).chain([count]);
    for count in batches {
        let services: String = (0..count).map(service).collect();
        bed.commit("services.fluke.hcl", &services);
        bed.settles();
    }
}

fn service(number: usize) -> String {
    format!(
        r#"
service "s{number}" {{
  selector {{
    match_labels = {{}}
  }}
  image   = "localhost/web:1"
  command = ["/bin/sh", "-c", "{COMMAND}"]
  volume "data" {{
    path = "/data"
  }}
}}
"#
    )
}
