//! Servers, agents and hosts that end in the middle of something.

use super::super::support::{Bed, Join, applied, bed, keeps, quick};
use super::witness::Witness;

fn witness(bed: &Bed) -> Witness {
    bed.server_with(quick());
    Witness::joins(bed, "web-1", &Join::default())
}

#[test]
fn a_server_that_is_killed_comes_back_to_its_agents_and_changes_nothing() {
    let Some(bed) = bed() else { return };
    let [web, db] = bed.hosts(["web-1", "db-1"]);
    let hosts = [web.joins("role=web"), db.joins("role=db")];
    bed.commit("a.fluke.hcl", &keeps("file", "remediate"));
    bed.settles();
    bed.server().kill();
    hosts[1].run("rm /srv/file");
    bed.server().start();
    bed.settles();
    assert_eq!(applied(&hosts[0], "file"), 1, "nothing had drifted there");
    assert_eq!(applied(&hosts[1], "file"), 2, "what had drifted was put right, once");
}

/// A power cut in the middle of an apply, then an orderly reboot in the middle of another.
#[test]
fn a_host_that_goes_down_in_the_middle_of_an_apply_is_put_right_when_it_is_back() {
    let Some(bed) = bed() else { return };
    let mut web = witness(&bed);
    web.host.run("touch /srv/hold.apply");
    web.commit(&bed, "1");
    web.host.until("test -e /srv/at.apply");
    web.host.kill();
    web.host.start();
    web.host.run("rm -f /srv/hold.apply /srv/at.apply");
    web.ends_well(&bed);
    assert_eq!(web.begun(), 2, "begun, interrupted, and done");

    web.host.run("touch /srv/hold.apply");
    web.commit(&bed, "2");
    web.host.until("test -e /srv/at.apply");
    web.host.run("rm /srv/hold.apply; echo 'sleep 1' > /srv/then");
    web.host.reboot();
    web.host.run("rm -f /srv/then");
    web.ends_well(&bed);
}

/// As an apply does that installs a new version of the agent.
#[test]
fn an_apply_that_restarts_or_stops_the_agent_comes_to_its_end() {
    let Some(bed) = bed() else { return };
    let mut web = witness(&bed);
    let then = "rm /srv/then; systemctl --no-block VERB fluke-agent; sleep 1";
    web.host.write("/srv/then", &then.replace("VERB", "restart"));
    web.commit(&bed, "1");
    web.ends_well(&bed);
    assert_eq!(web.begun(), 1, "an apply that is under way may come to its end");

    web.host.write("/srv/then", &then.replace("VERB", "stop"));
    web.commit(&bed, "2");
    web.host.until("! systemctl is-active --quiet fluke-agent");
    web.host.run("systemctl start fluke-agent");
    web.ends_well(&bed);
    assert_eq!(web.begun(), 2);
}
