//! From a program in a folder to services that systemd keeps, and back; and a fleet whose programs
//! are replaced while they work.

use fluke_bed::TOKEN;
use fluke_model::event::EventKind;
use fluke_model::verdict::Outcome;

use super::support::{BARE, Bed, Host, applied, bed, install_agent, keeps};

/// Where it is put.
const INSTALLED: &str = "/usr/local/bin/fluke";

/// Everything that an installation may leave on a host.
const TRACES: &str = "ls -d /etc/fluke /var/lib/fluke /var/cache/fluke /run/fluke \
    /usr/local/bin/fluke* /etc/systemd/system/fluke-* \
    /etc/systemd/system/multi-user.target.wants/fluke-* 2>/dev/null; getent passwd fluke";

/// A repository on the host itself, with one task.
fn repository(host: &Host, manifest: &str) {
    host.write("/srv/work/a.fluke.hcl", manifest);
    host.run(
        "cd /srv/work && git init --quiet --initial-branch=main && git add --all && \
         git -c user.name=Story -c user.email=story@example.org commit --quiet -m one && \
         git clone --quiet --bare . /srv/infra.git",
    );
}

/// Makes a program that does the same and is another one.
fn another(host: &Host, name: &str) -> String {
    let path = format!("/srv/{name}");
    host.run(&format!("cp /usr/local/bin/fluke {path} && echo >> {path}"));
    path
}

fn agent_process(host: &Host) -> String {
    host.run("systemctl show --property=MainPID --value fluke-agent")
}

/// Waits until the agent runs the program that is in its place.
fn runs_what_is_there(host: &Host) {
    let process = agent_process(host);
    host.until(&format!("test /proc/{process}/exe -ef /usr/local/bin/fluke"));
}

fn outcomes(bed: &Bed, host: &Host) -> Vec<Option<Outcome>> {
    bed.events_of(host.name(), EventKind::ApplyFinished).iter().map(|event| event.outcome).collect()
}

#[test]
fn server_and_agent_are_installed_from_nothing_and_leave_nothing() {
    let Some(bed) = bed() else { return };
    let [srv, web] = bed.hosts(["srv-1", "web-1"]);
    repository(&srv, &keeps("motd", "remediate"));
    let before = (srv.try_run(TRACES).stdout, web.try_run(TRACES).stdout);

    let shown = srv.run(&format!("{BARE} install server --git-url /srv/infra.git --dry-run"));
    assert!(shown.contains("FLUKE_TOKEN=(hidden)"), "{shown}");
    assert_eq!(srv.try_run(TRACES).stdout, before.0, "nothing was done");

    let told = srv.run(&format!("{BARE} install server --git-url /srv/infra.git"));
    assert!(told.contains("the server runs, with commit"), "{told}");
    let token = srv.run("sed -n s/^FLUKE_TOKEN=//p /etc/fluke/server.env");
    assert_eq!(token.len(), 64, "{token}");
    assert!(told.contains(&format!("FLUKE_TOKEN={token} fluke install agent")), "{told}");
    assert!(!srv.journal("fluke-server", 100).contains(&token), "not in a log");
    let modes =
        "stat -c '%a %U:%G' /etc/fluke/server.hcl /etc/fluke/server.env /run/fluke/fluke.sock";
    assert_eq!(srv.run(modes), "640 root:fluke\n600 fluke:fluke\n660 fluke:fluke");

    // The line that the server prints is all that an agent needs; over its address, since hosts
    // of the bed have no names for each other.
    let line = srv.run(&format!("fluke join-line --host {}", srv.address()));
    let line = line.lines().find(|line| line.contains("install agent")).expect("a line").to_owned();
    let told = web.run(&line.replace(" fluke ", &format!(" {BARE} ")));
    assert!(told.contains("the agent is connected"), "{told}");
    srv.until("fluke get agents | grep -q 'web-1.*in_sync'");
    assert_eq!(web.read("/srv/motd"), "motd\n");
    assert_eq!(
        web.run("stat -c '%a %U' /etc/fluke/agent.hcl /etc/fluke/agent.env"),
        "600 root\n600 root"
    );

    // Again: nothing to do.
    for (host, command) in [(&srv, "install server"), (&web, "install agent")] {
        let process = "systemctl show --property=MainPID --value 'fluke-*'";
        let was = host.run(process);
        let told = host.run(&format!("{BARE} {command}"));
        assert!(told.contains("everything is in place: nothing to do"), "{told}");
        assert_eq!(host.run(process), was);
    }

    // A token that changes on both sides, without a restart of either.
    let pids = (srv.run("pidof fluke"), web.run("pidof fluke"));
    let connections = "fluke get events --agent web-1 --kind agent_connected | wc -l";
    let before_it = srv.run(connections);
    srv.run("sed -i 's/=.*/=a-new-token/' /etc/fluke/server.env && systemctl reload fluke-server");
    web.run("sed -i 's/=.*/=a-new-token/' /etc/fluke/agent.env && systemctl reload fluke-agent");
    srv.until(&format!("test $({connections}) -gt {before_it}"));
    srv.until("fluke get agents | grep -q 'web-1.*in_sync'");
    assert_eq!((srv.run("pidof fluke"), web.run("pidof fluke")), pids);

    web.run(&format!("{INSTALLED} uninstall agent"));
    assert!(!web.has(INSTALLED) && web.has("/etc/fluke/agent.hcl"));
    web.run(&format!("{BARE} uninstall agent --purge"));
    assert!(!web.is("systemctl list-units --all | grep fluke-agent"));
    srv.run(&format!("{INSTALLED} uninstall server --purge"));
    assert_eq!((srv.try_run(TRACES).stdout, web.try_run(TRACES).stdout), before);
    assert_eq!(web.read("/srv/motd"), "motd\n", "what was applied is the host's");
    let again = srv.run(&format!("{BARE} uninstall server --purge"));
    assert!(again.contains("nothing that was installed is left"), "{again}");
}

#[test]
fn an_installed_server_has_few_rights_and_can_still_do_its_work() {
    let Some(bed) = bed() else { return };
    let srv = bed.host("srv-1");
    repository(&srv, &keeps("motd", "remediate"));
    srv.run(&format!("{BARE} install server --git-url /srv/infra.git"));
    let told = srv.run("systemd-analyze security --no-pager fluke-server.service | tail -n 1");
    let figure = told.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    assert!(figure.expect("a figure") < 2.0, "{told}");
    // Every address of the host is in its certificate: it could ask for them.
    let names = srv.run(
        "echo | openssl s_client -connect localhost:7070 2>/dev/null | \
         openssl x509 -noout -ext subjectAltName",
    );
    assert!(names.contains(&srv.address().to_string()), "{names}");
    assert!(!srv.journal("fluke-server", 200).contains("ermission denied"));
}

#[test]
fn what_cannot_work_is_told_with_the_log_and_nothing_is_overwritten() {
    let Some(bed) = bed() else { return };
    let web = bed.host("web-1");
    let url = bed.server().grpc();
    let install = format!("{BARE} install agent --url grpcs://{url}");
    let told = web.try_run(&install);
    assert_eq!(told.code, 2, "no token: {told:?}");
    assert!(!web.has("/etc/fluke"));
    let told =
        web.try_run(&format!("FLUKE_TOKEN=wrong {install} --ca-fingerprint {}", "ab".repeat(32)));
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains("has no CA with the fingerprint"), "{}", told.stderr);
    assert!(told.stderr.contains("its log:"), "{}", told.stderr);
    // A second try does not overwrite what may have been edited by now; it says so.
    web.run("echo '# mine' >> /etc/fluke/agent.hcl");
    let told = web.try_run(&format!("FLUKE_TOKEN={TOKEN} {install}"));
    assert!(told.stdout.contains("/etc/fluke/agent.hcl is there and stays as it is"), "{told:?}");
    assert!(web.read("/etc/fluke/agent.hcl").ends_with("# mine\n"));
}

#[test]
fn an_agent_is_updated_during_an_apply_by_hand_by_a_manifest_and_back() {
    let Some(bed) = bed() else { return };
    let web = bed.host("web-1");
    bed.server();
    install_agent(&bed, &web, "--label role=web");
    let process = agent_process(&web);

    // By hand, while something long is under way that also leaves a daemon.
    let long = keeps("long", "remediate").replace(
        "command = \"",
        "command = \"nohup sleep 43210 > /dev/null 2>&1 & until test -f /srv/go; do sleep 0.05; done; ",
    );
    bed.commit("a.fluke.hcl", &long);
    web.until("pgrep -f 'sleep 43210'");
    let next = another(&web, "next");
    web.run(&format!("{INSTALLED} update --from {next} --no-reload"));
    web.run("systemctl reload fluke-agent");
    web.until("journalctl -u fluke-agent -o cat | grep -q 'handing over'");
    web.run("touch /srv/go");
    runs_what_is_there(&web);
    web.settles();
    assert_eq!(applied(&web, "long"), 1);
    assert_eq!(outcomes(&bed, &web), [Some(Outcome::Success)], "{}", bed.account());

    // By a manifest: the step that updates is the agent's own.
    let third = another(&web, "third");
    bed.commit(
        "b.fluke.hcl",
        &format!(
            "task \"fluke\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  shell \"program\" {{\n    \
             check   = \"cmp -s {third} /usr/local/bin/fluke\"\n    \
             command = \"fluke update --from {third}\"\n  }}\n}}\n"
        ),
    );
    web.until(&format!("cmp -s {third} /usr/local/bin/fluke"));
    runs_what_is_there(&web);
    web.settles();
    assert_eq!(outcomes(&bed, &web), [Some(Outcome::Success); 2], "{}", bed.account());

    // One that does not run is refused; the one before can be had again.
    web.write("/srv/broken", "#!/bin/sh\nexit 1\n");
    assert_eq!(web.try_run(&format!("{INSTALLED} update --from /srv/broken")).code, 1);
    bed.commit_files(&[("b.fluke.hcl", "")]);
    web.settles();
    web.run(&format!("{INSTALLED} update --rollback"));
    runs_what_is_there(&web);
    assert!(web.is(&format!("cmp -s {next} /usr/local/bin/fluke")));
    web.settles();

    // All of it was one process, and the daemon of the apply outlives even a restart.
    assert_eq!(agent_process(&web), process);
    assert_eq!(web.run("systemctl show --property=NRestarts --value fluke-agent"), "0");
    web.run("systemctl restart fluke-agent");
    assert!(web.is("pgrep -f 'sleep 43210'"));
    assert!(!web.is("ps -eo stat,comm | grep -q '^Z'"), "nobody is left unburied");
    web.settles();
    assert_eq!(applied(&web, "long"), 1);
}
