//! Networks that are cut, one-way, lossy or silent.

use fluke_model::event::EventKind;
use fluke_model::status::Status;

use super::super::support::{Bed, Join, bed, quick};
use super::witness::Witness;

/// A host that is as the first commit says.
fn settled(bed: &Bed) -> Witness {
    bed.server_with(quick());
    let mut web = Witness::joins(bed, "web-1", &Join::default());
    web.commit(bed, "1");
    bed.settles();
    web
}

fn is_missed(bed: &Bed) {
    bed.until("the server misses it", |bed| bed.agent("web-1").status == Status::Offline);
}

#[test]
fn a_host_that_is_frozen_is_missed_and_catches_up_when_it_thaws() {
    let Some(bed) = bed() else { return };
    let mut web = settled(&bed);
    web.host.freeze();
    is_missed(&bed);
    web.commit(&bed, "2");
    web.host.thaw();
    web.ends_well(&bed);
    assert_eq!(web.begun(), 2);
}

/// Nothing gets through in one direction, then in the other: both are silence to somebody.
#[test]
fn a_cut_in_one_direction_is_noticed_on_both_sides_and_heals() {
    let Some(bed) = bed() else { return };
    let mut web = settled(&bed);
    bed.mute(&web.host, bed.gateway());
    is_missed(&bed);
    web.host.until("journalctl -u fluke-agent | grep -q 'lost the server'");
    web.commit(&bed, "2");
    bed.heal();
    web.ends_well(&bed);

    bed.mute(bed.gateway(), &web.host);
    is_missed(&bed);
    web.commit(&bed, "3");
    bed.heal();
    web.ends_well(&bed);
    assert_eq!(web.begun(), 3, "each version once");
    let refused = bed.all_events().iter().filter(|it| it.kind == EventKind::AgentRefused).count();
    assert_eq!(refused, 0, "it was itself all along");
}

#[test]
fn a_lossy_network_slows_the_loop_and_does_not_stop_it() {
    let Some(bed) = bed() else { return };
    let mut web = Witness::joins(&bed, "web-1", &Join::default());
    bed.lossy(&web.host, 20);
    web.commit(&bed, "1");
    web.ends_well(&bed);
    assert_eq!(web.begun(), 1);
}
