//! `fluke server`

use std::path::Path;
use std::time::Duration;

use fluke_server::git::GitConfig;
use fluke_server::server::{Server, Settings, TlsSettings};
use fluke_server::source::SourceConfig;
use fluke_server::tls::TlsFiles;
use fluke_server::trust::Grant;
use tokio::runtime::Handle;

use crate::cli::{Colour, Global, ServerArgs};
use crate::commands::{Signal, Signals, in_threads, join_line, threads};
use crate::config;
use crate::config::server::{AgentToken, SHORTEST_TOKEN, ServerConfig, ServerTls};
use crate::config::variables::Variables;
use crate::diagnostics;
use crate::failure::Failure;
use crate::logging;
use crate::screen::{self, Style};

/// How often memory that is not used goes back to the system.
const GIVE_BACK: Duration = Duration::from_secs(10);

/// Runs the server until it is told to stop.
pub fn run(args: &ServerArgs, global: &Global) -> Result<(), Failure> {
    let variables =
        Variables::load(args.env_file.as_deref()).map_err(|error| Failure::from_error(&error))?;
    let config = load(&args.config, &variables, global.colour)?;
    logging::start(config.log);
    warn_of_short_tokens(&config);
    allow_many_files();
    serve(config, args)
}

/// Guessing is slowed down, and not by as much as a short token would need.
fn warn_of_short_tokens(config: &ServerConfig) {
    for number in config.short_api_tokens() {
        tracing::warn!(
            "number {number} of api_tokens has fewer than {SHORTEST_TOKEN} characters and can be \
             guessed; replace it, for example by what `openssl rand -hex 32` prints"
        );
    }
}

/// Every agent is a descriptor: takes as many as this process may have, and not only as many as
/// programs get that do not ask.
fn allow_many_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let files = Resource::RLIMIT_NOFILE;
    let raised = getrlimit(files).and_then(|(soft, hard)| match soft < hard {
        true => setrlimit(files, hard, hard),
        false => Ok(()),
    });
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Gives back now and then what a crowd took: by itself the allocator keeps what it once had.
async fn give_memory_back() {
    let mut rounds = tokio::time::interval(GIVE_BACK);
    loop {
        rounds.tick().await;
        // It may walk over much of the heap.
        let _ = tokio::task::spawn_blocking(trim_heap).await;
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "there is no safe wrapper for glibc's own call")]
fn trim_heap() {
    // SAFETY: it takes no pointer, and may be called by any thread at any time.
    unsafe { nix::libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim_heap() {}

/// Reads the config; what is wrong with it is on stderr.
pub fn load(path: &Path, variables: &Variables, colour: Colour) -> Result<ServerConfig, Failure> {
    let text = config::load(path)?;
    let name = path.display().to_string();
    config::read_server(&name, &text, &|name| variables.get(name)).map_err(|problems| {
        screen::note(&diagnostics::text(&problems, Style::of_stderr(colour)));
        let what = format!("the config {name} cannot be used: {}", diagnostics::sum(&problems, 1));
        Failure::new(what).help(format!("`fluke validate {name}` checks it without starting"))
    })
}

fn serve(config: ServerConfig, args: &ServerArgs) -> Result<(), Failure> {
    let people = threads()?;
    in_threads(async {
        let told = config.clone();
        let server = Server::start(settings(config, people.handle())?)
            .await
            .map_err(|error| Failure::new("the server could not be started").because(&error))?;
        tracing::info!(grpc = %server.grpc, http = %server.http, "the server is up");
        tell_agents_line(&told, &server, args);
        tokio::spawn(give_memory_back());
        let mut signals = Signals::listen()?;
        while let Signal::Reload = signals.next().await {
            reload(&server, args);
        }
        tracing::info!("stopping; agents go on by themselves and come back");
        server.stop().await;
        Ok(())
    })
}

/// What an agent needs to join. The token is not for logs; who may have it can print it.
fn tell_agents_line(config: &ServerConfig, server: &Server, args: &ServerArgs) {
    let pin = server.certificates.as_ref().and_then(|it| it.own_ca()).map(|(_, pin)| pin);
    let line = join_line::without_token(config, server.grpc.port(), pin);
    let whole = format!("fluke join-line --config {}", args.config.display());
    tracing::info!("agents join with: {line}    (with the token: {whole})");
}

/// Tokens change at once; everything else waits for a restart.
fn reload(server: &Server, args: &ServerArgs) {
    server.source.poke();
    let name = args.config.display().to_string();
    let config = read_again(args, &name);
    match config.and_then(|config| Ok((grants(&config)?, config))) {
        Ok((grants, config)) => {
            warn_of_short_tokens(&config);
            server.replace_tokens(grants, &config.api_tokens);
            tracing::info!(config = %name, "tokens were read again");
        }
        Err(why) => {
            tracing::error!(config = %name, %why, "the config cannot be used; the old tokens stay in force")
        }
    }
}

fn read_again(args: &ServerArgs, name: &str) -> Result<ServerConfig, String> {
    let variables = Variables::load(args.env_file.as_deref()).map_err(|error| error.to_string())?;
    let text = config::read_bounded(&args.config).map_err(|error| error.to_string())?;
    config::read_server(name, &text, &|name| variables.get(name))
        .map_err(|problems| diagnostics::one_line(&problems))
}

fn settings(config: ServerConfig, people: &Handle) -> Result<Settings, Failure> {
    let grants = grants(&config).map_err(Failure::new)?;
    let git = config.git;
    let mirror = GitConfig {
        credentials: git.basic_auth,
        ssh_key_file: git.ssh_key_file,
        known_hosts_file: git.known_hosts_file,
        ca_file: git.ca_file,
        ..GitConfig::new(git.url, git.branch, config.cache_dir.join("git"))
    };
    Ok(Settings {
        listen_grpc: config.listen_grpc.candidates(),
        listen_http: config.listen_http.candidates(),
        socket: config.socket,
        grants,
        api_tokens: config.api_tokens,
        http_names: config.http_names,
        source: SourceConfig::Git { git: Box::new(mirror), poll_interval: git.poll_interval },
        manifest_glob: git.manifest_glob,
        poll_interval: git.poll_interval,
        webhook_secret: git.webhook_secret,
        default_policy: config.drift.policy,
        alert_webhook: config.drift.alert_webhook,
        history: config.event_store,
        tls: match config.tls {
            ServerTls::Off => TlsSettings::Off,
            ServerTls::Own => TlsSettings::Own(config.cache_dir.join("tls")),
            ServerTls::Files { cert_file, key_file } => {
                TlsSettings::Files(TlsFiles { cert_file, key_file })
            }
        },
        heartbeat: config.heartbeat,
        http_runtime: people.clone(),
    })
}

fn grants(config: &ServerConfig) -> Result<Vec<Grant>, String> {
    let grant = |token: &AgentToken| match &token.label {
        None => Ok(Grant::any(token.token.expose())),
        Some(label) => {
            let bound =
                Grant::bound(label, token.token.expose(), &token.names, token.labels.clone());
            bound.map_err(|error| {
                format!("the names of agent_token \"{label}\" are no globs: {error}")
            })
        }
    };
    config.agent_tokens.iter().map(grant).collect()
}
