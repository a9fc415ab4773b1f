//! No more processes, descriptors or memory: an error that says so, and then on as before.

use std::process::Command;

use fluke_model::event::EventKind;
use fluke_model::status::Status;
use fluke_model::verdict::Outcome;

use super::super::support::{Bed, Host, Join, applied, bed, keeps};
use super::{
    agent_pid, assert_every_apply_has_one_end, assert_it_gave_back, assert_no_bug, held_by_agent,
    held_by_server, polling, reason,
};

/// Rounds of a hundred checks; more for those who have the time.
const ROUNDS: &str = "FLUKE_ROUNDS";

/// One step as the agent's user, one as somebody else.
fn two_users() -> String {
    let other = r#"
task "other" {
  selector {
    match_labels = {}
  }
  shell "file" {
    run_as  = "app"
    check   = "test -f /tmp/other"
    command = "touch /tmp/other"
  }
}
"#;
    keeps("file", "remediate") + other
}

/// Takes something away, breaks both steps, and gives it back when both have said what is missing.
fn assert_it_says_so(bed: &Bed, host: &Host, take: &str, give: &str, said: [&str; 2]) {
    let before = applied(host, "file");
    host.run(take);
    host.run("rm -f /srv/file /tmp/other");
    for (place, said) in ["file/shell.file", "other/shell.file"].into_iter().zip(said) {
        bed.until(&format!("{place}: {said}"), |bed| reason(bed, host, place).contains(said));
    }
    host.run(give);
    bed.settles();
    assert_eq!(applied(host, "file"), before + 1);
}

#[test]
fn an_agent_without_processes_descriptors_or_memory_says_so_and_goes_on() {
    let Some(bed) = bed() else { return };
    bed.server_with(polling());
    let host = bed.host("web-1");
    // The kernel counts the processes of a user on all hosts of the machine: nobody else has it.
    host.run("useradd --uid 61234 app");
    // Quick, as there are many to start.
    let more = "execution {\n    default_shell = \"/bin/sh\"\n  }".to_string();
    let web = host.joins_as(&Join { more, ..Join::default() });
    bed.commit("a.fluke.hcl", &two_users());
    bed.settles();
    let (pid, before) = (agent_pid(&web), held_by_agent(&web));
    let set = |what: &str| format!("systemctl set-property --runtime fluke-agent.service {what}");

    let (no_room, files) = ("has no room to start /bin/sh", "Too many open files");
    assert_it_says_so(&bed, &web, &set("TasksMax=1"), &set("TasksMax=infinity"), [no_room; 2]);
    let (take, give) =
        (format!("prlimit --pid {pid} --nofile=3:"), format!("prlimit --pid {pid} --nofile=1024:"));
    assert_it_says_so(&bed, &web, &take, &give, [files, "app"]);

    // As many processes as that one user may have.
    let processes = web.run(&format!("prlimit --pid {pid} --nproc --output SOFT --noheadings"));
    web.run(&format!(
        "prlimit --pid {pid} --nproc=30:; for n in {{1..40}}; do \
         setpriv --reuid=app --clear-groups sleep 1000 > /dev/null 2>&1 & echo $! >> /run/sleeps; done"
    ));
    web.run("rm -f /tmp/other");
    bed.until("no room for that user", |bed| {
        reason(bed, &web, "other/shell.file").contains(no_room)
    });
    assert!(reason(&bed, &web, "file/shell.file").is_empty(), "the other one is not concerned");
    let processes = processes.trim();
    web.run(&format!("kill $(cat /run/sleeps); prlimit --pid {pid} --nproc={processes}:"));
    bed.settles();

    // A command that takes all the memory there is ends; the agent does not.
    web.run(&set("MemoryMax=100M"));
    let greedy = keeps("greedy", "remediate");
    let greedy = greedy.replace(
        "command = \"",
        "command = \"head -c 400M /dev/zero | tail -c 390M > /dev/null || exit 1; ",
    );
    bed.commit("b.fluke.hcl", &greedy);
    bed.until("it has failed", |bed| {
        let ended = bed.events_of("web-1", EventKind::ApplyFinished);
        ended.iter().any(|event| event.outcome == Some(Outcome::Failure))
    });
    web.run(&set("MemoryMax=infinity"));
    bed.commit("b.fluke.hcl", "");
    bed.settles();

    assert_eq!(agent_pid(&web), pid, "it is the same process all along");
    assert_it_gave_back(&bed, &web, before);
    assert_every_apply_has_one_end(&bed, &web);
    assert_no_bug(&web);
    many_checks(&bed, &web);
}

/// Checks by the thousand leave nothing behind.
fn many_checks(bed: &Bed, web: &Host) {
    let steps: String = (0..100)
        .map(|n| {
            format!("  shell \"s{n}\" {{\n    check   = \"true\"\n    command = \"true\"\n  }}\n")
        })
        .collect();
    bed.commit(
        "c.fluke.hcl",
        &format!("task \"many\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n{steps}}}\n"),
    );
    bed.settles();
    let before = held_by_agent(web);
    let rounds = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10);
    for _ in 0..rounds {
        reconcile(bed);
    }
    assert_it_gave_back(bed, web, before);
    let after = held_by_agent(web);
    assert!(after.memory_kib < before.memory_kib + 4096, "{before:?} {after:?}");
}

/// Has everything checked, and waits until it is.
pub fn reconcile(bed: &Bed) {
    let (status, said) =
        bed.server().post("/api/v1/reconcile", r#"{"scope":"all"}"#).expect("asked");
    assert_eq!(status, 202, "{said}");
    let id = said.split('"').nth(3).expect("an id").to_string();
    bed.until("the reconcile is done", |bed| {
        let progress = bed
            .server()
            .get::<fluke_model::api::ReconcileProgress>(&format!("/api/v1/reconcile/{id}"));
        progress.is_ok_and(|progress| progress.done)
    });
}

#[test]
fn a_server_without_descriptors_keeps_its_agents_and_takes_others_later() {
    let Some(bed) = bed() else { return };
    bed.server_with(polling());
    let [web, db] = bed.hosts(["web-1", "db-1"]);
    let web = web.joins("");
    bed.commit("a.fluke.hcl", &keeps("file", "remediate"));
    bed.settles();
    let before = held_by_server(&bed);
    let pid = bed.server().pid().expect("it runs").to_string();
    let limit = |files: &str| {
        let done =
            Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={files}:")]).status();
        assert!(done.is_ok_and(|status| status.success()));
    };

    limit("3");
    db.installs_agent(&Join::default());
    db.run("systemctl start fluke-agent");
    db.until("journalctl -u fluke-agent | grep -q 'no server; trying again'");
    web.run("rm /srv/file");
    web.until("test -f /srv/file");
    limit("10000");
    bed.until("the other one is in", |bed| bed.agent("db-1").status == Status::InSync);
    bed.settles();
    assert_eq!(applied(&web, "file"), 2);
    let log = bed.server().log();
    assert!(log.contains("connections are accepted again") && !log.contains("panicked"), "{log}");
    let said = log.matches("cannot accept connections for now").count();
    assert!((1..=4).contains(&said), "{said} times, and not with every try:\n{log}");
    bed.until("the server has given back what it took", |bed| {
        held_by_server(bed).descriptors <= before.descriptors + 4
    });
    assert_every_apply_has_one_end(&bed, &web);
}
