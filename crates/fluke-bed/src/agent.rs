//! Agents on hosts: the real `fluke agent`, kept by the host's systemd.

use std::net::SocketAddr;

use crate::host::Host;
use crate::server::{TOKEN, Tls};

/// The agent's unit on every host.
pub(crate) const UNIT: &str = "fluke-agent.service";

/// How an agent joins. Texts go into its config and its unit as they are.
#[derive(Debug, Clone, Default)]
pub struct Join {
    /// `role=web,env=test`
    pub labels: String,
    /// Where it connects instead of to the server: the address of a [`crate::Link`].
    pub via: Option<SocketAddr>,
    /// More lines of the `agent` block.
    pub more: String,
    /// More lines of the unit's `[Service]` section.
    pub service: String,
}

impl Host {
    /// Starts an agent with these labels (`role=web,env=test`), and waits until the server knows
    /// it. The server is started if there is none yet.
    pub fn joins(self, labels: &str) -> Self {
        self.joins_as(&Join { labels: labels.into(), ..Join::default() })
    }

    /// The same, in detail.
    pub fn joins_as(self, join: &Join) -> Self {
        self.installs_agent(join);
        let name = self.name.clone();
        self.bed.joins(&name);
        self.run(&format!("systemctl enable --quiet --now {UNIT}"));
        self.bed.until(&format!("{name} has joined"), |bed| {
            bed.agent(&name).is_some_and(|detail| detail.agent.connected)
        });
        self
    }

    /// Writes the agent's config, CA and unit; nothing is started.
    pub fn installs_agent(&self, join: &Join) {
        let server = self.bed.server();
        let address = join.via.unwrap_or(server.grpc());
        let (scheme, tls) = match server.tls() {
            Tls::Off => ("grpc", ""),
            Tls::Own => {
                let ca = std::fs::read_to_string(server.ca_file()).expect("the server has a CA");
                self.write("/etc/fluke/ca.pem", &ca);
                ("grpcs", "tls {\n    ca_file = \"/etc/fluke/ca.pem\"\n  }")
            }
        };
        let (labels, more) = (labels(&join.labels), &join.more);
        let config = format!(
            r#"agent {{
  server_url = "{scheme}://{address}"
  token      = "{TOKEN}"
  labels     = {{ {labels} }}
  {tls}
  {more}
}}
"#
        );
        self.write("/etc/fluke/agent.hcl", &config);
        let service = &join.service;
        let unit = format!(
            "[Unit]\nDescription=fluke agent\nStartLimitIntervalSec=0\n\
             After=network.target dbus.service\n\n\
             [Service]\nType=exec\n\
             ExecStart=/opt/fluke/fluke agent --config /etc/fluke/agent.hcl\n\
             Restart=always\nRestartSec=100ms\nStateDirectory=fluke\nKillMode=process\n\
             Environment=NO_COLOR=1\n{service}\n\n\
             [Install]\nWantedBy=multi-user.target\n"
        );
        self.unit(UNIT, &unit);
    }

    /// Ends the agent without a warning, as a crash would; systemd starts it again.
    pub fn kill_agent(&self) {
        self.run(&format!("systemctl kill --signal=KILL --kill-whom=main {UNIT}"));
    }

    /// Tells the agent to end, and waits until it has; the host goes on without one.
    pub fn stop_agent(&self) {
        self.run(&format!("systemctl stop {UNIT}"));
        self.bed.plays(&self.name, false);
    }

    /// Starts the agent again.
    pub fn start_agent(&self) {
        self.run(&format!("systemctl start {UNIT}"));
        self.bed.plays(&self.name, true);
    }

    /// The last lines that the agent logged.
    pub fn agent_log(&self, lines: usize) -> String {
        self.journal(UNIT, lines)
    }
}

/// `role=web,env=test` as the inside of an HCL object.
fn labels(pairs: &str) -> String {
    let pairs = pairs.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').expect("key=value");
        format!("\"{key}\" = \"{value}\"")
    };
    pairs.map(pair).collect::<Vec<_>>().join(", ")
}
