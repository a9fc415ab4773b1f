//! The network that containers are in, and the names that they find.

use std::path::Path;

use super::*;

#[test]
fn a_bridge_or_a_network_that_somebody_removed_is_put_back() {
    tell(async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let address = stage.until_serves(web).await.address.expect("it has one");
        assert!(stage.answers_ping(address));
        ip("link delete fluke-br0");
        stage.look_again();
        stage.until_all_is(async |stage| stage.answers_ping(address)).await;
        stage.until_serves(web).await;
        // Podman makes no network that the host still has a bridge of.
        stage.forget_network();
        ip("link delete fluke-br0");
        stage.look_again();
        stage.until_all_is(async |stage| stage.answers_ping(address)).await;
        assert!(stage.podman.network(bridge::NETWORK).await.expect("asked").is_some());
    });
}

#[test]
fn a_network_that_has_another_gateway_or_none_is_made_anew() {
    tell(async |stage| {
        stage.cli(&["network", "create", "--internal", "--disable-dns", bridge::NETWORK]);
        let web = stage.wants([service("web", spec(RUNS))])[0];
        stage.until_serves(web).await;
        stage.crash();
        stage.cli(&["network", "rm", "--force", bridge::NETWORK]);
        stage.cli(&["network", "create", "--subnet", "fd00:7::/64", bridge::NETWORK]);
        stage.start();
        stage.until_serves(web).await;
        stage.until(|stage| stage.endings("network.fluke").len() == 2).await;
        assert_eq!(stage.endings("network.fluke"), [Outcome::Success; 2]);
    });
}

#[test]
fn a_container_that_lives_in_a_root_of_its_own_making_holds_up_nobody() {
    tell(async |stage| {
        let line = "cd /tmp; mkdir -p bin sys/class/net/eth0; busybox cp /bin/busybox bin; \
                    busybox mkfifo sys/class/net/eth0/iflink; exec busybox chroot . busybox sh -c \
                    'trap \"exit 0\" TERM; while true; do busybox sleep 1; done'";
        let odd = service("odd", spec(line));
        let id = stage.wants([odd.clone()])[0];
        stage.until_serves(id).await;
        let pid = stage.containers().await.remove(0).pid.to_string();
        let fifo = Path::new("/proc").join(pid).join("root/sys/class/net/eth0/iflink");
        stage.until(|_| std::fs::symlink_metadata(&fifo).is_ok_and(|it| !it.is_file())).await;
        let web = stage.wants([odd, service("web", spec(RUNS))])[1];
        stage.until_serves(web).await;
    });
}

#[tokio::test]
async fn addresses_that_podman_would_not_give_are_tried_again_elsewhere_or_after_a_commit() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut lane = asleep(dir.path(), &Allow::default());
    let subnet = lane.subnet();
    let since = fluke_model::time::Timestamp(1);
    lane.unusable.insert(7);
    lane.take_subnet(Claim { subnet, since });
    assert_eq!(lane.unusable, BTreeSet::from([7]), "it is the same subnet");
    let subnet = Subnet::new(subnet.number() % 1000 + 1).expect("in range");
    lane.take_subnet(Claim { subnet, since });
    assert_eq!(lane.unusable, BTreeSet::new());
    lane.unusable.insert(7);
    let snapshot = Arc::new(fluke_model::snapshot::Snapshot::default());
    let commit = fluke_model::id::CommitId::new("c1");
    lane.inbox.hold(Arc::new(crate::state::Held { commit, snapshot }), false);
    lane.hear();
    assert_eq!(lane.unusable, BTreeSet::new());
}

/// Podman 5 says no where it cannot tidy up after what it did.
#[test]
fn containers_end_and_go_also_when_their_network_went_before_them() {
    tell(async |stage| {
        let ids = stage.wants([service("one", spec(RUNS)), service("two", spec(RUNS))]);
        for id in ids {
            stage.until_serves(id).await;
        }
        stage.crash();
        stage.forget_network();
        ip("link delete fluke-br0");
        let [one, two] = stage.containers().await.try_into().expect("two of them");
        stage.podman.stop(&one.id, Duration::ZERO).await.expect("stopped");
        stage.podman.remove(&two.id).await.expect("removed");
        let left = stage.containers().await;
        assert_eq!(left.len(), 1);
        assert_eq!((&left[0].id, &*left[0].state), (&one.id, "exited"));
    });
}

#[test]
fn another_subnet_moves_everything() {
    tell(async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let before = stage.until_serves(web).await.address.expect("it has one");
        let subnet = Subnet::new(stage.subnet().number() % 1000 + 1).expect("in range");
        let claim = Claim { subnet, since: fluke_model::time::Timestamp(1) };
        stage.lane().inbox.grant(claim);
        let moved = stage
            .until_report(web, |report| report.address.is_some_and(|it| subnet.contains(it)))
            .await;
        assert_ne!(moved.address, Some(before));
        assert_eq!(stage.containers().await.len(), 1);
    });
}

#[test]
fn containers_find_each_other_by_name() {
    tell(async |stage| {
        let web = stage.wants([service("web", spec(RUNS))])[0];
        let address = stage.until_serves(web).await.address.expect("it has one");
        let shop = ServiceName::new("shop").expect("a name");
        let names: Names = NameKey::rows(&shop, [address]).collect();
        assert_eq!(stage.lane().inbox.edit(DirectoryEdit::Names(names.whole())), None);
        let hash = names.hash();
        stage
            .until(|stage| {
                stage
                    .network()
                    .is_some_and(|it| it.names.hash == hash && it.names.problem.is_none())
            })
            .await;
        let said = stage.cli(&["exec", "-l", "nslookup", "shop.internal"]);
        assert!(said.contains(&address.to_string()), "{said}");
    });
}
