//! What systemd says of a unit, as values.

use std::collections::HashMap;

/// One unit, as it was a moment ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The unit's own name, where it was asked for by an alias.
    pub id: String,
    /// Whether systemd could read it.
    pub load: Load,
    /// What it is doing, roughly.
    pub active: Active,
    /// What it is doing, in the words of its kind.
    pub sub: String,
    /// What systemd is about to do with it.
    pub job: Option<Job>,
    /// Whether it starts on boot; none where it has no file.
    pub file: Option<FileState>,
    /// systemd had to restart it again and again in the last seconds.
    pub restless: bool,
    /// Asked for only where something is not as it should be.
    pub details: Option<Details>,
}

/// Whether systemd could read a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Load {
    /// It could.
    Loaded,
    /// There is none.
    NotFound,
    /// Something in its file is wrong.
    Bad,
    /// Somebody forbade its use.
    Masked,
    /// Anything else.
    Other(String),
}

/// What a unit is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Active {
    /// Up.
    Up,
    /// Up, and reading its configuration again.
    Reloading,
    /// Down.
    Down,
    /// Down, and not by anybody's wish.
    Failed,
    /// On its way up.
    Rising,
    /// On its way down.
    Falling,
    /// Anything else.
    Other(String),
}

/// Something that systemd was asked to do with a unit and has not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Names it for as long as it lasts.
    pub id: u32,
    /// `start`, `stop`, `restart`…
    pub kind: String,
}

impl Job {
    /// Whether the unit will be up when it is done.
    pub fn leads_up(&self) -> bool {
        !self.leads_down() && self.kind != "nop"
    }

    /// Whether the unit will be down when it is done.
    pub fn leads_down(&self) -> bool {
        self.kind == "stop"
    }
}

/// What a unit's files say of boots to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// It starts on boot.
    Enabled,
    /// It is enabled until the next boot.
    EnabledRuntime,
    /// It could be enabled, and is not.
    Disabled,
    /// Its file is outside of systemd's directories, with a link to it.
    Linked,
    /// It has no `[Install]` section.
    Static,
    /// Its `[Install]` section is about other units.
    Indirect,
    /// It is another name of a unit.
    Alias,
    /// A generator made it.
    Generated,
    /// It was made at run time.
    Transient,
    /// Its use is forbidden.
    Masked,
    /// Its use is forbidden until the next boot.
    MaskedRuntime,
    /// Its file cannot be read.
    Bad,
    /// Anything else.
    Other(String),
}

/// What helps to explain a unit that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// Of a service.
    pub service_type: String,
    /// Whether a service is up when its process has ended well.
    pub remain_after_exit: bool,
    /// How its last run ended: `success`, `exit-code`, `start-limit-hit`…
    pub result: String,
    /// The exit status of its last run.
    pub status: i32,
    /// How often systemd started it again by itself.
    pub restarts: u32,
    /// Its files changed since systemd read them.
    pub needs_reload: bool,
    /// Why it could not be read.
    pub load_error: String,
    /// It was not started, for a `Condition…=` of its own.
    pub condition_failed: bool,
    /// Whether it can be started at all.
    pub can_start: bool,
    /// Whether it can be stopped at all.
    pub can_stop: bool,
    /// Whether it is only started for others.
    pub refuses_start: bool,
    /// Whether it is only stopped with others.
    pub refuses_stop: bool,
    /// Whether its file has an `[Install]` section, where that was looked at.
    pub installable: Option<bool>,
    /// Its file.
    pub fragment: String,
    /// Names like that of a unit that is not there.
    pub near: Vec<String>,
}

impl From<&str> for Load {
    fn from(word: &str) -> Self {
        match word {
            "loaded" => Self::Loaded,
            "not-found" => Self::NotFound,
            "bad-setting" | "error" => Self::Bad,
            "masked" => Self::Masked,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl From<&str> for Active {
    fn from(word: &str) -> Self {
        match word {
            "active" => Self::Up,
            "reloading" | "refreshing" => Self::Reloading,
            "inactive" => Self::Down,
            "failed" => Self::Failed,
            "activating" => Self::Rising,
            "deactivating" => Self::Falling,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl Active {
    /// Whether nothing more happens by itself: something that changes will be another state soon.
    pub fn is_settled(&self, sub: &str) -> bool {
        match self {
            Self::Rising => waits_for_restart(sub),
            Self::Falling | Self::Reloading => false,
            Self::Up | Self::Down | Self::Failed | Self::Other(_) => true,
        }
    }
}

/// Whether a service failed, and systemd will start it again.
pub fn waits_for_restart(sub: &str) -> bool {
    sub.starts_with("auto-restart")
}

impl FileState {
    /// From systemd's word; none for no word.
    pub fn read(word: &str) -> Option<Self> {
        Some(match word {
            "" => return None,
            "enabled" => Self::Enabled,
            "enabled-runtime" => Self::EnabledRuntime,
            "disabled" => Self::Disabled,
            "linked" | "linked-runtime" => Self::Linked,
            "static" => Self::Static,
            "indirect" => Self::Indirect,
            "alias" => Self::Alias,
            "generated" => Self::Generated,
            "transient" => Self::Transient,
            "masked" => Self::Masked,
            "masked-runtime" => Self::MaskedRuntime,
            "bad" | "invalid" => Self::Bad,
            other => Self::Other(other.to_owned()),
        })
    }
}

impl Details {
    /// From properties as text, in the way `systemctl show` writes them.
    pub fn read(properties: &HashMap<String, String>) -> Self {
        let text = |name: &str| properties.get(name).map_or("", String::as_str);
        let yes = |name: &str| text(name) == "yes";
        Self {
            service_type: text("Type").to_owned(),
            remain_after_exit: yes("RemainAfterExit"),
            result: text("Result").to_owned(),
            status: text("ExecMainStatus").parse().unwrap_or_default(),
            restarts: text("NRestarts").parse().unwrap_or_default(),
            needs_reload: yes("NeedDaemonReload"),
            load_error: text("LoadError").to_owned(),
            // No time: it was never tried.
            condition_failed: text("ConditionResult") == "no"
                && !matches!(text("ConditionTimestampMonotonic"), "" | "0"),
            can_start: text("CanStart") != "no",
            can_stop: text("CanStop") != "no",
            refuses_start: yes("RefuseManualStart"),
            refuses_stop: yes("RefuseManualStop"),
            installable: None,
            fragment: text("FragmentPath").to_owned(),
            near: Vec::new(),
        }
    }
}
