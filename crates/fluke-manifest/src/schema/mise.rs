//! `mise "name" { … }`

use fluke_model::task::{ExecutorSpec, GitCheckout, MiseSpec};

use crate::hcl::decode::{Field, Fields};

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Option<ExecutorSpec> {
    let working_dir = fields.required(Field::nonempty_string("working_dir"));
    let check_task = fields.or(Field::nonempty_string("check_task"), "check".into());
    let apply_task = fields.or(Field::nonempty_string("apply_task"), "apply".into());
    let git = match fields.block("git") {
        Some(block) => Some(read_git(fields.within(block))?),
        None => None,
    };
    Some(ExecutorSpec::Mise(MiseSpec { working_dir: working_dir?, check_task, apply_task, git }))
}

fn read_git(mut fields: Fields<'_, '_>) -> Option<GitCheckout> {
    let url = fields.required(Field::nonempty_string("url"));
    let branch = fields.or(Field::nonempty_string("branch"), "main".into());
    fields.finish();
    Some(GitCheckout { url: url?, branch })
}
