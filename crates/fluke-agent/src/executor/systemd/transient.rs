//! Units that the agent makes itself: without files, gone with a reboot or when they are stopped.

use futures_util::StreamExt;
use zbus::{MessageStream, OwnedObjectPath, Variant};

use super::bus::{Bus, CallError, Link, Seen};
use super::facts::{Active, waits_for_restart};

/// What a unit is made of, in systemd's words.
pub(crate) type Properties = Vec<(&'static str, Variant<'static>)>;

/// A unit that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its name.
    pub(crate) name: String,
    /// How it is.
    pub(crate) life: Life,
}

/// How a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is up.
    Up,
    /// It is not, and systemd will start it.
    Coming,
    /// It is about to end, or has.
    Going,
}

impl Life {
    fn of(active: &str, sub: &str) -> Self {
        match Active::from(active) {
            Active::Up | Active::Reloading => Self::Up,
            Active::Rising => Self::Coming,
            // On its way down to be started again.
            _ if waits_for_restart(sub) => Self::Coming,
            _ => Self::Going,
        }
    }
}

/// Units of this agent, on a connection of their own.
#[derive(Debug, Default)]
pub(crate) struct Transient {
    link: Link,
}

impl Transient {
    /// Those whose names fit a pattern.
    pub(crate) async fn list(&self, pattern: &str) -> Result<Vec<Known>, CallError> {
        let listed = self.link.bus().await?.list_fitting(pattern).await?;
        let known = |(name, active, sub): (String, String, String)| Known {
            life: Life::of(&active, &sub),
            name,
        };
        Ok(listed.into_iter().map(known).collect())
    }

    /// Makes a unit and has it started; returns without waiting for it.
    pub(crate) async fn start(&self, name: &str, of: &Properties) -> Result<(), CallError> {
        let bus = self.link.bus().await?;
        match bus.start_transient(name, of).await {
            // One that is about to end is the same as it was: it is started when it has.
            Err(error) if error.is_presence() => bus.queue_job(name, "StartUnit").await,
            started => started,
        }
    }

    /// Has a unit stopped; returns without waiting for it. One that is not there is fine.
    pub(crate) async fn stop(&self, name: &str) -> Result<(), CallError> {
        match self.link.bus().await?.queue_job(name, "StopUnit").await {
            Err(error) if !error.is_absence() => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends a signal to a unit's main process.
    pub(crate) async fn kill(&self, name: &str, signal: i32) -> Result<(), CallError> {
        self.link.bus().await?.kill(name, signal).await
    }

    /// The number of a unit's main process, if it has one.
    pub(crate) async fn process(&self, name: &str) -> Result<Option<u32>, CallError> {
        let all = self.link.bus().await?.properties(name).await?;
        Ok(all.get("MainPID").and_then(|it| it.parse().ok()).filter(|it| *it != 0))
    }

    /// What happens to a unit from now on.
    pub(crate) async fn follow(&self, name: &str) -> Result<Following, CallError> {
        let bus: Bus = self.link.bus().await?;
        let stream = bus.changes_of(name).await?.into_stream();
        Ok(Following { stream, last: None })
    }
}

/// What happens to one unit.
#[derive(Debug)]
pub(crate) struct Following {
    stream: MessageStream,
    last: Option<Seen>,
}

impl Following {
    /// Returns when it is otherwise than it was: true, or false if nothing more can be heard.
    /// Cancel-safe.
    pub(crate) async fn changed(&mut self) -> bool {
        while let Some(Ok(message)) = self.stream.next().await {
            let Some(seen) = Seen::read(&message) else { continue };
            // Many signals tell of other properties, and say the rest once more.
            let is_news = seen.is_settled() && self.last.as_ref() != Some(&seen);
            self.last = Some(seen);
            if is_news {
                return true;
            }
        }
        false
    }
}

impl Bus {
    async fn list_fitting(
        &self,
        pattern: &str,
    ) -> Result<Vec<(String, String, String)>, CallError> {
        let what = "ask which units there are";
        let any_state: [&str; 0] = [];
        let body = (&any_state[..], &[pattern][..]);
        let answer = self.manager("ListUnitsByPatterns", &body, what).await?;
        let body = answer.body();
        let listed: Vec<super::bus::Listed> =
            body.deserialize().map_err(|error| super::bus::odd(what, error))?;
        Ok(listed.into_iter().map(|it| (it.0, it.3, it.4)).collect())
    }

    async fn start_transient(&self, name: &str, of: &Properties) -> Result<(), CallError> {
        let what = format!("start `{name}`");
        let others: Vec<(&str, Vec<(&str, Variant<'_>)>)> = Vec::new();
        let body = (name, "replace", of, others);
        self.manager("StartTransientUnit", &body, &what).await.map(drop)
    }

    async fn queue_job(&self, name: &str, method: &str) -> Result<(), CallError> {
        let what = format!("{method} `{name}`");
        let answer = self.manager(method, &(name, "replace"), &what).await?;
        let body = answer.body();
        let _job: OwnedObjectPath =
            body.deserialize().map_err(|error| super::bus::odd(&what, error))?;
        Ok(())
    }

    async fn kill(&self, name: &str, signal: i32) -> Result<(), CallError> {
        let what = format!("send a signal to `{name}`");
        self.manager("KillUnit", &(name, "main", signal), &what).await.map(drop)
    }
}
