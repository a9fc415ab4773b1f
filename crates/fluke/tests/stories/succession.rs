//! An agent that becomes another one while it works: a new program, a new config, the same process.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fluke_model::event::EventKind;
use fluke_model::status::StepStatus;

use super::support::{Fleet, TOKEN};

/// An agent that is a process of its own, with a program of its own.
struct Agent {
    folder: PathBuf,
    process: Child,
}

impl Agent {
    /// One that has joined as `web-1`.
    async fn join(fleet: &Fleet) -> Self {
        let folder = PathBuf::from(fleet.root("web-1"));
        std::fs::create_dir_all(folder.join("bin")).expect("a folder");
        let program = folder.join("bin/fluke");
        // By another process: what this one has open for writing, a child of another story may
        // hold for a moment, and a program that is being written cannot be run.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_fluke")).arg(&program).status();
        assert!(copied.expect("cp is there").success());
        let agent = Self::start(fleet, folder, &program);
        fleet.until("the agent is connected", |fleet| fleet.agent("web-1").connected).await;
        agent
    }

    fn start(fleet: &Fleet, folder: PathBuf, program: &Path) -> Self {
        std::fs::write(folder.join("agent.env"), format!("FLUKE_TOKEN={TOKEN}\n")).expect("room");
        std::fs::write(folder.join("agent.hcl"), config(fleet, &folder, "web")).expect("room");
        let log = File::create(folder.join("log")).expect("room");
        let process = Command::new(program)
            .args(["agent", "--config", "agent.hcl", "--env-file", "agent.env"])
            .current_dir(&folder)
            .env_remove("RUST_LOG")
            .env_remove("FLUKE_TOKEN")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the agent starts");
        Self { folder, process }
    }

    fn program(&self) -> PathBuf {
        self.folder.join("bin/fluke")
    }

    /// Another program that does the same.
    fn another(&self) -> PathBuf {
        let path = self.folder.join("another");
        std::fs::copy(self.program(), &path).expect("a copy");
        let mut file = OpenOptions::new().append(true).open(&path).expect("ours");
        file.write_all(b"\n").expect("room");
        path
    }

    /// Which file the process runs.
    fn runs(&self) -> u64 {
        inode(Path::new(&format!("/proc/{}/exe", self.process.id())))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn fluke(&self, arguments: &[&str]) -> Output {
        let state = self.folder.join("state");
        let mut command = Command::new(self.program());
        command.arg("update").args(arguments).arg("--state-dir").arg(state);
        command.current_dir(&self.folder).output().expect("fluke runs")
    }

    fn hang_up(&self) {
        let told = Command::new("kill").args(["-HUP", &self.process.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
    }

    /// Waits until something holds of this agent.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds(self) {
            assert!(Instant::now() < deadline, "waited in vain until {what}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn config(fleet: &Fleet, folder: &Path, role: &str) -> String {
    let (server, state) = (fleet.server().grpc, folder.join("state"));
    format!(
        "agent {{\n  server_url = \"grpc://{server}\"\n  token = \"$FLUKE_TOKEN\"\n  \
         name = \"web-1\"\n  state_dir = \"{}\"\n  labels = {{ role = \"{role}\" }}\n}}\n",
        state.display()
    )
}

fn inode(path: &Path) -> u64 {
    std::fs::metadata(path).map(|metadata| metadata.ino()).unwrap_or_default()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn task(check: &str, command: &str) -> String {
    format!(
        "task \"t\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  shell \"s\" {{\n    \
         check = \"{check}\"\n    command = \"{command}\"\n  }}\n}}\n"
    )
}

/// A task that begins, waits until it may go on, and counts how often it did.
fn long(folder: &Path) -> String {
    let at = folder.display();
    task(
        &format!("test -f {at}/done"),
        &format!(
            "echo x >> {at}/begun; until test -f {at}/go; do sleep 0.05; done; touch {at}/done"
        ),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_updated_in_the_middle_of_an_apply_ends_it_first_and_once() {
    let fleet = Fleet::start().await;
    let agent = Agent::join(&fleet).await;
    fleet.commit("something long", &long(&agent.folder)).await;
    agent.until("the apply is under way", |agent| agent.folder.join("begun").exists()).await;

    let (pid, old) = (agent.process.id(), agent.runs());
    let another = agent.another();
    // Not waiting for the end of the apply, which waits for us.
    let updating = agent.fluke(&["--from", &another.display().to_string(), "--no-reload"]);
    assert!(updating.status.success(), "{}", text(&updating));
    agent.hang_up();
    agent.until("it has seen the program", |agent| agent.log().contains("handing over")).await;
    assert_eq!(agent.runs(), old, "the apply is not over");
    std::fs::write(agent.folder.join("go"), "").expect("room");

    agent.until("it is the new program", |agent| agent.runs() == inode(&agent.program())).await;
    fleet.settles().await;
    assert_eq!(agent.process.id(), pid);
    assert_ne!(agent.runs(), old);
    assert_eq!(fleet.agent("web-1").step("t/shell.s"), StepStatus::InSync);
    assert_eq!(std::fs::read_to_string(agent.folder.join("begun")).expect("there"), "x\n");
    assert_eq!(fleet.applies("web-1").await, 1, "{}", fleet.told().await);
    let ended = fleet.events(&[EventKind::ApplyFinished]).await;
    let outcomes: Vec<_> = ended.iter().filter_map(|event| event.outcome).collect();
    assert_eq!(outcomes.len(), 1);
    assert_eq!(outcomes[0].as_str(), "success", "{}", fleet.told().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_updates_the_agent_that_runs_it() {
    let fleet = Fleet::start().await;
    let agent = Agent::join(&fleet).await;
    let (pid, old) = (agent.process.id(), agent.runs());
    let (another, program, at) = (agent.another(), agent.program(), agent.folder.display());
    let (check, update) = (
        format!("cmp -s {} {}", another.display(), program.display()),
        format!("{} update --from {} --state-dir {at}/state", program.display(), another.display()),
    );
    fleet.commit("a new fluke", &task(&check, &update)).await;
    agent.until("it is a new program", |agent| agent.runs() != old).await;
    fleet.settles().await;
    assert_eq!(agent.runs(), inode(&agent.program()));
    assert_eq!(agent.process.id(), pid);
    assert_eq!(fleet.agent("web-1").step("t/shell.s"), StepStatus::InSync);
    assert_eq!(fleet.applies("web-1").await, 1, "{}", fleet.told().await);
    let ended = fleet.events(&[EventKind::ApplyFinished]).await;
    let output = ended[0].output.clone().unwrap_or_default();
    assert!(output.contains("takes it up when this apply has ended"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_run_changes_nothing_and_the_previous_can_be_put_back() {
    let fleet = Fleet::start().await;
    let agent = Agent::join(&fleet).await;
    let old = agent.runs();
    let broken = agent.folder.join("broken");
    std::fs::write(&broken, "#!/bin/sh\nexit 3\n").expect("room");

    // Neither through the front door…
    let refused = agent.fluke(&["--from", "broken"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(
        text(&refused).contains("does not run here; nothing was changed"),
        "{}",
        text(&refused)
    );
    let another = agent.another();
    let unlike = agent.fluke(&["--from", "another", "--sha256", &"0".repeat(64)]);
    assert_eq!(unlike.status.code(), Some(1), "{}", text(&unlike));
    assert!(text(&unlike).contains("is not what was meant"), "{}", text(&unlike));
    assert_eq!(inode(&agent.program()), old);
    // … nor by hand.
    let aside = agent.folder.join("aside");
    std::fs::rename(agent.program(), &aside).expect("ours");
    std::fs::copy(&broken, agent.program()).expect("room");
    std::fs::set_permissions(agent.program(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("ours");
    agent.hang_up();
    agent.until("it says so", |agent| agent.log().contains("the new program cannot be used")).await;
    assert_eq!(agent.runs(), old);
    assert!(fleet.agent("web-1").connected);
    std::fs::rename(&aside, agent.program()).expect("ours");

    let updated = agent.fluke(&["--from", &another.display().to_string()]);
    assert!(updated.status.success(), "{}", text(&updated));
    assert!(text(&updated).contains("runs it now"), "{}", text(&updated));
    let again = agent.fluke(&["--from", &another.display().to_string()]);
    assert!(text(&again).contains("is that program already"), "{}", text(&again));
    let back = agent.fluke(&["--rollback"]);
    assert!(back.status.success(), "{}", text(&back));
    assert_eq!(agent.runs(), old, "the very file it began with");
    fleet.until("it is back", |fleet| fleet.agent("web-1").connected).await;
    assert_eq!(fleet.applies("web-1").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_puts_a_new_config_and_a_new_token_in_force_without_a_restart() {
    let fleet = Fleet::start().await;
    let agent = Agent::join(&fleet).await;
    let pid = agent.process.id();
    agent.hang_up();
    agent.until("it sees no news", |agent| agent.log().contains("nothing has changed")).await;

    let path = agent.folder.join("agent.hcl");
    std::fs::write(&path, "agent {\n  labels = 7\n}\n").expect("room");
    agent.hang_up();
    agent.until("it says so", |agent| agent.log().contains("the config cannot be used")).await;
    assert!(fleet.agent("web-1").connected);

    std::fs::write(&path, config(&fleet, &agent.folder, "db")).expect("room");
    agent.hang_up();
    fleet.until("the label is new", |fleet| fleet.agent("web-1").labels() == "role=db").await;

    // A token that the server does not know shows that it is the new one.
    std::fs::write(agent.folder.join("agent.env"), "FLUKE_TOKEN=another-one\n").expect("room");
    agent.hang_up();
    agent
        .until("it is turned away", |agent| agent.log().contains("does not take this agent"))
        .await;
    std::fs::write(agent.folder.join("agent.env"), format!("FLUKE_TOKEN={TOKEN}\n")).expect("room");
    agent.hang_up();
    fleet.until("it is back", |fleet| fleet.agent("web-1").connected).await;
    assert_eq!(agent.process.id(), pid);
    assert!(std::fs::metadata(format!("/proc/{pid}")).is_ok(), "the same process");
}
