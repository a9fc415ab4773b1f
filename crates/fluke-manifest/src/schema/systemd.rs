//! `systemd "name" { … }`

use fluke_model::task::{ExecutorSpec, SystemdSpec, UnitState};

use crate::hcl::decode::{Field, Fields, Mistake, Reported};

const STATES: &[(&str, UnitState)] =
    &[("running", UnitState::Running), ("stopped", UnitState::Stopped)];

const SUFFIXES: [&str; 11] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "slice",
    "scope",
];

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Result<ExecutorSpec, Reported> {
    let unit = fields.required(Field::string("unit").then(with_suffix));
    let state = fields.or(Field::word("state", STATES), UnitState::default());
    let enabled = fields.or(Field::bool("enabled"), true);
    Ok(ExecutorSpec::Systemd(SystemdSpec { unit: unit?, state, enabled }))
}

fn with_suffix(unit: String) -> Result<String, Mistake> {
    match unit.rsplit_once('.') {
        Some((name, suffix)) if !name.is_empty() && SUFFIXES.contains(&suffix) => Ok(unit),
        _ => Err(Mistake::value(format!("\"{unit}\" is not a unit's full name"))
            .help(format!("write it with its suffix, for example \"{unit}.service\""))),
    }
}
