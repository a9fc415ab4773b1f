use clap::{CommandFactory, Parser};

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

fn refusal(line: &str) -> clap::Error {
    parse(line).err().unwrap_or_else(|| panic!("`{line}` is accepted"))
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn everything_that_is_documented_is_accepted() {
    for line in [
        "fluke dev",
        "fluke dev ./infra --label role=web --label env=dev",
        "fluke server --config /etc/fluke/server.hcl",
        "fluke agent --config /etc/fluke/agent.hcl",
        "fluke agent --url grpcs://h:7070 --token t --proxy --logs-endpoint https://l --name n \
         --label k=v --label a=b --state-dir /s --ca-fingerprint aa",
        "fluke get agents -o json",
        "fluke get agents --status in-sync --label role=web --label env --name web --limit 5000",
        "fluke get agents -q",
        "fluke get drift --agent web-01 --task certs --policy alert_only --limit 5",
        "fluke get drift --service web",
        "fluke get tasks --status failed --name cert -q",
        "fluke get events --since 1h30m",
        "fluke get events --service web --limit 5",
        "fluke events -f --service web --agent web-01",
        "fluke events",
        "fluke events -f --agent web-01 --task t --kind drift_detected --since 1h -o json",
        "fluke top",
        "fluke describe source",
        "fluke reconcile task certs --agent web-01",
        "fluke man",
        "fluke man --dir ./man",
        "fluke -o yaml get agents",
        "fluke --server http://h:7071 get drift -w",
        "fluke get events --agent web-01 --task t --kind drift_detected --limit 5",
        "fluke get tasks --colour never",
        "fluke get source --color always",
        "fluke describe agent web-01",
        "fluke describe task certs",
        "fluke reconcile service web",
        "fluke reconcile service web --agent web-01 --no-wait",
        "fluke reconcile all --no-wait",
        "fluke reconcile agent web-01",
        "fluke reconcile --no-wait task certs -o json",
        "fluke validate",
        "fluke validate ./infra -o json --glob **/*.hcl",
        "fluke fmt --check .",
        "fluke fmt -",
        "fluke eval --in ./infra local.x",
        "fluke eval -1",
        "fluke version",
        "fluke completions bash",
    ] {
        assert!(parse(line).is_ok(), "{line}: {}", parse(line).err().expect("an error"));
    }
}

#[test]
fn wrong_usage_is_explained_and_exits_2() {
    for (line, says) in [
        ("fluke get agent", "agents"),
        ("fluke recncile all", "reconcile"),
        ("fluke describe agent", "<NAME>"),
        ("fluke describe agent a%b", "is not allowed in"),
        ("fluke agent", "--config"),
        ("fluke agent --url grpcs://h:7070 --label web", "write it as key=value"),
        ("fluke get events --kind drift_detect", "did you mean `drift_detected`?"),
        ("fluke get events --limit 0", "0 is not in"),
        ("fluke get events --since yesterday", "write it like 90s"),
        ("fluke get agents --status drfted", "did you mean `drifted`?"),
        ("fluke get agents --status well", "there are in_sync, drifted"),
        ("fluke get agents --label role=a%b", "is not allowed in"),
        ("fluke get drift --policy alert", "there are remediate, remediate_and_alert, alert_only"),
        ("fluke server", "--config <FILE>"),
    ] {
        let error = refusal(line);
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(says), "{line}: {error}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (line, says) in [
        ("fluke fmt -o json", "--output"),
        ("fluke completions zsh -o json", "--output"),
        ("fluke reconcile all -w", "--watch"),
        ("fluke version -w", "--watch"),
        ("fluke events -w", "--follow"),
        ("fluke events -f -o yaml", "-o json"),
        ("fluke get agents -q -w", "--names"),
        ("fluke top -o json", "--output"),
    ] {
        let cli = parse(line).expect("clap accepts it");
        let objection = cli.command.objection(&cli.global).expect("an objection");
        assert!(objection.contains(says), "{line}: {objection}");
    }
    let cli = parse("fluke get agents -w -o json").expect("accepted");
    assert_eq!(cli.command.objection(&cli.global), None);
}

#[test]
fn every_command_shows_an_example_in_its_help() {
    fn visit(command: &clap::Command, path: String) {
        if command.get_name() == "help" {
            return;
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Example"), "`{path}` has no example");
        command.get_subcommands().for_each(|sub| visit(sub, format!("{path} {}", sub.get_name())));
    }
    visit(&Cli::command(), "fluke".into());
}
