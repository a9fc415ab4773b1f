//! Images come from a registry, with the credentials that the host itself has.

use fluke_model::api::ServiceView;
use fluke_model::event::EventKind;
use fluke_model::service::Phase;
use fluke_model::verdict::Outcome;

use super::support::{
    address, answer, asks, containers, described, has_image, is_asked_for, is_registry, running,
    runs_one, service, trusts_registry,
};
use crate::hosts::support::{Bed, Join, Link, bed};

/// How often it is on record that `web` could not be put right.
fn failures(bed: &Bed) -> usize {
    let ended = bed.events_of("app-1", EventKind::ApplyFinished);
    ended.iter().filter(|event| event.outcome == Some(Outcome::Failure)).count()
}

#[test]
fn images_are_fetched_with_the_host_s_own_password_and_go_when_nobody_uses_them() {
    let Some(bed) = bed() else { return };
    let [hub, app] = bed.hosts(["hub", "app-1"]);
    for tag in ["1", "2"] {
        has_image(&hub, tag);
    }
    is_registry(&hub, "1");
    let more = "containers {\n    keep_images = \"1s\"\n  }".into();
    let app = app.joins_as(&Join { labels: "role=app".into(), more, ..Join::default() });
    trusts_registry(&app, "hub");
    has_image(&app, "3");
    let web = |tag: &str| service("web", tag, "").replace("localhost/", "hub:5000/");
    bed.commit("web.fluke.hcl", &web("1"));
    bed.until("it is told why there is no image", |bed| {
        let described = described(bed);
        described.contains("unauthorized") || described.contains("authentication required")
    });
    bed.until("it is on record", |bed| failures(bed) == 1);
    app.run("podman login --username fluke --password s3cret hub:5000");
    is_asked_for(&bed);
    let old = runs_one(&bed, &app, "web");

    // What is not there changes nothing; what comes then is taken.
    bed.commit("web.fluke.hcl", &web("2"));
    bed.until("the new image cannot be had", |bed| described(bed).contains("manifest unknown"));
    assert_eq!(running(&app, "web"), std::slice::from_ref(&old));
    bed.until("that is on record, too", |bed| failures(bed) == 2);
    hub.run("podman push --quiet localhost/web:2 hub:5000/web:2");
    is_asked_for(&bed);
    bed.until("the new one runs alone", |_| {
        let now = running(&app, "web");
        now.len() == 1
            && containers(&app, "web") == now
            && answer(&app, &format!("http://{}:3000", address(&app, &now[0]))) == "2"
    });
    assert_eq!(failures(&bed), 2, "however often it was tried: {}", bed.account());

    // What is here is not asked for again, wherever it came from.
    hub.run("systemctl stop registry");
    let other = service("web", "2", "env = { A = \"1\" }").replace("localhost/", "hub:5000/");
    let before = running(&app, "web");
    bed.commit("web.fluke.hcl", &other);
    bed.until("it is made anew", |_| {
        let now = running(&app, "web");
        now.len() == 1 && now != before && containers(&app, "web") == now
    });
    assert_eq!(failures(&bed), 2, "nothing was missing: {}", bed.account());

    // What was fetched for it goes with it; what somebody else has here stays, used or not.
    app.until("! podman image exists hub:5000/web:1");
    assert!(app.is("podman image exists hub:5000/web:2"));
    assert!(app.is("podman image exists localhost/web:3"));
}

#[test]
fn an_image_is_the_same_by_its_digest_for_all_architectures_and_for_one() {
    let Some(bed) = bed() else { return };
    let [hub, app] = bed.hosts(["hub", "app-1"]);
    has_image(&hub, "1");
    is_registry(&hub, "1");
    hub.run(
        "set -e; podman manifest create all; \
         podman manifest add all containers-storage:localhost/web:1; \
         podman manifest push --quiet --all all docker://hub:5000/web:all",
    );
    let kinds = ["oci.image.index.v1", "docker.distribution.manifest.list.v2"]
        .map(|kind| format!("--header 'Accept: application/vnd.{kind}+json'"));
    let list = hub.run(&format!(
        "curl --silent --user fluke:s3cret {} http://hub:5000/v2/web/manifests/all",
        kinds.join(" ")
    ));
    let list: serde_json::Value = serde_json::from_str(&list).expect("a list of manifests");
    let one = list["manifests"][0]["digest"].as_str().expect("a digest").to_owned();
    let app = app.joins("role=app");
    trusts_registry(&app, "hub");
    app.run("podman login --username fluke --password s3cret hub:5000");
    let web = |image: &str| service("web", "1", "").replace("localhost/web:1", image);
    bed.commit("web.fluke.hcl", &web("hub:5000/web:all"));
    let by_tag = runs_one(&bed, &app, "web");
    bed.commit("web.fluke.hcl", &web(&format!("hub:5000/web:all@{one}")));
    bed.until("it is replaced", |_| !containers(&app, "web").contains(&by_tag));
    let pinned = runs_one(&bed, &app, "web");
    // Who takes it for another one, replaces it without end.
    asks(&bed, r#"{"scope":"agent","name":"app-1","by":"a story"}"#);
    assert_eq!(runs_one(&bed, &app, "web"), pinned);
}

#[test]
fn an_image_that_takes_its_time_shows_how_far_it_is() {
    let Some(bed) = bed() else { return };
    let [hub, app] = bed.hosts(["hub", "app-1"]);
    has_image(&hub, "1");
    hub.run(
        "set -e; head --bytes 8M /dev/urandom > /tmp/large; made=$(podman create localhost/web:1); \
         podman cp /tmp/large $made:/large; podman commit --quiet $made localhost/web:large",
    );
    is_registry(&hub, "large");
    let link = Link::new(bed.gateway(), (hub.address(), 5000).into()).expect("a way to it");
    let app = app.joins("role=app");
    let at = link.address().to_string();
    app.write(
        "/etc/containers/registries.conf.d/registry.conf",
        &format!("[[registry]]\nlocation = \"{at}\"\ninsecure = true\n"),
    );
    app.run(&format!("podman login --username fluke --password s3cret {at}"));
    link.blackhole();
    bed.commit("web.fluke.hcl", &service("web", "large", "").replace("localhost", &at));
    let is_at = |words: &str| {
        let web = bed.server().get::<ServiceView>("/api/v1/services/web").ok();
        web.and_then(|web| web.deployments.first().cloned()).is_some_and(|it| {
            it.phase == Phase::Pulling && it.note.is_some_and(|note| note.contains(words))
        })
    };
    bed.until("it is asked for", |_| is_at("Trying to pull"));
    // By this way it takes minutes.
    link.heal();
    link.limit(50_000);
    bed.until("a layer comes", |_| is_at("Copying blob"));
    assert!(containers(&app, "web").is_empty());
    link.heal();
    let web = runs_one(&bed, &app, "web");
    app.run(&format!("podman exec {web} test -s /large"));
}
