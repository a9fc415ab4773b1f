//! What is written: units, configs, variables. Pure.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use fluke_model::id::AgentName;
use fluke_model::label::Labels;
use fluke_model::secret::Secret;

use super::places::PROGRAM;
use crate::cli::Part;

const SERVER: &str = include_str!("../../../../../contrib/systemd/fluke-server.service");
const AGENT: &str = include_str!("../../../../../contrib/systemd/fluke-agent.service");

/// The unit of a part, for a program in `program`.
pub fn unit(part: Part, program: &Path) -> String {
    let text = match part {
        Part::Server => SERVER,
        Part::Agent => AGENT,
    };
    text.replace(&format!("ExecStart={PROGRAM} "), &format!("ExecStart={} ", program.display()))
}

/// What a first config says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skeleton {
    /// Of a server.
    Server {
        /// The repository.
        git_url: String,
        /// The branch, unless it is `main`.
        git_branch: Option<String>,
    },
    /// Of an agent.
    Agent {
        /// The server.
        url: String,
        /// Its own authority.
        ca_fingerprint: Option<String>,
        /// Authorities for it.
        ca_file: Option<PathBuf>,
        /// Unless it is the host's.
        name: Option<AgentName>,
        /// What the host is.
        labels: Labels,
        /// Whether public traffic comes in here.
        is_proxy: bool,
    },
}

impl Skeleton {
    /// As HCL. `None` where a value cannot be written down without a second thought.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Server { git_url, git_branch } => server(git_url, git_branch.as_deref()),
            Self::Agent { url, ca_fingerprint, ca_file, name, labels, is_proxy } => {
                let ca_file = ca_file.as_ref().map(|file| file.to_string_lossy());
                let tls = match (ca_fingerprint, &ca_file) {
                    (Some(pin), _) => Some(("ca_fingerprint", pin.as_str())),
                    (None, Some(file)) => Some(("ca_file", &**file)),
                    (None, None) => None,
                };
                agent(url, name.as_ref(), labels, *is_proxy, tls)
            }
        }
    }
}

fn server(git_url: &str, git_branch: Option<&str>) -> Option<String> {
    let mut text = String::from(
        "# Written by `fluke install server`; yours from now on.\n\
         # `fluke validate` checks it. Tokens change with a reload, all else with a restart.\n\
         server {\n\
         \x20 # The value is in /etc/fluke/server.env. Whoever has it can be any agent: bind it to\n\
         \x20 # names and labels with `agent_token` blocks when the fleet grows.\n\
         \x20 agent_tokens = [\"$FLUKE_TOKEN\"]\n\
         \x20 cache_dir    = \"/var/cache/fluke\"\n\n\
         \x20 git {\n",
    );
    let branch = git_branch.filter(|branch| *branch != "main");
    let pad = if branch.is_some() { "   " } else { "" };
    writeln!(text, "    url{pad} = {}", quoted(git_url)?).ok()?;
    if let Some(branch) = branch {
        writeln!(text, "    branch = {}", quoted(branch)?).ok()?;
    }
    text.push_str("  }\n}\n");
    Some(text)
}

fn agent(
    url: &str,
    name: Option<&AgentName>,
    labels: &Labels,
    is_proxy: bool,
    tls: Option<(&str, &str)>,
) -> Option<String> {
    let mut text = String::from(
        "# Written by `fluke install agent`; yours from now on.\n\
         # `fluke validate` checks it, `systemctl reload fluke-agent` puts it in force.\n\
         agent {\n",
    );
    writeln!(text, "  server_url = {}", quoted(url)?).ok()?;
    text.push_str("  token      = \"$FLUKE_TOKEN\" # in /etc/fluke/agent.env\n");
    if let Some(name) = name {
        writeln!(text, "  name       = {}", quoted(name.as_str())?).ok()?;
    }
    let pairs = labels.0.iter().map(|(key, value)| {
        Some(format!("{} = {}", quoted(key.as_str())?, quoted(value.as_str())?))
    });
    let pairs = pairs.collect::<Option<Vec<_>>>()?;
    if !pairs.is_empty() {
        writeln!(text, "  labels     = {{ {} }}", pairs.join(", ")).ok()?;
    }
    if is_proxy {
        text.push_str("  proxy      = true\n");
    }
    if let Some((setting, value)) = tls {
        write!(text, "\n  tls {{\n    {setting} = {}\n  }}\n", quoted(value)?).ok()?;
    }
    text.push_str("}\n");
    Some(text)
}

/// A string of a config. A dollar would be a reference, and a percent sign may be one.
fn quoted(text: &str) -> Option<String> {
    let is_plain = !text.chars().any(|c| c == '$' || c.is_control()) && !text.contains("%{");
    is_plain.then(|| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// The file that holds the token.
pub fn variables(token: &Secret) -> Option<Secret> {
    let text = token.expose();
    let is_plain =
        !text.chars().any(|c| c.is_control() || "\"'\\$`".contains(c)) && !text.is_empty();
    is_plain.then(|| Secret::new(format!("FLUKE_TOKEN={text}\n")))
}
