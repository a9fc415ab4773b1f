//! Images that hosts have, services made of them, and what a host says of its containers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fluke_bed::TOKEN;
use fluke_bed::criterion::{Chronicle, Evidence, broken};
use fluke_model::api::{ReconcileAccepted, ReconcileProgress};

use crate::hosts::support::{Bed, Host, Join};

/// Requests for the shop.
pub const HTTP: &str =
    "port \"http\" {\n    container = 3000\n    domain    = \"shop.example.com\"\n  }";

/// A web server's image on the host, `localhost/web:TAG`, that answers every request with TAG.
/// One for `/cgi-bin/slow` it begins to answer, and ends that half a second after there is `/tmp/go`.
pub fn has_image(host: &Host, tag: &str) {
    host.run(&format!(
        r#"set -e; root=$(mktemp -d); mkdir -p $root/bin $root/www $root/tmp
           cp /bin/busybox $root/bin/
           for name in sh httpd sleep wget cat test touch nslookup; do ln -s busybox $root/bin/$name; done
           for it in /usr/bin/flock $(ldd /usr/bin/flock | grep -o '/[^ ]*'); do cp --parents $it $root; done
           echo {tag} > $root/www/index.html
           mkdir $root/www/cgi-bin; cat > $root/www/cgi-bin/slow <<'END'
#!/bin/sh
echo Content-Type: text/plain; echo; echo begun; touch /tmp/asked
until test -e /tmp/go; do sleep 0.1; done; sleep 0.5; cat /www/index.html
END
           chmod +x $root/www/cgi-bin/slow
           tar -C $root -c . | podman import --quiet \
               --change 'CMD ["/bin/httpd","-f","-p","3000","-h","/www"]' - localhost/web:{tag}
           rm -r $root"#
    ));
}

/// `fluke`, with the password `s3cret`.
const PASSWORDS: &str = "fluke:$2b$05$abcdefghijklmnopqrstuuLK7U1u6pVRmL7L1BBM2aS35PSZnDXlK\n";

/// A registry on the host that wants a password, and has the host's image `localhost/web:TAG`.
pub fn is_registry(host: &Host, tag: &str) {
    let at = format!("{}:5000", host.name());
    host.write("/etc/registry.passwords", PASSWORDS);
    host.write(
        "/etc/registry.yml",
        "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: /var/lib/registry\n\
         http:\n  addr: 0.0.0.0:5000\nauth:\n  htpasswd:\n    realm: images\n    path: /etc/registry.passwords\n",
    );
    host.unit(
        "registry.service",
        "[Service]\nExecStart=/usr/bin/docker-registry serve /etc/registry.yml\n",
    );
    host.run("systemctl start registry");
    trusts_registry(host, host.name());
    host.until(&format!("curl --silent --output /dev/null http://{at}/v2/"));
    host.run(&format!("podman login --username fluke --password s3cret {at}"));
    host.run(&format!("podman push --quiet localhost/web:{tag} {at}/web:{tag}"));
}

/// It speaks no TLS here.
pub fn trusts_registry(host: &Host, registry: &str) {
    host.write(
        "/etc/containers/registries.conf.d/registry.conf",
        &format!("[[registry]]\nlocation = \"{registry}:5000\"\ninsecure = true\n"),
    );
}

/// A service for hosts with the label `role=app`, with more lines.
pub fn service(name: &str, tag: &str, more: &str) -> String {
    format!(
        r#"
service "{name}" {{
  selector {{
    match_labels = {{ role = "app" }}
  }}
  image = "localhost/web:{tag}"
  {more}
}}
"#
    )
}

/// The containers of a service that run on the host, by Podman's own account.
pub fn running(host: &Host, service: &str) -> Vec<String> {
    let list = "podman ps --no-trunc --format '{{.ID}}'";
    let said = host.run(&format!("{list} --filter label=fluke.service.name={service}"));
    said.lines().map(str::to_string).collect()
}

/// Every container of a service on the host, in whatever state.
pub fn containers(host: &Host, service: &str) -> Vec<String> {
    let list = "podman ps --all --no-trunc --format '{{.ID}}'";
    let said = host.run(&format!("{list} --filter label=fluke.service.name={service}"));
    said.lines().map(str::to_string).collect()
}

/// Waits until exactly one container of the service is on the host, and runs; says which.
pub fn runs_one(bed: &Bed, host: &Host, service: &str) -> String {
    let is_alone = |_: &Bed| {
        let (running, all) = (running(host, service), containers(host, service));
        running.len() == 1 && all == running
    };
    bed.until(&format!("{service} runs on {}", host.name()), is_alone);
    running(host, service).remove(0)
}

/// When a container last started; nothing if it is gone.
pub fn started(host: &Host, container: &str) -> String {
    host.try_run(&format!("podman inspect --format '{{{{.State.StartedAt}}}}' {container}")).stdout
}

/// The containers of services that run on the host, and since when: the same as long as nobody
/// touches any of them.
pub fn lives(host: &Host) -> Vec<String> {
    let said = host.run(
        "podman ps --quiet --filter label=fluke.service.name \
         | xargs --no-run-if-empty podman inspect --format '{{.Id}} since {{.State.StartedAt}}'",
    );
    let mut lives: Vec<_> = said.lines().map(str::to_string).collect();
    lives.sort();
    lives
}

/// The address of a container in its host's own subnet.
pub fn address(host: &Host, container: &str) -> String {
    let format = "'{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'";
    host.run(&format!("podman inspect --format {format} {container}"))
}

/// The addresses that whoever asks the host's own DNS server for a name is told, at the place where
/// containers ask it. One asks in `reaching.rs`.
pub fn resolved(host: &Host, container: &str, name: &str) -> Vec<String> {
    let gateway = address(host, container).rsplit_once('.').map(|(net, _)| format!("{net}.1"));
    let gateway = gateway.unwrap_or_default();
    let said = host.try_run(&format!("dig +short +tries=1 +time=1 @{gateway} {name}")).stdout;
    let mut addresses: Vec<_> = said.lines().map(str::to_string).collect();
    addresses.sort();
    addresses
}

/// What a web server at an address answers to the host; nothing where it does not.
pub fn answer(host: &Host, url: &str) -> String {
    host.try_run(&format!("curl --silent --fail --max-time 2 {url}")).stdout
}

/// All that the server says of `web`.
pub fn described(bed: &Bed) -> String {
    told(bed, "services/web")
}

/// What the API says, as text; nothing where it does not.
pub fn told(bed: &Bed, path: &str) -> String {
    let said = bed.server().get::<serde_json::Value>(&format!("/api/v1/{path}"));
    said.map(|said| said.to_string()).unwrap_or_default()
}

/// Has the agent, which the bed started, be one that `fluke install` has made.
pub fn is_installed(bed: &Bed, host: &Host) {
    host.run("systemctl disable --quiet --now fluke-agent; rm /etc/systemd/system/fluke-agent.service; systemctl daemon-reload");
    let url = bed.server().grpc();
    let told = host
        .run(&format!("FLUKE_TOKEN={TOKEN} /opt/fluke/fluke install agent --url grpcs://{url}"));
    assert!(told.contains("the agent is connected"), "{told}");
    bed.settles();
}

/// Somebody wants `app-1` to be put right now.
pub fn is_asked_for(bed: &Bed) {
    let by_hand = r#"{"scope":"agent","name":"app-1","by":"a story"}"#;
    let (status, said) = bed.server().post("/api/v1/reconcile", by_hand).expect("an answer");
    assert_eq!(status, 202, "{said}");
}

/// Somebody asks for this to be put right, and waits until it is; what was done.
pub fn asks(bed: &Bed, what: &str) -> ReconcileProgress {
    let (status, said) = bed.server().post("/api/v1/reconcile", what).expect("an answer");
    assert_eq!(status, 202, "{said}");
    let asked: ReconcileAccepted = serde_json::from_str(&said).expect("as the API says");
    let path = format!("/api/v1/reconcile/{}", asked.id);
    let progress = || bed.server().get::<ReconcileProgress>(&path).expect("it is followed");
    bed.until(&format!("{what} is done"), |_| progress().done);
    let ended = progress();
    assert!(!ended.failed, "{ended:?}");
    ended
}

/// Where an agent keeps what it knows.
pub const STATE: &str = "/var/lib/fluke";

/// Waits until every apply of the host that began has exactly one end in the events, beside those
/// that earlier servers told; the agent's own state is sound.
pub fn every_apply_has_an_end(bed: &Bed, host: &Host, told: &Chronicle) {
    let evidence = || {
        let mut chronicle = told.clone();
        chronicle.read(bed.server(), host.name());
        let files =
            host.run(&format!("cd {STATE} && find . -name '*.json' -o -name '*.corrupt-*'"));
        let read = |name: &str| host.read(&format!("{STATE}/{name}")).into_bytes();
        let state: BTreeMap<_, _> =
            files.lines().map(|name| (name.to_string(), read(name))).collect();
        Evidence { chronicle, state, ..Evidence::default() }
    };
    bed.until("everything that began has ended", |_| broken(&evidence()).is_empty());
}

/// The proxy's program, which `scripts/test-tools` installs.
pub fn traefik() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin/traefik");
    tools.canonicalize().expect("there is no traefik: run scripts/test-tools")
}

/// What the proxy answers for the shop.
pub fn shop(edge: &Host) -> String {
    answer(edge, "--header 'Host: shop.example.com' http://127.0.0.1/")
}

/// Where Traefik itself says that it leads requests.
pub fn upstreams(edge: &Host) -> Vec<String> {
    let said = edge.try_run(
        "at=$(ss -Hltn 'sport = :781' | awk '{print $4; exit}'); \
         curl --silent --max-time 2 http://$at/api/rawdata \
         | jq --raw-output '.services[]?.loadBalancer?.servers[]?.url'",
    );
    let mut upstreams: Vec<_> = said.stdout.lines().map(str::to_string).collect();
    upstreams.sort();
    upstreams
}

/// Somebody asks for the shop without a pause, with a connection for each request and with one for
/// all of them.
pub fn is_busy(edge: &Host) {
    asks_without_a_pause(edge, "--header Host:shop.example.com http://127.0.0.1/");
}

/// The same from any host; `curl` is told so.
pub fn asks_without_a_pause(host: &Host, curl: &str) {
    host.run(&format!(
        "systemd-run --quiet --unit load bash -c 'while sleep 0.01; do \
         curl --silent --show-error --fail --max-time 5 \
         --write-out \"%{{stderr}}%{{http_code}} after %{{time_total}} s\n\" \
         {curl} >> /tmp/answers 2> /tmp/last \
         || (date +%T.%N; cat /tmp/last) >> /tmp/failed; done'"
    ));
    host.run(&format!(
        "systemd-run --quiet --unit kept-load bash -c '\
         curl --silent --rate 50/s --max-time 5 --output /dev/null \
         --write-out \"%{{stderr}}%{{http_code}} by %{{num_connects}} new\n\" \
         {curl}?[1-1000000] 2> /tmp/kept'"
    ));
    host.until("test $(wc -l < /tmp/answers) -gt 50 -a $(wc -l < /tmp/kept) -gt 50");
}

/// All of them had their answers, and those afterwards have them, too.
pub fn nobody_was_let_down(edge: &Host) {
    let before = edge.run("cat /tmp/answers /tmp/kept | wc -l");
    edge.until(&format!("test $(cat /tmp/answers /tmp/kept | wc -l) -gt $(({before} + 100))"));
    edge.run("systemctl stop load kept-load");
    let log = "/var/lib/fluke/services/traefik/access.log";
    let failed = edge.read("/tmp/failed") + &edge.run("grep -v '^200 ' /tmp/kept || true");
    let why = edge.run(&format!("grep -v '\"OriginStatus\":200' {log} || true"));
    assert_eq!(failed, "", "{why}");
    let reused = edge.run("grep -c 'by 0 new' /tmp/kept || true");
    assert_ne!(reused, "0", "each had a connection of its own");
}

/// A proxy and two hosts that run `web`, of this image, each its own.
pub fn three_hosts(bed: &Bed) -> (Host, [Host; 2]) {
    bed.hosts(["edge-1", "app-1", "app-2"]);
    bed.brings(&traefik(), "traefik");
    let proxy = Join { labels: "role=edge".into(), ..is_proxy() };
    // It runs no containers, and needs no Podman.
    bed.host("edge-1").run(
        "systemctl disable --quiet --now podman.socket podman.service; rm /run/podman/podman.sock",
    );
    let edge = bed.host("edge-1").joins_as(&proxy);
    let apps = [bed.host("app-1").joins("role=app"), bed.host("app-2").joins("role=app")];
    for app in &apps {
        has_image(app, "1");
        has_image(app, "2");
    }
    (edge, apps)
}

/// An agent that takes requests.
pub fn is_proxy() -> Join {
    let more = "proxy {\n    program = \"/opt/fluke/traefik\"\n  }".into();
    Join { more, ..Join::default() }
}
