//! Units of real systemds: killed, disabled, masked, missing, failing, flapping; with a bus that is
//! restarted, a systemd that is replaced, and a server that is away.
//!
//! Every host is polled once an hour only: what happens here happens because a unit changed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use fluke_model::event::EventKind;
use fluke_model::status::StepStatus;

use super::support::{Bed, Host, ServerOptions, bed};

const SLEEPER: &str =
    "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

/// A task that keeps a unit; more lines of its block may follow.
fn keeps_unit(task: &str, unit: &str, policy: &str, more: &str) -> String {
    format!(
        r#"
task "{task}" {{
  selector {{
    match_labels = {{}}
  }}
  drift {{
    policy = "{policy}"
  }}
  systemd "unit" {{
    unit = "{unit}"
    {more}
  }}
}}
"#
    )
}

/// A bed with one host that keeps `web.service` running.
fn with_web(options: ServerOptions, policy: &str) -> Option<(Bed, Host)> {
    let bed = bed()?;
    bed.server_with(options);
    let host = bed.host("web-1");
    host.unit("web.service", SLEEPER);
    let host = host.joins("");
    bed.commit("web.fluke.hcl", &keeps_unit("web", "web.service", policy, ""));
    Some((bed, host))
}

fn main_pid(host: &Host, unit: &str) -> String {
    host.run(&format!("systemctl show -P MainPID '{unit}'"))
}

/// Kills a unit, and waits until another process of it runs; how long that took.
fn kill(host: &Host, unit: &str) -> Duration {
    let before = main_pid(host, unit);
    host.run(&format!("systemctl kill --signal=KILL '{unit}'"));
    let killed = Instant::now();
    host.until(&format!(
        "test $(systemctl show -P MainPID '{unit}') -gt 1 && \
         test $(systemctl show -P MainPID '{unit}') != {before}"
    ));
    killed.elapsed()
}

/// By the host's own clock: from the end of the process to the start of the next one.
fn gap(host: &Host, unit: &str) -> Duration {
    let micros = |name: &str| -> u64 {
        let value = host.run(&format!("systemctl show -P {name} '{unit}'"));
        value.parse().unwrap_or_else(|_| panic!("{name} of {unit} is {value}"))
    };
    let down = micros("InactiveEnterTimestampMonotonic");
    Duration::from_micros(micros("ActiveEnterTimestampMonotonic").saturating_sub(down))
}

fn status(bed: &Bed, task: &str) -> Option<StepStatus> {
    Some(bed.agent("web-1").step(&format!("{task}/systemd.unit"))?.status)
}

fn reason(bed: &Bed, task: &str) -> String {
    let step = bed.agent("web-1").step(&format!("{task}/systemd.unit"));
    step.and_then(|step| step.reason).unwrap_or_default()
}

#[test]
fn a_unit_that_is_killed_stopped_or_disabled_is_as_it_should_be_again_without_a_poll() {
    let Some((bed, web)) = with_web(ServerOptions::default(), "remediate") else { return };
    bed.settles();
    assert!(web.is_active("web.service"));
    assert!(web.is("systemctl is-enabled --quiet web.service"));

    let gaps: Vec<Duration> = (0..10)
        .map(|_| {
            kill(&web, "web.service");
            bed.settles();
            gap(&web, "web.service")
        })
        .collect();
    // The bound is loose, because machines are: benchmarks measure, stories tell polls from signals.
    assert!(gaps.iter().all(|gap| *gap < Duration::from_secs(20)), "{gaps:?}");
    let shown = gaps.iter().map(|gap| format!("{:.0}", gap.as_secs_f64() * 1e3));
    #[expect(clippy::print_stderr, reason = "a figure for whoever runs this alone")]
    {
        eprintln!("killed to running, ms: {}", shown.collect::<Vec<_>>().join(" "));
    }

    web.run("systemctl stop web.service");
    web.until("systemctl is-active --quiet web.service");
    web.run("systemctl disable --quiet web.service");
    web.until("systemctl is-enabled --quiet web.service");
    bed.settles();
    let triggers: Vec<_> = bed
        .events_of("web-1", EventKind::ApplyFinished)
        .into_iter()
        .map(|event| event.trigger.unwrap_or_default())
        .collect();
    assert_eq!(triggers[0], "commit");
    assert!(triggers.len() >= 12, "{triggers:?}");
    assert!(triggers[1..].iter().all(|trigger| trigger == "watch"), "{triggers:?}");
}

#[test]
fn a_unit_that_should_be_stopped_is_stopped_and_stays_so() {
    let Some(bed) = bed() else { return };
    let web = bed.host("web-1");
    web.unit("web.service", SLEEPER);
    web.run("systemctl enable --quiet --now web.service");
    let web = web.joins("");
    let stopped =
        keeps_unit("web", "web.service", "remediate", "state = \"stopped\"\n    enabled = false");
    bed.commit("web.fluke.hcl", &stopped);
    bed.settles();
    assert!(!web.is_active("web.service"));
    assert_eq!(web.try_run("systemctl is-enabled web.service").stdout, "disabled");
    web.run("systemctl start web.service");
    web.until("! systemctl is-active --quiet web.service");
    bed.settles();
}

#[test]
fn units_that_cannot_be_put_right_are_explained_and_left_alone() {
    let Some(bed) = bed() else { return };
    let web = bed.host("web-1");
    web.unit("static.service", "[Service]\nExecStart=sleep infinity\n");
    web.unit("masked.service.d/x.conf", "");
    web.run("systemctl mask --quiet masked.service");
    web.unit(
        "bad.service",
        "[Service]\nExecStart=relative/path\n[Install]\nWantedBy=multi-user.target\n",
    );
    web.unit(
        "once.service",
        "[Service]\nType=oneshot\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n",
    );
    web.unit("stays.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n");
    web.unit("template@.service", SLEEPER);
    web.unit("known.service", &format!("{SLEEPER}Alias=other-name.service\n"));
    web.run("systemctl enable --quiet known.service");
    web.run("systemd-run --quiet --unit=transient sleep infinity");
    let generator = "/etc/systemd/system-generators/story";
    let unit = "[Service]\\nExecStart=sleep infinity\\n";
    web.write(generator, &format!("#!/bin/sh\nprintf '{unit}' > $1/generated.service\n"));
    web.run(&format!("chmod +x {generator} && systemctl daemon-reload"));
    web.write("/srv/linked.service", SLEEPER);
    web.run("systemctl link --quiet /srv/linked.service");
    let web = web.joins("");
    let cases: &[(&str, &str, &str, StepStatus, &str)] = &[
        ("static", "static.service", "", StepStatus::InSync, ""),
        ("masked", "masked.service", "", StepStatus::Failed, "systemctl unmask masked.service"),
        (
            "forbidden",
            "masked.service",
            "state = \"stopped\"\n    enabled = false",
            StepStatus::InSync,
            "",
        ),
        ("missing", "static-.service", "", StepStatus::Failed, "did you mean `static.service`"),
        ("bad", "bad.service", "", StepStatus::Failed, "systemd-analyze verify bad.service"),
        ("once", "once.service", "", StepStatus::Failed, "give it RemainAfterExit=yes"),
        ("stays", "stays.service", "", StepStatus::InSync, ""),
        ("template", "template@.service", "", StepStatus::Failed, "such as `template@1.service`"),
        ("instance", "template@one.service", "", StepStatus::InSync, ""),
        ("alias", "other-name.service", "", StepStatus::InSync, ""),
        ("transient", "transient.service", "", StepStatus::Failed, "cannot be enabled"),
        ("passing", "transient.service", "enabled = false", StepStatus::InSync, ""),
        ("linked", "linked.service", "", StepStatus::InSync, ""),
        ("generated", "generated.service", "", StepStatus::InSync, ""),
        (
            "made",
            "generated.service",
            "enabled = false",
            StepStatus::Failed,
            "was made by a generator",
        ),
        ("target", "multi-user.target", "", StepStatus::InSync, ""),
        ("socket", "dbus.socket", "", StepStatus::InSync, ""),
        ("slice", "system.slice", "", StepStatus::InSync, ""),
        ("mount", "-.mount", "enabled = false", StepStatus::InSync, ""),
    ];
    let manifests: Vec<_> = cases
        .iter()
        .map(|(task, unit, more, ..)| {
            (format!("{task}.fluke.hcl"), keeps_unit(task, unit, "remediate", more))
        })
        .collect();
    let files: Vec<_> = manifests.iter().map(|(name, text)| (&**name, &**text)).collect();
    bed.commit_files(&files);
    for (task, unit, _, expected, said) in cases {
        bed.until(&format!("{task} is {expected:?}"), |bed| status(bed, task) == Some(*expected));
        let reason = reason(&bed, task);
        assert!(reason.contains(said), "{task} ({unit}): {reason}");
    }
    assert!(web.is_active("static.service") && web.is_active("template@one.service"));

    // What somebody mends is seen without anybody asking.
    web.run("systemctl unmask --quiet masked.service");
    web.unit("masked.service", SLEEPER);
    bed.until("it runs", |_| web.is_active("masked.service"));
}

#[test]
fn a_unit_that_fails_is_shown_with_its_last_words_and_left_alone_for_a_while() {
    let Some(bed) = bed() else { return };
    let web = bed.host("web-1");
    let install = "[Install]\nWantedBy=multi-user.target\n";
    let dies = "ExecStart=bash -c 'echo these are my last words; echo x >> /srv/starts; exit 3'";
    web.unit("dies.service", &format!("[Service]\n{dies}\n{install}"));
    let flaps = "ExecStart=bash -c 'echo x >> /srv/flaps; sleep 0.05; exit 4'";
    let flaps = format!("[Service]\n{flaps}\nRestart=always\nRestartSec=50ms\n{install}");
    web.unit("flaps.service", &format!("[Unit]\nStartLimitIntervalSec=0\n{flaps}"));
    let web = web.joins("");
    bed.commit_files(&[
        ("dies.fluke.hcl", &keeps_unit("dies", "dies.service", "remediate", "")),
        ("flaps.fluke.hcl", &keeps_unit("flaps", "flaps.service", "remediate", "")),
    ]);
    for task in ["dies", "flaps"] {
        bed.until("it failed", |bed| status(bed, task) == Some(StepStatus::Failed));
    }
    assert!(reason(&bed, "dies").contains("did not stay up: it is failed (exit status 3)"));
    let ends = bed.events_of("web-1", EventKind::ApplyFinished);
    let of = |task: &str| {
        let of_task =
            ends.iter().filter(|end| end.task.as_ref().is_some_and(|t| t.as_str() == task));
        of_task.filter_map(|end| end.output.clone()).collect::<Vec<_>>().join("\n")
    };
    assert!(of("dies").contains("these are my last words"), "{}", of("dies"));
    assert!(of("flaps").contains("did not stay up"), "{}", of("flaps"));

    // Each is started again after growing pauses, though every death of it is heard.
    web.until("test $(wc -l < /srv/flaps) -gt 40");
    let tries = bed.events_of("web-1", EventKind::ApplyStarted).len();
    assert!(tries <= 12, "{tries} tries:\n{}", bed.account());
    assert!(web.read("/srv/starts").lines().count() <= 5);
}

#[test]
fn a_bus_that_is_restarted_and_a_systemd_that_is_replaced_are_followed() {
    let Some((bed, web)) = with_web(ServerOptions::default(), "remediate") else { return };
    bed.settles();
    kill(&web, "web.service");
    web.run("systemctl restart dbus.service");
    kill(&web, "web.service");
    bed.settles();
    web.run("systemctl daemon-reexec");
    kill(&web, "web.service");
    bed.settles();
    web.run("systemctl daemon-reload");
    kill(&web, "web.service");
    bed.settles();
}

#[test]
fn a_host_without_a_bus_is_kept_with_systemctl() {
    let Some((bed, web)) = with_web(ServerOptions::default(), "remediate") else { return };
    bed.settles();
    web.run("systemctl stop dbus.socket dbus.service");
    web.run("systemctl stop web.service; systemctl disable --quiet web.service");
    let asked = bed.server().post("/api/v1/reconcile", r#"{"scope":"all"}"#);
    assert_eq!(asked.expect("the server answers").0, 202);
    web.until(
        "systemctl is-active --quiet web.service && systemctl is-enabled --quiet web.service",
    );
    web.run("systemctl start dbus.socket dbus.service");
    bed.settles();
    kill(&web, "web.service");
}

#[test]
fn a_unit_that_is_left_to_people_is_told_of_and_not_started() {
    let (url, alert) = alert_receiver();
    let options = ServerOptions {
        more: format!("drift {{\n    alert_webhook = \"{url}\"\n  }}"),
        ..ServerOptions::default()
    };
    let Some((bed, web)) = with_web(options, "alert_only") else { return };
    bed.until("it is drifted", |bed| status(bed, "web") == Some(StepStatus::Drifted));
    let told = alert();
    assert!(told.contains("drift_detected") && told.contains("pending_manual"), "{told}");
    web.run("systemctl enable --quiet --now web.service");
    bed.settles();
    assert!(alert().contains("drift_resolved"));
    web.run("systemctl kill --signal=KILL web.service");
    bed.until("it is drifted", |bed| status(bed, "web") == Some(StepStatus::Drifted));
    let told = alert();
    assert!(told.contains("is failed") && told.contains("pending_manual"), "{told}");
    assert!(!web.is_active("web.service"));
    assert_eq!(bed.applies("web-1"), 0);
}

#[test]
fn while_the_server_is_away_a_killed_unit_is_running_again_at_once() {
    let Some((bed, web)) = with_web(ServerOptions::default(), "remediate") else { return };
    bed.settles();
    bed.server().stop();
    kill(&web, "web.service");
    kill(&web, "web.service");
    bed.server().start();
    bed.settles();
    bed.until("the record is handed over", |bed| {
        // Both kills may be put right by one apply, if the second comes soon enough.
        let ends = bed.events_of("web-1", EventKind::ApplyFinished);
        ends.iter().any(|end| end.trigger.as_deref() == Some("offline"))
    });
}

/// Takes alerts, and hands them out one by one.
fn alert_receiver() -> (String, impl Fn() -> String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/alerts", listener.local_addr().expect("an address"));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                let header = line.trim().to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let _ = (&stream)
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if sender.send(String::from_utf8_lossy(&body).into_owned()).is_err() {
                return;
            }
        }
    });
    (url, move || receiver.recv_timeout(Duration::from_secs(60)).expect("an alert"))
}
