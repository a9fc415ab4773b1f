//! `shell "name" { … }`

use fluke_model::task::{ExecutorSpec, ShellSpec};

use super::service::closed;
use crate::hcl::decode::{Field, Fields};

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Option<ExecutorSpec> {
    let check = fields.required(Field::nonempty_string("check"));
    let command = fields.required(Field::nonempty_string("command"));
    let working_dir = fields.optional(Field::nonempty_string("working_dir"));
    let run_as = fields.optional(Field::nonempty_string("run_as"));
    let env = fields.optional(Field::string_map("env").then(closed)).unwrap_or_default();
    let (check, command) = (check?, command?);
    Some(ExecutorSpec::Shell(ShellSpec { check, command, working_dir, run_as, env }))
}
