//! Units that the agent makes itself: without files, gone with a reboot or when they are stopped.

use std::pin::pin;

use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;
use zbus::{Message, OwnedObjectPath, Variant};

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
        Ok(Following::of(bus.changes_of(name).await?.into_stream()))
    }
}

/// What happens to one unit. All of it is taken in at once, by a task: a stream that is full keeps
/// every answer waiting that comes by the same connection.
#[derive(Debug)]
pub(crate) struct Following {
    news: mpsc::Receiver<()>,
}

impl Following {
    fn of(signals: impl Stream<Item = zbus::Result<Message>> + Send + 'static) -> Self {
        let (tell, news) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = tell.closed() => {}
                () = pass_on(signals, &tell) => {}
            }
        });
        Self { news }
    }

    /// Returns when it is otherwise than it was: true, or false if nothing more can be heard.
    /// Cancel-safe.
    pub(crate) async fn changed(&mut self) -> bool {
        self.news.recv().await.is_some()
    }
}

/// Tells of what is news, until nothing more can be heard.
async fn pass_on(signals: impl Stream<Item = zbus::Result<Message>>, tell: &mpsc::Sender<()>) {
    let (mut signals, mut last) = (pin!(signals), None);
    while let Some(Ok(message)) = signals.next().await {
        let Some(seen) = Seen::read(&message) else { continue };
        // Many signals tell of other properties, and say the rest once more.
        let is_news = seen.is_settled() && last.as_ref() != Some(&seen);
        last = Some(seen);
        if is_news {
            // Whoever has not heard of the one before looks at both.
            let _ = tell.try_send(());
        }
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use futures_util::stream;

    use super::super::bus::{PROPERTIES, UNIT};
    use super::*;

    fn signal(active: &str, sub: &str) -> zbus::Result<Message> {
        let changed = HashMap::from([
            ("ActiveState", Variant::from(active)),
            ("SubState", Variant::from(sub)),
        ]);
        let unit = "/org/freedesktop/systemd1/unit/it";
        let none: [&str; 0] = [];
        Message::signal(unit, PROPERTIES, "PropertiesChanged").build(&(UNIT, changed, &none[..]))
    }

    #[tokio::test]
    async fn a_unit_that_falls_again_and_again_keeps_nobody_waiting() {
        let (bus, mut signals) = mpsc::channel(1);
        let mut following = Following::of(stream::poll_fn(move |task| signals.poll_recv(task)));
        for _ in 0..100 {
            for sent in [signal("active", "running"), signal("failed", "failed")] {
                bus.send(sent).await.expect("somebody takes it, though nobody waits for it");
            }
        }
        assert!(following.changed().await);
        bus.send(signal("active", "running")).await.expect("it is heard");
        assert!(following.changed().await);
        drop(bus);
        while following.changed().await {}
    }

    #[tokio::test]
    async fn a_unit_that_nobody_follows_any_more_is_not_listened_to() {
        let (bus, mut signals) = mpsc::channel::<zbus::Result<Message>>(1);
        drop(Following::of(stream::poll_fn(move |task| signals.poll_recv(task))));
        bus.closed().await;
    }
}
