//! `agent { … }`, and the flags that win over it.

use std::path::PathBuf;
use std::time::Duration;

use fluke_agent::services::mesh::parse_endpoint;
use fluke_agent::services::podman::SOCKET;
use fluke_agent::services::{
    Acme, Certificate, KEEP_IMAGES, MeshConfig, PULL_TIMEOUT, ProxyConfig,
};
use fluke_manifest::hcl::ast::Block;
use fluke_manifest::hcl::decode::{Evaluate, Field, Fields, Mistake};
use fluke_manifest::hcl::problem::Problem;
use fluke_model::id::{AgentName, Hash256};
use fluke_model::label::Labels;
use fluke_model::secret::Secret;
use fluke_wire::client::ServerUrl;

use super::fields;
use crate::cli::AgentArgs;
use crate::logging::LogConfig;
use crate::suggest::nearest;

#[cfg(test)]
mod tests;

/// Where the agent keeps what it must not lose, unless told otherwise.
pub const STATE_DIR: &str = "/var/lib/fluke";

/// Everything an agent is told.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Where the server is.
    pub server_url: ServerUrl,
    /// What lets the agent in.
    pub token: Secret,
    /// What it calls itself.
    pub name: AgentName,
    /// What it is.
    pub labels: Labels,
    /// What it keeps across restarts.
    pub state_dir: PathBuf,
    /// How it takes public traffic, if it does.
    pub proxy: Option<ProxyConfig>,
    /// Where logs of services go, if anywhere.
    pub logs_endpoint: Option<String>,
    /// Whom to trust to be the server.
    pub tls: AgentTls,
    /// What no server can lift.
    pub allow: Allow,
    /// How commands are run.
    pub execution: Execution,
    /// How containers are looked after.
    pub containers: Containers,
    /// How the host is in the mesh.
    pub mesh: MeshConfig,
    /// What is logged.
    pub log: LogConfig,
}

/// `tls { … }`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentTls {
    /// Authorities to trust instead of the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// The fingerprint of the one authority to trust.
    pub ca_fingerprint: Option<Hash256>,
    /// Trusts anybody.
    pub insecure_skip_verify: bool,
}

/// `allow { … }`: none means anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allow {
    /// The kinds of steps that may run here.
    pub executors: Option<Vec<String>>,
    /// The users that steps may run as, the agent's own among them.
    pub run_as: Option<Vec<String>>,
    /// Where the block begins in its file, in bytes.
    pub at: Option<u32>,
    /// The same for people: file and line.
    pub stated: Option<String>,
}

/// `execution { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Runs command lines.
    pub default_shell: PathBuf,
    /// How long a command may take.
    pub command_timeout: Duration,
}

impl Default for Execution {
    fn default() -> Self {
        Self { default_shell: "/bin/bash".into(), command_timeout: Duration::from_secs(300) }
    }
}

/// `containers { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containers {
    /// Whether the host runs nothing but services: other containers are removed.
    pub exclusive: bool,
    /// Where Podman listens.
    pub socket: PathBuf,
    /// How long an image that was fetched for a service stays after its last use.
    pub keep_images: Duration,
    /// How long it may take to fetch an image.
    pub pull_timeout: Duration,
}

impl Default for Containers {
    fn default() -> Self {
        Self {
            exclusive: false,
            socket: SOCKET.into(),
            keep_images: KEEP_IMAGES,
            pull_timeout: PULL_TIMEOUT,
        }
    }
}

/// What the file says, or nothing: each part may still come from a flag.
#[derive(Debug, Clone, Default)]
pub struct AgentFile {
    /// See [`AgentConfig::server_url`].
    pub server_url: Option<ServerUrl>,
    /// See [`AgentConfig::token`].
    pub token: Option<Secret>,
    /// See [`AgentConfig::name`].
    pub name: Option<AgentName>,
    /// See [`AgentConfig::labels`].
    pub labels: Labels,
    /// See [`AgentConfig::state_dir`].
    pub state_dir: Option<PathBuf>,
    /// See [`AgentConfig::proxy`].
    pub proxy: Option<ProxyConfig>,
    /// See [`AgentConfig::logs_endpoint`].
    pub logs_endpoint: Option<String>,
    /// See [`AgentConfig::tls`].
    pub tls: AgentTls,
    /// See [`AgentConfig::allow`].
    pub allow: Allow,
    /// See [`AgentConfig::execution`].
    pub execution: Execution,
    /// See [`AgentConfig::containers`].
    pub containers: Containers,
    /// See [`AgentConfig::mesh`].
    pub mesh: MeshConfig,
    /// See [`AgentConfig::log`].
    pub log: LogConfig,
}

/// What is wrong with flags, or with flags and file together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentProblem {
    /// A flag's value cannot be used.
    #[error("--{flag}: {reason}")]
    Flag {
        /// Which flag.
        flag: &'static str,
        /// Why.
        reason: String,
    },
    /// Neither file nor flags say it.
    #[error("`{field}` is missing")]
    Missing {
        /// In the file.
        field: &'static str,
        /// Says it too.
        flag: &'static str,
    },
    /// The host's name is no name for an agent.
    #[error("the name of this host, `{host}`, cannot be an agent's name: {reason}")]
    HostName {
        /// What the system says.
        host: String,
        /// Why not.
        reason: String,
    },
}

impl AgentProblem {
    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Flag { .. } => "`fluke agent --help` tells how it is written".into(),
            Self::Missing { field: "token", .. } => {
                "set FLUKE_TOKEN in the environment or `token` in the file, or give --token".into()
            }
            Self::Missing { field, flag } => format!("set `{field}` in the file, or give --{flag}"),
            Self::HostName { .. } => "set `name` in the file, or give --name".into(),
        }
    }
}

impl AgentFile {
    /// Flags win over the file, and the file over `token` from the environment; labels are taken
    /// together.
    pub fn with_flags(
        mut self,
        flags: &AgentArgs,
        token: Option<String>,
    ) -> Result<Self, AgentProblem> {
        let wrong = |flag, reason: String| AgentProblem::Flag { flag, reason };
        if let Some(url) = &flags.url {
            let url = url.parse::<ServerUrl>().map_err(|error| wrong("url", error.to_string()))?;
            self.server_url = Some(url);
        }
        if let Some(hash) = &flags.ca_fingerprint {
            let hash = fingerprint(hash).map_err(|reason| wrong("ca-fingerprint", reason))?;
            self.tls.ca_fingerprint = Some(hash);
        }
        let secret = |text: Option<String>| text.map(Secret::new).filter(|token| !token.is_empty());
        self.token = secret(flags.token.clone()).or(self.token).or(secret(token));
        self.name = flags.name.clone().or(self.name);
        self.labels.0.extend(flags.labels.iter().cloned());
        self.state_dir = flags.state_dir.clone().or(self.state_dir);
        if flags.proxy {
            self.proxy.get_or_insert_default();
        }
        self.logs_endpoint = flags.logs_endpoint.clone().or(self.logs_endpoint);
        self.tls.ca_file = flags.ca_file.clone().or(self.tls.ca_file);
        Ok(self)
    }

    /// Fills in what nobody said, with `host` as this host's name.
    pub fn complete(self, host: &str) -> Result<AgentConfig, AgentProblem> {
        let missing = |field, flag| AgentProblem::Missing { field, flag };
        let own_name = || {
            AgentName::new(host).map_err(|error| AgentProblem::HostName {
                host: host.to_string(),
                reason: error.to_string(),
            })
        };
        Ok(AgentConfig {
            server_url: self.server_url.ok_or(missing("server_url", "url"))?,
            token: self.token.ok_or(missing("token", "token"))?,
            name: self.name.map_or_else(own_name, Ok)?,
            labels: self.labels,
            state_dir: self.state_dir.unwrap_or_else(|| STATE_DIR.into()),
            proxy: self.proxy,
            logs_endpoint: self.logs_endpoint,
            tls: self.tls,
            allow: self.allow,
            execution: self.execution,
            containers: self.containers,
            mesh: self.mesh,
            log: self.log,
        })
    }
}

/// Reads `agent { … }`.
pub fn read(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> AgentFile {
    let mut read = Fields::of_block(block, evaluate, problems);
    let server_url = read.optional(Field::string("server_url").parse(|text| text.parse()));
    let token = read.optional(fields::secret("token"));
    let name = read.optional(Field::string("name").parse(AgentName::new));
    let labels = read.or(fields::labels("labels"), Labels::default());
    let state_dir = read.optional(fields::path("state_dir"));
    let is_proxy = read.optional(Field::bool("proxy"));
    let proxy = read.block("proxy").map(|block| read_proxy(block, evaluate, read.problems()));
    let proxy = match is_proxy {
        Some(true) => Some(proxy.unwrap_or_default()),
        Some(false) => None,
        None => proxy,
    };
    let logs_endpoint =
        read.optional(Field::string("logs_endpoint")).filter(|text| !text.is_empty());
    let tls = read.block("tls").map(|block| read_tls(block, evaluate, read.problems()));
    let allow = read.block("allow").map(|block| read_allow(block, evaluate, read.problems()));
    let execution =
        read.block("execution").map(|block| read_execution(block, evaluate, read.problems()));
    let containers =
        read.block("containers").map(|block| read_containers(block, evaluate, read.problems()));
    let mesh = read.block("mesh").map(|block| read_mesh(block, evaluate, read.problems()));
    let log = read.block("log").map(|block| fields::log(block, evaluate, read.problems()));
    read.finish();
    AgentFile {
        server_url,
        token,
        name,
        labels,
        state_dir,
        proxy,
        logs_endpoint,
        tls: tls.unwrap_or_default(),
        allow: allow.unwrap_or_default(),
        execution: execution.unwrap_or_default(),
        containers: containers.unwrap_or_default(),
        mesh: mesh.unwrap_or_default(),
        log: log.unwrap_or_default(),
    }
}

fn read_tls(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> AgentTls {
    let mut read = Fields::of_block(block, evaluate, problems);
    let tls = AgentTls {
        ca_file: read.optional(fields::path("ca_file")),
        ca_fingerprint: read
            .optional(Field::string("ca_fingerprint").parse(|text| fingerprint(&text))),
        insecure_skip_verify: read.or(Field::bool("insecure_skip_verify"), false),
    };
    read.finish();
    tls
}

fn read_allow(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> Allow {
    let mut read = Fields::of_block(block, evaluate, problems);
    let allow = Allow {
        executors: read.optional(executors("executors")),
        run_as: read.optional(fields::names("run_as", "user name")),
        at: Some(block.span.start),
        stated: None,
    };
    read.finish();
    allow
}

/// Kinds that there are: one that is mistyped would permit nothing, and nobody would know.
fn executors(name: &'static str) -> Field<Vec<String>> {
    Field::strings(name).then(|names| {
        let is_known = |name: &str| fluke_agent::Allow::known().any(|known| known == name);
        let Some(wrong) = names.iter().find(|name| !is_known(name)) else { return Ok(names) };
        let mistake = Mistake::value(format!("\"{wrong}\" is not an executor of this version"));
        Err(match nearest(wrong, fluke_agent::Allow::known()) {
            Some(meant) => mistake.help(format!("did you mean \"{meant}\"?")),
            None => {
                let known: Vec<_> = fluke_agent::Allow::known().collect();
                mistake.help(format!("list some of: {}", known.join(", ")))
            }
        })
    })
}

fn read_execution(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> Execution {
    let default = Execution::default();
    let mut read = Fields::of_block(block, evaluate, problems);
    let execution = Execution {
        default_shell: read.or(fields::path("default_shell"), default.default_shell),
        command_timeout: read
            .or(fields::at_least_a_second("command_timeout"), default.command_timeout),
    };
    read.finish();
    execution
}

fn read_containers(
    block: &Block,
    evaluate: Evaluate<'_>,
    problems: &mut Vec<Problem>,
) -> Containers {
    let default = Containers::default();
    let mut read = Fields::of_block(block, evaluate, problems);
    let containers = Containers {
        exclusive: read.or(Field::bool("exclusive"), default.exclusive),
        socket: read.or(fields::absolute_path("socket"), default.socket),
        keep_images: read.or(fields::at_least_a_second("keep_images"), default.keep_images),
        pull_timeout: read.or(fields::at_least_a_second("pull_timeout"), default.pull_timeout),
    };
    read.finish();
    containers
}

fn read_mesh(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> MeshConfig {
    let mut read = Fields::of_block(block, evaluate, problems);
    let port = read.or(fields::port("port"), MeshConfig::default().port);
    let endpoint = Field::string("endpoint").parse(move |text| {
        parse_endpoint(&text, port)
            .ok_or("must be an address like `192.0.2.7` or `192.0.2.7:51820`")
    });
    let endpoint = read.optional(endpoint);
    read.finish();
    MeshConfig { port, endpoint }
}

fn read_proxy(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> ProxyConfig {
    let mut read = Fields::of_block(block, evaluate, problems);
    let program = read.optional(fields::absolute_path("program"));
    let acme = read.block("acme").and_then(|block| read_acme(block, evaluate, read.problems()));
    let blocks = read.blocks("certificate", &[]);
    let certificate = |block| read_certificate(block, evaluate, read.problems());
    let certificates = blocks.into_iter().filter_map(certificate).collect();
    read.finish();
    ProxyConfig { program, acme, certificates }
}

fn read_acme(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> Option<Acme> {
    let mut read = Fields::of_block(block, evaluate, problems);
    let email = read.required(fields::email("email"));
    let directory = read.optional(fields::url("directory", &["https"]));
    let ca_file = read.optional(fields::absolute_path("ca_file"));
    read.finish();
    Some(Acme { email: email.ok()?, directory, ca_file })
}

fn read_certificate(
    block: &Block,
    evaluate: Evaluate<'_>,
    problems: &mut Vec<Problem>,
) -> Option<Certificate> {
    let mut read = Fields::of_block(block, evaluate, problems);
    let cert_file = read.required(fields::absolute_path("cert_file"));
    let key_file = read.required(fields::absolute_path("key_file"));
    read.finish();
    Some(Certificate { cert_file: cert_file.ok()?, key_file: key_file.ok()? })
}

/// 64 hexadecimal digits, with or without colons, as people copy them.
pub fn fingerprint(text: &str) -> Result<Hash256, String> {
    let digits = text.trim();
    let digits =
        digits.strip_prefix("sha256:").or(digits.strip_prefix("SHA256:")).unwrap_or(digits);
    Hash256::try_from(digits.replace(':', "").to_ascii_lowercase())
}
