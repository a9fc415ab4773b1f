//! What is promised of containers, which are yet to be built.

use crate::figure::Figure;
use crate::row::{Bench, Row, Trouble, Turn};

pub(super) const CHECKED: Row = Row {
    id: "containers",
    what: "100 satisfied container checks; killed container → running again",
    reach: "≤ 10 ms; ≤ 300 ms + its own start",
    how: "Beside it: one Podman list; Podman's events.",
    turn: Turn::Always,
    measure,
};

pub(super) const IDLE: Row = Row {
    id: "containers-idle",
    what: "idle cost of 20 containers on an agent",
    reach: "≤ 0.5 % of a core, no process",
    how: "Beside it: an agent that polls Podman.",
    turn: Turn::Always,
    measure,
};

fn measure(_: &Bench) -> Result<Vec<Figure>, Trouble> {
    Err(Trouble::NotRun("not built yet: there are no containers in manifests".into()))
}
