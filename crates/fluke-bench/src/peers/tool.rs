//! Who the others are, and what each is told on its command line. Pure.

use std::path::Path;

/// Somebody who does the same work.
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// What its definitions end with.
    pub(super) ending: &'static str,
    /// What says its version.
    version: fn(venv: &Path) -> String,
    /// The command line for a definition, with everything of it below a folder.
    line: fn(venv: &Path, root: &str, definition: &str) -> String,
}

pub(super) const PEERS: &[Peer] = &[
    Peer { name: "ansible", ending: "yml", version: ansible_version, line: ansible },
    Peer { name: "salt", ending: "sls", version: salt_version, line: salt },
    Peer { name: "puppet", ending: "pp", version: |_| "puppet --version".into(), line: puppet },
    Peer {
        name: "cfengine",
        ending: "cf",
        version: |_| "cf-agent --version".into(),
        line: cfengine,
    },
];

impl Peer {
    /// The command line that does the work of this name: `checks`.
    pub(super) fn line(&self, venv: &Path, root: &str, work: &str) -> String {
        let definition = format!("{root}/states/{work}.{}", self.ending);
        (self.line)(venv, root, &definition)
    }

    /// The command line that says the version.
    pub(super) fn version(&self, venv: &Path) -> String {
        (self.version)(venv)
    }
}

fn ansible_version(venv: &Path) -> String {
    format!("{}/bin/ansible-playbook --version", venv.display())
}

fn salt_version(venv: &Path) -> String {
    format!("{}/bin/salt-call --version", venv.display())
}

fn ansible(venv: &Path, root: &str, definition: &str) -> String {
    let bin = venv.join("bin");
    let bin = bin.display();
    // Its own Python: it would look for others.
    format!(
        "ANSIBLE_HOME={root}/ansible ANSIBLE_LOCALHOST_WARNING=False {bin}/ansible-playbook \
         --inventory localhost, --extra-vars ansible_python_interpreter={bin}/python3 {definition}"
    )
}

fn salt(venv: &Path, root: &str, definition: &str) -> String {
    let state = Path::new(definition).file_stem().unwrap_or_default().to_string_lossy();
    format!(
        "{}/bin/salt-call --local --retcode-passthrough --out=quiet --config-dir {root} \
         state.apply {state}",
        venv.display()
    )
}

fn puppet(_: &Path, root: &str, definition: &str) -> String {
    let places = ["confdir", "vardir", "codedir", "logdir", "rundir", "publicdir"];
    let places = places.map(|place| format!("--{place} {root}/puppet/{place}"));
    format!("puppet apply {} {definition}", places.join(" "))
}

/// It wants to find folders that are its own, and its parser.
fn cfengine(_: &Path, root: &str, definition: &str) -> String {
    format!("CFENGINE_TEST_OVERRIDE_WORKDIR={root}/cfengine cf-agent --no-lock --file {definition}")
}
