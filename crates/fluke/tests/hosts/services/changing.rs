//! A new image replaces an old one without anybody noticing, or does not replace it at all.

use fluke_model::event::EventKind;
use fluke_model::verdict::Outcome;

use super::support::{
    address, answer, containers, described, has_image, is_asked_for, resolved, running, runs_one,
    service,
};
use crate::hosts::support::{Bed, bed};

fn health(command: &str) -> String {
    format!(
        "health {{\n    command = \"{command}\"\n    interval = \"1s\"\n    timeout = \"5s\"\n    \
         retries = 2\n    start_period = \"1s\"\n  }}"
    )
}

/// Whether it is on record that `web` could not be put right.
fn has_failed(bed: &Bed) -> bool {
    bed.events("app-1").iter().any(|event| {
        event.service.as_ref().is_some_and(|name| name.as_str() == "web")
            && event.outcome == Some(Outcome::Failure)
    })
}

#[test]
fn an_image_that_does_not_become_well_leaves_the_old_one_serving() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    has_image(&host, "2");
    bed.commit("web.fluke.hcl", &service("web", "1", &health("wget -qO- localhost:3000")));
    let old = runs_one(&bed, &host, "web");
    bed.commit("web.fluke.hcl", &service("web", "2", &health("false")));
    bed.until("the new one was tried", has_failed);
    bed.until("the old one is alone again, and never stopped", |_| {
        running(&host, "web") == [old.clone()] && containers(&host, "web") == [old.clone()]
    });
    bed.commit("web.fluke.hcl", &service("web", "2", &health("wget -qO- localhost:3000")));
    bed.until("a good one replaces it", |_| {
        let now = running(&host, "web");
        now.len() == 1
            && now[0] != old
            && answer(&host, &format!("http://{}:3000", address(&host, &now[0]))) == "2"
    });
}

#[test]
fn an_old_one_with_a_volume_is_led_to_again_when_its_successor_was_no_good() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    has_image(&host, "2");
    let web = |tag: &str, command: &str| {
        let volume = "volume \"data\" {\n    path = \"/data\"\n  }";
        service("web", tag, &format!("{volume}\n  {}", health(command)))
    };
    bed.commit("web.fluke.hcl", &web("1", "wget -qO- localhost:3000"));
    let old = runs_one(&bed, &host, "web");
    let at = [address(&host, &old)];
    bed.until("it is led to", |_| resolved(&host, &old, "web.internal") == at);
    bed.commit("web.fluke.hcl", &web("2", "false"));
    bed.until("the new one was tried", has_failed);
    bed.until("the old one is alone again, and led to", |_| {
        running(&host, "web") == [old.clone()]
            && containers(&host, "web") == [old.clone()]
            && resolved(&host, &old, "web.internal") == at
    });
    assert_eq!(answer(&host, &format!("http://{}:3000", at[0])), "1");

    // It is not taken away again before somebody says so, whatever else is committed.
    bed.until("it is said who has to", |bed| {
        described(bed).contains("or by `fluke reconcile service web`")
    });
    let process = "podman ps --format '{{.Pid}}' --filter label=fluke.service.name=web";
    let life = host.run(process);
    bed.commit("other.fluke.hcl", &service("other", "1", ""));
    runs_one(&bed, &host, "other");
    assert_eq!(host.run(process), life);
    is_asked_for(&bed);
    bed.until("it was stopped for another try", |_| host.run(process) != life);
    bed.commit("web.fluke.hcl", &web("2", "wget -qO- localhost:3000"));
    bed.until("a good one replaces it", |_| {
        let now = running(&host, "web");
        now.len() == 1
            && containers(&host, "web") == now
            && answer(&host, &format!("http://{}:3000", address(&host, &now[0]))) == "2"
    });
}

#[test]
fn a_new_image_does_not_wait_for_a_step_that_takes_its_time() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    has_image(&host, "2");
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    runs_one(&bed, &host, "web");
    bed.settles();
    let slow = |check: &str| {
        format!(
            "task \"slow\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  drift {{\n    policy = \
             \"remediate\"\n  }}\n  shell \"wait\" {{\n    check   = \"{check}\"\n    command = \
             \"touch /srv/begun; until [ -e /srv/go ]; do sleep 0.1; done; echo x >> /srv/done\"\n  }}\n}}\n"
        )
    };
    bed.commit("slow.fluke.hcl", &slow("test -e /srv/done"));
    host.until("test -e /srv/begun");

    // Another version of the step comes with the image: that one waits, the image does not.
    let (step, image) = (slow("test -s /srv/done"), service("web", "2", ""));
    let newest = bed.commit_files(&[("slow.fluke.hcl", &step), ("web.fluke.hcl", &image)]);
    bed.until("the new one runs, alone", |_| {
        let now = running(&host, "web");
        now.len() == 1
            && containers(&host, "web") == now
            && answer(&host, &format!("http://{}:3000", address(&host, &now[0]))) == "2"
    });
    assert!(!host.has("/srv/done"), "the step is still under way");
    host.run("touch /srv/go");
    bed.settles();
    assert_eq!(host.read("/srv/done"), "x\n", "it was done once");
    let ended = bed.events_of("app-1", EventKind::ApplyFinished);
    let commit_of = |is_step: bool| {
        let last = ended.iter().rfind(|event| event.task.is_some() == is_step);
        last.and_then(|event| event.commit.clone())
    };
    assert_eq!(commit_of(false), Some(newest.clone()));
    assert_ne!(commit_of(true), Some(newest), "it was done as the commit before says");
}

#[test]
fn an_agent_killed_in_the_middle_of_a_change_leaves_no_second_container() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1").joins("role=app");
    for tag in ["1", "2", "3", "4"] {
        has_image(&host, tag);
    }
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    runs_one(&bed, &host, "web");
    for tag in ["2", "3", "4"] {
        bed.commit("web.fluke.hcl", &service("web", tag, ""));
        host.kill_agent();
        bed.until(&format!("{tag} runs alone"), |_| {
            let now = running(&host, "web");
            now.len() == 1
                && containers(&host, "web") == now
                && answer(&host, &format!("http://{}:3000", address(&host, &now[0]))) == tag
        });
    }
}
