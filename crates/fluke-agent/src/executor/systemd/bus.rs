//! systemd's manager over D-Bus: the few calls that are needed, on one connection.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::Mutex;
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::{Connection, MatchRule, Message, MessageStream, OwnedObjectPath, OwnedVariant};

use super::facts::{Active, Facts, FileState, Job, Load};
use super::name::{UnitName, object_path};

/// The name of systemd on the bus, and of what it has there.
pub(super) const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER_PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
pub(super) const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
pub(super) const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const DBUS: &str = "org.freedesktop.DBus";

/// How long a bus may take to let us in.
const CONNECT: Duration = Duration::from_secs(5);

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// Not for this user.
    #[error(
        "the agent may not {what}: {said}; run the agent as root, or let polkit allow it to its user"
    )]
    Denied { what: String, said: String },
    /// systemd said no.
    #[error("systemd did not {what}: {said}")]
    Refused { what: String, said: String, name: String },
    /// The connection went away in the middle.
    #[error("lost the connection to systemd while trying to {what}: {said}")]
    Gone { what: String, said: String },
    /// What came back makes no sense.
    #[error("could not make sense of systemd's answer when trying to {what}: {said}")]
    Odd { what: String, said: String },
}

impl CallError {
    fn new(what: &str, error: zbus::Error) -> Self {
        let what = what.to_owned();
        match error {
            zbus::Error::MethodError(name, said, _) => {
                let said = said.unwrap_or_else(|| name.to_string());
                Self::Refused { what, said, name: name.to_string() }
            }
            zbus::Error::FDO(error) => match *error {
                zbus::fdo::Error::AccessDenied(said)
                | zbus::fdo::Error::AuthFailed(said)
                | zbus::fdo::Error::InteractiveAuthorizationRequired(said) => {
                    Self::Denied { what, said }
                }
                zbus::fdo::Error::FileNotFound(said) => {
                    Self::Refused { what, said, name: NO_SUCH_FILE.to_owned() }
                }
                // systemd itself is away for a moment: it is being replaced.
                zbus::fdo::Error::NoReply(said)
                | zbus::fdo::Error::Disconnected(said)
                | zbus::fdo::Error::ServiceUnknown(said)
                | zbus::fdo::Error::NameHasNoOwner(said) => Self::Gone { what, said },
                other => {
                    let said = other.to_string();
                    Self::Refused { what, said, name: String::new() }
                }
            },
            zbus::Error::InputOutput(error) => Self::Gone { what, said: error.to_string() },
            other => Self::Odd { what, said: other.to_string() },
        }
    }

    /// Whether another connection may do better.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// Whether there is such a thing already.
    pub(super) fn is_presence(&self) -> bool {
        let exists = "org.freedesktop.systemd1.UnitExists";
        matches!(self, Self::Refused { name, .. } if name == exists)
    }

    /// Whether there is no such thing.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            Self::Refused { name, .. } => {
                name == NO_SUCH_FILE || name == "org.freedesktop.systemd1.NoSuchUnit"
            }
            _ => false,
        }
    }
}

const NO_SUCH_FILE: &str = "org.freedesktop.DBus.Error.FileNotFound";

/// One unit in the answer of `ListUnitsByNames`.
pub(super) type Listed =
    (String, String, String, String, String, String, OwnedObjectPath, u32, String, OwnedObjectPath);

/// The one connection, made when it is needed and made again when it went away.
#[derive(Debug, Default)]
pub(super) struct Link {
    live: Mutex<Option<Bus>>,
}

impl Link {
    /// The connection that there is, or a new one.
    pub(super) async fn bus(&self) -> Result<Bus, CallError> {
        let mut live = self.live.lock().await;
        if let Some(bus) = &*live
            && !bus.connection.is_closed()
        {
            return Ok(bus.clone());
        }
        *live = None;
        let bus = Bus::connect().await?;
        Ok(live.insert(bus).clone())
    }
}

/// A connection to the system bus, with systemd at its other end.
#[derive(Debug, Clone)]
pub(super) struct Bus {
    connection: Connection,
    /// Where systemd looks for unit files.
    pub(super) directories: Arc<[PathBuf]>,
}

impl Bus {
    async fn connect() -> Result<Self, CallError> {
        let what = "connect to the system's D-Bus";
        let gone = |said: String| CallError::Gone { what: what.to_owned(), said };
        let connection = timeout(CONNECT, Builder::system().build()).await;
        let connection = connection
            .map_err(|_| gone(format!("no answer within {} s", CONNECT.as_secs())))?
            .map_err(|error| gone(error.to_string()))?;
        let mut bus = Self { connection, directories: Arc::default() };
        bus.directories = bus.unit_directories().await?.into();
        bus.subscribe().await?;
        Ok(bus)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Asks systemd to tell of changes; without it, signals are sent to nobody.
    pub(super) async fn subscribe(&self) -> Result<(), CallError> {
        match self.manager("Subscribe", &(), "subscribe to changes of units").await {
            Err(CallError::Refused { name, .. }) if name.ends_with(".AlreadySubscribed") => Ok(()),
            other => other.map(drop),
        }
    }

    pub(super) async fn manager<B: serde::Serialize + zbus::Type>(
        &self,
        method: &str,
        body: &B,
        what: &str,
    ) -> Result<Message, CallError> {
        let call =
            self.connection.call_method(Some(SYSTEMD), MANAGER_PATH, Some(MANAGER), method, body);
        call.await.map_err(|error| CallError::new(what, error))
    }

    async fn unit_directories(&self) -> Result<Vec<PathBuf>, CallError> {
        let what = "ask for the directories of unit files";
        let answer = self
            .connection
            .call_method(
                Some(SYSTEMD),
                MANAGER_PATH,
                Some(PROPERTIES),
                "Get",
                &(MANAGER, "UnitPath"),
            )
            .await
            .map_err(|error| CallError::new(what, error))?;
        let body = answer.body();
        let value: OwnedVariant = body.deserialize().map_err(|error| odd(what, error))?;
        let paths: Vec<String> = value.try_into().map_err(|error| odd(what, error))?;
        Ok(paths.into_iter().map(PathBuf::from).collect())
    }

    /// What units do, in one call for all; nothing yet of their files.
    pub(super) async fn list(&self, names: &[UnitName]) -> Result<Vec<Facts>, CallError> {
        let what = "ask how units are";
        let wanted: Vec<&str> = names.iter().map(UnitName::as_str).collect();
        let answer = self.manager("ListUnitsByNames", &wanted, what).await?;
        let body = answer.body();
        let listed: Vec<Listed> = body.deserialize().map_err(|error| odd(what, error))?;
        if listed.len() != names.len() {
            let said = format!("{} units of {}", listed.len(), names.len());
            return Err(CallError::Odd { what: what.to_owned(), said });
        }
        Ok(listed.into_iter().map(facts).collect())
    }

    /// What the unit's files say now; none if it has none. systemd reads them for every call.
    pub(super) async fn file_state(&self, unit: &str) -> Result<Option<FileState>, CallError> {
        let what = format!("ask whether `{unit}` is enabled");
        match self.manager("GetUnitFileState", &unit, &what).await {
            Ok(answer) => {
                let body = answer.body();
                let word: &str = body.deserialize().map_err(|error| odd(&what, error))?;
                Ok(FileState::read(word))
            }
            Err(error) if error.is_absence() => Ok(None),
            Err(CallError::Refused { .. }) => Ok(Some(FileState::Bad)),
            Err(error) => Err(error),
        }
    }

    /// Everything that systemd knows of a unit, as text.
    pub(super) async fn properties(
        &self,
        unit: &str,
    ) -> Result<HashMap<String, String>, CallError> {
        let what = format!("ask for the properties of `{unit}`");
        let mut all = HashMap::new();
        for interface in [UNIT, SERVICE] {
            if interface == SERVICE && !unit.ends_with(".service") {
                continue;
            }
            let call = self.connection.call_method(
                Some(SYSTEMD),
                object_path(unit),
                Some(PROPERTIES),
                "GetAll",
                &interface,
            );
            let answer = call.await.map_err(|error| CallError::new(&what, error))?;
            let body = answer.body();
            let found: HashMap<String, OwnedVariant> =
                body.deserialize().map_err(|error| odd(&what, error))?;
            all.extend(found.iter().filter_map(|(name, value)| Some((name.clone(), text(value)?))));
        }
        Ok(all)
    }

    /// Has systemd read all unit files again.
    pub(super) async fn reload(&self) -> Result<(), CallError> {
        self.manager("Reload", &(), "read unit files again").await.map(drop)
    }

    /// Makes a unit start on boot; false if its file does not say how.
    pub(super) async fn enable(&self, unit: &str) -> Result<bool, CallError> {
        let what = format!("enable `{unit}`");
        // Not at run time only, and not over what somebody else has put there.
        let answer = self.manager("EnableUnitFiles", &(vec![unit], false, false), &what).await?;
        let body = answer.body();
        let (installable, _): (bool, Vec<(String, String, String)>) =
            body.deserialize().map_err(|error| odd(&what, error))?;
        Ok(installable)
    }

    /// Makes a unit not start on boot.
    pub(super) async fn disable(&self, unit: &str, runtime: bool) -> Result<(), CallError> {
        let what = format!("disable `{unit}`");
        self.manager("DisableUnitFiles", &(vec![unit], runtime), &what).await.map(drop)
    }

    /// Forgets that a unit failed.
    pub(super) async fn reset_failed(&self, unit: &str) -> Result<(), CallError> {
        let what = format!("forget that `{unit}` failed");
        self.manager("ResetFailedUnit", &unit, &what).await.map(drop)
    }

    /// Starts or stops a unit, and tells how that ended in systemd's word: `done`, `failed`…
    pub(super) async fn run_job(&self, unit: &str, method: &str) -> Result<String, CallError> {
        let what = if method == "StopUnit" { "stop" } else { "start" };
        let what = format!("{what} `{unit}`");
        // Listening first: some jobs are over before their call returns.
        let mut ends = self.job_ends(unit, &what).await?;
        let answer = self.manager(method, &(unit, "replace"), &what).await?;
        let body = answer.body();
        let job: OwnedObjectPath = body.deserialize().map_err(|error| odd(&what, error))?;
        ends.result_of(|_, path| path == job.as_str(), &what).await
    }

    /// Waits for somebody else's job.
    pub(super) async fn await_job(&self, unit: &str, id: u32) -> Result<(), CallError> {
        let what = format!("wait for what is being done with `{unit}`");
        let mut ends = self.job_ends(unit, &what).await?;
        let path = format!("/org/freedesktop/systemd1/job/{id}");
        let asked = self.connection.call_method(
            Some(SYSTEMD),
            path.as_str(),
            Some(PROPERTIES),
            "Get",
            &("org.freedesktop.systemd1.Job", "State"),
        );
        if asked.await.is_err() {
            // It was over before anybody listened.
            return Ok(());
        }
        ends.result_of(|job, _| job == id, &what).await.map(drop)
    }

    async fn job_ends(&self, unit: &str, what: &str) -> Result<JobEnds, CallError> {
        let rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .sender(SYSTEMD)
            .path(MANAGER_PATH)
            .interface(MANAGER)
            .member("JobRemoved")
            .arg(2, unit)
            .build()
            .map_err(|error| CallError::new(what, error))?;
        let ends = MessageStream::for_match_rule(rule, &self.connection, None).await;
        Ok(JobEnds(ends.map_err(|error| CallError::new(what, error))?))
    }

    /// The changes of one unit's state from now on.
    pub(super) async fn changes_of(&self, unit: &str) -> Result<Changes, CallError> {
        let what = format!("follow `{unit}`");
        let rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .sender(SYSTEMD)
            .path(object_path(unit))
            .interface(PROPERTIES)
            .member("PropertiesChanged")
            .arg(0, UNIT)
            .build()
            .map_err(|error| CallError::new(&what, error))?;
        let stream = MessageStream::for_match_rule(rule, &self.connection, None).await;
        Ok(Changes(stream.map_err(|error| CallError::new(&what, error))?))
    }

    /// Has the bus deliver, or no longer deliver, what a rule matches.
    pub(super) async fn match_rule(&self, rule: &str, wanted: bool) -> Result<(), CallError> {
        let (method, what) = match wanted {
            true => ("AddMatch", "ask the bus for signals"),
            false => ("RemoveMatch", "ask the bus for no more signals"),
        };
        let call = self.connection.call_method(
            Some(DBUS),
            "/org/freedesktop/DBus",
            Some(DBUS),
            method,
            &rule,
        );
        call.await.map(drop).map_err(|error| CallError::new(what, error))
    }
}

/// The ends of the jobs of one unit.
struct JobEnds(MessageStream);

impl JobEnds {
    async fn result_of(
        &mut self,
        is_it: impl Fn(u32, &str) -> bool,
        what: &str,
    ) -> Result<String, CallError> {
        while let Some(Ok(message)) = self.0.next().await {
            let body = message.body();
            let end: (u32, OwnedObjectPath, String, String) =
                body.deserialize().map_err(|error| odd(what, error))?;
            if is_it(end.0, end.1.as_str()) {
                return Ok(end.3);
            }
        }
        let said = "the bus closed the connection".to_owned();
        Err(CallError::Gone { what: what.to_owned(), said })
    }
}

/// The changes of one unit's state.
pub(super) struct Changes(MessageStream);

impl Changes {
    pub(super) fn into_stream(self) -> MessageStream {
        self.0
    }

    /// Returns when the unit was up and is so no more, or nothing can be told.
    pub(super) async fn until_fallen(&mut self) {
        let mut was_up = false;
        while let Some(Ok(message)) = self.0.next().await {
            match Seen::read(&message).map(|seen| Active::from(seen.active.as_str())) {
                Some(Active::Up | Active::Reloading) => was_up = true,
                // What was said before its start counts for nothing.
                Some(_) if was_up => return,
                _ => {}
            }
        }
    }
}

/// What a `PropertiesChanged` says of a unit's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) active: String,
    pub(super) sub: String,
    /// Zero: none.
    pub(super) job: u32,
}

impl Seen {
    pub(super) fn read(message: &Message) -> Option<Self> {
        let body = message.body();
        let (interface, mut changed, _): (String, HashMap<String, OwnedVariant>, Vec<String>) =
            body.deserialize().ok()?;
        if interface != UNIT {
            return None;
        }
        let active = String::try_from(changed.remove("ActiveState")?).ok()?;
        let sub = String::try_from(changed.remove("SubState")?).ok()?;
        let job =
            changed.remove("Job").and_then(|job| <(u32, OwnedObjectPath)>::try_from(job).ok());
        Some(Self { active, sub, job: job.map_or(0, |(id, _)| id) })
    }

    /// Whether it is worth a look: what only passes by is followed by something else.
    pub(super) fn is_settled(&self) -> bool {
        self.job == 0 && Active::from(self.active.as_str()).is_settled(&self.sub)
    }
}

fn facts(listed: Listed) -> Facts {
    let (id, _, load, active, sub, _, _, job, kind, _) = listed;
    Facts {
        id,
        load: Load::from(load.as_str()),
        active: Active::from(active.as_str()),
        sub,
        job: (job != 0).then_some(Job { id: job, kind }),
        file: None,
        restless: false,
        details: None,
    }
}

/// Simple values in the way that `systemctl show` writes them.
fn text(value: &OwnedVariant) -> Option<String> {
    use zbus::Variant;
    Some(match &**value {
        Variant::Str(text) => text.to_string(),
        Variant::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Variant::U32(number) => number.to_string(),
        Variant::I32(number) => number.to_string(),
        Variant::U64(number) => number.to_string(),
        // An error: its name and what it says, both empty where there is none.
        Variant::Structure(pair) => match pair.fields() {
            [Variant::Str(_), Variant::Str(said)] => said.to_string(),
            _ => return None,
        },
        _ => return None,
    })
}

pub(super) fn odd(what: &str, error: impl std::fmt::Display) -> CallError {
    CallError::Odd { what: what.to_owned(), said: error.to_string() }
}
