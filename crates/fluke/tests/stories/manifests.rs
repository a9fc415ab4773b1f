//! `validate`, `fmt`, `eval`, and what `server` and `agent` say of a bad config.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const TASK: &str = "locals {\n  role = \"web\"\n  ports = [80, 443]\n}\n
task \"motd\" {
  selector {
    match_labels = { role = local.role }
  }
  shell \"motd\" {
    check = \"test -f /etc/motd\"
    command = \"touch /etc/motd\"
  }
}
";

fn fluke(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fluke"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env_remove("FLUKE_TOKEN");
    command.output().expect("fluke runs")
}

fn told(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

#[test]
fn good_manifests_are_said_to_be_good() {
    let folder = folder(&[("motd.fluke.hcl", TASK)]);
    let (out, err, code) = told(&fluke(folder.path(), &["validate"]));
    assert_eq!((out.as_str(), err.as_str(), code), ("1 file, 1 task: all good\n", "", Some(0)));
}

#[test]
fn bad_manifests_are_shown_with_their_lines_and_exit_1() {
    let folder = folder(&[("motd.fluke.hcl", &TASK.replace("command =", "comand ="))]);
    let (out, err, code) = told(&fluke(folder.path(), &["validate"]));
    assert_eq!((out.as_str(), code), ("", Some(1)));
    assert!(
        err.contains("comand") && err.contains("motd.fluke.hcl:12:5") && err.contains('^'),
        "{err}"
    );
    assert!(err.ends_with("in 1 of 1 file\n"), "{err}");

    let (out, err, code) = told(&fluke(folder.path(), &["validate", "-o", "json"]));
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(
        (&json["valid"], &json["files"], code, err.as_str()),
        (&false.into(), &1.into(), Some(1), "")
    );
    assert_eq!(json["diagnostics"][0]["file"], "motd.fluke.hcl");
}

#[test]
fn services_are_validated_and_counted_beside_tasks() {
    let service = |name: &str, replicas: &str| {
        format!(
            "service \"{name}\" {{\n  image    = \"shop:1\"\n  replicas = {replicas}\n  selector {{\n    \
             match_labels = {{}}\n  }}\n}}\n"
        )
    };
    let (shop, mail) = (service("shop", "2"), service("mail", "1"));
    let services = ("services.fluke.hcl", &*format!("{shop}{mail}"));
    let good = folder(&[("motd.fluke.hcl", TASK), services]);
    let (out, err, code) = told(&fluke(good.path(), &["validate"]));
    let all = "2 files, 1 task, 2 services: all good\n";
    assert_eq!((out.as_str(), err.as_str(), code), (all, "", Some(0)));

    let services = ("services.fluke.hcl", &*format!("{shop}{}", service("shop", "-1")));
    let bad = folder(&[("motd.fluke.hcl", TASK), services]);
    let (out, err, code) = told(&fluke(bad.path(), &["validate"]));
    assert_eq!((out.as_str(), code), ("", Some(1)));
    assert!(err.contains("`replicas`: -1 is not"), "{err}");
    assert!(err.contains("services.fluke.hcl:10:14"), "{err}");
    assert!(err.ends_with("in 1 of 2 files\n"), "{err}");
}

#[test]
fn formatting_is_checked_done_and_then_done_with() {
    let folder = folder(&[("motd.fluke.hcl", TASK), ("broken.fluke.hcl", "a = {\n")]);
    let (out, err, code) = told(&fluke(folder.path(), &["fmt", "--check"]));
    assert!(
        out.starts_with("motd.fluke.hcl\n    2 -   role = \"web\"\n      +   role  = \"web\"\n"),
        "{out}"
    );
    assert!(err.contains("broken.fluke.hcl") && err.contains("1 file not formatted"), "{err}");
    assert_eq!(code, Some(1));

    fs::remove_file(folder.path().join("broken.fluke.hcl")).expect("removed");
    let (out, err, code) = told(&fluke(folder.path(), &["fmt"]));
    assert_eq!((out.as_str(), err.as_str(), code), ("motd.fluke.hcl\n", "", Some(0)));
    let (out, err, code) = told(&fluke(folder.path(), &["fmt", "--check", "."]));
    assert_eq!((out.as_str(), err.as_str(), code), ("", "", Some(0)));
}

#[test]
fn expressions_see_locals_and_functions() {
    let folder = folder(&[("motd.fluke.hcl", TASK)]);
    for (arguments, value) in [
        (&["eval", "local"][..], "{\"ports\":[80,443],\"role\":\"web\"}\n"),
        (&["eval", "upper(local.role)"][..], "\"WEB\"\n"),
        (&["eval", "-o", "yaml", "local.ports"][..], "- 80\n- 443\n"),
        (&["eval", "123456789012345678901234567890 + 1"][..], "123456789012345678901234567891\n"),
    ] {
        let (out, err, code) = told(&fluke(folder.path(), arguments));
        assert_eq!((out.as_str(), code), (value, Some(0)), "{arguments:?}: {err}");
    }
    let (out, err, code) = told(&fluke(folder.path(), &["eval", "local.rol"]));
    assert_eq!((out.as_str(), code), ("", Some(1)));
    assert!(err.contains("role"), "{err}");
}

#[test]
fn a_bad_config_stops_server_and_agent_with_its_mistakes() {
    let server = "server {\n  agent_tokens = [\"$FLUKE_TOKEN\"]\n  git {\n    url = \"/srv/infra.git\"\n  }\n}\n";
    let folder = folder(&[("server.hcl", server), ("agent.hcl", "agent {\n  nme = \"x\"\n}\n")]);
    for (arguments, says) in [
        (&["server", "--config", "server.hcl"][..], "`FLUKE_TOKEN` is not set"),
        (&["agent", "--config", "agent.hcl"][..], "did you mean `name`?"),
        (&["agent", "--url", "grpcs://localhost"][..], "give --token"),
        (&["server", "--config", "none.hcl"][..], "could not read the config none.hcl"),
        (&["validate", "server.hcl"][..], "server.hcl:2:19"),
    ] {
        let (out, err, code) = told(&fluke(folder.path(), arguments));
        assert_eq!((out.as_str(), code), ("", Some(1)), "{arguments:?}");
        assert!(err.contains(says), "{arguments:?}: {err}");
    }
    for arguments in [
        &["agent", "--url", "nonsense", "--token", "x"][..],
        &["get", "agents", "--server", "nonsense"][..],
        &["get", "events", "--limit", "0"][..],
        &["agent"][..],
    ] {
        let (_, err, code) = told(&fluke(folder.path(), arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
    }
}
