//! Images that hosts have, services made of them, and what a host says of its containers.

use std::path::{Path, PathBuf};

use fluke_bed::TOKEN;
use fluke_model::api::{ReconcileAccepted, ReconcileProgress};

use crate::hosts::support::{Bed, Host, Join};

/// Requests for the shop.
pub const HTTP: &str =
    "port \"http\" {\n    container = 3000\n    domain    = \"shop.example.com\"\n  }";

/// A web server's image on the host, `localhost/web:TAG`, that answers every request with TAG.
pub fn has_image(host: &Host, tag: &str) {
    host.run(&format!(
        r#"set -e; root=$(mktemp -d); mkdir -p $root/bin $root/www $root/tmp
           cp /bin/busybox $root/bin/
           for name in sh httpd sleep wget cat test touch nslookup; do ln -s busybox $root/bin/$name; done
           echo {tag} > $root/www/index.html
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

/// The address of a container in its host's own subnet.
pub fn address(host: &Host, container: &str) -> String {
    let format = "'{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'";
    host.run(&format!("podman inspect --format {format} {container}"))
}

/// The addresses that a container on the host gets for a name.
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
    let said = bed.server().get::<serde_json::Value>("/api/v1/services/web");
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

/// The proxy's program, which `scripts/test-tools` installs.
pub fn traefik() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin/traefik");
    tools.canonicalize().expect("there is no traefik: run scripts/test-tools")
}

/// What the proxy answers for the shop.
pub fn shop(edge: &Host) -> String {
    answer(edge, "--header 'Host: shop.example.com' http://127.0.0.1/")
}

/// An agent that takes requests.
pub fn is_proxy() -> Join {
    let more = "proxy {\n    program = \"/opt/fluke/traefik\"\n  }".into();
    Join { more, ..Join::default() }
}
