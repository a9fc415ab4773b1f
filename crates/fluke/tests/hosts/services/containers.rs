//! A host runs the containers that Git says, and touches no others.

use fluke_model::event::{Event, EventKind};

use super::support::{
    address, answer, asks, containers, described, has_image, is_asked_for, running, runs_one,
    service, started,
};
use crate::hosts::support::{Bed, Host, Join, bed};

/// A host with the image that runs `web`.
fn host_with_web(bed: &Bed) -> (Host, String) {
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    let container = runs_one(bed, &host, "web");
    (host, container)
}

#[test]
fn a_commit_runs_a_container_and_says_whose_it_is() {
    let Some(bed) = bed() else { return };
    let (host, container) = host_with_web(&bed);
    let at = format!("http://{}:3000", address(&host, &container));
    bed.until("it answers", |_| answer(&host, &at) == "1");
    let labels =
        host.run(&format!("podman inspect --format '{{{{json .Config.Labels}}}}' {container}"));
    for label in ["fluke.deployment.id", "fluke.service.id", "fluke.service.name"] {
        assert!(labels.contains(label), "{label} is not among {labels}");
    }
    bed.settles();
}

/// Why each change of a host's services was begun, one after the other.
fn triggers(bed: &Bed) -> Vec<String> {
    let began = bed.events_of("app-1", EventKind::ApplyStarted);
    began.into_iter().filter_map(|event| event.trigger).collect()
}

/// Does what Podman tells of, and waits until it is put right; whether that was because Podman, or
/// the kernel, had told of it. What is tried once more follows from the first try.
fn is_noticed(bed: &Bed, happens: impl FnOnce()) -> bool {
    let before = triggers(bed).len();
    happens();
    bed.until("it is on record", |bed| triggers(bed).len() > before);
    bed.settles();
    let why = triggers(bed).split_off(before);
    why.first().is_some_and(|first| first == "watch") && !why.iter().any(|it| it == "poll")
}

/// A host looks every ten seconds also if nobody told it anything, and may do so in any moment; but
/// not in two of them one after the other.
fn is_noticed_at_once(bed: &Bed, happens: impl Fn()) {
    let is_noticed = (0..2).any(|_| is_noticed(bed, &happens));
    assert!(is_noticed, "{}", bed.account());
}

#[test]
fn a_container_that_was_killed_stopped_paused_or_removed_is_back() {
    let Some(bed) = bed() else { return };
    let (host, first) = host_with_web(&bed);
    let before = address(&host, &first);
    bed.settles();
    // The process of one that is paused does not end: nobody but Podman tells of it.
    let ways = [("kill", false), ("stop --time 1", false), ("rm --force", true), ("pause", true)];
    for (how, is_new) in ways {
        is_noticed_at_once(&bed, || {
            let old = runs_one(&bed, &host, "web");
            let since = started(&host, &old);
            // It may complain: the container runs again before Podman is done with its end.
            host.try_run(&format!("podman {how} {old}"));
            bed.until("it was started again", |_| {
                running(&host, "web").first().is_some_and(|now| started(&host, now) != since)
            });
            let now = runs_one(&bed, &host, "web");
            assert_eq!(now != old, is_new, "{how}");
            assert_eq!(address(&host, &now), before, "{how}: it is where it was");
        });
    }
}

/// How much memory a container may use, by its own kernel; whichever version its control groups are.
fn memory(host: &Host, container: &str) -> String {
    let read = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max";
    host.try_run(&format!("podman exec {container} sh -c '{read}' 2>/dev/null")).stdout
}

#[test]
fn a_limit_that_somebody_changed_is_as_git_says_again() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    // Podman 5 changes no container whose question has less than a second, which one has without any.
    let lines = "resources {\n    memory = \"64MiB\"\n  }\n  \
                 health {\n    command = \"true\"\n    timeout = \"5s\"\n  }";
    bed.commit("web.fluke.hcl", &service("web", "1", lines));
    let first = runs_one(&bed, &host, "web");
    bed.settles();
    let (wanted, changed) = ((64 << 20).to_string(), (100 << 20).to_string());
    assert_eq!(memory(&host, &first), wanted);
    let update = |it: &str| host.run(&format!("podman update --memory 100m {it}"));
    let is_as_git_says = || {
        let now = runs_one(&bed, &host, "web");
        memory(&host, &now) == wanted
    };
    if host.is("podman --version | grep --quiet ' [5-9]'") {
        is_noticed_at_once(&bed, || {
            let old = runs_one(&bed, &host, "web");
            update(&old);
            bed.until(
                "another one runs",
                |_| matches!(running(&host, "web").as_slice(), [now] if *now != old),
            );
        });
        assert!(is_as_git_says());
        let why = "it may use 104857600 bytes of memory";
        let is_told = |it: &Event| it.output.as_ref().is_some_and(|it| it.contains(why));
        assert!(bed.events("app-1").iter().any(is_told), "{}", bed.account());
        return;
    }
    // Podman 4 tells of it neither by itself nor when it is asked.
    update(&first);
    asks(&bed, r#"{"scope":"agent","name":"app-1"}"#);
    assert_eq!(runs_one(&bed, &host, "web"), first, "nobody knows");
    assert_eq!(memory(&host, &first), changed, "if that is told now, it can be put right");
    host.run(&format!("podman kill {first}"));
    bed.until("it is as Git says with its next start", |_| is_as_git_says());
}

/// Removes a container, and starts it in the moment in which it has ended, while the agent is held.
/// Prints who still runs of it once it is gone.
const REMOVES_AND_STARTS: &str = r#"
    at=http://podman/v4.0.0/libpod/containers/$id
    ask() { curl --silent --unix-socket /run/podman/podman.sock "$@"; }
    systemctl kill --signal=STOP --kill-whom=main fluke-agent
    podman rm --force --time 1 $id >/dev/null 2>&1 &
    for try in $(seq 500); do
        case $(ask $at/json | grep --only-matching '"Status":"[a-z]*"' | head -1) in
            *exited* | *stopped*) ask --request POST $at/start >/dev/null; break ;;
            "") break ;;
        esac
    done
    wait
    podman container exists $id || grep --files-with-matches "/libpod-$id" /proc/[0-9]*/cgroup
    systemctl kill --signal=CONT --kill-whom=main fluke-agent
"#;

const TRIES: usize = 20;

#[test]
fn what_goes_on_of_a_container_that_was_removed_as_it_was_started_is_ended() {
    let Some(bed) = bed() else { return };
    let (host, first) = host_with_web(&bed);
    let at = format!("http://{}:3000", address(&host, &first));
    // Podman 4 leaves something every third time or so.
    for _ in 0..TRIES {
        let it = runs_one(&bed, &host, "web");
        let id = host.run(&format!("podman inspect --format '{{{{.Id}}}}' {it}"));
        let left = host.try_run(&format!("id={id}; {REMOVES_AND_STARTS}")).stdout;
        // What does not stay up would be started after pauses that grow.
        is_asked_for(&bed);
        bed.until(
            "another one runs",
            |_| matches!(running(&host, "web").as_slice(), [now] if *now != it),
        );
        let runs = host.is(&format!("grep --quiet '/libpod-{id}' /proc/[0-9]*/cgroup"));
        assert!(!runs, "it went before another one took its place");
        if !left.is_empty() {
            let told = bed.events_of("app-1", EventKind::ApplyStarted);
            let why = "goes on without Podman's knowledge";
            let is_told = |it: &Event| it.output.as_ref().is_some_and(|it| it.contains(why));
            assert!(told.iter().any(is_told), "{}", bed.account());
            bed.until("the new one answers", |_| answer(&host, &at) == "1");
            bed.settles();
            return;
        }
    }
    // Podman 5 locks a container that is started before it looks what becomes of it.
    assert!(host.is("podman --version | grep --quiet ' [5-9]'"), "Podman never left anything");
}

#[test]
fn a_container_that_is_not_well_any_more_is_restarted_where_its_policy_lets_it_be() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    let web = |policy: &str| {
        let more = format!(
            r#"command = ["/bin/sh", "-c", "busybox rm -f /tmp/ill; exec httpd -f -p 3000 -h /www"]
  drift {{
    policy = "{policy}"
  }}
  health {{
    command  = "test ! -e /tmp/ill"
    interval = "500ms"
    timeout  = "1s"
    retries  = 1
  }}"#
        );
        service("web", "1", &more)
    };
    let life = |container: &str| {
        host.run(&format!("podman inspect --format '{{{{.State.Pid}}}}' {container}"))
    };
    let becomes_ill =
        |container: &str| host.run(&format!("podman exec {container} touch /tmp/ill"));
    bed.commit("web.fluke.hcl", &web("remediate"));
    let container = runs_one(&bed, &host, "web");
    bed.settles();
    let first = life(&container);
    becomes_ill(&container);
    bed.until("it lives again", |_| {
        running(&host, "web") == [container.clone()] && life(&container) != first
    });
    bed.settles();
    let is_told = |text: &String| text.contains("it is not well");
    assert!(bed.events("app-1").iter().any(|event| event.output.as_ref().is_some_and(is_told)));

    bed.commit("web.fluke.hcl", &web("alert_only"));
    bed.settles();
    let second = life(&container);
    becomes_ill(&container);
    bed.until("it is left to a human", |bed| {
        let said = described(bed);
        said.contains("it is not well: ") && said.contains("; its policy is alert_only")
    });
    assert_eq!(life(&container), second);
    is_asked_for(&bed);
    bed.until("it was restarted", |_| {
        running(&host, "web") == [container.clone()] && life(&container) != second
    });
    bed.settles();
}

#[test]
fn a_container_that_somebody_made_otherwise_under_the_same_labels_is_replaced() {
    let Some(bed) = bed() else { return };
    let (host, container) = host_with_web(&bed);
    has_image(&host, "evil");
    host.stop_agent();
    host.run(&format!(
        "labels=$(podman inspect --format '{{{{range $k, $v := .Config.Labels}}}}--label {{{{$k}}}}={{{{$v}}}} {{{{end}}}}' {container}); \
         name=$(podman inspect --format '{{{{.Name}}}}' {container}); \
         podman rm --force {container} && podman run --detach --name $name $labels localhost/web:evil"
    ));
    let evil = runs_one(&bed, &host, "web");
    let at = format!("http://{}:3000", address(&host, &evil));
    bed.until("the other one answers", |_| answer(&host, &at) == "evil");
    host.start_agent();
    bed.until("the right one runs alone", |_| {
        let running = running(&host, "web");
        running.len() == 1
            && containers(&host, "web") == running
            && answer(&host, &format!("http://{}:3000", address(&host, &running[0]))) == "1"
    });
}

#[test]
fn what_is_nobody_s_is_left_alone_and_what_left_git_goes() {
    let Some(bed) = bed() else { return };
    let host = bed.host("app-1").joins("role=app");
    has_image(&host, "1");
    let stranger = host.run("podman run --detach --name stranger localhost/web:1");
    bed.commit(
        "web.fluke.hcl",
        &service("web", "1", "volume \"data\" {\n    path = \"/data\"\n  }"),
    );
    let container = runs_one(&bed, &host, "web");
    host.run(&format!("podman exec {container} touch /data/kept"));
    let volumes = host.run("podman volume ls --quiet");
    assert!(!volumes.is_empty());

    bed.commit("web.fluke.hcl", "");
    bed.until("the service's container is gone", |_| containers(&host, "web").is_empty());
    assert_eq!(host.run("podman ps --quiet --no-trunc"), stranger);
    assert_eq!(host.run("podman volume ls --quiet"), volumes, "data is never removed");

    bed.commit(
        "web.fluke.hcl",
        &service("web", "1", "volume \"data\" {\n    path = \"/data\"\n  }"),
    );
    let container = runs_one(&bed, &host, "web");
    host.run(&format!("podman exec {container} test -f /data/kept"));
}

#[test]
fn a_host_for_services_alone_keeps_nobody_else_s_container_and_every_volume() {
    let Some(bed) = bed() else { return };
    let hosts = bed.hosts(["app-1", "app-2"]);
    for host in &hosts {
        has_image(host, "1");
        host.run("podman run --detach --name theirs --volume kept:/data localhost/web:1");
        host.run("podman exec theirs touch /data/it && podman create --name idle localhost/web:1");
    }
    let [ours, shared] = hosts;
    let theirs = started(&shared, "theirs");
    let more = "containers {\n    exclusive = true\n  }".into();
    let ours = ours.joins_as(&Join { labels: "role=app".into(), more, ..Join::default() });
    let shared = shared.joins("role=app");
    let has_any = || !ours.run("podman ps --all --quiet").is_empty();
    bed.until("nobody's are gone, though Git says nothing of services", |_| !has_any());
    ours.run("podman run --detach --name again localhost/web:1");
    bed.until("one that comes later goes, too", |_| !has_any());

    bed.commit("web.fluke.hcl", &service("web", "1", ""));
    let web = runs_one(&bed, &ours, "web");
    let since = started(&ours, &web);
    // One that bears some of the labels, and no deployment's.
    ours.run("podman run --detach --name odd --label fluke.service.name=odd localhost/web:1");
    ours.run("podman run --detach --name again localhost/web:1");
    let all = "podman ps --all --quiet --no-trunc";
    bed.until("the service's is alone", |_| ours.run(all) == web);
    assert_eq!(started(&ours, &web), since, "nobody touched it");
    bed.settles();
    assert!(ours.has("/var/lib/containers/storage/volumes/kept/_data/it"), "data is never removed");
    let is_told = |text: &String| text.contains("a container is not wanted here any more");
    assert!(bed.events("app-1").iter().any(|event| event.output.as_ref().is_some_and(is_told)));

    runs_one(&bed, &shared, "web");
    assert_eq!(started(&shared, "theirs"), theirs, "elsewhere it is nobody's business");
    assert!(shared.is("podman container exists idle"));
}

#[test]
fn a_host_that_reboots_or_loses_its_bridge_is_as_before() {
    let Some(bed) = bed() else { return };
    let (host, container) = host_with_web(&bed);
    let at = format!("http://{}:3000", address(&host, &container));
    host.reboot();
    runs_one(&bed, &host, "web");
    bed.until("it answers after the reboot", |_| answer(&host, &at) == "1");
    let bridge = host.run("ip -4 -oneline addr show to 10.200.0.0/9 | awk '{print $2; exit}'");
    host.run(&format!("ip link delete {bridge}"));
    bed.until("it answers after the bridge was removed", |_| answer(&host, &at) == "1");
    runs_one(&bed, &host, "web");
}
