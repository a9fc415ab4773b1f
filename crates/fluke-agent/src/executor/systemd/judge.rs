//! What to think of a unit, and what to do about it: pure.
//!
//! A unit that is on its way to where it should be counts as there: systemd is at it, and should it
//! not arrive, the watch tells. One that waits for systemd's own restart does not: it has failed.

use fluke_model::task::{SystemdSpec, UnitState};
use fluke_model::verdict::{Drift, Verdict};

use super::facts::{Active, Details, Facts, FileState, Load, waits_for_restart};
use super::name::kind;

/// Something to do about a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Have systemd read all unit files again.
    Reload,
    /// Make it start on boot.
    Enable,
    /// Make it not start on boot; `runtime`: where it was enabled until the next boot only.
    Disable {
        /// Of what is forgotten at the next boot.
        runtime: bool,
    },
    /// Let a job come to its end.
    Await(u32),
    /// Forget that it failed, and how often it was started.
    ResetFailed,
    /// Start it.
    Start,
    /// Stop it.
    Stop,
}

/// What is to be thought of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// As it should be.
    Satisfied,
    /// Not so, and this would put it right.
    Drifted {
        /// For people.
        reason: String,
        /// In this order.
        plan: Vec<Action>,
    },
    /// It can neither be told nor put right without somebody.
    Error(String),
}

impl From<Judgement> for Verdict {
    fn from(judgement: Judgement) -> Self {
        match judgement {
            Judgement::Satisfied => Self::Satisfied,
            Judgement::Drifted { reason, .. } => Self::Drifted(Drift::because(reason)),
            Judgement::Error(reason) => Self::Error { reason },
        }
    }
}

/// One half of a judgement: what is wrong, and what to do about it.
type Part = Result<Option<(String, Vec<Action>)>, String>;

/// Judges a unit. What is satisfied without details is so with them.
pub fn judge(spec: &SystemdSpec, facts: &Facts) -> Judgement {
    let unknown = Details { can_start: true, can_stop: true, ..Details::default() };
    let case = Case { spec, facts, details: facts.details.as_ref().unwrap_or(&unknown) };
    match case.existence().and_then(|known| match known {
        Some(part) => Ok(vec![part]),
        // Boots first: they are done whatever becomes of a start.
        None => Ok(case.boots()?.into_iter().chain(case.state()?).collect()),
    }) {
        Err(reason) => Judgement::Error(reason),
        Ok(parts) if parts.is_empty() => Judgement::Satisfied,
        Ok(parts) => case.drifted(parts),
    }
}

struct Case<'a> {
    spec: &'a SystemdSpec,
    facts: &'a Facts,
    details: &'a Details,
}

impl Case<'_> {
    fn drifted(&self, parts: Vec<(String, Vec<Action>)>) -> Judgement {
        let (reasons, plans): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let mut plan = plans.concat();
        if self.details.needs_reload && plan.first() != Some(&Action::Reload) {
            // What is started should be what is on the disk.
            plan.insert(0, Action::Reload);
        }
        Judgement::Drifted { reason: format!("`{}` {}", self.spec.unit, reasons.join("; ")), plan }
    }

    /// Whether there is a unit to speak of.
    fn existence(&self) -> Part {
        let unit = &self.spec.unit;
        let reload = |found: &str| Ok(Some((found.to_owned(), vec![Action::Reload])));
        match &self.facts.load {
            Load::NotFound if self.facts.file.is_some() => {
                reload("is on the disk, but systemd has not read it yet")
            }
            Load::NotFound => Err(self.missing()),
            Load::Bad | Load::Other(_) if self.details.needs_reload => {
                reload("was changed on the disk since systemd failed to read it")
            }
            Load::Bad => Err(format!(
                "systemd cannot use `{unit}`: {}; `systemd-analyze verify {unit}` tells more",
                said_or(&self.details.load_error, "its file has a mistake")
            )),
            Load::Other(state) => Err(format!("systemd has not loaded `{unit}`: {state}")),
            Load::Loaded | Load::Masked => Ok(None),
        }
    }

    fn missing(&self) -> String {
        let unit = &self.spec.unit;
        let near: Vec<_> = self.details.near.iter().map(|name| format!("`{name}`")).collect();
        match near.as_slice() {
            [] => format!(
                "there is no unit `{unit}` on this host; install what brings it in an earlier \
                 step, or correct `unit`"
            ),
            near => format!(
                "there is no unit `{unit}` on this host; did you mean {}?",
                near.join(" or ")
            ),
        }
    }

    /// What is wrong with how it will be after the next boot.
    fn boots(&self) -> Part {
        let unit = &self.spec.unit;
        let wanted = self.spec.enabled;
        let enable = |is: &str| Ok(Some((format!("{is}, should be enabled"), self.enabling())));
        let disable = |runtime| {
            let plan = vec![Action::Disable { runtime }, Action::Reload];
            Ok(Some(("is enabled, should not be".to_owned(), plan)))
        };
        let never = |is: &str| {
            Err(format!(
                "`{unit}` {is}, so it cannot be enabled; say `enabled = false`, or give it a unit \
                 file with an [Install] section"
            ))
        };
        let Some(file) = &self.facts.file else {
            // These come with what they stand for, not from files.
            let comes_by_itself = matches!(kind(unit), "device" | "scope" | "slice");
            return if wanted && !comes_by_itself { never("has no unit file") } else { Ok(None) };
        };
        match (file, wanted) {
            (FileState::Enabled, true) => Ok(None),
            (FileState::Enabled, false) => disable(false),
            (FileState::EnabledRuntime, true) => enable("is enabled until the next boot only"),
            (FileState::EnabledRuntime, false) => disable(true),
            (FileState::Disabled, true) => enable("is disabled"),
            (FileState::Linked, true) if self.details.installable == Some(false) => Ok(None),
            (FileState::Linked, true) => enable("is linked, but not enabled"),
            (FileState::Disabled | FileState::Linked, false) => Ok(None),
            // Others start them, or nobody does; there is nothing to switch.
            (FileState::Static | FileState::Indirect | FileState::Alias, _) => Ok(None),
            (FileState::Generated, true) => Ok(None),
            (FileState::Generated, false) => Err(format!(
                "`{unit}` was made by a generator (from /etc/fstab, an init script or the like), so \
                 it cannot be disabled; take it out there, or mask it"
            )),
            (FileState::Transient, true) => never("exists only until it stops"),
            (FileState::Transient, false) => Ok(None),
            (FileState::Masked | FileState::MaskedRuntime, true) => Err(self.masked()),
            (FileState::Masked | FileState::MaskedRuntime, false) => Ok(None),
            (FileState::Bad, _) => Err(format!(
                "systemd cannot read the file of `{unit}`; `systemd-analyze verify {unit}` tells why"
            )),
            (FileState::Other(state), _) => Err(format!(
                "systemd calls `{unit}` `{state}`, and this version of fluke does not know what that \
                 means"
            )),
        }
    }

    fn enabling(&self) -> Vec<Action> {
        vec![Action::Enable, Action::Reload]
    }

    fn masked(&self) -> String {
        let unit = &self.spec.unit;
        let runtime = match self.facts.file {
            Some(FileState::MaskedRuntime) => " --runtime",
            _ => "",
        };
        format!(
            "`{unit}` is masked: somebody forbade its use. If it should be used, run \
             `systemctl unmask{runtime} {unit}`; if not, say `state = \"stopped\"` and \
             `enabled = false`"
        )
    }

    /// What is wrong with what it does now.
    fn state(&self) -> Part {
        match self.spec.state {
            UnitState::Running => self.running(),
            UnitState::Stopped => self.stopped(),
        }
    }

    fn running(&self) -> Part {
        let job = self.facts.job.as_ref();
        let on_its_way = job.is_some_and(|job| job.leads_up());
        let stopping = job.filter(|job| job.leads_down());
        let restarting = waits_for_restart(&self.facts.sub);
        match &self.facts.active {
            _ if stopping.is_some() => {
                // A stop comes to its end; to break into it would be to fight whoever asked for it.
                let plan = stopping.map(|job| Action::Await(job.id)).into_iter();
                let plan = plan.chain([Action::Start]).collect();
                Ok(Some(("is being stopped, should be running".to_owned(), plan)))
            }
            Active::Up | Active::Reloading | Active::Rising if self.facts.restless => {
                let times = match self.details.restarts {
                    0 => String::new(),
                    times => format!(", {times} times so far"),
                };
                let reason = format!(
                    "keeps failing, and systemd keeps restarting it{times}; should be running"
                );
                Ok(Some((reason, vec![Action::Start])))
            }
            Active::Up | Active::Reloading => Ok(None),
            Active::Rising if !restarting => Ok(None),
            _ if on_its_way && !restarting => Ok(None),
            _ => self.start(),
        }
    }

    fn start(&self) -> Part {
        let (unit, details) = (&self.spec.unit, self.details);
        if self.facts.load == Load::Masked {
            return Err(self.masked());
        }
        if details.service_type == "oneshot" && !details.remain_after_exit {
            return Err(format!(
                "`{unit}` does its work and ends ({}), so it cannot stay running; give it \
                 RemainAfterExit=yes, or keep a timer running that starts it, or say \
                 `state = \"stopped\"`",
                self.doing()
            ));
        }
        if !details.can_start {
            return Err(format!(
                "`{unit}` is {}, and a unit of this kind cannot be started: it comes with what it \
                 stands for",
                self.doing()
            ));
        }
        if details.refuses_start {
            return Err(format!(
                "`{unit}` is {}, and its RefuseManualStart=yes says that it is only started for \
                 units that need it; name one of those",
                self.doing()
            ));
        }
        let mut plan = vec![Action::Start];
        if self.facts.active == Active::Failed {
            // Also resets systemd's count of starts: fluke keeps pauses of its own.
            plan.insert(0, Action::ResetFailed);
        }
        Ok(Some((format!("is {}, should be running", self.doing()), plan)))
    }

    fn stopped(&self) -> Part {
        let job = self.facts.job.as_ref();
        let (going_up, going_down) =
            (job.is_some_and(|job| job.leads_up()), job.is_some_and(|job| job.leads_down()));
        match &self.facts.active {
            // On its way down, or as far down as it gets.
            Active::Falling if !going_up => Ok(None),
            _ if going_down => Ok(None),
            Active::Down | Active::Failed if !going_up => Ok(None),
            _ => self.stop(),
        }
    }

    fn stop(&self) -> Part {
        let (unit, details) = (&self.spec.unit, self.details);
        if !details.can_stop || details.refuses_stop {
            return Err(format!(
                "`{unit}` is {}, and cannot be stopped by itself{}",
                self.doing(),
                if details.refuses_stop { " (RefuseManualStop=yes)" } else { "" }
            ));
        }
        let doing = match &self.facts.job {
            Some(job) if job.leads_up() => "being started".to_owned(),
            _ => self.doing(),
        };
        Ok(Some((format!("is {doing}, should be stopped"), vec![Action::Stop])))
    }

    /// What the unit does now, and how it came to that.
    fn doing(&self) -> String {
        describe(&self.facts.active, &self.facts.sub, self.details)
    }
}

/// What a unit does, and how it came to that, for people.
pub fn describe(active: &Active, sub: &str, details: &Details) -> String {
    let state = match active {
        Active::Up => "active",
        Active::Reloading => "reloading",
        Active::Down => "inactive",
        Active::Failed => "failed",
        Active::Rising => "starting",
        Active::Falling => "stopping",
        Active::Other(state) => state,
    };
    let mut notes = Vec::new();
    if waits_for_restart(sub) {
        notes.push("waits for systemd to restart it".to_owned());
    } else if !sub.is_empty() && sub != state {
        notes.push(sub.to_owned());
    }
    match details.result.as_str() {
        "" | "success" => {}
        "exit-code" => notes.push(format!("exit status {}", details.status)),
        result => notes.push(format!("result {result}")),
    }
    if details.restarts > 0 {
        notes.push(format!("restarted {} times by systemd", details.restarts));
    }
    if details.condition_failed {
        notes.push("not started because a Condition of its own is not met".to_owned());
    }
    if notes.is_empty() { state.to_owned() } else { format!("{state} ({})", notes.join(", ")) }
}

fn said_or<'a>(said: &'a str, otherwise: &'a str) -> &'a str {
    if said.is_empty() { otherwise } else { said }
}

#[cfg(test)]
mod tests;
