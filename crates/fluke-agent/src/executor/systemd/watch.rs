//! Which units are watched, and by whom; and the task that hears of their changes.
//!
//! The bus delivers signals of the watched units alone, so that a host full of others costs nothing.
//! Whatever may have been missed is looked at again: after a unit is first watched, after the
//! bus or systemd was away, after unit files were read again.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fluke_model::gather::Gather;
use futures_util::{StreamExt, stream};
use tokio::sync::{Notify, watch};
use zbus::{Message, MessageStream};

use super::bus::{Bus, CallError, Link, PROPERTIES, SYSTEMD, Seen, UNIT};
use super::facts::waits_for_restart;
use super::name::{UnitName, object_path};
use crate::executor::LookAgain;

/// Beyond so many units a rule for all of them is cheaper; a bus takes 512 rules of one client.
const MOST_RULES: usize = 300;
/// Pauses between attempts to reach a bus that is away.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// A connection that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(5);
/// So many looks at one unit may follow upon each other at once; then one after each pause.
const BURST: u32 = 20;
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// A unit that systemd had to restart so often within so long is restless.
const RESTLESS_FALLS: usize = 3;
const RESTLESS_WITHIN: Duration = Duration::from_secs(10);

/// The units that somebody watches.
#[derive(Debug, Default)]
pub(super) struct Watch {
    units: Mutex<BTreeMap<UnitName, Watched>>,
    /// Units came or went.
    changed: Notify,
}

#[derive(Debug)]
struct Watched {
    look: watch::Sender<()>,
    unrest: Unrest,
}

impl Default for Watched {
    fn default() -> Self {
        Self { look: watch::channel(()).0, unrest: Unrest::default() }
    }
}

impl Watch {
    /// Tells when a unit is worth another look, until the stream is dropped.
    pub(super) fn of(self: &Arc<Self>, unit: UnitName) -> LookAgain {
        let changes = self.units().entry(unit.clone()).or_default().look.subscribe();
        self.changed.notify_one();
        let watch = self.clone();
        let follower = Follower { unit, changes, pace: Pace::default(), calm: None, watch };
        stream::unfold(follower, |mut follower| async move {
            follower.next().await?;
            Some(((), follower))
        })
        .boxed()
    }

    /// Whether systemd restarts a unit over and over: up for a moment is not up then.
    pub(super) fn is_restless(&self, unit: &UnitName) -> bool {
        self.calm_at(unit).is_some_and(|calm| Instant::now() < calm)
    }

    fn calm_at(&self, unit: &UnitName) -> Option<Instant> {
        self.units().get(unit)?.unrest.calm_at()
    }

    fn units(&self) -> std::sync::MutexGuard<'_, BTreeMap<UnitName, Watched>> {
        // A map of channels is sound whatever happened to the thread that held it.
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The units that are watched now.
    fn wanted(&self) -> Vec<UnitName> {
        let mut units = self.units();
        units.retain(|_, watched| watched.look.receiver_count() > 0);
        units.keys().cloned().collect()
    }

    fn look_at<'a>(&self, names: impl IntoIterator<Item = &'a UnitName>) {
        let units = self.units();
        for watched in names.into_iter().filter_map(|name| units.get(name)) {
            watched.look.send_replace(());
        }
    }

    fn look_at_all(&self) {
        self.units().values().for_each(|watched| watched.look.send_replace(()));
    }

    fn fell<'a>(&self, names: impl IntoIterator<Item = &'a UnitName>, now: Instant) {
        let mut units = self.units();
        for name in names {
            if let Some(watched) = units.get_mut(name) {
                watched.unrest.fell(now);
            }
        }
    }
}

struct Follower {
    unit: UnitName,
    changes: watch::Receiver<()>,
    pace: Pace,
    /// When a unit that was restless at the last look may have come to rest.
    calm: Option<Instant>,
    watch: Arc<Watch>,
}

impl Follower {
    /// Returns when it is time for a look; never again once nobody can tell.
    async fn next(&mut self) -> Option<()> {
        let calm = self.calm.unwrap_or_else(Instant::now).into();
        // Both are cancel-safe.
        tokio::select! {
            changed = self.changes.changed() => changed.ok()?,
            () = tokio::time::sleep_until(calm), if self.calm.is_some() => {}
        }
        tokio::time::sleep(self.pace.next(Instant::now())).await;
        // What came in the meantime is seen by this look.
        self.changes.mark_unchanged();
        self.calm = self.watch.calm_at(&self.unit).filter(|calm| *calm > Instant::now());
        Some(())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.watch.changed.notify_one();
    }
}

/// Keeps a unit that comes and goes all the time from being all that is ever looked at.
#[derive(Debug, Default)]
struct Pace {
    /// When the looks so far would have been over at one per pause.
    spent_until: Option<Instant>,
}

impl Pace {
    /// How long the next look has to wait.
    fn next(&mut self, now: Instant) -> Duration {
        let spent = self.spent_until.map_or(now, |until| until.max(now)) + LOOK_PAUSE;
        self.spent_until = Some(spent);
        spent.saturating_duration_since(now).saturating_sub(LOOK_PAUSE * BURST)
    }
}

/// The last times at which a unit failed and was to be restarted by systemd.
#[derive(Debug, Default)]
struct Unrest {
    falls: VecDeque<Instant>,
}

impl Unrest {
    fn fell(&mut self, now: Instant) {
        self.falls.push_back(now);
        if self.falls.len() > RESTLESS_FALLS {
            self.falls.pop_front();
        }
    }

    /// When it will have been quiet for long enough; none if it has never been restless.
    fn calm_at(&self) -> Option<Instant> {
        let first = self.falls.front().filter(|_| self.falls.len() == RESTLESS_FALLS)?;
        Some(*first + RESTLESS_WITHIN)
    }
}

/// Hears of changes for as long as it runs; reaches for the bus again whenever it went away.
pub(super) async fn run(link: Arc<Link>, watch: Arc<Watch>) {
    let mut pause = PAUSES.0;
    let mut told = false;
    loop {
        while watch.wanted().is_empty() {
            watch.changed.notified().await;
        }
        let began = Instant::now();
        if let Err(error) = serve(&link, &watch).await
            && !std::mem::replace(&mut told, true)
        {
            tracing::warn!(%error, "cannot hear of changes of units; trying again");
        }
        if began.elapsed() >= GOOD {
            (pause, told) = (PAUSES.0, false);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// One connection's time.
async fn serve(link: &Link, watch: &Watch) -> Result<(), CallError> {
    let bus = link.bus().await?;
    let ear = Ear { watch, tracked: Mutex::default(), renew: Notify::new() };
    // Before any rule, so that nothing is delivered to nobody.
    let signals = MessageStream::from(bus.connection());
    for rule in [
        of_manager("UnitFilesChanged"),
        of_manager("Reloading"),
        format!(
            "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',\
             member='NameOwnerChanged',arg0='{SYSTEMD}'"
        ),
    ] {
        bus.match_rule(&rule, true).await?;
    }
    // A connection reads no further than its slowest listener: the ear never waits for anything.
    tokio::select! {
        () = ear.hear(signals) => Ok(()),
        kept = ear.keep(&bus) => kept,
    }
}

/// Whether a name has no owner any more.
fn left(message: &Message) -> bool {
    let body = message.body();
    body.deserialize().is_ok_and(|(_, _, owner): (String, String, String)| owner.is_empty())
}

fn of_manager(member: &str) -> String {
    format!(
        "type='signal',sender='{SYSTEMD}',path='/org/freedesktop/systemd1',\
         interface='org.freedesktop.systemd1.Manager',member='{member}'"
    )
}

fn of_unit(path: Option<&str>) -> String {
    let place = match path {
        Some(path) => format!("path='{path}'"),
        None => "path_namespace='/org/freedesktop/systemd1/unit'".to_owned(),
    };
    format!(
        "type='signal',sender='{SYSTEMD}',{place},interface='{PROPERTIES}',\
         member='PropertiesChanged',arg0='{UNIT}'"
    )
}

/// What one connection knows of the watched units.
struct Ear<'a> {
    watch: &'a Watch,
    /// By object path, which is that of the unit itself where it is watched by other names.
    tracked: Mutex<HashMap<String, Tracked>>,
    /// Names may mean other units now.
    renew: Notify,
}

#[derive(Debug, Default)]
struct Tracked {
    units: BTreeSet<UnitName>,
    seen: Option<Seen>,
}

impl Ear<'_> {
    async fn hear(&self, mut signals: MessageStream) {
        while let Some(Ok(message)) = signals.next().await {
            if message.message_type() == zbus::message::Type::Signal {
                self.heard(&message);
            }
        }
    }

    fn heard(&self, message: &Message) {
        let header = message.header();
        match header.member().map(|member| member.as_str()) {
            Some("PropertiesChanged") => {
                if let Some(path) = header.path() {
                    self.unit_changed(path.as_str(), message);
                }
            }
            // While systemd reads its files, or is being replaced, it answers nobody.
            Some("Reloading") if message.body().deserialize::<bool>() == Ok(true) => {}
            Some("NameOwnerChanged") if left(message) => {}
            Some("Reloading" | "UnitFilesChanged" | "NameOwnerChanged") => {
                self.renew.notify_one();
                self.watch.look_at_all();
            }
            _ => {}
        }
    }

    fn unit_changed(&self, path: &str, message: &Message) {
        let mut tracked = self.tracked();
        let Some(tracked) = tracked.get_mut(path) else { return };
        let Some(seen) = Seen::read(message) else { return };
        // Many signals tell of other properties, and say the rest once more.
        let worth_a_look = seen.is_settled() && tracked.seen.as_ref() != Some(&seen);
        let fell = worth_a_look && waits_for_restart(&seen.sub);
        tracked.seen = Some(seen);
        if fell {
            self.watch.fell(&tracked.units, Instant::now());
        }
        if worth_a_look {
            self.watch.look_at(&tracked.units);
        }
    }

    fn tracked(&self) -> std::sync::MutexGuard<'_, HashMap<String, Tracked>> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the bus's rules as the watched units need them.
    async fn keep(&self, bus: &Bus) -> Result<(), CallError> {
        let mut rules = BTreeSet::new();
        loop {
            self.adjust(bus, &mut rules).await?;
            // Both are cancel-safe: a notification that nobody took is kept.
            tokio::select! {
                () = self.watch.changed.notified() => {}
                () = self.renew.notified() => bus.subscribe().await?,
            }
        }
    }

    async fn adjust(&self, bus: &Bus, rules: &mut BTreeSet<String>) -> Result<(), CallError> {
        let wanted = self.watch.wanted();
        let mut paths: HashMap<String, BTreeSet<UnitName>> = HashMap::new();
        for (name, facts) in wanted.iter().zip(bus.list(&wanted).await?) {
            paths.entry(object_path(&facts.id)).or_default().insert(name.clone());
        }
        let needed: BTreeSet<String> = match paths.len() {
            ..=MOST_RULES => paths.keys().map(|path| of_unit(Some(path))).gather(),
            _ => [of_unit(None)].into(),
        };
        for rule in needed.difference(rules) {
            bus.match_rule(rule, true).await?;
        }
        for rule in rules.difference(&needed) {
            bus.match_rule(rule, false).await?;
        }
        *rules = needed;
        let new = self.track(paths);
        // What happened to them before the bus was told to tell, nobody heard.
        self.watch.look_at(&new);
        Ok(())
    }

    /// Takes over who is where; tells which units were not tracked before.
    fn track(&self, paths: HashMap<String, BTreeSet<UnitName>>) -> Vec<UnitName> {
        let mut tracked = self.tracked();
        let mut before = std::mem::take(&mut *tracked);
        let mut new = Vec::new();
        for (path, units) in paths {
            let known = before.remove(&path).unwrap_or_default();
            new.extend(units.difference(&known.units).cloned());
            tracked.insert(path, Tracked { units, seen: known.seen });
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_unit_that_comes_and_goes_is_looked_at_at_once_at_first_and_then_now_and_then() {
        let start = Instant::now();
        let mut pace = Pace::default();
        let waits: Vec<_> = (0..BURST + 3).map(|_| pace.next(start)).collect();
        assert!(waits[..BURST as usize].iter().all(Duration::is_zero), "{waits:?}");
        assert_eq!(waits[BURST as usize..], [1, 2, 3].map(|n| LOOK_PAUSE * n));
        // A quiet time makes up for it.
        let later = start + LOOK_PAUSE * (2 * BURST);
        assert_eq!(pace.next(later), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_unit_that_systemd_restarts_over_and_over_is_restless_until_it_was_quiet() {
        let watch = Arc::new(Watch::default());
        let unit = UnitName::parse("a.service").expect("a name");
        let mut looks = watch.of(unit.clone());
        let now = Instant::now();
        for falls in 1..=RESTLESS_FALLS {
            assert!(!watch.is_restless(&unit), "{falls}");
            watch.fell([&unit], now);
        }
        assert!(watch.is_restless(&unit));
        watch.look_at([&unit]);
        assert_eq!(looks.next().await, Some(()), "for what it does");
        assert_eq!(looks.next().await, Some(()), "for its quiet");
        let long_ago = now.checked_sub(RESTLESS_WITHIN).expect("a machine that is up for a while");
        (0..RESTLESS_FALLS).for_each(|_| watch.fell([&unit], long_ago));
        assert!(!watch.is_restless(&unit));
    }

    #[tokio::test]
    async fn many_changes_are_one_look() {
        let watch = Arc::new(Watch::default());
        let unit = UnitName::parse("a.service").expect("a name");
        let mut looks = watch.of(unit.clone());
        (0..100).for_each(|_| watch.look_at([&unit]));
        assert_eq!(looks.next().await, Some(()));
        assert_eq!(looks.next().now_or_never(), None);
        watch.look_at_all();
        assert_eq!(looks.next().await, Some(()));
    }

    #[test]
    fn what_nobody_watches_any_more_is_forgotten() {
        let watch = Arc::new(Watch::default());
        let names = ["a.service", "b.service"].map(|name| UnitName::parse(name).expect("a name"));
        let kept = watch.of(names[0].clone());
        let dropped = watch.of(names[1].clone());
        assert_eq!(watch.wanted(), names);
        drop(dropped);
        assert_eq!(watch.wanted(), names[..1]);
        drop(kept);
        assert!(watch.wanted().is_empty());
    }
}
