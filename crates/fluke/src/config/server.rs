//! `server { … }`

mod event_store;

use std::path::PathBuf;
use std::time::Duration;

use fluke_manifest::DEFAULT_GLOB;
use fluke_manifest::hcl::ast::Block;
use fluke_manifest::hcl::decode::{Evaluate, Field, Fields, Mistake};
use fluke_manifest::hcl::problem::Problem;
use fluke_model::label::Labels;
use fluke_model::policy::Policy;
use fluke_model::secret::Secret;
use fluke_server::git::{Branch, Credentials, RemoteUrl};
use fluke_server::server::{HEARTBEAT, History};
use globset::{Glob, GlobBuilder};

use super::expand::Environment;
use super::fields;
use super::listen::Listen;
use crate::client::address::DEFAULT_SOCKET;
use crate::logging::LogConfig;

/// Everything a server is told.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// For agents.
    pub listen_grpc: Listen,
    /// For people: web UI and HTTP API.
    pub listen_http: Listen,
    /// For local administration; none where it is switched off with `""`.
    pub socket: Option<PathBuf>,
    /// What may be lost: the mirror of the repository, and a certificate of its own making.
    pub cache_dir: PathBuf,
    /// Never empty.
    pub agent_tokens: Vec<AgentToken>,
    /// Empty: the TCP port serves reads only.
    pub api_tokens: Vec<Secret>,
    /// More names that lead to the HTTP side, in lower case.
    pub http_names: Vec<String>,
    /// How often each side of a stream says that it is here.
    pub heartbeat: Duration,
    /// The repository.
    pub git: GitConfig,
    /// What certificate is shown.
    pub tls: ServerTls,
    /// What happens on drift where a task does not say.
    pub drift: DriftConfig,
    /// Where history is kept.
    pub event_store: History,
    /// What is logged.
    pub log: LogConfig,
}

/// Characters from which on a token that was made at random cannot be guessed.
pub const SHORTEST_TOKEN: usize = 16;

impl ServerConfig {
    /// API tokens that can be guessed, by their number: counted from 1, as everywhere.
    pub fn short_api_tokens(&self) -> Vec<usize> {
        let is_short = |token: &Secret| token.expose().trim().chars().count() < SHORTEST_TOKEN;
        let numbered = (1..).zip(&self.api_tokens);
        numbered.filter(|(_, token)| is_short(token)).map(|(number, _)| number).collect()
    }
}

/// A token, and whom it lets its holder be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentToken {
    /// The block's label; none for a bare token, whose holder may be any agent.
    pub label: Option<String>,
    /// The token.
    pub token: Secret,
    /// Globs; none means any name.
    pub names: Vec<String>,
    /// What labels of these keys must be.
    pub labels: Labels,
}

/// `git { … }`
#[derive(Debug, Clone)]
pub struct GitConfig {
    /// The repository.
    pub url: RemoteUrl,
    /// The branch that is tracked.
    pub branch: Branch,
    /// How often it is asked, and every host checked.
    pub poll_interval: Duration,
    /// Which files are manifests.
    pub manifest_glob: String,
    /// For `ssh`.
    pub ssh_key_file: Option<PathBuf>,
    /// For `ssh`.
    pub known_hosts_file: Option<PathBuf>,
    /// For `https`: certificates of CAs, as PEM, to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// For `http(s)`.
    pub basic_auth: Option<Credentials>,
    /// What pushes are signed with.
    pub webhook_secret: Option<Secret>,
}

/// `tls { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerTls {
    /// Switched off in writing.
    Off,
    /// With a certificate of the server's own making.
    Own,
    /// With this certificate.
    Files {
        /// The chain, as PEM.
        cert_file: PathBuf,
        /// The key, as PEM.
        key_file: PathBuf,
    },
}

/// `drift { … }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftConfig {
    /// For tasks that name none.
    pub policy: Policy,
    /// Whom alerts are sent to. Such an address often holds a secret.
    pub alert_webhook: Option<Secret>,
}

/// Reads `server { … }`; none where something is wrong.
pub fn read(
    block: &Block,
    evaluate: Evaluate<'_>,
    environment: Environment<'_>,
    problems: &mut Vec<Problem>,
) -> Option<ServerConfig> {
    let before = problems.len();
    let mut read = Fields::of_block(block, evaluate, problems);
    let (listen_grpc, listen_http) = read_listen(&mut read);
    let socket = read.or(Field::string("socket"), DEFAULT_SOCKET.into());
    let cache_dir = read.optional(fields::path("cache_dir"));
    let agent_tokens = read_agent_tokens(&mut read, evaluate);
    let api_tokens = read.or(fields::secrets("api_tokens"), Vec::new());
    let http_names = read.or(fields::host_names("http_names"), Vec::new());
    let heartbeat = read.or(heartbeat(), HEARTBEAT);
    let git = read.required_block("git").ok();
    let git = git.and_then(|block| read_git(block, evaluate, read.problems()));
    let tls = read.block("tls").map(|block| read_tls(block, evaluate, read.problems()));
    let drift = read.block("drift").map(|block| read_drift(block, evaluate, read.problems()));
    let event_store = read
        .block("event_store")
        .and_then(|block| event_store::read(block, evaluate, read.problems()));
    let log = read.block("log").map(|block| fields::log(block, evaluate, read.problems()));
    read.finish();
    let config = ServerConfig {
        listen_grpc,
        listen_http,
        socket: (!socket.is_empty()).then(|| socket.into()),
        cache_dir: cache_dir.unwrap_or_else(|| default_cache(environment)),
        agent_tokens,
        api_tokens,
        http_names,
        heartbeat,
        git: git?,
        tls: tls.unwrap_or(ServerTls::Own),
        drift: drift.unwrap_or(DriftConfig { policy: Policy::default(), alert_webhook: None }),
        event_store: event_store.unwrap_or_else(event_store::in_memory),
        log: log.unwrap_or_default(),
    };
    (problems.len() == before).then_some(config)
}

/// Agents take nothing longer.
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(600);

fn heartbeat() -> Field<Duration> {
    fields::at_least_a_second("heartbeat").then(|beat| match beat > LONGEST_HEARTBEAT {
        true => Err(Mistake::value("it must be at most \"10m\"")),
        false => Ok(beat),
    })
}

fn read_listen(read: &mut Fields<'_, '_>) -> (Listen, Listen) {
    let listen = |name| Field::string(name).parse(|text| text.parse::<Listen>());
    let grpc = read.or(listen("listen_grpc"), Listen::everywhere(7070));
    let http = read.spanned(listen("listen_http"));
    if let Some(http) = &http
        && http.value.port != 0
        && http.value == grpc
    {
        let message = format!("`listen_http` is the same as `listen_grpc`: {grpc}");
        read.problems()
            .push(Problem::new(http.span, message).help("give each its own port: 7070 and 7071"));
    }
    (grpc, http.map_or(Listen::everywhere(7071), |http| http.value))
}

fn read_agent_tokens(read: &mut Fields<'_, '_>, evaluate: Evaluate<'_>) -> Vec<AgentToken> {
    let header = read.header();
    let bare = read.spanned(fields::secrets("agent_tokens"));
    let blocks = read.blocks("agent_token", &["name"]);
    let is_written = read.has("agent_tokens") || !blocks.is_empty();
    let place = bare.as_ref().map_or(header, |bare| bare.span);
    let mut tokens: Vec<AgentToken> =
        bare.map(|bare| bare.value).unwrap_or_default().into_iter().map(AgentToken::bare).collect();
    if blocks.is_empty() && tokens.is_empty() && (!is_written || place != header) {
        let problem = Problem::new(place, "a server needs at least one token for its agents");
        read.problems().push(
            problem.help("add `agent_tokens = [\"$FLUKE_TOKEN\"]`, or an `agent_token` block"),
        );
    }
    for block in blocks {
        let token = read_agent_token(block, evaluate, read.problems());
        let Some(token) = token else { continue };
        if let Some(other) =
            tokens.iter().find(|other| other.token == token.token || other.label == token.label)
        {
            let message = match other.label == token.label {
                true => "this name is taken by another `agent_token` block",
                false => "this token is given twice, so it would not be clear whom it is for",
            };
            read.problems().push(Problem::new(block.header(), message));
        }
        tokens.push(token);
    }
    tokens
}

impl AgentToken {
    fn bare(token: Secret) -> Self {
        Self { label: None, token, names: Vec::new(), labels: Labels::default() }
    }
}

fn read_agent_token(
    block: &Block,
    evaluate: Evaluate<'_>,
    problems: &mut Vec<Problem>,
) -> Option<AgentToken> {
    let mut read = Fields::of_block(block, evaluate, problems);
    let token = read.required(fields::secret("token"));
    let names =
        Field::strings("names").each(|_, name| Glob::new(&name).map_err(Mistake::of).map(|_| name));
    let names = read.or(names, Vec::new());
    let labels = read.or(fields::labels("labels"), Labels::default());
    read.finish();
    let label = block.labels.first().map(|label| label.text.to_string());
    Some(AgentToken { label, token: token.ok()?, names, labels })
}

fn read_git(
    block: &Block,
    evaluate: Evaluate<'_>,
    problems: &mut Vec<Problem>,
) -> Option<GitConfig> {
    let mut read = Fields::of_block(block, evaluate, problems);
    let branch = |text: String| Branch::parse(&text);
    let glob = |text: String| match GlobBuilder::new(&text).literal_separator(true).build() {
        Ok(_) => Ok(text),
        Err(error) => Err(Mistake::value(error.to_string())),
    };
    let url = read.required(Field::string("url").parse(|text| RemoteUrl::parse(&text)));
    let main = Branch::parse("main").ok();
    let branch = read.optional(Field::string("branch").parse(branch)).or(main);
    let poll_interval =
        read.or(fields::at_least_a_second("poll_interval"), Duration::from_secs(60));
    let manifest_glob =
        read.or(Field::nonempty_string("manifest_glob").then(glob), DEFAULT_GLOB.into());
    let ssh_key_file = read.optional(fields::path("ssh_key_file"));
    let known_hosts_file = read.optional(fields::path("known_hosts_file"));
    let ca_file = read.optional(fields::path("ca_file"));
    let basic_auth = read_basic_auth(&mut read);
    let webhook_secret = read.optional(fields::secret("webhook_secret"));
    read.finish();
    Some(GitConfig {
        url: url.ok()?,
        branch: branch?,
        poll_interval,
        manifest_glob,
        ssh_key_file,
        known_hosts_file,
        ca_file,
        basic_auth,
        webhook_secret,
    })
}

fn read_basic_auth(read: &mut Fields<'_, '_>) -> Option<Credentials> {
    let user = read.spanned(Field::nonempty_string("basic_auth_user"));
    let password = read.spanned(fields::secret("basic_auth_password"));
    let (lone, missing) = match (&user, &password) {
        (Some(user), None) => (user.span, "basic_auth_password"),
        (None, Some(password)) => (password.span, "basic_auth_user"),
        _ => {
            let (user, password) = (user?.value, password?.value);
            return Some(Credentials { user, password: password.expose().to_string() });
        }
    };
    if !read.has(missing) {
        let message = "`basic_auth_user` and `basic_auth_password` go together";
        read.problems().push(Problem::new(lone, message).help(format!("add `{missing}`")));
    }
    None
}

fn read_tls(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> ServerTls {
    let mut read = Fields::of_block(block, evaluate, problems);
    let enabled = read.or(Field::bool("enabled"), true);
    let certificate = read.spanned(fields::path("cert_file"));
    let key = read.spanned(fields::path("key_file"));
    let (lone, missing) = match (certificate, key) {
        (Some(certificate), Some(key)) if enabled => {
            read.finish();
            return ServerTls::Files { cert_file: certificate.value, key_file: key.value };
        }
        (Some(certificate), None) => (Some(certificate.span), "key_file"),
        (None, Some(key)) => (Some(key.span), "cert_file"),
        _ => (None, ""),
    };
    if let Some(lone) = lone
        && !read.has(missing)
    {
        let message = "`cert_file` and `key_file` go together";
        read.problems().push(Problem::new(lone, message).help(format!("add `{missing}`")));
    }
    read.finish();
    if enabled { ServerTls::Own } else { ServerTls::Off }
}

/// The words for policies.
const POLICIES: &[(&str, Policy)] = &[
    ("remediate", Policy::Remediate),
    ("remediate_and_alert", Policy::RemediateAndAlert),
    ("alert_only", Policy::AlertOnly),
];

fn read_drift(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> DriftConfig {
    let mut read = Fields::of_block(block, evaluate, problems);
    let policy = read.spanned(Field::word("policy", POLICIES));
    let alert_webhook = read.optional(fields::secret_url("alert_webhook", &["http", "https"]));
    if let Some(policy) = &policy
        && policy.value.alerts()
        && !read.has("alert_webhook")
    {
        let message = format!("the policy `{}` needs somebody to alert", policy.value.as_str());
        read.problems()
            .push(Problem::new(policy.span, message).help("add `alert_webhook = \"https://…\"`"));
    }
    read.finish();
    DriftConfig { policy: policy.map(|policy| policy.value).unwrap_or_default(), alert_webhook }
}

/// What systemd gives a service, or what the user has, or the system's.
fn default_cache(environment: Environment<'_>) -> PathBuf {
    let set = |name| environment(name).filter(|value| !value.is_empty());
    if let Some(given) = set("CACHE_DIRECTORY") {
        return PathBuf::from(given.split(':').next().unwrap_or_default());
    }
    let of_user = || {
        let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
        cache.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))
    };
    match nix::unistd::Uid::effective().is_root() {
        false => of_user().map_or("/var/cache/fluke".into(), |cache| cache.join("fluke")),
        true => "/var/cache/fluke".into(),
    }
}

#[cfg(test)]
mod tests;
