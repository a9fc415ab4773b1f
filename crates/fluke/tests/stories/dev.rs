//! `fluke dev`, as the README's first command.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    seen: String,
}

impl Dev {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fluke"))
            .arg("dev")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("fluke runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines, seen: String::new() }
    }

    /// Reads on until a line has all of these words.
    async fn tells(&mut self, words: &[&str]) -> String {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(60), self.lines.next_line()).await;
            let Ok(Ok(Some(line))) = next else {
                panic!("never told {words:?}; told:\n{}", self.seen);
            };
            self.seen.push_str(&line);
            self.seen.push('\n');
            if words.iter().all(|word| line.contains(word)) {
                return line;
            }
        }
    }

    async fn stop(mut self) {
        let process = nix::unistd::Pid::from_raw(self.child.id().expect("running") as i32);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT).expect("a signal");
        let ended = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        assert!(ended.expect("it ends").expect("it ends").success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sample_is_applied_broken_on_purpose_and_repaired() {
    let mut dev = Dev::start(&[]);
    let sample = dev.tells(&["A sample to play with:"]).await;
    let manifests = sample.split(": ").nth(1).expect("a path").to_string();
    assert!(std::path::Path::new(&manifests).join("sample.fluke.hcl").exists());
    dev.tells(&["read", "2 tasks in force"]).await;
    dev.tells(&["applied", "greeting/shell.words"]).await;
    dev.tells(&["break", "on purpose"]).await;
    dev.tells(&["drift", "greeting/shell.words"]).await;
    dev.tells(&["applied", "greeting/shell.words"]).await;
    dev.stop().await;
    assert!(!std::path::Path::new(&manifests).exists(), "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_folder_a_saved_file_shows_its_effect_or_its_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    let manifests = folder.path().join("manifests");
    std::fs::create_dir(&manifests).expect("a folder");
    let manifest = |file: &str, command: &str| {
        let root = root.display();
        format!(
            "task \"t\" {{\n  selector {{\n    match_labels = {{ tier = \"web\" }}\n  }}\n  shell \"s\" {{\n    check   = \"test -f {root}/{file}\"\n    {command} = \"touch {root}/{file}\"\n  }}\n}}\n"
        )
    };
    let file = manifests.join("a.fluke.hcl");
    std::fs::write(&file, manifest("one", "command")).expect("a file");
    let path = manifests.display().to_string();
    let mut dev = Dev::start(&[&path, "--label", "tier=web"]);
    dev.tells(&["applied", "t/shell.s"]).await;
    assert!(root.join("one").exists());
    std::fs::write(&file, manifest("two", "comand")).expect("a file");
    dev.tells(&["refused"]).await;
    dev.tells(&["did you mean `command`?"]).await;
    std::fs::write(&file, manifest("two", "command")).expect("a file");
    dev.tells(&["applied", "t/shell.s"]).await;
    assert!(root.join("two").exists());
    dev.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_are_checked_and_it_is_said_what_would_run_and_that_nothing_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = |name: &str, role: &str, more: &str| {
        format!(
            "service \"{name}\" {{\n  selector {{\n    match_labels = {{ role = \"{role}\" }}\n  }}\n  image = \"registry.example/{name}:1\"\n  {more}\n}}\n"
        )
    };
    let write = |text: &str| {
        std::fs::write(folder.path().join("a.fluke.hcl"), text).expect("a file");
    };
    write(&(service("web", "dev", "replicas = 3") + &service("db", "db", "")));
    let path = folder.path().display().to_string();
    let mut dev = Dev::start(&[&path]);
    let socket = dev.tells(&["export FLUKE_SERVER="]).await;
    let server = socket.split_once('=').expect("a variable").1.to_string();
    dev.tells(&["read", "2 services in force"]).await;
    let db = dev.tells(&["service", "db would run registry.example/db:1, once on each"]).await;
    assert!(db.contains("(none of 1 host here, which has role=dev)"), "{db}");
    let web = dev.tells(&["service", "web would run registry.example/web:1, 3 times"]).await;
    assert!(web.ends_with("(1 of 1 host here); `fluke dev` does not run containers"), "{web}");
    dev.tells(&["in sync"]).await;

    let described = Command::new(env!("CARGO_BIN_EXE_fluke"))
        .args(["--server", &server, "describe", "service", "web"])
        .output()
        .await
        .expect("fluke runs");
    let described = String::from_utf8_lossy(&described.stdout).into_owned();
    assert!(described.contains("do not run containers: dev"), "{described}");

    write(&service("web", "dev", "replicas = \"many\""));
    dev.tells(&["refused"]).await;
    dev.tells(&["replicas"]).await;
    dev.stop().await;
}
