use fluke_model::api::ReconcileScope;

use super::*;

/// Nobody reads what happened.
struct Nowhere;

impl EventSink for Nowhere {
    fn record(&self, _: Event) {}
}

fn reconciles() -> Reconciles {
    Reconciles::new(Arc::default(), Arc::new(Nowhere), Changes::default())
}

fn of_the_fleet(id: usize, agents: usize, state: ReconcileState) -> Known {
    let name = |number| AgentName::new(format!("web-{number}")).expect("a name");
    Known::new(ReconcileProgress {
        id: id.to_string(),
        scope: ReconcileScope::All,
        name: None,
        agent: None,
        by: "eve".into(),
        done: false,
        failed: false,
        started: Timestamp(0),
        agents: (0..agents).map(|at| ReconcileAgent { state, ..waiting(name(at)) }).collect(),
    })
}

#[test]
fn of_large_fleets_fewer_are_remembered() {
    let reconciles = reconciles();
    reconciles.remember(of_the_fleet(0, 10_000, ReconcileState::Checking));
    for id in 1..=REMEMBERED {
        reconciles.remember(of_the_fleet(id, 10_000, ReconcileState::Done));
    }
    let ids = reconciles.ids();
    let bytes = ids.len() * 10_000 * size_of::<ReconcileAgent>();
    assert!(bytes <= MEMORY, "{} are {bytes} bytes", ids.len());
    assert_eq!(ids[0], "0", "what is under way is not forgotten");
    assert_eq!(ids.last(), Some(&REMEMBERED.to_string()), "nor is what is newest");
}

#[test]
fn of_small_ones_so_many_are_remembered() {
    let reconciles = reconciles();
    (0..2 * REMEMBERED).for_each(|id| {
        reconciles.remember(of_the_fleet(id, 1, ReconcileState::Done));
    });
    assert_eq!(reconciles.ids().len(), REMEMBERED);
}
