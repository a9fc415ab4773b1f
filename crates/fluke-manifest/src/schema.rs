//! What may stand in a manifest: each block's fields, read into the model.

mod drift;
mod mise;
mod selector;
mod service;
mod shell;
mod systemd;
mod task;

pub use service::{ClaimedAt, Entrance, ReadService, read_service};
pub use task::{ReadTask, read_task};

use fluke_model::task::ExecutorSpec;

use crate::hcl::decode::{Fields, Reported};

/// One kind of executor block.
struct Executor {
    kind: &'static str,
    read: fn(&mut Fields<'_, '_>) -> Result<ExecutorSpec, Reported>,
}

/// Every executor there is; adding one is a module and a line here.
const EXECUTORS: &[Executor] = &[
    Executor { kind: "mise", read: mise::read },
    Executor { kind: "systemd", read: systemd::read },
    Executor { kind: "shell", read: shell::read },
];
