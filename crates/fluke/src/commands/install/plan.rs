//! What has to be done, from what is wanted and what is there. Pure.

use std::fmt;
use std::path::{Path, PathBuf};

use fluke_agent::services::leaving::{INTERFACE, NETWORK, Places, RULES, Remains};
use fluke_agent::store::Store;
use fluke_model::id::Hash256;
use fluke_model::secret::Secret;

use super::needs::Needs;
use super::places::{FOLDER, PROGRAM, USER, is_packaged};
use super::record::{Made, Record};
use super::texts::{self, Skeleton};
use crate::cli::Part;
use crate::commands::update::swap::previous_of;

#[cfg(test)]
mod tests;

/// What is wanted.
#[derive(Debug)]
pub struct Wish {
    /// Server or agent.
    pub part: Part,
    /// For the first config; none if nothing was said that could be in one.
    pub skeleton: Option<Skeleton>,
    /// For the first variables.
    pub token: Option<Secret>,
    /// Whether to start it now.
    pub start: bool,
}

/// What is there.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The program that this is.
    pub running: PathBuf,
    /// Whether there is a program in the place for it.
    pub has_program: bool,
    /// Whether that is the same as this one.
    pub is_same_program: bool,
    /// Whether the user of the server is there.
    pub has_user: bool,
    /// Whether the folder for configs is there.
    pub has_folder: bool,
    /// Whether the service kept something before.
    pub has_state: bool,
    /// Whether there is a config.
    pub has_config: bool,
    /// Whether there are variables.
    pub has_variables: bool,
    /// The unit's text.
    pub unit: Option<String>,
    /// Whether the unit starts with the host.
    pub is_enabled: bool,
    /// Whether it runs.
    pub is_active: bool,
    /// Whether it runs a program that was replaced.
    pub runs_old_program: bool,
    /// What was installed before.
    pub record: Record,
    /// The same of the other part.
    pub other: Record,
    /// What services have on this host that would outlive its agent, and where.
    pub services: Option<(Remains, Places)>,
    /// What services need of an agent's host.
    pub needs: Needs,
}

/// One thing to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// A folder that everybody may enter.
    MakeFolder(PathBuf),
    /// Remembers what is made from here on.
    Remember(PathBuf, Record),
    /// A user of the system, with its group and this home.
    AddUser(&'static str, PathBuf),
    /// Puts this program there.
    CopyProgram(PathBuf, PathBuf),
    /// Writes a file.
    Write {
        /// Where.
        path: PathBuf,
        /// Who may do what.
        mode: u32,
        /// Whose it is: user and group.
        owner: (&'static str, &'static str),
        /// What is in it.
        content: Content,
    },
    /// Runs `systemctl`.
    Systemctl(Vec<&'static str>),
    /// Removes a file.
    Remove(PathBuf),
    /// Removes a folder with everything in it.
    RemoveTree(PathBuf),
    /// Removes a folder if nothing is in it.
    RemoveEmpty(PathBuf),
    /// Removes a user.
    DeleteUser(String),
    /// Has the agent say, when it ends, that it goes for good: by this mark.
    TakeLeave(PathBuf),
    /// Has these units of Traefik end, and removes what they were told.
    EndProxy(Vec<String>, Places),
    /// Takes this host out of the mesh.
    LeaveMesh,
    /// Removes the network of containers, in which nothing is.
    RemoveNetwork(Places),
}

/// What is written to a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Content {
    /// May be seen.
    Plain(String),
    /// May not.
    Hidden(Secret),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakeFolder(path) => write!(f, "make the folder {}", path.display()),
            Self::Remember(path, _) => write!(f, "remember in {} what is made", path.display()),
            Self::AddUser(name, _) => write!(f, "add the system user {name}"),
            Self::CopyProgram(from, to) => {
                write!(f, "copy {} to {}", from.display(), to.display())
            }
            Self::Write { path, mode, owner, .. } => {
                write!(f, "write {} ({mode:04o} {}:{})", path.display(), owner.0, owner.1)
            }
            Self::Systemctl(arguments) => write!(f, "systemctl {}", arguments.join(" ")),
            Self::Remove(path) | Self::RemoveTree(path) => write!(f, "remove {}", path.display()),
            Self::RemoveEmpty(path) => write!(f, "remove {} if it is empty", path.display()),
            Self::DeleteUser(name) => write!(f, "delete the system user {name}"),
            Self::TakeLeave(_) => write!(f, "have the agent tell its server that it goes for good"),
            Self::EndProxy(units, _) => write!(f, "end Traefik ({})", units.join(", ")),
            Self::LeaveMesh => {
                write!(f, "leave the mesh: remove {INTERFACE} and the nftables table {RULES}")
            }
            Self::RemoveNetwork(_) => write!(f, "remove the network {NETWORK} from Podman"),
        }
    }
}

/// What has to be done, and what is left as it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub actions: Vec<Action>,
    /// For people.
    pub notes: Vec<String>,
}

/// Why nothing can be planned.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Objection {
    /// A first config needs to say something.
    #[error("there is no {} yet, and nothing was said of {what}", config.display())]
    Unsaid {
        /// The config.
        config: PathBuf,
        /// What it must say.
        what: &'static str,
        /// How it is said.
        how: &'static str,
    },
    /// A value that has another meaning in a config.
    #[error(
        "a value has characters that mean something else in a config (`$`, control characters)"
    )]
    Unwritable {
        /// The config.
        config: PathBuf,
    },
}

impl Objection {
    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Unsaid { how, .. } => format!("say it with {how}"),
            Self::Unwritable { config } => {
                format!("write {} yourself, then run this again", config.display())
            }
        }
    }
}

/// What it takes to have a part installed as wished.
pub fn install(wish: &Wish, facts: &Facts) -> Result<Plan, Objection> {
    let mut making = Making { wish, facts, record: facts.record.clone(), plan: Plan::default() };
    making.settings()?;
    let unit_changes = making.unit();
    let program_changes = making.program();
    making.surroundings();
    making.service(unit_changes, program_changes);
    if wish.part == Part::Agent {
        let is_proxy = matches!(wish.skeleton, Some(Skeleton::Agent { is_proxy: true, .. }));
        let is_new = !facts.has_config;
        making.plan.notes.extend(facts.needs.notes(is_proxy && is_new));
    }
    Ok(making.plan)
}

/// A plan that is being made: things are added in front of what needs them.
struct Making<'a> {
    wish: &'a Wish,
    facts: &'a Facts,
    record: Record,
    plan: Plan,
}

impl Making<'_> {
    fn add(&mut self, action: Action) {
        self.plan.actions.push(action);
    }

    fn note(&mut self, note: String) {
        self.plan.notes.push(note);
    }

    /// Config and variables: only where there are none.
    fn settings(&mut self) -> Result<(), Objection> {
        let part = self.wish.part;
        let (config, variables) = (part.config(), part.variables());
        let unsaid = |what, how| Objection::Unsaid { config: config.clone(), what, how };
        let unwritable = || Objection::Unwritable { config: config.clone() };
        if self.facts.has_config {
            self.note(format!("{} is there and stays as it is", config.display()));
        } else {
            let skeleton = self.wish.skeleton.as_ref().ok_or_else(|| match part {
                Part::Server => unsaid("the repository", "--git-url"),
                Part::Agent => unsaid("the server", "--url"),
            })?;
            let text = skeleton.text().ok_or_else(unwritable)?;
            let (mode, owner) = match part {
                Part::Server => (0o640, ("root", USER)),
                Part::Agent => (0o600, ("root", "root")),
            };
            self.write(&config, mode, owner, Content::Plain(text));
        }
        if self.facts.has_variables {
            self.note(format!("{} is there and stays as it is", variables.display()));
        } else if let Some(token) = &self.wish.token {
            let text = texts::variables(token).ok_or_else(unwritable)?;
            // Not the group's: who may use the server's socket need not know its tokens.
            let owner = match part {
                Part::Server => (USER, USER),
                Part::Agent => ("root", "root"),
            };
            self.write(&variables, 0o600, owner, Content::Hidden(text));
        } else if !self.facts.has_config {
            return Err(unsaid("the token", "FLUKE_TOKEN in the environment, or --token"));
        }
        Ok(())
    }

    fn write(
        &mut self,
        path: &Path,
        mode: u32,
        owner: (&'static str, &'static str),
        content: Content,
    ) {
        self.record.add(Made::Settings { path: path.to_path_buf() });
        self.add(Action::Write { path: path.to_path_buf(), mode, owner, content });
    }

    /// Writes the unit, unless it is so already or somebody has made it theirs.
    fn unit(&mut self) -> bool {
        let part = self.wish.part;
        let path = part.unit_file();
        let text = texts::unit(part, &self.program_place());
        let sha256 = Hash256::of(text.as_bytes());
        match &self.facts.unit {
            Some(there) if *there == text => return false,
            Some(there) if self.facts.record.unit(&path) != Some(Hash256::of(there.as_bytes())) => {
                self.note(format!(
                    "{} was changed by somebody and stays as it is; changes are better made with \
                     `systemctl edit {}`",
                    path.display(),
                    part.unit()
                ));
                return false;
            }
            _ => {}
        }
        self.record.add(Made::Unit { path: path.clone(), sha256 });
        let (mode, owner) = (0o644, ("root", "root"));
        self.add(Action::Write { path, mode, owner, content: Content::Plain(text) });
        self.add(Action::Systemctl(vec!["daemon-reload"]));
        true
    }

    /// Where the program is, or will be.
    fn program_place(&self) -> PathBuf {
        match is_packaged(&self.facts.running) {
            true => self.facts.running.clone(),
            false => PROGRAM.into(),
        }
    }

    fn program(&mut self) -> bool {
        let place = self.program_place();
        let made = Made::Program { path: place.clone() };
        if self.facts.other.has(&made) {
            // Whoever goes last takes it along.
            self.record.add(made.clone());
        }
        if self.facts.running == place || self.facts.is_same_program {
            return false;
        }
        if !self.facts.has_program {
            self.record.add(made);
        }
        let copy = Action::CopyProgram(self.facts.running.clone(), place);
        self.plan.actions.insert(0, copy);
        true
    }

    /// What must be there before anything else; and that it is remembered.
    fn surroundings(&mut self) {
        let facts = self.facts;
        let mut first = Vec::new();
        let folder = Made::Folder { path: FOLDER.into() };
        if !facts.has_folder {
            first.push(Action::MakeFolder(FOLDER.into()));
        }
        if !facts.has_folder || facts.other.has(&folder) {
            self.record.add(folder);
        }
        if !facts.has_state {
            self.record.add(Made::State { path: self.wish.part.state() });
        }
        let needs_user = self.wish.part == Part::Server && !facts.has_user;
        if needs_user {
            self.record.add(Made::User { name: USER.into() });
        }
        if self.record != facts.record {
            first.push(Action::Remember(self.wish.part.record(), self.record.clone()));
        }
        if needs_user {
            first.push(Action::AddUser(USER, self.wish.part.state()));
        }
        self.plan.actions.splice(0..0, first);
    }

    /// Started where it does not run, and told where it runs something old.
    fn service(&mut self, unit_changes: bool, program_changes: bool) {
        let unit = self.wish.part.unit();
        if !self.facts.is_enabled {
            self.add(Action::Systemctl(vec!["enable", unit]));
        }
        if !self.wish.start {
            return;
        }
        if !self.facts.is_active {
            self.add(Action::Systemctl(vec!["start", unit]));
        } else if unit_changes || (self.wish.part == Part::Server && self.is_old(program_changes)) {
            self.add(Action::Systemctl(vec!["restart", unit]));
        } else if self.is_old(program_changes) {
            self.add(Action::Systemctl(vec!["reload", unit]));
        }
    }

    fn is_old(&self, program_changes: bool) -> bool {
        program_changes || self.facts.runs_old_program
    }
}

/// What it takes to have a part gone again. Of what was made, and of nothing else.
pub fn uninstall(part: Part, facts: &Facts, purge: bool) -> Plan {
    let Facts { record, other, .. } = facts;
    let mut plan = Plan::default();
    let ends = record.made.iter().any(|made| matches!(made, Made::Unit { .. }));
    let services = facts.services.as_ref().filter(|_| ends || !facts.is_active);
    let mut leaving = services.map(|(remains, places)| leave(remains, places)).unwrap_or_default();
    if record.made.is_empty() {
        return leaving;
    }
    let (mut kept, mut units) = (Record::default(), Vec::new());
    let (mut late, mut user) = (Vec::new(), None);
    for made in record.made.iter().rev() {
        match made {
            Made::Unit { path, .. } => {
                if let Some((_, places)) = facts.services.as_ref().filter(|_| facts.is_active) {
                    units.push(Action::TakeLeave(Store::mark_of_leaving(&places.state_dir)));
                }
                if facts.unit.is_some() || facts.is_active {
                    units.push(Action::Systemctl(vec!["disable", "--now", part.unit()]));
                }
                units.push(Action::Remove(path.clone()));
                units.push(Action::Systemctl(vec!["daemon-reload"]));
            }
            Made::Program { path } if other.has(made) => {
                plan.notes.push(format!(
                    "{} stays for the {}",
                    path.display(),
                    part.other().name()
                ));
            }
            Made::Program { path } => {
                late.push(Action::Remove(path.clone()));
                late.push(Action::Remove(previous_of(path)));
            }
            kept_anyway if !purge => kept.made.insert(0, kept_anyway.clone()),
            Made::Settings { path } => late.push(Action::Remove(path.clone())),
            Made::State { path } => late.push(Action::RemoveTree(path.clone())),
            Made::User { name } => user = facts.has_user.then(|| Action::DeleteUser(name.clone())),
            // Behind the record, which is in it.
            Made::Folder { .. } => {}
        }
    }
    plan.actions.append(&mut units);
    // Nobody puts it back any more.
    plan.actions.append(&mut leaving.actions);
    plan.actions.append(&mut late);
    // Nothing is his any more.
    plan.actions.extend(user);
    if purge {
        plan.actions.push(Action::Remove(part.record()));
        let folders = record.made.iter().filter_map(|made| match made {
            Made::Folder { path } => Some(Action::RemoveEmpty(path.clone())),
            _ => None,
        });
        plan.actions.extend(folders);
    } else {
        if kept != *record {
            plan.actions.push(Action::Remember(part.record(), kept.clone()));
        }
        plan.notes.extend(kept.made.iter().filter_map(stays));
    }
    plan.notes.append(&mut leaving.notes);
    plan
}

/// What has to go of services; what people have to decide about is said.
fn leave(remains: &Remains, places: &Places) -> Plan {
    let Remains { proxies, mesh, empty_network, containers, volumes } = remains;
    let mut plan = Plan::default();
    if !proxies.is_empty() {
        plan.actions.push(Action::EndProxy(proxies.clone(), places.clone()));
    }
    if *mesh {
        plan.actions.push(Action::LeaveMesh);
    }
    if *empty_network {
        plan.actions.push(Action::RemoveNetwork(places.clone()));
    }
    if !containers.is_empty() {
        plan.notes.push(format!(
            "containers of services stay, and nobody starts them again; to remove them and their \
             network: podman rm --force {} && podman network rm {NETWORK}",
            containers.join(" "),
        ));
    }
    if !volumes.is_empty() {
        plan.notes.push(format!(
            "volumes of services stay; to remove them and all that is in them: podman volume rm {}",
            volumes.join(" "),
        ));
    }
    plan
}

fn stays(made: &Made) -> Option<String> {
    match made {
        Made::Settings { path } | Made::State { path } => {
            Some(format!("{} stays; --purge removes it", path.display()))
        }
        Made::User { name } => Some(format!("the user {name} stays; --purge removes it")),
        Made::Program { .. } | Made::Unit { .. } | Made::Folder { .. } => None,
    }
}
