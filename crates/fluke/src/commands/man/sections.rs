//! What a manual page says besides what the command line knows: examples, exit status,
//! environment, files, and where to read on.

use clap::Command;

/// Which variables and files matter to a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Everything.
    Program,
    /// Talks to a server.
    Asks,
    /// Runs a server or an agent, or sets one up.
    Runs,
    /// Works on files of this machine alone.
    Alone,
}

fn kind(name: &str) -> Kind {
    match name.split('-').nth(1) {
        None => Kind::Program,
        Some("get" | "describe" | "events" | "top" | "reconcile" | "forget") => Kind::Asks,
        Some("server" | "agent" | "install" | "uninstall" | "update" | "join" | "dev") => {
            Kind::Runs
        }
        Some(_) => Kind::Alone,
    }
}

const ASKING: [(&str, &str); 5] = [
    (
        "FLUKE_SERVER",
        "The server to talk to, where --server is not given: unix:///run/fluke/fluke.sock, or \
         http(s)://host:7071.",
    ),
    (
        "FLUKE_API_TOKEN",
        "The token for http(s). There is no option for it: other users of a machine can see \
         arguments.",
    ),
    (
        "FLUKE_CA_FILE",
        "A PEM file with the authority of an https server that this host does not know.",
    ),
    (
        "NO_COLOR",
        "If it is set to anything, there are no colours, unless --colour always is given.",
    ),
    ("TERM", "If it is dumb, there are no colours either."),
];

const RUNNING: [(&str, &str); 1] = [(
    "FLUKE_TOKEN",
    "The token that an agent shows to its server. Any other variable may be referred to in a config \
     as $NAME.",
)];

const FILES: [(&str, &str, Kind); 6] = [
    (
        "/run/fluke/fluke.sock",
        "The socket of the server on this host, and the default of --server. Its file mode decides who may use it.",
        Kind::Asks,
    ),
    ("/etc/fluke/server.hcl", "The server's config.", Kind::Runs),
    ("/etc/fluke/agent.hcl", "The agent's config.", Kind::Runs),
    (
        "/etc/fluke/server.env, /etc/fluke/agent.env",
        "Variables that the configs refer to, such as tokens.",
        Kind::Runs,
    ),
    ("/var/lib/fluke", "What an agent keeps across restarts.", Kind::Runs),
    ("**/*.fluke.hcl", "Manifests, in the repository that the server reads.", Kind::Alone),
];

/// All of them, as roff.
pub fn all(name: &str, command: &Command) -> String {
    let kind = kind(name);
    [examples(command), exit_status(name), environment(kind), files(kind), see_also(name, command)]
        .concat()
}

/// Those of the help, which every command has.
fn examples(command: &Command) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  ")).map(text);
    let lines: Vec<String> = lines.collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", lines.join("\n")),
    }
}

fn exit_status(name: &str) -> String {
    let failed = match name {
        name if name.starts_with("fluke-reconcile") => {
            "Something failed, or is not as it should be at the end."
        }
        "fluke-validate" => "A manifest or config has an error, or could not be read.",
        "fluke-fmt" => "Something could not be formatted; with --check, something would change.",
        _ => "It failed; standard error says what, why and what to do.",
    };
    let rows = [("0", "Done."), ("1", failed), ("2", "Wrong usage.")];
    section("EXIT STATUS", rows.into_iter())
}

fn environment(kind: Kind) -> String {
    let variables: Vec<(&str, &str)> = match kind {
        Kind::Program => ASKING.into_iter().chain(RUNNING).collect(),
        Kind::Asks => ASKING.to_vec(),
        Kind::Runs => RUNNING.into_iter().chain(ASKING[3..].to_vec()).collect(),
        Kind::Alone => ASKING[3..].to_vec(),
    };
    section("ENVIRONMENT", variables.into_iter())
}

fn files(kind: Kind) -> String {
    let files = FILES.into_iter().filter(|(.., of)| kind == Kind::Program || kind == *of);
    section("FILES", files.map(|(file, what, _)| (file, what)))
}

fn see_also(name: &str, command: &Command) -> String {
    let above = name.rsplit_once('-').map(|(above, _)| above.to_string());
    // `join-line` is one word.
    let above = above.map(|above| if above == "fluke-join" { "fluke".into() } else { above });
    let inner = command.get_subcommands().map(|inner| format!("{name}-{}", inner.get_name()));
    let related = match name {
        "fluke-top" => &["fluke-get", "fluke-describe", "fluke-events"][..],
        "fluke-events" => &["fluke-get-events", "fluke-top"],
        "fluke-describe" | "fluke-get" => &["fluke-top", "fluke-reconcile", "fluke-events"],
        "fluke-reconcile" => &["fluke-describe", "fluke-get-drift"],
        "fluke-server" | "fluke-agent" => &["fluke-install", "fluke-join-line", "fluke-validate"],
        "fluke-validate" => &["fluke-fmt", "fluke-eval", "fluke-dev"],
        _ => &[],
    };
    let all = above.into_iter().chain(inner).chain(related.iter().map(ToString::to_string));
    let all: Vec<String> = all.map(|page| format!("\\fB{}\\fR(1)", text(&page))).collect();
    format!(".SH SEE ALSO\n{}\n", all.join(",\n"))
}

fn section<'a>(title: &str, rows: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let rows: String =
        rows.map(|(term, what)| format!(".TP\n\\fB{}\\fR\n{}\n", text(term), text(what))).collect();
    if rows.is_empty() { rows } else { format!(".SH {title}\n{rows}") }
}

/// Text that roff takes for nothing else.
fn text(plain: &str) -> String {
    let escaped = plain.replace('\\', "\\e").replace('-', "\\-").replace('…', "...");
    match escaped.starts_with(['.', '\'']) {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}
