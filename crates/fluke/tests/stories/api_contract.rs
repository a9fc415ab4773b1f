//! The API is as its OpenAPI document says: a client that knows nothing else tries it out, with
//! what is right and with what is wrong.

use std::path::Path;
use std::time::Duration;

use fluke_model::secret::Secret;
use tokio::process::Command;

use super::support::{Fleet, Host, Options, Told};

const API_TOKEN: &str = "a-token-for-the-api";
/// The same each time: a story that fails fails again.
const SEED: &str = "20260102";
/// Of each call, in each way of making them up.
const EXAMPLES: &str = "10";
/// Longer than it may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// A fleet of which there is something to say.
async fn fleet(api_tokens: Vec<Secret>) -> (Fleet, [Host; 2]) {
    let fleet = Fleet::with(Options { api_tokens, ..Options::default() }).await;
    let web = fleet.join("web-01", "role=web,env=test").await;
    let mut away = fleet.join("dc1/db-01", "role=db").await;
    let root = fleet.root("web-01");
    let manifest = format!(
        r#"
task "certs" {{
  drift {{
    policy = "alert_only"
  }}
  selector {{
    match_labels = {{ role = "web" }}
  }}
  shell "renew" {{
    check   = "test -f {root}/cert"
    command = "touch {root}/cert"
  }}
}}

task "files/motd" {{
  selector {{
    match_labels = {{}}
  }}
  shell "motd" {{
    check   = "true"
    command = "true"
  }}
}}

task "broken" {{
  selector {{
    match_labels = {{ role = "web" }}
  }}
  shell "never" {{
    check   = "false"
    command = "echo no; false"
  }}
}}
"#
    );
    fleet.commit("tasks", &manifest).await;
    fleet.settles().await;
    away.stop_agent().await;
    fleet.until("an agent is away", |fleet| !fleet.agent("dc1/db-01").connected).await;
    (fleet, [web, away])
}

/// Runs the client against a server; none, and a line that says so, where it is not installed.
async fn schemathesis(fleet: &Fleet, arguments: &[&str]) -> Option<Told> {
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin/schemathesis");
    if !program.exists() {
        assert!(std::env::var_os("CI").is_none(), "no schemathesis: run scripts/test-tools");
        #[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
        {
            eprintln!("SKIP: there is no schemathesis: run scripts/test-tools");
        }
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let document = format!("http://{}/api/v1/openapi.json", fleet.server().http);
    let mut command = Command::new(program);
    command.args(["run", &document, "--checks", "all", "--seed", SEED, "-n", EXAMPLES]);
    command.args(["--no-color", "--generation-database", "none"]);
    // One at a time: threads are more than Python 3.11 takes when it parses itself.
    command.args(["--workers", "1"]);
    // Wrong tokens wait for their answers, up to ten seconds.
    command.args(["--request-timeout", "60"]);
    // A stream has no end, and what makes up requests waits for one.
    command.args(["--exclude-path", "/api/v1/stream"]);
    command.args(arguments).current_dir(&folder).kill_on_drop(true);
    command.stdin(std::process::Stdio::null());
    let output = tokio::time::timeout(PATIENCE, command.output());
    let output = output.await.expect("schemathesis ends").expect("schemathesis runs");
    Some(Told {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn has_nothing_to_say_against_it(told: &Told) {
    assert_eq!(told.code, 0, "{}\n{}", told.stdout, told.stderr);
    assert!(told.stdout.contains(" passed"), "{}", told.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tokens_keeps_what_its_document_promises() {
    let (fleet, _hosts) = fleet(Vec::new()).await;
    let Some(told) = schemathesis(&fleet, &[]).await else { return };
    has_nothing_to_say_against_it(&told);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tokens_keeps_what_its_document_promises() {
    let (fleet, _hosts) = fleet(vec![Secret::new(API_TOKEN)]).await;
    let header = format!("Authorization: Bearer {API_TOKEN}");
    let Some(told) = schemathesis(&fleet, &["-H", &header]).await else { return };
    has_nothing_to_say_against_it(&told);
    assert!(fleet.agent("web-01").connected, "and the fleet is as well as before");
}
