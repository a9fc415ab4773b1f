//! Puts a unit right: carries out what was planned, and looks at what came of it.

use std::time::Duration;

use fluke_model::task::SystemdSpec;
use fluke_model::verdict::Output;
use tokio::time::timeout;

use super::bus::Bus;
use super::facts::{Active, Details, Facts};
use super::judge::{Action, Judgement, describe};
use super::name::UnitName;
use super::{BOUNDED_ABOVE, Systemd, Way};
use crate::host::process::Leftovers;
use crate::state::processing::Applied;

/// How long a service that is up as soon as it is started must stay up to be believed.
const PROBATION: Duration = Duration::from_millis(300);
/// One plan may uncover the next: read again, then enable, then start.
const ROUNDS: usize = 4;
/// How much of a unit's journal is shown when it fails, and how long that may take to get.
const JOURNAL_LINES: &str = "20";
const JOURNAL: Duration = Duration::from_secs(5);

/// Why a unit could not be put right.
struct Failure {
    text: String,
    /// Whether the unit's own words may help.
    of_the_unit: bool,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, of_the_unit: false }
    }
}

/// How an action ended.
enum Done {
    Well,
    /// Worth another plan.
    LookAgain,
}

impl Systemd {
    pub(super) async fn put_right(&self, spec: &SystemdSpec) -> Applied {
        let mut log = Vec::new();
        match self.rounds(spec, &mut log).await {
            Ok(()) => Applied::Done(Output::from_text(log.join("\n"))),
            Err(failure) => {
                log.push(failure.text);
                if failure.of_the_unit {
                    // What went wrong stands last, where people and summaries look.
                    log.splice(0..0, self.journal(&spec.unit).await);
                }
                Applied::Failed(Output::from_text(log.join("\n")))
            }
        }
    }

    async fn rounds(&self, spec: &SystemdSpec, log: &mut Vec<String>) -> Result<(), Failure> {
        let name = UnitName::parse(&spec.unit)?;
        let mut reason = String::new();
        for round in 0..ROUNDS {
            let mut facts = self.observe_one(&name).await?;
            // What was before this start says nothing of it.
            facts.restless &= round == 0;
            let (judgement, facts) = self.judge(spec, &name, facts).await;
            let plan = match judgement {
                Judgement::Satisfied => return Ok(()),
                Judgement::Error(reason) => return Err(reason.into()),
                Judgement::Drifted { reason: why, plan } => {
                    reason = why;
                    plan
                }
            };
            let mut failure = None;
            for action in plan {
                match self.carry_out(&action, &name, &facts, log).await {
                    Ok(Done::Well) => {}
                    Ok(Done::LookAgain) => break,
                    // A unit that cannot be enabled should run all the same.
                    Err(failed) if !failed.of_the_unit => failure = failure.or(Some(failed)),
                    Err(failed) => return Err(failed),
                }
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        Err(Failure { text: format!("{reason}, after all was tried"), of_the_unit: true })
    }

    async fn observe_one(&self, name: &UnitName) -> Result<Facts, String> {
        let facts = self.observe(std::slice::from_ref(name)).await?.pop();
        facts.ok_or_else(|| format!("systemd said nothing of `{name}`"))
    }

    async fn carry_out(
        &self,
        action: &Action,
        name: &UnitName,
        facts: &Facts,
        log: &mut Vec<String>,
    ) -> Result<Done, Failure> {
        // An alias is good for asking, not for enabling.
        let unit = facts.id.as_str();
        let bus = match self.way().await? {
            Way::Bus(bus) => bus,
            Way::Systemctl(systemctl) => {
                let args: &[&str] = match action {
                    Action::Reload => &["daemon-reload"],
                    Action::Enable => &["enable", "--", unit],
                    Action::Disable { runtime: false } => &["disable", "--", unit],
                    Action::Disable { runtime: true } => &["disable", "--runtime", "--", unit],
                    Action::ResetFailed => &["reset-failed", "--", unit],
                    Action::Await(_) => return Ok(Done::Well),
                    Action::Start => &["start", "--", unit],
                    Action::Stop => &["stop", "--", unit],
                };
                let acted = systemctl.act(args, BOUNDED_ABOVE).await;
                let of_the_unit = matches!(action, Action::Start | Action::Stop);
                acted.map_err(|text| Failure { text, of_the_unit })?;
                log.push(format!("systemctl {}", args.join(" ")));
                return Ok(Done::Well);
            }
        };
        let told = |error: super::CallError| Failure::from(error.to_string());
        match action {
            Action::Reload => bus.reload().await.map_err(told)?,
            Action::Enable => {
                if !bus.enable(unit).await.map_err(told)? {
                    return Err(format!(
                        "`{unit}` has no [Install] section, so it cannot be enabled; give it one, or \
                         say `enabled = false`"
                    )
                    .into());
                }
                log.push(format!("enabled `{unit}`"));
            }
            Action::Disable { runtime } => {
                bus.disable(unit, *runtime).await.map_err(told)?;
                log.push(format!("disabled `{unit}`"));
            }
            Action::ResetFailed => bus.reset_failed(unit).await.map_err(told)?,
            Action::Await(job) => bus.await_job(unit, *job).await.map_err(told)?,
            Action::Start => return self.start(&bus, name, facts, log).await,
            Action::Stop => {
                let result = bus.run_job(unit, "StopUnit").await.map_err(told)?;
                if result != "done" {
                    let text = format!("`{unit}` did not stop: {}", in_words(&result));
                    return Err(Failure { text, of_the_unit: true });
                }
                log.push(format!("stopped `{unit}`"));
            }
        }
        Ok(Done::Well)
    }

    async fn start(
        &self,
        bus: &Bus,
        name: &UnitName,
        facts: &Facts,
        log: &mut Vec<String>,
    ) -> Result<Done, Failure> {
        let unit = facts.id.as_str();
        let told = |error: super::CallError| Failure::from(error.to_string());
        // A listener that nobody reads holds up the connection: a unit that says much while it
        // starts must not have one.
        let mut changes = match is_up_when_forked(facts) {
            true => Some(bus.changes_of(unit).await.map_err(told)?),
            false => None,
        };
        let result = bus.run_job(unit, "StartUnit").await.map_err(told)?;
        if let Some(changes) = changes.as_mut().filter(|_| result == "done") {
            // Falls within that time or does not: how it is then, is asked in a moment.
            let _ = timeout(PROBATION, changes.until_fallen()).await;
        }
        drop(changes);
        let after = self.observe_one(name).await?;
        if result == "done"
            && !matches!(after.active, Active::Down | Active::Failed | Active::Rising)
        {
            log.push(format!("started `{unit}`"));
            return Ok(Done::Well);
        }
        let details = self.details(name, &after).await?;
        match details.result.as_str() {
            // Not its own doing, or systemd's patience rather than ours: once more.
            "start-limit-hit" => return Ok(Done::LookAgain),
            "signal" if result == "done" => return Ok(Done::LookAgain),
            _ => {}
        }
        Err(Failure { text: self.why_not(unit, &result, &after, &details), of_the_unit: true })
    }

    fn why_not(&self, unit: &str, result: &str, after: &Facts, details: &Details) -> String {
        let now = describe(&after.active, &after.sub, details);
        match result {
            "done" | "skipped" if details.condition_failed => format!(
                "systemd did not start `{unit}`: a Condition of its own is not met (`systemctl status \
                 {unit}` names it)"
            ),
            "done" => format!("`{unit}` was started and did not stay up: it is {now}"),
            _ => format!("`{unit}` did not start: {}; it is {now}", in_words(result)),
        }
    }

    /// The last words of a unit, where they can be had.
    async fn journal(&self, unit: &str) -> Vec<String> {
        let more = ["/usr/bin".into(), "/bin".into()];
        let Some(program) = self.host.find_program("journalctl", &more) else { return Vec::new() };
        let args = ["--no-pager", "--quiet", "--output=short-iso", "-n", JOURNAL_LINES, "-u", unit];
        let command = self.host.command(program, "/").args(args);
        match self.host.run(command, JOURNAL, Leftovers::Kill).await {
            Ok(ran) if !ran.output.tail.is_empty() => {
                vec![ran.output.text().trim_end().to_owned()]
            }
            _ => Vec::new(),
        }
    }
}

/// Whether systemd calls such a service up as soon as there is a process, whatever becomes of it.
fn is_up_when_forked(facts: &Facts) -> bool {
    let kind = facts.details.as_ref().map_or("", |details| details.service_type.as_str());
    matches!(kind, "simple" | "exec" | "idle")
}

/// What systemd's word for the end of a job means.
fn in_words(result: &str) -> String {
    match result {
        "failed" => "it failed".to_owned(),
        "timeout" => "it took longer than its own timeout allows".to_owned(),
        "dependency" => {
            "a unit that it needs did not start (`systemctl list-dependencies` shows which)"
                .to_owned()
        }
        "canceled" => "somebody cancelled it, or asked for something else".to_owned(),
        "skipped" => "systemd skipped it".to_owned(),
        "assert" => "an Assert of its own is not met".to_owned(),
        "unsupported" => "this host does not support units of its kind".to_owned(),
        "collected" => "systemd has forgotten the unit in the meantime".to_owned(),
        "once" => "it is started only once in a boot, and has been".to_owned(),
        other => format!("systemd says `{other}`"),
    }
}
