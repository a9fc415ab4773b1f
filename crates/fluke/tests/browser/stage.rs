//! What stories in the browser are about: a small company's fleet, with a few things wrong.
//!
//! Server, repository, sessions and pages are real. Hosts are a swarm's: they say what the story
//! wants them to say.

use std::fmt::Display;

use fluke_bed::swarm::{Shares, Swarm, SwarmOptions, Trouble};
use fluke_model::label::Labels;
use fluke_model::secret::Secret;
use fluke_model::status::Status;
use fluke_model::verdict::Drift;
use fluke_wire::client::{ClientTls, Target};

use super::driver::{Page, visitor};
use crate::stories::support::{Fleet, Options, TOKEN};

/// What lets people in.
pub const API_TOKEN: &str = "an-api-token-for-stories";

/// What the company wants of its hosts.
pub const MANIFEST: &str = r#"
task "base/updates" {
  description = "Security updates install themselves."

  selector {
    match_labels = {}
  }

  shell "unattended-upgrades" {
    check   = "dpkg -s unattended-upgrades | grep -q '^Status: install ok'"
    command = "apt-get install -y unattended-upgrades"
  }
}

task "certificates" {
  description = "The site's certificate is good for another week."

  drift {
    policy = "alert_only"
  }

  selector {
    match_labels = { role = "web" }
  }

  shell "renew" {
    check   = "openssl x509 -checkend 604800 -noout -in /etc/ssl/site.pem"
    command = "/usr/local/bin/renew-certificate /etc/ssl/site.pem"
  }
}

task "db/backup" {
  description = "A backup of last night is there."

  selector {
    match_labels = { role = "db" }
  }

  shell "last-night" {
    check   = "find /srv/backup -name '*.dump' -mtime -1 | grep -q ."
    command = "systemctl start --wait backup.service"
  }
}

task "web/nginx" {
  description = "nginx serves the site, with the config that Git has."

  selector {
    match_labels = { role = "web" }
  }

  shell "config" {
    check   = "cmp -s /srv/site/nginx.conf /etc/nginx/nginx.conf"
    command = "install -m 0644 /srv/site/nginx.conf /etc/nginx/nginx.conf"
  }

  systemd "nginx" {
    unit = "nginx.service"
  }
}
"#;

/// Its hosts.
const HOSTS: [(&str, &str); 8] = [
    ("build-01", "role=build,env=staging"),
    ("cache-01", "role=cache,env=production"),
    ("db-01", "role=db,env=production"),
    ("db-02", "role=db,env=production"),
    ("web-01", "role=web,env=production"),
    ("web-02", "role=web,env=production"),
    ("web-03", "role=web,env=staging"),
    ("web-04", "role=web,env=production"),
];

pub struct Stage {
    pub fleet: Fleet,
    pub swarm: Swarm,
}

impl Stage {
    /// A server on an empty repository, without an agent, that people sign in to.
    pub async fn empty() -> Self {
        let api_tokens = vec![Secret::new(API_TOKEN)];
        Self::of(Fleet::with(Options { api_tokens, ..Options::default() }).await)
    }

    /// The same, but nobody can sign in: everybody may look.
    pub async fn read_only() -> Self {
        let stage = Self::of(Fleet::start().await);
        stage.settled().await
    }

    fn of(fleet: Fleet) -> Self {
        let swarm = Swarm::new(SwarmOptions {
            shares: Shares::NONE,
            ..SwarmOptions::to(target(fleet.server().grpc))
        });
        let swarm = swarm.expect("the server is trusted");
        Self { fleet, swarm }
    }

    /// All hosts have joined, and all is well.
    pub async fn calm() -> Self {
        Self::empty().await.settled().await
    }

    async fn settled(mut self) -> Self {
        self.fleet.commit_files("What hosts should be", &[("site.fluke.hcl", MANIFEST)]).await;
        let newest = Some(self.fleet.repository.head());
        self.fleet.until("it was read", |fleet| fleet.source().last_seen == newest).await;
        let source = self.fleet.source();
        assert!(!source.rejected, "{:?}", source.diagnostics);
        for (name, labels) in HOSTS {
            self.swarm.join_as(name, parse(labels)).await.expect("it joins");
        }
        self.fleet.settles().await;
        self
    }

    /// A certificate waits for somebody, a backup fails, a host is away.
    pub async fn troubled() -> Self {
        let stage = Self::calm().await;
        stage.gets_into_trouble().await;
        stage
    }

    pub async fn gets_into_trouble(&self) {
        self.certificate_expires("web-02").await;
        self.backup_fails("db-02").await;
        self.swarm.leave("web-04").await.expect("it leaves");
        self.has("web-04", Status::Offline).await;
    }

    pub async fn certificate_expires(&self, host: &str) {
        let drift = Drift {
            reason: "the certificate is good for 2 more days, and should be for 7".into(),
            diff: Some(
                "--- wanted\n+++ /etc/ssl/site.pem\n@@ validity @@\n-notAfter at least 7 days \
                 from now\n+notAfter 2 days from now\n"
                    .into(),
            ),
        };
        self.suffers(host, "certificates/shell.renew", Trouble::Drifted(drift)).await;
        self.has(host, Status::Drifted).await;
    }

    pub async fn backup_fails(&self, host: &str) {
        let drift = Drift::because("there is no dump that is younger than a day");
        let output = "Starting nightly dump of orders\npg_dump: error: could not write to output \
                      file: No space left on device\nbackup.service: exited with 1\n";
        let trouble = Trouble::Stuck { drift, output: output.into() };
        self.suffers(host, "db/backup/shell.last-night", trouble).await;
        self.has(host, Status::Failed).await;
    }

    pub async fn suffers(&self, host: &str, place: &str, trouble: Trouble) {
        self.swarm.trouble(host, place, trouble).await.expect("the host is there");
    }

    /// Waits until the server knows this of a host.
    pub async fn has(&self, host: &str, status: Status) {
        let what = format!("{host} is {}", status.as_str());
        self.fleet.until(&what, |fleet| fleet.agent(host).status() == status).await;
    }

    /// Somebody at the door.
    pub async fn visitor(&self) -> Option<Page> {
        visitor(self.fleet.server().http).await
    }

    /// Somebody who has signed in and wants to see this page.
    pub async fn operator(&self, path: &str) -> Option<Page> {
        let page = self.visitor().await?;
        page.load(path).await;
        page.writes("textbox", "API token", API_TOKEN).await;
        page.writes("textbox", "Your name, for the history (optional)", "Ada").await;
        page.clicks("button", "Sign in").await;
        page.is_ready().await;
        Some(page)
    }
}

/// Where agents of a story go.
pub fn target(grpc: impl Display) -> Target {
    Target {
        url: format!("grpc://{grpc}").parse().expect("a url"),
        token: Secret::new(TOKEN),
        tls: ClientTls::default(),
    }
}

pub fn parse(labels: &str) -> Labels {
    Labels(labels.split(',').map(|pair| Labels::parse_pair(pair).expect("a label")).collect())
}
