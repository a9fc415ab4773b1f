//! Hosts of services whose server is away, or knows nothing new of Git, go on as they are.

use super::support::{
    HTTP, address, answer, asks, containers, has_image, lives, resolved, running, runs_one,
    service, shop, started, three_hosts, upstreams,
};
use crate::hosts::support::{Bed, Host, bed, keeps, quick};

/// Kills a container of a service and waits until it runs again.
fn is_killed_and_runs_again(bed: &Bed, host: &Host, service: &str) {
    let container = &runs_one(bed, host, service);
    let since = started(host, container);
    // It may complain: the container runs again before Podman is done with its end.
    host.try_run(&format!("podman kill {container}"));
    bed.until("it runs again", |_| started(host, container) != since);
    assert_eq!(runs_one(bed, host, service), *container);
}

#[test]
fn hosts_without_a_server_keep_containers_names_mesh_and_routes() {
    let Some(bed) = bed() else { return };
    let (edge, apps) = three_hosts(&bed);
    bed.commit("web.fluke.hcl", &service("web", "1", HTTP));
    let found = apps.each_ref().map(|app| runs_one(&bed, app, "web"));
    let at = [0, 1].map(|it| address(&apps[it], &found[it]));
    let url = at.each_ref().map(|at| format!("http://{at}:3000"));
    let mut all = at.to_vec();
    all.sort();
    let named = |on: usize| resolved(&apps[on], &found[on], "web.internal");
    let reaches = |from: usize, to: usize| {
        let get = format!("timeout 3 podman exec {} wget -qO- {}", found[from], url[to]);
        apps[from].try_run(&get).stdout == "1"
    };
    let all_is_well = || {
        let leads = upstreams(&edge);
        let is_well = |one: usize, other: usize| {
            running(&apps[one], "web") == [found[one].clone()]
                && named(one) == all
                && reaches(one, other)
                && leads.contains(&url[one])
        };
        is_well(0, 1) && is_well(1, 0) && shop(&edge) == "1"
    };
    bed.until("all is well", |_| all_is_well());
    bed.settles();
    bed.server().kill();

    is_killed_and_runs_again(&bed, &apps[0], "web");
    bed.until("it is led to", |_| all_is_well());

    apps[0].stop_agent();
    assert_ne!(named(0), all, "it is the agent who answers");
    apps[0].start_agent();
    bed.until("it answers from what it has kept", |_| named(0) == all);

    for host in [&apps[1], &edge] {
        host.reboot();
        bed.until(&format!("{} is as before", host.name()), |_| all_is_well());
    }

    edge.run("pkill -KILL traefik");
    apps[0].run("ip link delete fluke-br0");
    apps[1].run("ip link set fluke0 down");
    bed.until("all of it is put right", |_| all_is_well());

    let lives = || apps.each_ref().map(lives);
    let proxies = || edge.run("pgrep -x traefik");
    let (before, proxy) = (lives(), proxies());
    bed.server().start();
    bed.settles();
    // What is new on all of them shows that the server has made up its mind.
    bed.commit("task.fluke.hcl", &keeps("new", "remediate"));
    bed.settles();
    assert_eq!((lives(), proxies()), (before, proxy), "nobody touched any of it");
    assert!(all_is_well());
}

#[test]
fn an_update_whose_server_is_gone_keeps_the_old_one_until_there_is_one_again() {
    let Some(bed) = bed() else { return };
    let app = bed.host("app-1").joins("role=app");
    has_image(&app, "1");
    has_image(&app, "2");
    let other = service("other", "1", "");
    bed.commit_files(&[("web.fluke.hcl", &service("web", "1", "")), ("other.fluke.hcl", &other)]);
    let old = runs_one(&bed, &app, "web");
    bed.settles();
    let health = r#"health {
    command      = "test -e /tmp/well && touch /tmp/asked"
    interval     = "500ms"
    start_period = "5m"
  }"#;
    bed.commit("web.fluke.hcl", &service("web", "2", health));
    bed.until("the new one runs beside the old one", |_| running(&app, "web").len() == 2);
    bed.server().kill();
    let new = running(&app, "web").into_iter().find(|it| *it != old).expect("two run");
    app.run(&format!("podman exec {new} touch /tmp/well"));
    app.until(&format!("podman exec {new} test -e /tmp/asked"));
    // Its agent looks again and again, for longer than an old one has once it is released: what
    // does not stay up is started again after pauses that grow.
    for _ in 0..4 {
        is_killed_and_runs_again(&bed, &app, "other");
    }
    assert!(running(&app, "web").contains(&old), "nobody has released it");
    bed.server().start();
    bed.until("then it goes", |_| containers(&app, "web") == [new.clone()]);
    bed.settles();
}

#[test]
fn what_git_did_not_say_stops_nothing() {
    let Some(bed) = bed() else { return };
    bed.server_with(quick());
    let app = bed.host("app-1").joins("role=app");
    has_image(&app, "1");
    let web = service("web", "1", "");
    let db = service("db", "1", "replicas = 1");
    bed.commit_files(&[("web.fluke.hcl", &web), ("db.fluke.hcl", &db)]);
    let found = runs_one(&bed, &app, "web");
    runs_one(&bed, &app, "db");
    bed.settles();
    let before = lives(&app);

    // One service is gone in it, and the other is nothing that anybody could run.
    bed.commit_files(&[("web.fluke.hcl", "service \"web\" {"), ("db.fluke.hcl", "")]);
    bed.until("it is rejected", |bed| bed.source().rejected);
    asks(&bed, r#"{"scope":"agent","name":"app-1"}"#);
    assert_eq!(lives(&app), before);
    bed.commit_files(&[("web.fluke.hcl", &web), ("db.fluke.hcl", &db)]);
    bed.settles();

    let repository = bed.repository().path();
    let aside = repository.with_extension("aside");
    std::fs::rename(repository, &aside).expect("it goes");
    let db_lives = || lives(&app).into_iter().find(|life| !life.contains(&found));
    let (before, mirror) = (db_lives(), bed.folder().join("server/cache/git"));
    // Also one that never saw the repository.
    for forget in [false, true] {
        bed.server().kill();
        if forget {
            std::fs::remove_dir_all(&mirror).expect("there is a mirror");
        }
        bed.server().start();
        bed.until("it has no Git, and its agent", |bed| {
            bed.source().error.is_some() && bed.agent("app-1").connected
        });
        // Its agent looks at everything.
        is_killed_and_runs_again(&bed, &app, "web");
        assert_eq!(db_lives(), before, "forget: {forget}");
    }
    let before = lives(&app);
    std::fs::rename(&aside, repository).expect("it comes back");
    bed.settles();
    assert_eq!(lives(&app), before);
    let at = format!("http://{}:3000", address(&app, &found));
    assert_eq!(answer(&app, &at), "1");
}
