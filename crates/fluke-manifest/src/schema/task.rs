//! `task "name" { … }`

use std::collections::HashSet;
use std::time::Duration;

use fluke_model::id::{StepAddress, TaskName};
use fluke_model::label::Selector;
use fluke_model::policy::Policy;
use fluke_model::task::{OnFailure, Step};

use super::{EXECUTORS, drift, selector};
use crate::hcl::ast::Block;
use crate::hcl::decode::{Field, Fields, Mistake, Reported};

/// A task block that has nothing wrong with it.
pub struct ReadTask {
    /// The block's label.
    pub name: TaskName,
    /// For people.
    pub description: Option<String>,
    /// The task's own, if it has one.
    pub policy: Option<Policy>,
    /// Which hosts it is for.
    pub selector: Selector,
    /// In declaration order.
    pub steps: Vec<Step>,
}

const FAILURE: &[(&str, OnFailure)] =
    &[("abort", OnFailure::Abort), ("continue", OnFailure::Continue)];

/// Reads a `task` block; what is wrong with it is reported.
pub fn read_task(block: &Block, mut fields: Fields<'_, '_>) -> Result<ReadTask, Reported> {
    let label = &block.labels[0];
    let name = TaskName::new(&label.text);
    let name = name.map_err(|error| fields.report(label.span, error.to_string(), ""));
    let description = fields.optional(Field::string("description"));
    let drift = fields.block("drift");
    let policy = drift.and_then(|block| drift::read(fields.within(block)).ok());
    let selector = fields.required_block("selector");
    let selector = selector.and_then(|block| selector::read(fields.within(block)));
    let kinds: Vec<_> = EXECUTORS.iter().map(|executor| executor.kind).collect();
    let executors = fields.any_of(&kinds, &["name"]);
    let steps = read_steps(&executors, &mut fields);
    fields.finish();
    Ok(ReadTask { name: name?, description, policy, selector: selector?, steps: steps? })
}

fn read_steps<'b>(
    blocks: &[&'b Block],
    fields: &mut Fields<'b, '_>,
) -> Result<Vec<Step>, Reported> {
    let mut seen = HashSet::new();
    let mut steps = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (kind, name) = (&*block.kind.text, &*block.labels[0].text);
        if !seen.insert((kind, name)) {
            let message = format!("step `{kind}.{name}` is declared twice in this task");
            fields.report(block.header(), message, "give one of the two another name");
        }
        steps.push(read_step(block, fields.within(block)));
    }
    steps.into_iter().collect()
}

fn read_step(block: &Block, mut fields: Fields<'_, '_>) -> Result<Step, Reported> {
    let label = &block.labels[0];
    let address = StepAddress::new(&block.kind.text, &label.text);
    let address = address.map_err(|error| fields.report(label.span, error.to_string(), ""));
    let on_failure = fields.or(Field::word("on_failure", FAILURE), OnFailure::default());
    let timeout = fields.optional(Field::duration("timeout").then(some_time));
    let executor = EXECUTORS.iter().find(|executor| executor.kind == &*block.kind.text);
    let spec = match executor {
        Some(executor) => (executor.read)(&mut fields),
        None => Err(fields.report(block.header(), "no executor has this name", "")),
    };
    fields.finish();
    Ok(Step { address: address?, on_failure, timeout, spec: spec? })
}

fn some_time(timeout: Duration) -> Result<Duration, Mistake> {
    match timeout.as_millis() {
        0 => Err(Mistake::value("it must be at least a millisecond").help("for example \"5m\"")),
        _ => Ok(timeout),
    }
}
