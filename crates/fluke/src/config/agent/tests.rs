use clap::Parser;
use fluke_model::label::Labels;

use super::*;
use crate::cli::{Cli, Command};

fn flags(line: &str) -> AgentArgs {
    let cli =
        Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
    match cli.command {
        Command::Agent(args) => args,
        _ => panic!("not an agent: {line}"),
    }
}

fn file() -> AgentFile {
    AgentFile {
        server_url: Some("grpcs://file.example:7070".parse().expect("a URL")),
        token: Some(Secret::new("of the file")),
        labels: Labels(
            [Labels::parse_pair("role=web"), Labels::parse_pair("env=test")]
                .into_iter()
                .flatten()
                .collect(),
        ),
        state_dir: Some("/file".into()),
        ..AgentFile::default()
    }
}

#[test]
fn flags_win_over_the_file() {
    let flags = flags(
        "fluke agent --url grpc://flag.example --token flag --name n --label role=db --state-dir /flag --proxy \
         --ca-file /ca.pem --config x",
    );
    let config =
        file().with_flags(&flags, None).expect("good flags").complete("host").expect("complete");
    assert_eq!(config.server_url.to_string(), "grpc://flag.example:7070");
    assert_eq!(config.token.expose(), "flag");
    assert_eq!(config.name.as_str(), "n");
    assert_eq!(config.labels.to_string(), "env=test,role=db");
    assert_eq!(config.state_dir, PathBuf::from("/flag"));
    assert_eq!(config.tls.ca_file, Some("/ca.pem".into()));
    assert!(config.proxy.is_some());
}

#[test]
fn a_token_is_taken_from_the_flag_then_the_file_then_the_environment() {
    let token = |file: AgentFile, line, environment: Option<&str>| {
        let file = file.with_flags(&flags(line), environment.map(Into::into)).expect("good flags");
        file.token.map(|token| token.expose().to_string())
    };
    let bare = || AgentFile { token: None, ..file() };
    let env = Some("of the environment");
    assert_eq!(token(file(), "fluke agent --config f --token t", env).as_deref(), Some("t"));
    assert_eq!(token(file(), "fluke agent --config f", env).as_deref(), Some("of the file"));
    assert_eq!(token(bare(), "fluke agent --config f", env), env.map(Into::into));
    assert_eq!(token(bare(), "fluke agent --config f", Some("")), None);
}

#[test]
fn flags_alone_are_enough() {
    let flags = flags("fluke agent --url grpcs://flag.example --token t");
    let config = AgentFile::default()
        .with_flags(&flags, None)
        .expect("good flags")
        .complete("web-01")
        .expect("complete");
    assert_eq!(config.name.as_str(), "web-01");
    assert_eq!(config.state_dir, PathBuf::from("/var/lib/fluke"));
    assert_eq!(config.execution, Execution::default());
    assert!(!format!("{config:?}").contains("\"t\""), "the token is not shown");
}

#[test]
fn what_is_missing_or_wrong_is_told_with_the_flag_that_helps() {
    let complete = |file: AgentFile, host| file.complete(host).map(|_| ()).expect_err("incomplete");
    let problem = complete(AgentFile::default(), "h");
    assert_eq!(problem.help(), "set `server_url` in the file, or give --url");
    let problem = complete(AgentFile { token: None, ..file() }, "h");
    assert_eq!(problem.to_string(), "`token` is missing");
    let problem = complete(file(), "what ever");
    assert!(problem.to_string().contains("`what ever`"), "{problem}");

    let wrong = |line| {
        AgentFile::default()
            .with_flags(&flags(line), None)
            .map(|_| ())
            .expect_err("wrong")
            .to_string()
    };
    assert!(wrong("fluke agent --url http://x --token t").starts_with("--url: "));
    assert!(
        wrong("fluke agent --url grpcs://x --token t --ca-fingerprint 12")
            .starts_with("--ca-fingerprint: ")
    );
}

#[test]
fn fingerprints_are_taken_as_people_copy_them() {
    let plain = "ab".repeat(32);
    let hash = fingerprint(&plain).expect("plain");
    assert_eq!(fingerprint(&["AB"; 32].join(":")), Ok(hash));
    assert_eq!(fingerprint(&format!("sha256:{plain}")), Ok(hash));
    assert!(fingerprint("zz").is_err());
}
