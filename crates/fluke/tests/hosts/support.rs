//! The bed for the program under test, and the manifests that its stories have in common.

use fluke_bed::TOKEN;
pub use fluke_bed::{Alerts, Bed, Host, Join, Link, Moment, ServerOptions, Tap};

/// A bed with the program of this build; none where there can be no bed.
pub fn bed() -> Option<Bed> {
    Bed::up(env!("CARGO_BIN_EXE_fluke"))
}

/// The program, on hosts on which nothing is installed.
pub const BARE: &str = "/opt/fluke/fluke";

/// Installs an agent that joins the bed's own server, as people do.
pub fn install_agent(bed: &Bed, host: &Host, flags: &str) {
    // It serves a moment before it says so.
    bed.until("the server tells how to join", |bed| {
        bed.server().log().contains("--ca-fingerprint ")
    });
    let log = bed.server().log();
    let pin = log.split("--ca-fingerprint ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let (pin, url) = (pin.expect("the server tells its fingerprint"), bed.server().grpc());
    let told = host.run(&format!(
        "FLUKE_TOKEN={TOKEN} {BARE} install agent --url grpcs://{url} --ca-fingerprint {pin} {flags}"
    ));
    assert!(told.contains("the agent is connected"), "{told}");
    host.settles();
}

/// A task for every host that keeps `/srv/NAME`, and counts in `/srv/NAME.applied` how often it
/// had to: a line each.
pub fn keeps(name: &str, policy: &str) -> String {
    format!(
        r#"
task "{name}" {{
  selector {{
    match_labels = {{}}
  }}
  drift {{
    policy = "{policy}"
  }}
  shell "file" {{
    check   = "test -f /srv/{name}"
    command = "echo x >> /srv/{name}.applied; echo {name} > /srv/{name}"
  }}
}}
"#
    )
}

/// How often `keeps` had to, by the host's own account.
pub fn applied(host: &Host, name: &str) -> usize {
    host.read(&format!("/srv/{name}.applied")).lines().count()
}

/// Takes away what a task keeps and waits until it is back and on record, for the `times`-th time.
/// For a host whose server is away.
pub fn drifts_and_is_repaired(host: &Host, name: &str, times: usize) {
    host.run(&format!("rm -f /srv/{name}"));
    is_repaired(host, name, times);
}

/// Waits until a task was applied for the `times`-th time, as the agent itself says.
pub fn is_repaired(host: &Host, name: &str, times: usize) {
    let log = "journalctl --output=cat --unit=fluke-agent";
    host.until(&format!("test $({log} | grep -c 'ended task={name} .*success') = {times}"));
    assert_eq!(applied(host, name), times);
    assert!(host.has(&format!("/srv/{name}")));
}

/// A server whose heartbeats and polls are a second apart: for stories about silence.
pub fn quick() -> ServerOptions {
    ServerOptions {
        heartbeat: Some("1s".into()),
        poll_interval: "1s".into(),
        ..ServerOptions::default()
    }
}

/// The same server, which tells of drift.
pub fn alerting(alerts: &Alerts, options: ServerOptions) -> ServerOptions {
    let drift = format!("drift {{\n    alert_webhook = \"{}\"\n  }}", alerts.url());
    ServerOptions { more: options.more + "\n" + &drift, ..options }
}
