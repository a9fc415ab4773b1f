//! The real program among real remotes: tokens that change, TLS that does not match, Git that
//! hangs, and secrets that stay where they are.

mod names;
mod rotation;
mod secrets;
mod silence;
mod trust;

use super::support::Repository;
use super::support::program::{Program, ServerProgram};

/// A repository with one harmless task for everybody.
fn repository(folder: &std::path::Path) -> Repository {
    let repository = Repository::new(folder.join("repository"));
    repository.commit("a task", &[("a.fluke.hcl", &task("true"))]);
    repository
}

fn task(check: &str) -> String {
    format!(
        "task \"t\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  shell \"s\" {{\n    \
         check   = \"{check}\"\n    command = \"true\"\n  }}\n}}\n"
    )
}

fn git(repository: &Repository) -> String {
    format!("  git {{\n    url = \"{}\"\n  }}\n", repository.path().display())
}

/// An agent with its state in a folder of its own.
fn agent(folder: &std::path::Path, name: &str, url: &str, token: &str, more: &[&str]) -> Program {
    let state = folder.join(format!("state-{name}"));
    let config = folder.join(format!("{name}.hcl"));
    let text = format!(
        "agent {{\n  server_url = \"{url}\"\n  name = \"{name}\"\n  state_dir = \"{}\"\n}}\n",
        state.display()
    );
    std::fs::write(&config, text).expect("a config");
    let config = config.display().to_string();
    let arguments: Vec<&str> = ["agent", "--config", &config].iter().chain(more).copied().collect();
    Program::start(&arguments, &[("FLUKE_TOKEN", token)])
}
