//! `mise "name" { … }`

use fluke_model::task::{ExecutorSpec, GitCheckout, MiseSpec};

use crate::hcl::decode::{Field, Fields, Reported};

pub(super) fn read(fields: &mut Fields<'_, '_>) -> Result<ExecutorSpec, Reported> {
    let working_dir = fields.required(Field::nonempty_string("working_dir"));
    let check_task = fields.or(Field::nonempty_string("check_task"), "check".into());
    let apply_task = fields.or(Field::nonempty_string("apply_task"), "apply".into());
    let git = fields.block("git").map(|block| read_git(fields.within(block))).transpose()?;
    Ok(ExecutorSpec::Mise(MiseSpec { working_dir: working_dir?, check_task, apply_task, git }))
}

fn read_git(mut fields: Fields<'_, '_>) -> Result<GitCheckout, Reported> {
    let url = fields.required(Field::nonempty_string("url"));
    let branch = fields.or(Field::nonempty_string("branch"), "main".into());
    fields.finish();
    Ok(GitCheckout { url: url?, branch })
}
