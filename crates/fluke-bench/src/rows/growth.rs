//! What one more costs: instructions for twice as much, beside those for once as much.

use crate::callgrind::instructions;
use crate::figure::{Figure, Target, Unit};
use crate::floor::work::Kind;
use crate::row::{Bench, Row, Trouble, Turn, figures};

pub(super) const ROW: Row = Row {
    id: "growth",
    what: "cost of one more agent, task, step, event",
    reach: "constant: nothing grows faster than linearly",
    how: "Instructions counted by callgrind, which are the same on a busy machine: text to compiled \
          model for twice as many tasks and for twice as many steps of each, snapshots for twice as \
          many hosts, the recording of twice as many events. Beside each: the same once. Twice is \
          linear; a tenth is left for hash tables that grow by leaps.",
    turn: Turn::Always,
    measure,
};

fn measure(bench: &Bench) -> Result<Vec<Figure>, Trouble> {
    let one = |kind: Kind| -> Result<Option<Figure>, Trouble> {
        let nothing = instructions(bench, kind, 0)?;
        let once = instructions(bench, kind, kind.usual())? - nothing;
        let twice = instructions(bench, kind, kind.usual() * 2)? - nothing;
        let figure = Figure::new(kind.name(), Unit::Count, &[twice]);
        Ok(figure.map(|it| it.beside("half as many", &[once]).target(Target::Times(2.2))))
    };
    let all: Result<Vec<_>, _> = Kind::GROWING.iter().map(|kind| one(*kind)).collect();
    figures(all?)
}
