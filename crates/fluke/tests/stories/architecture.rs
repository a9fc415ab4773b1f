//! The edges between crates are as ARCHITECTURE.md draws them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

fn ours() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names = |package: &Value| -> BTreeSet<String> {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
        normal.filter_map(|dependency| dependency["name"].as_str().map(str::to_string)).collect()
    };
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .map(|package| (package["name"].as_str().unwrap_or("?").to_string(), names(package)))
        .collect()
}

#[test]
fn crates_know_only_whom_they_may_know() {
    let crates = ours();
    let known = |name: &str| -> Vec<&str> {
        crates[name].iter().map(String::as_str).filter(|name| name.starts_with("fluke")).collect()
    };
    assert_eq!(known("fluke-model"), Vec::<&str>::new());
    assert_eq!(known("fluke-manifest"), ["fluke-model"]);
    assert_eq!(known("fluke-wire"), ["fluke-model"]);
    assert_eq!(known("fluke-server"), ["fluke-manifest", "fluke-model", "fluke-wire"]);
    assert_eq!(known("fluke-agent"), ["fluke-model", "fluke-wire"]);
    assert_eq!(known("fluke-bed"), ["fluke-model", "fluke-wire"]);
    assert_eq!(
        known("fluke-bench"),
        ["fluke-bed", "fluke-manifest", "fluke-model", "fluke-server", "fluke-wire"],
        "agents are measured as processes"
    );
    for (name, dependencies) in crates.iter().filter(|(name, _)| *name != "fluke-bench") {
        assert!(!dependencies.contains("fluke-bed"), "{name} ships: the bed is for its tests only");
        assert!(!dependencies.contains("fluke-bench"), "{name} ships: it is what is measured");
        assert!(
            !dependencies.contains("fluke-sim"),
            "{name}: the simulation alone sees both sides"
        );
    }
}

#[test]
fn the_model_and_the_language_are_pure() {
    let crates = ours();
    for pure in ["fluke-model", "fluke-manifest"] {
        for impure in ["tokio", "tonic", "prost", "axum", "reqwest", "nix"] {
            assert!(!crates[pure].contains(impure), "{pure} must not know {impure}");
        }
    }
    // What is measured against has streams of its own, with nothing of ours in them.
    for (name, dependencies) in crates.iter().filter(|(name, _)| *name != "fluke-bench") {
        let protobuf =
            ["prost", "tonic", "tonic-prost"].iter().any(|it| dependencies.contains(*it));
        assert!(
            !protobuf || name == "fluke-wire",
            "only fluke-wire names protobuf types, not {name}"
        );
    }
}

#[test]
fn only_the_host_git_and_the_command_line_start_processes() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for name in
        ["fluke-model", "fluke-manifest", "fluke-wire", "fluke-server", "fluke-agent", "fluke"]
    {
        collect(&crates.join(name).join("src"), &mut sources);
    }
    let may = ["fluke-agent/src/host", "fluke-server/src/git", "fluke/src/program.rs"];
    let starts = |path: &&std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("a source");
        text.contains("process::Command")
    };
    let others: Vec<_> = sources
        .iter()
        .filter(starts)
        .filter(|path| !may.iter().any(|place| path.to_string_lossy().contains(place)))
        .collect();
    assert!(sources.len() > 100 && others.is_empty(), "these start processes, too: {others:?}");
}

/// Every source below `folder`, tests left out.
fn collect(folder: &std::path::Path, into: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        match path.is_dir() {
            _ if name == "tests" || name == "tests.rs" || name == "fixture.rs" => {}
            true => collect(&path, into),
            false => into.push(path),
        }
    }
}
