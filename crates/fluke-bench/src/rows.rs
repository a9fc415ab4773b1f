//! Every row there is, in the order of the table. One file each.

mod change;
mod checks;
mod commit;
mod containers;
mod crowd;
mod crowd_services;
mod drift;
mod events;
mod growth;
mod idle;
pub(crate) mod killed;
mod manifests;
mod mixed;
mod push;
mod reached;
mod restart;
mod restart_services;
mod size;
pub(crate) mod units;

use crate::row::Row;

/// The table.
pub const ALL: &[Row] = &[
    checks::ROW,
    units::ROW,
    containers::CHECKED,
    push::ROW,
    commit::ROW,
    idle::ROW,
    crowd::ROW,
    crowd_services::ROW,
    drift::ROW,
    restart::ROW,
    restart_services::ROW,
    manifests::ROW,
    change::ROW,
    killed::ROW,
    containers::IDLE,
    reached::ROW,
    size::SIZE,
    size::BUILD,
    growth::ROW,
    events::ROW,
    mixed::ROW,
];

/// Those that are asked for by id, or, if none are, those that have their turn anyway.
pub fn chosen<'a>(only: &[String]) -> Result<Vec<&'a Row>, String> {
    if only.is_empty() {
        let always = |row: &&Row| row.turn == crate::row::Turn::Always;
        return Ok(ALL.iter().filter(always).collect());
    }
    let unknown = only.iter().find(|id| !ALL.iter().any(|row| row.id == *id));
    match unknown {
        Some(id) => Err(format!("there is no row `{id}`; `cargo xtask bench --list` names them")),
        None => Ok(ALL.iter().filter(|row| only.iter().any(|id| id == row.id)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_fit_in_a_figure_s_name() {
        for (at, row) in ALL.iter().enumerate() {
            assert!(!row.id.contains('.') && !row.id.is_empty());
            assert!(!ALL[at + 1..].iter().any(|other| other.id == row.id), "{}", row.id);
        }
    }

    #[test]
    fn rows_are_chosen_by_id() {
        let ids = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|id| id.to_string()).collect();
            chosen(&only).map(|rows| rows.iter().map(|row| row.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&["push", "checks"]), Ok(vec!["checks", "push"]));
        assert!(ids(&["nonsense"]).is_err_and(|why| why.contains("`nonsense`")));
        assert!(ids(&[]).is_ok_and(|ids| ids.contains(&"manifests")));
    }
}
