//! `fluke join-line`: the one line that an agent needs, from the server's config alone.

use std::path::Path;

use fluke_model::id::Hash256;
use fluke_model::secret::Secret;
use fluke_server::tls::own_ca_fingerprint;
use serde::Serialize;

use super::Printing;
use crate::cli::{Global, JoinLineArgs};
use crate::commands::server;
use crate::config::listen::Listen;
use crate::config::server::{AgentToken, ServerConfig, ServerTls};
use crate::config::variables::Variables;
use crate::failure::Failure;
use crate::screen;

/// Prints the line.
pub fn run(args: &JoinLineArgs, global: &Global) -> Result<(), Failure> {
    let variables =
        Variables::load(args.env_file.as_deref()).map_err(|error| Failure::from_error(&error))?;
    let config = server::load(&args.config, &variables, global.colour)?;
    let join = join(&config, args.host.as_deref(), args.agent_token.as_deref())?;
    let shown = Shown {
        url: &join.url,
        token: join.token.expose(),
        ca_fingerprint: join.fingerprint,
        install: join.line("install agent"),
        agent: join.line("agent"),
    };
    let json = serde_json::to_string(&shown)
        .map_err(|error| Failure::new("the line cannot be shown").because(&error))?;
    match Printing::of(global).document(&json) {
        Some(text) => screen::print(&text.unwrap_or(json)),
        None => screen::print(&join.text()),
    }
}

/// What is printed with `-o json`.
#[derive(Serialize)]
struct Shown<'a> {
    url: &'a str,
    token: &'a str,
    ca_fingerprint: Option<Hash256>,
    install: String,
    agent: String,
}

/// What an agent needs to know.
#[derive(Debug, PartialEq, Eq)]
pub struct Join {
    url: String,
    token: Secret,
    fingerprint: Option<Hash256>,
}

impl Join {
    /// A line for a shell.
    fn line(&self, command: &str) -> String {
        format!("FLUKE_TOKEN={} {}", quoted(self.token.expose()), self.command(command))
    }

    /// The same without the token.
    fn command(&self, command: &str) -> String {
        let pin = self.fingerprint.map(|pin| format!(" --ca-fingerprint {pin}"));
        format!("fluke {command} --url {}{}", quoted(&self.url), pin.unwrap_or_default())
    }

    /// Both lines, for people.
    pub fn text(&self) -> String {
        format!(
            "# on a host, as root: installs the agent and starts it (add --label role=web …)\n{}\n\n\
             # or in the foreground, to try it\n{}\n",
            self.line("install agent"),
            self.line("agent")
        )
    }
}

/// The line as it may be logged.
pub fn without_token(config: &ServerConfig, port: u16, pin: Option<Hash256>) -> String {
    let listen = Listen { port, ..config.listen_grpc.clone() };
    let token = Secret::new("");
    let url = url(&listen, &config.tls, None);
    format!("FLUKE_TOKEN=… {}", Join { url, token, fingerprint: pin }.command("agent"))
}

/// From the config, and the CA that the server keeps in its cache.
pub fn join(
    config: &ServerConfig,
    host: Option<&str>,
    token: Option<&str>,
) -> Result<Join, Failure> {
    let fingerprint = match &config.tls {
        ServerTls::Own => Some(own_pin(&config.cache_dir.join("tls"))?),
        ServerTls::Off | ServerTls::Files { .. } => None,
    };
    let token = chosen(&config.agent_tokens, token)?.token.clone();
    Ok(Join { url: url(&config.listen_grpc, &config.tls, host), token, fingerprint })
}

fn own_pin(directory: &Path) -> Result<Hash256, Failure> {
    let found = own_ca_fingerprint(directory).map_err(|error| {
        Failure::from_error(&error).help("run it as root, or as the user that the server runs as")
    })?;
    found.ok_or_else(|| {
        Failure::new(format!("the server has made no CA in {} yet", directory.display()))
            .help("start the server once; it makes one on its first start")
    })
}

/// The token of that name, else the first one that lets in any agent, else the first.
fn chosen<'a>(tokens: &'a [AgentToken], name: Option<&str>) -> Result<&'a AgentToken, Failure> {
    let found = match name {
        Some(name) => tokens.iter().find(|token| token.label.as_deref() == Some(name)),
        None => tokens.iter().find(|token| token.label.is_none()).or(tokens.first()),
    };
    found.ok_or_else(|| {
        let names: Vec<_> = tokens.iter().filter_map(|token| token.label.as_deref()).collect();
        Failure::new(format!("there is no `agent_token` block named `{}`", name.unwrap_or("?")))
            .help(match names.is_empty() {
                true => "the config has none; leave out --agent-token".to_string(),
                false => format!("there are {}", names.join(", ")),
            })
    })
}

fn url(listen: &Listen, tls: &ServerTls, host: Option<&str>) -> String {
    let scheme = if *tls == ServerTls::Off { "grpc" } else { "grpcs" };
    let own = || nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let host = host.map(str::to_string).or_else(|| listen.host.clone()).unwrap_or_else(own);
    format!("{scheme}://{}", Listen { host: Some(host), port: listen.port })
}

/// As a shell takes it literally.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,[]".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_string(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> ServerConfig {
        let text = format!("server {{\n  git {{\n    url = \"/srv/infra.git\"\n  }}\n{text}\n}}\n");
        crate::config::read_server("s.hcl", text.as_bytes(), &|_| None).expect("a config")
    }

    #[test]
    fn the_line_of_a_server_without_its_own_ca_needs_no_fingerprint() {
        let off =
            "agent_tokens = [\"it's\"]\nlisten_grpc = \"10.0.0.1:70\"\ntls {\n  enabled = false\n}";
        let join = join(&config(off), None, None).expect("a line");
        assert_eq!(
            join.line("agent"),
            r"FLUKE_TOKEN='it'\''s' fluke agent --url grpc://10.0.0.1:70"
        );
    }

    #[test]
    fn the_line_names_the_ca_that_the_server_has_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = format!("agent_tokens = [\"not-hex\"]\ncache_dir = \"{}\"", dir.path().display());
        let config = config(&own);
        let told = join(&config, Some("::1"), None).expect_err("no CA yet");
        assert!(told.text().contains("start the server once"), "{}", told.text());
        let tls = dir.path().join("tls");
        let made = fluke_server::tls::Certificates::own(&tls, vec!["localhost".into()]);
        let pin = made.expect("a CA").own_ca().expect("its own").1;
        let join = join(&config, Some("::1"), None).expect("a line");
        assert_eq!(
            join.line("install agent"),
            format!(
                "FLUKE_TOKEN=not-hex fluke install agent --url grpcs://[::1]:7070 --ca-fingerprint {pin}"
            )
        );
        assert!(!without_token(&config, 7070, Some(pin)).contains("not-hex"));
    }

    #[test]
    fn a_token_is_chosen_by_name_and_is_else_one_for_any_agent() {
        let two = "agent_token \"web\" {\n  token = \"w\"\n}\nagent_tokens = [\"any\"]";
        let config = config(two);
        let token =
            |name| chosen(&config.agent_tokens, name).map(|it| it.token.expose().to_owned());
        assert_eq!(token(None).expect("one"), "any");
        assert_eq!(token(Some("web")).expect("one"), "w");
        assert!(token(Some("db")).expect_err("none").text().contains("there are web"));
    }
}
