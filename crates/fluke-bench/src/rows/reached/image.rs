//! Images of a web server, on hosts and in a registry.

use fluke_bed::Host;

const REGISTRY: &str = "edge-1:5000";
/// It ends as soon as it is told to, whatever is under way.
const SERVES: &str = "trap \\\"exit 0\\\" TERM; httpd -f -p 3000 -h /www & wait";

/// A host has `localhost/web:TAG`, which answers with TAG.
pub fn is_on(host: &Host, tag: &str) {
    is_made(host, tag, "true");
}

/// The registry has such an image, with a layer that no other image has, and its host has it no more.
pub fn is_in_registry(registry: &Host, tag: &str) {
    is_made(registry, tag, "head --bytes=8M /dev/urandom >$root/unique");
    let image = in_registry(tag);
    registry.run(&format!("podman push --quiet localhost/web:{tag} {image}"));
    registry.run(&format!("podman rmi --force localhost/web:{tag}"));
}

/// What it is called there.
pub fn in_registry(tag: &str) -> String {
    format!("{REGISTRY}/web:{tag}")
}

fn is_made(host: &Host, tag: &str, more: &str) {
    host.run(&format!(
        "set -e; root=$(mktemp -d); mkdir -p $root/bin $root/www; cp /bin/busybox $root/bin/; \
         for name in httpd sh test; do ln -s busybox $root/bin/$name; done; \
         echo {tag} >$root/www/index.html; {more}; tar -C $root -c . | podman import --quiet \
         --change 'CMD [\"/bin/sh\", \"-c\", \"{SERVES}\"]' - localhost/web:{tag}; \
         rm -r $root"
    ));
}

/// A host that others get images from.
pub fn is_registry(host: &Host) {
    host.write(
        "/etc/registry.yml",
        "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: /var/lib/registry\n\
         http:\n  addr: 0.0.0.0:5000\n",
    );
    host.unit(
        "registry.service",
        "[Service]\nExecStart=/usr/bin/docker-registry serve /etc/registry.yml\n",
    );
    host.run("systemctl start registry");
    host.until(&format!("curl --silent --output /dev/null http://{REGISTRY}/v2/"));
}

/// It speaks no TLS here.
pub fn trusts_registry(host: &Host) {
    host.write(
        "/etc/containers/registries.conf.d/registry.conf",
        &format!("[[registry]]\nlocation = \"{REGISTRY}\"\ninsecure = true\n"),
    );
}
