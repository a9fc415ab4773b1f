//! A disk that was copied with what its host had claimed.

use std::collections::BTreeSet;

use super::support::{STATE, address, answer, has_image, runs_one, service, told};
use crate::hosts::support::{Bed, Host, bed};

/// Where a host's only container is; nothing while there is none.
fn place(host: &Host) -> String {
    let format = "'{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'";
    host.try_run(&format!("podman inspect --format {format} $(podman ps --quiet)")).stdout
}

/// The subnet that an address is of.
fn network(address: &str) -> Option<String> {
    Some(address.rsplit_once('.')?.0.to_owned())
}

#[test]
fn a_host_with_the_claim_and_the_key_of_another_gets_a_subnet_and_is_reached_once_it_has_a_key() {
    let Some(bed) = bed() else { return };
    let hosts = bed.hosts(["app-2", "app-1", "app-3"]);
    hosts.iter().for_each(|host| has_image(host, "1"));
    let [one, two, three] = hosts;
    let one = one.joins("role=app");
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    let first = runs_one(&bed, &one, "web");
    let at = address(&one, &first);
    bed.settles();

    for name in ["claim.json", "mesh.key"] {
        let path = format!("{STATE}/services/{name}");
        two.write(&path, &one.read(&path));
        two.run(&format!("chmod 600 {path}"));
    }
    let (two, three) = (two.joins("role=app"), three.joins("role=app"));
    runs_one(&bed, &three, "web");
    let each = || [&one, &two, &three].map(place);
    let all_differ = |_: &Bed| {
        let networks: BTreeSet<_> = each().into_iter().filter_map(|at| network(&at)).collect();
        networks.len() == 3
    };
    bed.until("each has a subnet of its own", all_differ);
    assert_eq!(address(&one, &first), at, "the first keeps its own");
    let reaches = |from: &Host, at: &str| answer(from, &format!("http://{at}:3000")) == "1";
    bed.until("the first is reached", |_| reaches(&three, &at));
    let complaint = "app-1 has the key of app-2: was one a copy of the other?";
    bed.until("the copy is named", |bed| told(bed, "agents/app-3").contains(complaint));
    assert!(!reaches(&three, &each()[1]), "nothing leads to the copy");

    two.run(&format!("rm {STATE}/services/mesh.key && systemctl restart fluke-agent"));
    bed.until("everybody reaches everybody", |_| {
        [&one, &two, &three].into_iter().all(|from| each().iter().all(|at| reaches(from, at)))
    });
    bed.settles();
    assert!(all_differ(&bed) && address(&one, &first) == at);
    assert!(!told(&bed, "agents/app-3").contains(complaint));
}
