//! The bed for the program under test, and the manifests that its stories have in common.

pub use fluke_bed::{Bed, Host, Join, ServerOptions};

/// A bed with the program of this build; none where there can be no bed.
pub fn bed() -> Option<Bed> {
    Bed::up(env!("CARGO_BIN_EXE_fluke"))
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
    command = "echo {name} > /srv/{name}; echo x >> /srv/{name}.applied"
  }}
}}
"#
    )
}

/// How often `keeps` had to, by the host's own account.
pub fn applied(host: &Host, name: &str) -> usize {
    host.read(&format!("/srv/{name}.applied")).lines().count()
}

/// A server whose heartbeats and polls are a second apart: for stories about silence.
pub fn quick() -> ServerOptions {
    ServerOptions {
        heartbeat: "1s".into(),
        poll_interval: "1s".into(),
        more: "drift {\n    alert_webhook = \"http://127.0.0.1:9/nobody\"\n  }".into(),
        ..ServerOptions::default()
    }
}
