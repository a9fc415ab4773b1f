//! What people type, against a real server with real agents.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::support::Fleet;

fn page(root: &str, command: &str) -> String {
    format!(
        "task \"page\" {{\n  description = \"The page\"\n  drift {{\n    policy = \"alert_only\"\n  }}\n  selector {{\n    match_labels = {{}}\n  }}\n  shell \"file\" {{\n    check   = \"test -f {root}/page\"\n    command = \"{command}\"\n  }}\n}}\n"
    )
}

async fn fleet_with_drift(command: &str) -> (Fleet, super::support::Host) {
    let fleet = Fleet::start().await;
    let host = fleet.join("web-1", "role=web").await;
    let root = fleet.root("web-1");
    fleet.commit("a page", &page(&root, &command.replace("ROOT", &root))).await;
    fleet.settles().await;
    (fleet, host)
}

#[tokio::test(flavor = "multi_thread")]
async fn get_and_describe_answer_what_is_wrong() {
    let (fleet, _host) = fleet_with_drift("touch ROOT/page").await;
    for (arguments, expected) in [
        (&["get", "agents"][..], &["web-1", "drifted", "role=web"][..]),
        (
            &["get", "drift"][..],
            &["web-1", "page", "shell.file", "alert_only", "check exited 1"][..],
        ),
        (&["get", "tasks"][..], &["page", "alert_only", "tasks.fluke.hcl:1"][..]),
        (&["get", "events"][..], &["drift_detected", "web-1"][..]),
        (&["get", "source"][..], &["main"][..]),
        (&["describe", "agent", "web-1"][..], &["page", "shell.file", "check exited 1"][..]),
        (&["describe", "task", "page"][..], &["The page", "web-1"][..]),
    ] {
        let told = fleet.fluke(arguments).await;
        assert_eq!(told.code, 0, "{arguments:?}: {told:?}");
        for word in expected {
            assert!(told.stdout.contains(word), "{arguments:?} lacks {word}:\n{}", told.stdout);
        }
    }
    let json = fleet.fluke(&["get", "drift", "-o", "json"]).await.stdout;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["drift"][0]["step"], "shell.file");
}

#[tokio::test(flavor = "multi_thread")]
async fn reconcile_waits_and_its_exit_code_tells() {
    let (fleet, host) = fleet_with_drift("touch ROOT/page").await;
    let told = fleet.fluke(&["reconcile", "agent", "web-1"]).await;
    assert_eq!(told.code, 0, "{told:?}");
    assert!(host.has("page"), "it waited until it was done");

    let (fleet, _host) = fleet_with_drift("echo no such thing; exit 7").await;
    let told = fleet.fluke(&["reconcile", "all"]).await;
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stdout.contains("no such thing"), "the output is shown: {told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_answered_with_what_does() {
    let (fleet, _host) = fleet_with_drift("true").await;
    for (arguments, expected) in [
        (&["describe", "agent", "wbe-1"][..], "web-1"),
        (&["describe", "task", "pgae"][..], "page"),
        (&["reconcile", "task", "pages"][..], "page"),
        (&["reconcile", "agent", "db-9"][..], "db-9"),
    ] {
        let told = fleet.fluke(arguments).await;
        assert_eq!(told.code, 1, "{arguments:?}: {told:?}");
        assert!(told.stderr.contains(expected), "{arguments:?}: {}", told.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_watched_is_shown_again_when_it_changes() {
    let (fleet, host) = fleet_with_drift("touch ROOT/page").await;
    let mut watch = tokio::process::Command::new(env!("CARGO_BIN_EXE_fluke"))
        .args(["get", "drift", "-w"])
        .env("FLUKE_SERVER", format!("unix://{}", fleet.socket().display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("fluke runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut shows = async |words: &str| {
        let mut next = async || lines.next_line().await.expect("a line").expect("it goes on");
        let found = async { while !next().await.contains(words) {} };
        tokio::time::timeout(Duration::from_secs(60), found).await.expect(words);
    };
    shows("shell.file").await;
    assert_eq!(fleet.fluke(&["reconcile", "task", "page"]).await.code, 0);
    assert!(host.has("page"));
    shows("nothing is drifted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_by_the_server_and_come_in_as_many_pages_as_it_takes() {
    let fleet = Fleet::start().await;
    let root = fleet.root("web-1");
    let _web = fleet.join("web-1", "role=web,env=prod").await;
    let _other = fleet.join("web-2", "role=web").await;
    let _db = fleet.join("db-1", "role=db").await;
    let manifest = format!(
        "task \"page\" {{\n  drift {{\n    policy = \"alert_only\"\n  }}\n  selector {{\n    match_labels = \
         {{ role = \"web\" }}\n  }}\n  shell \"file\" {{\n    check   = \"test -f {root}/page\"\n    \
         command = \"touch {root}/page\"\n  }}\n}}\n"
    );
    fleet.commit("a page", &manifest).await;
    fleet.settles().await;
    let names = async |arguments: &[&str]| {
        let told = fleet.fluke(&[arguments, &["-q"]].concat()).await;
        assert_eq!(told.code, 0, "{arguments:?}: {told:?}");
        told.stdout.lines().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(names(&["get", "agents"]).await, ["web-1", "web-2", "db-1"], "what is wrong first");
    for (filters, expected) in [
        (&["--status", "drifted"][..], &["web-1", "web-2"][..]),
        (&["--label", "role=web", "--label", "env"][..], &["web-1"][..]),
        (&["--name", "db"][..], &["db-1"][..]),
        (&["--limit", "2"][..], &["web-1", "db-1"][..]),
        (&["--status", "failed"][..], &[][..]),
    ] {
        assert_eq!(names(&[&["get", "agents"], filters].concat()).await, expected, "{filters:?}");
    }
    assert_eq!(names(&["get", "tasks", "--status", "drifted", "--name", "pa"]).await, ["page"]);
    for (filters, says) in [
        (&["--agent", "web-1"][..], "web-1"),
        (&["--task", "page", "--policy", "alert_only", "--limit", "1"][..], "web-1"),
        (&["--policy", "remediate"][..], "nothing of that is drifted"),
    ] {
        let told = fleet.fluke(&[&["get", "drift"], filters].concat()).await;
        assert!(told.stdout.contains(says), "{filters:?}: {told:?}");
        assert!(!told.stdout.contains("web-2"), "{filters:?}: {told:?}");
    }
    let all = fleet.fluke(&["get", "events", "--since", "1h", "-o", "json"]).await;
    let all: serde_json::Value = serde_json::from_str(&all.stdout).expect("JSON");
    assert_eq!(all["events"].as_array().map(Vec::len), Some(fleet.events(&[]).await.len()));
    let none = fleet.fluke(&["events", "--since", "0s"]).await;
    assert!(none.stdout.starts_with("nothing like that has happened"), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_task_is_put_right_on_one_agent() {
    let (fleet, host) = fleet_with_drift("touch ROOT/page").await;
    let name = fleet.agents()[0].name.to_string();
    let told = fleet.fluke(&["reconcile", "task", "page", "--agent", "nobody"]).await;
    assert_eq!(told.code, 1);
    assert!(told.stderr.starts_with("error: there is no agent `nobody`"), "{told:?}");
    let told = fleet.fluke(&["describe", "agent", &name]).await;
    let line = format!("fluke reconcile task page --agent {name}");
    assert!(told.stdout.contains(&line), "the line that puts it right: {told:?}");
    let arguments: Vec<&str> = line.split(' ').skip(1).collect();
    assert_eq!(fleet.fluke(&arguments).await.code, 0);
    assert!(host.has("page"));
    let told = fleet.fluke(&["describe", "agent", &name]).await;
    assert!(told.stdout.starts_with(&format!("{name} is in sync - 1 task, checked")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_asked_for_by_name_and_its_host_says_what_came_of_it() {
    let (fleet, host) = fleet_with_drift("touch ROOT/page").await;
    fleet.commit_service("shop", &["web-1"]).await;
    let told = fleet.fluke(&["reconcile", "service", "shpo"]).await;
    assert_eq!(told.code, 1);
    assert!(told.stderr.starts_with("error: there is no service `shpo`"), "{told:?}");
    assert!(told.stderr.contains("did you mean `shop`?"), "{told:?}");
    let told = fleet.fluke(&["reconcile", "service", "shop", "--agent", "nobody"]).await;
    assert!(told.stderr.starts_with("error: there is no agent `nobody`"), "{told:?}");

    let listed = fleet.fluke(&["get", "services"]).await;
    assert_eq!(listed.code, 0, "{listed:?}");
    for word in ["NAME", "SERVING", "shop", "registry.example/shop:1"] {
        assert!(listed.stdout.contains(word), "{word}: {}", listed.stdout);
    }
    let listed = fleet.fluke(&["get", "services", "-o", "json"]).await;
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(listed["services"][0]["image"], "registry.example/shop:1");

    // This host runs no containers: it is not asked, unless it is named; and so nothing of it runs.
    let told = fleet.fluke(&["reconcile", "service", "shop"]).await;
    assert_eq!(told.code, 1, "{told:?}");
    let why = "no host that runs services matches its selector";
    assert!(told.stdout.contains(why), "{told:?}");
    assert!(told.stdout.ends_with("failed: no connected agent was concerned\n"), "{told:?}");
    let told = fleet.fluke(&["reconcile", "service", "shop", "-o", "json"]).await;
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains(why), "{told:?}");
    let told = fleet.fluke(&["reconcile", "service", "shop", "--agent", "web-1"]).await;
    assert_eq!(told.code, 1, "it is not right: {told:?}");
    let why = "web-1: this agent does not look after services";
    assert!(told.stdout.contains(why), "{told:?}");
    assert!(!host.has("page"), "no task was asked for");
    let events = fleet.fluke(&["get", "events", "--service", "shop", "-o", "json"]).await;
    let events: Value = serde_json::from_str(&events.stdout).expect("JSON");
    let kinds: Vec<&str> = events["events"]
        .as_array()
        .expect("events")
        .iter()
        .filter_map(|event| event["kind"].as_str())
        .collect();
    let (asked, ended) = ("reconcile_requested", "reconcile_finished");
    assert_eq!(kinds, [ended, asked].repeat(3));

    let told = fleet.fluke(&["reconcile", "all"]).await;
    assert_eq!(told.code, 1, "no host is there for the service: {told:?}");
    let why = "shop: no host that runs services matches its selector";
    assert!(told.stdout.contains(why), "{told:?}");
    assert!(host.has("page"), "tasks are put right all the same");
}
