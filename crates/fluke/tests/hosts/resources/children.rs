//! Commands that hang, print without end, or leave somebody behind.

use fluke_model::event::{Event, EventKind};
use fluke_model::verdict::Outcome;

use super::super::support::{Bed, Host, Join, bed, keeps};
use super::{
    agent_pid, assert_every_apply_has_one_end, assert_it_gave_back, assert_no_bug, held_by_agent,
    polling, reason,
};

/// A task of one step.
fn step(task: &str, check: &str, command: &str, more: &str) -> String {
    format!(
        r#"
task "{task}" {{
  selector {{
    match_labels = {{}}
  }}
  shell "it" {{
    check = <<-END
      {check}
    END
    command = <<-END
      {command}
    END
    {more}
  }}
}}
"#
    )
}

/// A task whose check does that, and whose command is never due.
fn checks(task: &str, check: &str, more: &str) -> String {
    step(task, check, "touch /srv/never", more)
}

/// A task whose command does that, once.
fn applies(task: &str, command: &str) -> String {
    step(task, &format!("test -f /srv/{task}"), &format!("{command}\n      touch /srv/{task}"), "")
}

fn end_of(bed: &Bed, task: &str) -> Event {
    let ended = bed.events_of("web-1", EventKind::ApplyFinished);
    let mut of_task =
        ended.into_iter().filter(|event| event.task.as_ref().is_some_and(|t| t.as_str() == task));
    of_task.next().unwrap_or_else(|| panic!("{task} was not applied:\n{}", bed.account()))
}

#[test]
fn checks_that_hang_are_ended_with_all_they_started_and_hold_up_nobody() {
    let Some(bed) = bed() else { return };
    bed.server_with(polling());
    let web = bed.host("web-1").joins("");
    bed.settles();
    let before = held_by_agent(&web);
    let timeout = "timeout = \"1s\"";
    let hang = "sleep 86399";
    bed.commit_files(&[
        ("good.fluke.hcl", &keeps("good", "remediate")),
        ("hangs.fluke.hcl", &checks("hangs", hang, timeout)),
        (
            "deaf.fluke.hcl",
            &checks(
                "deaf",
                &format!("trap '' TERM; (trap '' TERM; {hang}) & {hang}; {hang}"),
                timeout,
            ),
        ),
        (
            "stopped.fluke.hcl",
            &checks("stopped", &format!("{hang} & kill -STOP $!; kill -STOP $$"), timeout),
        ),
        // A child that nobody reaps, and one whose parent is gone.
        (
            "zombie.fluke.hcl",
            &checks(
                "zombie",
                &format!("bash -c 'true & exec {hang}' & (({hang} &) &); {hang}"),
                timeout,
            ),
        ),
    ]);
    let hanging = ["hangs", "deaf", "stopped", "zombie"];
    for task in hanging {
        bed.until(&format!("{task} has run out of time"), |bed| {
            reason(bed, &web, &format!("{task}/shell.it")).contains("did not end within 1 s")
        });
    }
    // The others go on.
    web.until("test -f /srv/good");
    assert!(!web.has("/srv/never"), "a check that could not tell applies nothing");
    bed.commit_files(
        &hanging
            .map(|task| (format!("{task}.fluke.hcl"), checks(task, "true", "")))
            .each_ref()
            .map(|(file, text)| (&**file, &**text)),
    );
    bed.settles();
    web.until("! pgrep -f '[s]leep 86399'");
    assert_it_gave_back(&bed, &web, before);
    assert_every_apply_has_one_end(&bed, &web);
    assert_no_bug(&web);
}

#[test]
fn what_commands_print_is_kept_within_bounds_and_as_it_came() {
    let Some(bed) = bed() else { return };
    let web = bed.host("web-1").joins("");
    bed.commit("good.fluke.hcl", &keeps("good", "remediate"));
    bed.settles();
    let before = held_by_agent(&web);
    bed.commit_files(&[
        (
            "flood.fluke.hcl",
            &step(
                "flood",
                "head -c 1G /dev/zero; test -f /srv/flood",
                "head -c 1G /dev/zero; echo the end; touch /srv/flood",
                "",
            ),
        ),
        ("odd.fluke.hcl", &applies("odd", r"printf '\377\376 \000 \033[31mred\033[0m \303\251\n'")),
        ("shut.fluke.hcl", &applies("shut", "echo before; exec 1>&- 2>&-; echo after")),
        ("reads.fluke.hcl", &applies("reads", "cat; read line; echo \"got '$line'\"")),
        (
            "daemon.fluke.hcl",
            &applies("daemon", "(setsid bash -c 'exec sleep 86398' &) ; echo started"),
        ),
        ("many.fluke.hcl", &applies("many", "for n in {1..20000}; do echo \"line $n\"; done")),
    ]);
    bed.settles();
    let text = |task: &str| end_of(&bed, task).output.unwrap_or_default();
    for task in ["flood", "odd", "shut", "reads", "daemon", "many"] {
        assert_eq!(end_of(&bed, task).outcome, Some(Outcome::Success), "{task}: {}", text(task));
    }
    let flood = text("flood");
    assert!(
        flood.len() <= 65 * 1024 && flood.trim_end().ends_with("the end"),
        "{} bytes",
        flood.len()
    );
    assert!(
        flood.lines().next().is_some_and(|line| line.contains("not kept")
            || line.contains("omitted")
            || line.contains("earlier")),
        "{:?}",
        &flood[..200]
    );
    assert!(text("odd").contains("red") && text("odd").contains('é'), "{:?}", text("odd"));
    assert_eq!(text("shut").trim_end(), "before");
    assert_eq!(text("reads").trim_end(), "got ''");
    assert!(text("daemon").contains("started"));
    assert!(text("many").trim_end().ends_with("line 20000") && !text("many").contains("line 1\n"));
    // A daemon is not ours to end.
    web.run("pkill -f '[s]leep 86398'");
    let after = held_by_agent(&web);
    assert!(after.memory_kib <= before.memory_kib + 8 * 1024, "{before:?} {after:?}");
    assert_it_gave_back(&bed, &web, before);
    assert_every_apply_has_one_end(&bed, &web);
    assert_no_bug(&web);
}

#[test]
fn a_shell_a_directory_or_a_user_that_vanishes_is_named_and_missed_only_while_it_is_away() {
    let Some(bed) = bed() else { return };
    bed.server_with(polling());
    let host = bed.host("web-1");
    host.run("useradd app; mkdir /srv/work; ln -s /bin/bash /usr/local/bin/shell");
    let more = "execution {\n    default_shell = \"/usr/local/bin/shell\"\n  }".to_string();
    let web = host.joins_as(&Join { more, ..Join::default() });
    bed.commit_files(&[
        ("good.fluke.hcl", &keeps("good", "remediate")),
        ("dir.fluke.hcl", &checks("dir", "true", "working_dir = \"/srv/work\"")),
        ("user.fluke.hcl", &checks("user", "true", "run_as = \"app\"")),
    ]);
    bed.settles();
    let pid = agent_pid(&web);
    assert_missed(
        &bed,
        &web,
        "rmdir /srv/work",
        "mkdir /srv/work",
        "dir",
        "/srv/work does not exist",
    );
    assert_missed(&bed, &web, "userdel app", "useradd app", "user", "no user `app`");
    assert_missed(
        &bed,
        &web,
        "rm /usr/local/bin/shell",
        "ln -s /bin/bash /usr/local/bin/shell",
        "good",
        "/usr/local/bin/shell",
    );
    assert!(!web.has("/srv/never"));
    assert_eq!(agent_pid(&web), pid);
    assert_every_apply_has_one_end(&bed, &web);
    assert_no_bug(&web);
}

/// Takes something away, sees that it is missed, and puts it back.
fn assert_missed(bed: &Bed, web: &Host, away: &str, back: &str, task: &str, said: &str) {
    let step = if task == "good" { "shell.file" } else { "shell.it" };
    web.run(away);
    bed.until(&format!("{task} says: {said}"), |bed| {
        reason(bed, web, &format!("{task}/{step}")).contains(said)
    });
    web.run(back);
    bed.settles();
}
