//! `shell "name" { … }`

use std::collections::BTreeMap;

use fluke_model::task::{ExecutorSpec, ShellSpec};

use super::service::closed;
use crate::hcl::decode::{Field, Fields, Reported};

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Result<ExecutorSpec, Reported> {
    let check = fields.required(Field::nonempty_string("check"));
    let command = fields.required(Field::nonempty_string("command"));
    let working_dir = fields.optional(Field::nonempty_string("working_dir"));
    let run_as = fields.optional(Field::nonempty_string("run_as"));
    let env = Field::string_map("env").entries(|name| Ok(name.to_string()), closed);
    let env = fields.or(env, BTreeMap::new());
    let (check, command) = (check?, command?);
    Ok(ExecutorSpec::Shell(ShellSpec { check, command, working_dir, run_as, env }))
}
