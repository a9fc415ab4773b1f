use super::*;
use crate::config::{check, is_config, read_agent, read_server};
use crate::logging::{Level, LogFormat};

fn environment(name: &str) -> Option<String> {
    match name {
        "FLUKE_TOKEN" => Some("a-token".into()),
        "GIT_PASSWORD" => Some("pa$$word$X".into()),
        "HOOK" => Some("https://hooks.example/T0P/s3cret".into()),
        "CACHE_DIRECTORY" => Some("/var/cache/fluke-test".into()),
        _ => None,
    }
}

fn server(text: &str) -> ServerConfig {
    read_server("server.hcl", text.as_bytes(), &environment)
        .unwrap_or_else(|problems| panic!("{}", fluke_manifest::render::to_text(&problems, false)))
}

/// `line:column: message; help` for each problem.
fn problems(text: &str) -> Vec<String> {
    let found = check("server.hcl", text.as_bytes(), &environment);
    found.iter().map(|problem| problem.to_string().replacen("server.hcl:", "", 1)).collect()
}

/// A good server with these lines in it.
fn with(lines: &str) -> String {
    let tokens =
        if lines.contains("agent_token") { "" } else { "agent_tokens = [\"$FLUKE_TOKEN\"]\n" };
    let git = if lines.contains("git {") { "" } else { "git {\nurl = \"/srv/infra.git\"\n}\n" };
    format!("server {{\n{lines}\n{tokens}{git}}}\n")
}

#[test]
fn little_is_enough_and_the_rest_is_as_documented() {
    let config = server(&with(""));
    assert_eq!(config.listen_grpc, Listen::everywhere(7070));
    assert_eq!(config.listen_http, Listen::everywhere(7071));
    assert_eq!(config.socket, Some("/run/fluke/fluke.sock".into()));
    assert_eq!(config.cache_dir, PathBuf::from("/var/cache/fluke-test"));
    assert_eq!(config.agent_tokens, [AgentToken::bare(Secret::new("a-token"))]);
    assert!(config.api_tokens.is_empty() && config.http_names.is_empty());
    assert_eq!(config.git.branch.as_str(), "main");
    assert_eq!(config.heartbeat, Duration::from_secs(30));
    assert_eq!(config.git.poll_interval, Duration::from_secs(60));
    assert_eq!(config.git.manifest_glob, "**/*.fluke.hcl");
    assert_eq!(config.tls, ServerTls::Own);
    assert_eq!(config.drift, DriftConfig { policy: Policy::Remediate, alert_webhook: None });
    assert!(matches!(config.event_store, History::Memory { max_events_per_agent: 100 }));
    assert_eq!(config.log, LogConfig { level: Level::Info, format: LogFormat::Text });
}

#[test]
fn everything_that_is_documented_is_read() {
    let config = server(
        r#"
server {
  listen_grpc  = "127.0.0.1:7070"
  listen_http  = "[::1]:7071"
  socket       = ""
  cache_dir    = "/cache"
  heartbeat    = "5s"
  agent_tokens = ["$FLUKE_TOKEN"]
  api_tokens   = ["${FLUKE_TOKEN}-api", "second"]
  http_names   = ["fluke.example", "VM.example.org."]

  agent_token "web" {
    token  = "web-token"
    names  = ["web-*"]
    labels = { role = "web" }
  }
  git {
    url                 = "https://git.example/infra.git"
    branch              = "production"
    poll_interval       = "1h30m"
    manifest_glob       = "fleet/**/*.hcl"
    ssh_key_file        = "/etc/fluke/id_ed25519"
    known_hosts_file    = "/etc/fluke/known_hosts"
    ca_file             = "/etc/fluke/git-ca.pem"
    basic_auth_user     = "bot"
    basic_auth_password = "$GIT_PASSWORD"
    webhook_secret      = "x"
  }
  tls {
    cert_file = "/c.pem"
    key_file  = "/k.pem"
  }
  drift {
    policy        = "alert_only"
    alert_webhook = "$HOOK"
  }
  event_store {
    backend = "redis"
    memory {
      max_events_per_agent = 5
    }
    redis {
      url    = "redis://fluke:r3dis@localhost:6379"
      prefix = "f"
      ttl    = "168h"
    }
  }
  log {
    level  = "debug"
    format = "json"
  }
}
"#,
    );
    assert_eq!(config.socket, None);
    assert_eq!(config.api_tokens, [Secret::new("a-token-api"), Secret::new("second")]);
    assert_eq!(config.http_names, ["fluke.example", "vm.example.org"]);
    assert_eq!(config.agent_tokens[1].names, ["web-*"]);
    assert_eq!(config.agent_tokens[1].labels.to_string(), "role=web");
    let auth = config.git.basic_auth.as_ref().expect("credentials");
    assert_eq!(
        (auth.user.as_str(), auth.password.as_str()),
        ("bot", "pa$$word$X"),
        "not looked at again"
    );
    assert_eq!(config.heartbeat, Duration::from_secs(5));
    assert_eq!(config.git.poll_interval, Duration::from_secs(5400));
    assert_eq!(config.git.ca_file, Some("/etc/fluke/git-ca.pem".into()));
    assert_eq!(
        config.tls,
        ServerTls::Files { cert_file: "/c.pem".into(), key_file: "/k.pem".into() }
    );
    assert_eq!(config.drift.policy, Policy::AlertOnly);
    assert!(
        matches!(&config.event_store, History::Redis(redis) if redis.prefix == "f" && redis.ttl.as_secs() == 604_800)
    );
    let shown = format!("{config:?}");
    for secret in ["a-token", "web-token", "pa$$word", "s3cret", "second", "r3dis"] {
        assert!(!shown.contains(secret), "{secret} is shown in {shown}");
    }
}

#[test]
fn tokens_that_can_be_guessed_are_known_by_their_number() {
    let short =
        |tokens: &str| server(&with(&format!("api_tokens = [{tokens}]"))).short_api_tokens();
    assert_eq!(short("\"secret\", \"0123456789abcdef\", \"0123456789abcde\""), [1, 3]);
    assert_eq!(short("\"a               \""), [1], "spaces are no secret");
    assert_eq!(short("\"ååååååååå\""), [1], "counted as people do");
    assert_eq!(short(""), [0; 0]);
}

#[test]
fn tls_is_off_only_in_writing() {
    assert_eq!(server(&with("tls {\nenabled = false\n}")).tls, ServerTls::Off);
    assert_eq!(server(&with("tls {\n}")).tls, ServerTls::Own);
}

/// One problem, and it is this; `…` stands for words of the toolkit's own.
fn assert_told(problems: &[String], told: &str, case: &str) {
    let [problem] = problems else { panic!("{case}: {problems:#?}") };
    let is_told = match told.split_once(" … ") {
        Some((place, words)) => problem.starts_with(place) && problem.contains(words),
        None => problem == told,
    };
    assert!(is_told, "{case}: {problem}\nis not: {told}");
}

#[test]
fn each_mistake_is_told_with_its_place_and_what_to_do() {
    for (lines, told) in [
        ("listen_grcp = \":1\"", "2:1: … did you mean `listen_grpc`?"),
        (
            "listen_grpc = \"7070\"",
            "2:15: `listen_grpc`: `7070` is not an address to listen on: it has no port; write host:port, or :port",
        ),
        (
            "listen_http = \":7070\"",
            "2:15: `listen_http` is the same as `listen_grpc`: :7070; give each its own port: 7070 and 7071",
        ),
        (
            "agent_tokens = []",
            "2:16: a server needs at least one token for its agents; add `agent_tokens = [\"$FLUKE_TOKEN\"]`, or an `agent_token` block",
        ),
        ("agent_tokens = [\"\"]", "2:17: `agent_tokens`: a token must not be empty"),
        (
            "agent_tokens = [\"$NOT_SET\"]",
            "2:17: the environment variable `NOT_SET` is not set; set it before fluke starts, or write `$$` for a dollar",
        ),
        ("agent_token \"web\" {\n}", "2:1: … `token`"),
        (
            "agent_token \"w\" {\ntoken = \"t\"\nlabels = { \"a b\" = \"c\" }\n}",
            "4:12: `labels`: ' ' is not allowed in a label key; use letters, digits, `.`, `_`, `-` and `/`",
        ),
        ("api_tokens = 7", "2:14: … list of strings"),
        ("http_names = \"fluke.example\"", "2:14: … list of strings"),
        (
            "http_names = [\"fluke.example\", \"https://fluke.example\"]",
            "2:32: `http_names`: `https://fluke.example` is not the name of a host; write it like \"fluke.example.com\", without scheme, port, path and `*`",
        ),
        ("http_names = [\"fluke.example:7071\"]", "2:15: … is not the name of a host"),
        ("http_names = [\"*.example.com\"]", "2:15: … is not the name of a host"),
        ("http_names = [\"\"]", "2:15: … is not the name of a host"),
        ("heartbeat = \"10ms\"", "2:13: `heartbeat`: it must be at least \"1s\""),
        ("heartbeat = \"1h\"", "2:13: `heartbeat`: it must be at most \"10m\""),
        ("git {\n}", "2:1: … `url`"),
        (
            "git {\nurl = \"/x\"\npoll_interval = \"10ms\"\n}",
            "4:17: `poll_interval`: it must be at least \"1s\"",
        ),
        ("git {\nurl = \"/x\"\npoll_interval = 60\n}", "4:17: … \"60s\""),
        (
            "git {\nurl = \"/x\"\nbranch = \"a..b\"\n}",
            "4:10: `branch`: `a..b` cannot be the name of a branch; write it as in `git branch`, without `refs/heads/`",
        ),
        (
            "git {\nurl = \"/x\"\nbasic_auth_user = \"bot\"\n}",
            "4:19: `basic_auth_user` and `basic_auth_password` go together; add `basic_auth_password`",
        ),
        (
            "tls {\ncert_file = \"/c\"\n}",
            "3:13: `cert_file` and `key_file` go together; add `key_file`",
        ),
        (
            "drift {\npolicy = \"alert_only\"\n}",
            "3:10: the policy `alert_only` needs somebody to alert; add `alert_webhook = \"https://…\"`",
        ),
        ("drift {\npolicy = \"remediat\"\n}", "3:10: … did you mean \"remediate\"?"),
        (
            "drift {\nalert_webhook = \"ftp://x\"\n}",
            "3:17: `alert_webhook`: it must begin with http:// or https://",
        ),
        (
            "event_store {\nbackend = \"redis\"\n}",
            "3:11: the backend `redis` needs to know where Redis is; add `redis { url = \"redis://localhost:6379\" }`",
        ),
        ("event_store {\nbackend = \"redis\"\nredis {\n}\n}", "4:1: … `url`"),
        ("event_store {\nredis {\nurl = \"http://x:p4ss@y\"\n}\n}", "4:7: … no address of Redis"),
        (
            "event_store {\nredis {\nurl = \"redis://y\"\nprefix = \"a{b}\"\n}\n}",
            "5:10: … up to 128",
        ),
        ("event_store {\nredis {\nurl = \"redis://y\"\nttl = \"100000h\"\n}\n}", "5:7: … 87600h"),
        (
            "event_store {\nredis {\nurl = \"redis://y\"\nnodes = [\"z:1\"]\n}\n}",
            "5:9: `nodes` are those of a cluster; add `cluster = true`, or take them out",
        ),
        (
            "event_store {\nredis {\nurl = \"redis://y\"\ncluster = true\nnodes = [\"z\"]\n}\n}",
            "6:9: … node number 1",
        ),
        (
            "event_store {\nredis {\nurl = \"rediss://y\"\ncert_file = \"c\"\n}\n}",
            "5:13: `cert_file` and `key_file` go together; add `key_file`",
        ),
        ("log {\nlevel = \"verbose\"\n}", "3:9: … \"warn\""),
        ("log = \"info\"", "2:1: … block"),
    ] {
        assert_told(&problems(&with(lines)), told, lines);
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let told = problems(
        "server {\n  listen_grpc = \"x\"\n  agent_tokens = [\"$A\", \"$B\"]\n  logs = 1\n}\n",
    );
    let places: Vec<&str> = told.iter().filter_map(|problem| problem.split(": ").next()).collect();
    assert_eq!(places, ["1:1", "2:17", "3:19", "3:25", "4:3"], "{told:#?}");
}

#[test]
fn a_token_that_is_given_twice_is_refused_without_being_shown() {
    let lines = "agent_tokens = [\"same\"]\nagent_token \"a\" {\ntoken = \"same\"\n}\nagent_token \"a\" {\ntoken = \"other\"\n}";
    let told = problems(&with(lines));
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].contains("given twice") && told[1].contains("name is taken"), "{told:#?}");
    assert!(!told.concat().contains("same"), "{told:#?}");
}

#[test]
fn a_file_may_hold_both_blocks_and_each_reader_takes_its_own() {
    let text = with("") + "agent {\nserver_url = \"grpcs://h\"\ntoken = \"t\"\nname = \"n\"\n}\n";
    assert!(is_config(text.as_bytes()));
    assert!(read_server("f", text.as_bytes(), &environment).is_ok());
    let agent = read_agent("f", text.as_bytes(), &environment).expect("an agent");
    assert_eq!(agent.name.map(|name| name.to_string()).as_deref(), Some("n"));
    assert_eq!(problems(&text), [""; 0]);
    assert!(!is_config(b"task \"x\" {}\n"));
}

#[test]
fn an_agents_mistakes_are_told_too() {
    for (lines, told) in [
        (
            "server_url = \"http://x\"\ntoken = \"t\"",
            "2:14: `server_url`: `http://x` is not a server's address: agents do not speak http; write grpcs://HOST:7070, or grpc://HOST:7070 for a server without TLS",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\nlabels = { role = \"a b\" }",
            "4:19: `labels`: label role: ' ' is not allowed in a label value; use letters, digits, `.`, `_`, `-` and `/`",
        ),
        (
            "server_url = \"grpcs://x\"",
            "1:1: `token` is missing; set FLUKE_TOKEN in the environment or `token` in the file, or give --token",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\nexecution {\ncommand_timeout = \"0\"\n}",
            "5:19: `command_timeout`: it must be at least \"1s\"",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\nallow {\nexecutors = [\"shell\", \"contianer\"]\n}",
            "5:13: `executors`: \"contianer\" is not an executor of this version; did you mean \"container\"?",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\nallow {\nexecutors = [\"*\"]\n}",
            "5:13: `executors`: \"*\" is not an executor of this version; list some of: mise, shell, systemd, container, dns, routes, mesh",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\ncontainers {\nsocket = \"podman.sock\"\n}",
            "5:10: `socket`: it is not an absolute path; let it begin with `/`",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\ncontainers {\npull_timeout = \"1ms\"\n}",
            "5:16: `pull_timeout`: it must be at least \"1s\"",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\nproxy {\nacme {\nemail = \"ops\"\n}\n}",
            "6:9: `email`: it is not an address for mail; write it like \"ops@example.com\"",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\nproxy {\nacme {\n}\n}",
            "5:1: an `acme` block needs the attribute `email`; add `email = …`: a string",
        ),
        (
            "server_url = \"grpcs://x\"\ntoken = \"t\"\nproxy {\ncertificate {\ncert_file = \"/c\"\n}\n}",
            "5:1: a `certificate` block needs the attribute `key_file`; add `key_file = …`: a string",
        ),
    ] {
        assert_eq!(problems(&format!("agent {{\n{lines}\n}}\n")), [told], "{lines}");
    }
}

#[test]
fn an_agent_is_a_proxy_by_word_or_by_block() {
    for (lines, is_proxy) in [
        ("", false),
        ("proxy = true", true),
        ("proxy = false", false),
        ("proxy {\n}", true),
        ("proxy = true\nproxy {\n}", true),
        ("proxy = false\nproxy {\n}", false),
    ] {
        let text = format!("agent {{\nserver_url = \"grpcs://x\"\ntoken = \"t\"\n{lines}\n}}\n");
        let agent = read_agent("f", text.as_bytes(), &environment).expect("an agent");
        assert_eq!(agent.proxy.is_some(), is_proxy, "{lines}");
    }
}

#[test]
fn an_agents_whole_block_is_read() {
    let text = r#"
agent {
  server_url    = "grpcs://fluke.example:7070"
  token         = "$FLUKE_TOKEN"
  name          = "web-01"
  labels        = { role = "web", env = "production" }
  state_dir     = "/var/lib/fluke"
  proxy         = true
  logs_endpoint = ""
  tls {
    ca_file              = "/ca.pem"
    insecure_skip_verify = false
  }
  execution {
    default_shell   = "/bin/sh"
    command_timeout = "5m"
  }
  allow {
    executors = ["shell", "mise"]
    run_as    = []
  }
  containers {
    exclusive = true
    socket    = "/run/other.sock"
    keep_images = "36h"
    pull_timeout = "2h"
  }
  proxy {
    program = "/opt/traefik"
    acme {
      email     = "ops@example.com"
      directory = "https://acme.example/directory"
      ca_file   = "/acme.pem"
    }
    certificate {
      cert_file = "/shop.pem"
      key_file  = "/shop.key"
    }
  }
}
"#;
    let agent = read_agent("f", text.as_bytes(), &environment)
        .expect("an agent")
        .complete("h")
        .expect("complete");
    assert_eq!(agent.token.expose(), "a-token");
    assert_eq!(agent.labels.to_string(), "env=production,role=web");
    assert_eq!(agent.logs_endpoint, None);
    let socket = PathBuf::from("/run/other.sock");
    assert_eq!((agent.containers.exclusive, agent.containers.socket), (true, socket));
    assert_eq!(agent.containers.keep_images, Duration::from_secs(36 * 3600));
    assert_eq!(agent.containers.pull_timeout, Duration::from_secs(2 * 3600));
    let proxy = agent.proxy.expect("it is one");
    assert_eq!(proxy.program, Some("/opt/traefik".into()));
    let acme = proxy.acme.expect("somebody gives certificates");
    assert_eq!(acme.email, "ops@example.com");
    assert_eq!(acme.directory.as_deref(), Some("https://acme.example/directory"));
    assert_eq!((acme.ca_file, proxy.certificates.len()), (Some("/acme.pem".into()), 1));
    assert_eq!(agent.allow.executors, Some(vec!["shell".into(), "mise".into()]));
    assert_eq!(agent.allow.run_as, Some(Vec::new()), "nobody is not the same as anybody");
    assert_eq!(agent.execution.default_shell, PathBuf::from("/bin/sh"));
}

proptest::proptest! {
    #[test]
    fn no_config_is_too_strange(
        lines in proptest::collection::vec("[a-z_]{1,12} = [\\[\\]\"$A-Z{}a-z:0-9., ]{0,20}|(git|tls|drift|log|event_store|redis) \\{|\\}", 0..12),
    ) {
        check("f", format!("server {{\n{}\n}}\nagent {{\n{}\n}}\n", lines.join("\n"), lines.join("\n")).as_bytes(), &environment);
    }
}
