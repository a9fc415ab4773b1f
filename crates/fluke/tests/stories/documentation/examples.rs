//! Examples, run through the program itself.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use super::book::{Block, pages, root};

fn fluke(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fluke"));
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    // Whatever a config refers to is set to something.
    for name in ["TOKEN", "WEB_TOKEN", "API_TOKEN", "WEBHOOK_SECRET"] {
        command.env(format!("FLUKE_{name}"), format!("not-a-secret-for-{name}"));
    }
    command.env("FLUKE_ALERT_WEBHOOK", "https://hooks.example.com/fluke");
    command.env("GIT_PASSWORD", "not-a-secret").env("REDIS_PASSWORD", "not-a-secret");
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("fluke starts")
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Every block with this tag, from all pages; there is at least one.
fn blocks(tag: &str) -> Vec<Block> {
    let all = pages().into_iter().flat_map(|page| page.blocks());
    let tagged: Vec<_> = all.filter(|block| block.tag == tag).collect();
    assert!(!tagged.is_empty(), "no block is tagged `{tag}`");
    tagged
}

/// Validates each block as a file of its own, and gives back how that went.
fn validated(tag: &str, file: &str) -> Vec<(Block, Output)> {
    let folder = tempfile::tempdir().expect("a folder");
    let each = |(at, block): (usize, Block)| {
        let folder = folder.path().join(at.to_string());
        fs::create_dir(&folder).expect("a folder");
        let path = folder.join(file);
        fs::write(&path, &block.text).expect("a file");
        let output = run(&mut fluke(&["validate", path.to_str().expect("a path")]));
        (block, output)
    };
    blocks(tag).into_iter().enumerate().map(each).collect()
}

#[test]
fn manifests_are_accepted() {
    for (block, output) in validated("hcl", "example.fluke.hcl") {
        assert!(output.status.success(), "{}:\n{}", block.place, said(&output));
    }
}

#[test]
fn manifests_with_mistakes_are_rejected() {
    for (block, output) in validated("hcl,broken", "example.fluke.hcl") {
        assert_eq!(output.status.code(), Some(1), "{}:\n{}", block.place, said(&output));
    }
}

#[test]
fn configs_are_accepted() {
    for (block, output) in validated("hcl,config", "example.hcl") {
        assert!(output.status.success(), "{}:\n{}", block.place, said(&output));
    }
}

#[test]
fn fragments_too_are_right_in_their_syntax_and_everything_is_formatted() {
    let tags = ["hcl", "hcl,config", "hcl,fragment", "hcl,broken"];
    for block in tags.into_iter().flat_map(blocks) {
        let output = formatted(&block.text);
        assert!(output.status.success(), "{}:\n{}", block.place, said(&output));
        let canonical = String::from_utf8_lossy(&output.stdout);
        assert_eq!(block.text, canonical, "{} is not formatted", block.place);
    }
}

/// What `fluke fmt -` makes of a text.
fn formatted(text: &str) -> Output {
    let mut child = fluke(&["fmt", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("fluke starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("fluke reads");
    drop(stdin);
    child.wait_with_output().expect("fluke ends")
}

#[test]
fn expressions_have_the_value_that_is_said() {
    let mut wrong = Vec::new();
    for block in blocks("hcl,eval") {
        for line in block.text.lines().filter(|line| !line.trim().is_empty()) {
            let (expression, expected) = line
                .split_once("# => ")
                .unwrap_or_else(|| panic!("{}: `{line}` lacks a `# => value`", block.place));
            let (value, expected_value) = (evaluate(expression.trim()), evaluate(expected.trim()));
            let holds = match expected.trim() {
                "error" => value.is_err(),
                _ => value.is_ok() && value == expected_value,
            };
            if !holds {
                wrong.push(format!("{}: {line}\n    got {value:?}", block.place));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The value as JSON, in the scope of the example that the book uses.
fn evaluate(expression: &str) -> Result<String, String> {
    let scope = root().join("examples/web-tier");
    let output = run(&mut fluke(&["eval", "--in", scope.to_str().expect("a path"), expression]));
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(said(&output)),
    }
}

#[test]
fn example_repositories_and_configs_are_accepted_and_formatted() {
    let examples = root().join("examples");
    let at = |name: &str| examples.join(name).to_str().expect("a path").to_string();
    for name in
        ["baseline", "shop", "toolchains", "web-tier", "config/server.hcl", "config/agent.hcl"]
    {
        let output = run(&mut fluke(&["validate", &at(name)]));
        assert!(output.status.success(), "{name}:\n{}", said(&output));
    }
    let output = run(&mut fluke(&["fmt", "--check", &at("")]));
    assert!(output.status.success(), "{}", said(&output));
}
