//! The shop over TLS, from the outside, with certificates that somebody gave.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::support::{
    HTTP, answer, asks_without_a_pause, has_image, nobody_was_let_down, runs_one, service, traefik,
};
use crate::hosts::support::{Host, bed, install_agent};

/// A CA, a certificate of its own for the shop, and that one's key; each as PEM.
struct Given {
    ca: String,
    certificate: String,
    key: String,
}

impl Given {
    fn by(ca: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, ca);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let ca = CertifiedIssuer::self_signed(params, key).expect("a CA");
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["shop.example.com".to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &ca).expect("signed").pem();
        Self { ca: ca.pem(), certificate, key: key.serialize_pem() }
    }

    /// Puts them where the config of the proxy's agent says, one after the other.
    fn is_put_on(&self, edge: &Host) {
        for (name, text) in [("shop.pem", &self.certificate), ("shop.key", &self.key)] {
            edge.write(&format!("/etc/fluke/tls/{name}.new"), text);
            edge.run(&format!("cd /etc/fluke/tls && chmod 600 {name}.new && mv {name}.new {name}"));
        }
    }
}

/// A block within that of the agent.
const CERTIFICATE: &str = r#"
  proxy {
    certificate {
      cert_file = "/etc/fluke/tls/shop.pem"
      key_file  = "/etc/fluke/tls/shop.key"
    }
  }
}
"#;

#[test]
fn the_shop_is_served_over_tls_with_given_certificates_which_are_renewed_without_a_failure() {
    let Some(bed) = bed() else { return };
    bed.brings(&traefik(), "traefik");
    let [edge, outside] = bed.hosts(["edge-1", "outside"]);
    let app = bed.host("app-1").joins("role=app");
    has_image(&app, "1");
    edge.run("ln -s /opt/fluke/traefik /usr/local/bin/traefik");
    install_agent(&bed, &edge, "--label role=edge --proxy");
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    runs_one(&bed, &app, "web");

    // Who asks is told where the shop is, and whom to trust.
    let [first, second] = ["the first", "the second"].map(Given::by);
    outside.write("/srv/first.pem", &first.ca);
    outside.write("/srv/second.pem", &second.ca);
    outside.write("/srv/both.pem", &format!("{}{}", first.ca, second.ca));
    let (plain, tls) = ("http://shop.example.com/", "https://shop.example.com/");
    let asking = |trusted: &str, url: &str| {
        let place = edge.address();
        format!("--connect-to ::{place}: --cacert /srv/{trusted}.pem {url}")
    };
    let shop = |trusted: &str, url: &str| answer(&outside, &asking(trusted, url));
    bed.until("it is served in plain text", |_| shop("both", plain) == "1");
    assert_eq!(shop("both", tls), "", "nobody gave a certificate");

    first.is_put_on(&edge);
    let config = edge.read("/etc/fluke/agent.hcl");
    let config = config.trim_end().strip_suffix('}').expect("it ends with the agent's block");
    edge.write("/etc/fluke/agent.hcl", &format!("{config}{CERTIFICATE}"));
    edge.run("systemctl reload fluke-agent");
    bed.until("it is served over TLS", |_| shop("first", tls) == "1");
    assert_eq!(shop("second", tls), "", "that one has nothing to do with it yet");
    let sent = || {
        let what = "--silent --output /dev/null --write-out '%{http_code} %{redirect_url}'";
        outside.run(&format!("curl {what} {}cart", asking("both", plain)))
    };
    bed.until("everybody is sent there", |_| sent() == format!("301 {tls}cart"));

    asks_without_a_pause(&outside, &asking("both", tls));
    let processes = edge.run("pgrep -x traefik");
    second.is_put_on(&edge);
    bed.until("the new one is served", |_| shop("second", tls) == "1");
    assert_eq!(shop("first", tls), "", "and no other");
    nobody_was_let_down(&outside);
    assert_eq!(edge.run("pgrep -x traefik"), processes, "without a restart");
}
