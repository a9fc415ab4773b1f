//! Traefik as a unit of systemd: kept running while the agent is not, and allowed little.

use std::path::Path;
use std::time::Duration;

use zbus::Variant;

use super::compile::Generation;
use super::unit::{self, Running, Signal, Supervisor, SupervisorError, Unit};
use crate::executor::systemd::BOOTED;
use crate::executor::systemd::transient::{Following, Life, Properties, Transient};

/// `CAP_NET_BIND_SERVICE`: ports below 1024, and nothing else that root may do.
const BIND: u64 = 1 << 10;
/// Connections to both sides, of many at once.
const FILES: u64 = 1 << 20;
const SECOND: u64 = 1_000_000;
/// How long nothing is heard of units while the bus is away; the lane looks by itself meanwhile.
const DEAF: Duration = Duration::from_secs(10);

/// systemd, as the one who keeps Traefik running.
#[derive(Debug, Default)]
pub struct Systemd {
    units: Transient,
    /// The one that was asked for last.
    current: Option<Generation>,
    following: Option<(Generation, Following)>,
}

impl Systemd {
    fn booted() -> Result<(), SupervisorError> {
        Path::new(BOOTED).is_dir().then_some(()).ok_or(SupervisorError::NoSystemd)
    }

    /// All units of proxies.
    async fn known(&self) -> Result<Vec<(Generation, Life)>, SupervisorError> {
        Self::booted()?;
        let known = self.units.list(&unit::pattern()).await.map_err(failed)?.into_iter();
        Ok(known.filter_map(|it| Some((unit::generation(&it.name)?, it.life))).collect())
    }

    async fn hear(&mut self) {
        let Some(current) = &self.current else { return std::future::pending().await };
        if self.following.as_ref().is_none_or(|(of, _)| of != current) {
            let Ok(following) = self.units.follow(&unit::name(current)).await else {
                return tokio::time::sleep(DEAF).await;
            };
            self.following = Some((current.clone(), following));
            // What happened before that is seen by a look.
            return;
        }
        let Some((_, following)) = &mut self.following else { return };
        if !following.changed().await {
            self.following = None;
            tokio::time::sleep(DEAF).await;
        }
    }
}

impl Supervisor for Systemd {
    async fn running(&mut self) -> Result<Vec<Running>, SupervisorError> {
        let known = self.known().await?.into_iter();
        let staying = known.filter(|(_, life)| *life != Life::Going);
        let running = |(generation, life)| Running { generation, is_up: matches!(life, Life::Up) };
        Ok(staying.map(running).collect())
    }

    async fn ending(&mut self) -> Result<Vec<Generation>, SupervisorError> {
        let known = self.known().await?.into_iter();
        let going = known.filter(|(_, life)| *life == Life::Going);
        Ok(going.map(|(generation, _)| generation).collect())
    }

    async fn start(&mut self, unit: &Unit) -> Result<(), SupervisorError> {
        Self::booted()?;
        self.current = Some(unit.generation.clone());
        self.units.start(&unit.name(), &properties(unit)).await.map_err(failed)
    }

    async fn stop(&mut self, generation: &Generation) -> Result<(), SupervisorError> {
        self.units.stop(&unit::name(generation)).await.map_err(failed)
    }

    async fn restart(&mut self, generation: &Generation) -> Result<(), SupervisorError> {
        // It may be one that does not listen; what was killed systemd starts again.
        self.units.kill(&unit::name(generation), nix::libc::SIGKILL).await.map_err(failed)
    }

    async fn signal(
        &mut self,
        generation: &Generation,
        signal: Signal,
    ) -> Result<(), SupervisorError> {
        let number = match signal {
            Signal::Reload => nix::libc::SIGHUP,
            Signal::Reopen => nix::libc::SIGUSR1,
            Signal::End => nix::libc::SIGTERM,
        };
        self.units.kill(&unit::name(generation), number).await.map_err(failed)
    }

    async fn process(&mut self, generation: &Generation) -> Result<Option<u32>, SupervisorError> {
        self.units.process(&unit::name(generation)).await.map_err(failed)
    }

    fn follow(&mut self, generation: &Generation) {
        self.current = Some(generation.clone());
    }

    async fn changed(&mut self) {
        self.hear().await;
    }
}

fn failed(error: impl std::fmt::Display) -> SupervisorError {
    SupervisorError::Failed(error.to_string())
}

/// All that is said of a unit.
///
/// It is root's, because what it reads is; but it has none of root's powers save that of taking
/// ports, sees no device, and writes to its own folder alone.
fn properties(unit: &Unit) -> Properties {
    let program = unit.program.display().to_string();
    let command: Vec<String> = std::iter::once(program.clone()).chain(unit.arguments()).collect();
    let folder = unit.folder.display().to_string();
    let in_tmp =
        [Path::new("/tmp"), Path::new("/var/tmp")].iter().any(|it| unit.folder.starts_with(it));
    let only = |list: &[&str]| Variant::from((true, texts(list)));
    let mut all: Properties = vec![
        ("Description", "Traefik, kept by fluke".into()),
        ("Type", "exec".into()),
        ("ExecStart", vec![(program, command, false)].into()),
        // A failure at its start, such as a port that is not free, may pass. One that ends because
        // it was told to is not started again.
        ("Restart", "on-failure".into()),
        ("RestartUSec", (SECOND / 4).into()),
        ("StartLimitIntervalUSec", 0u64.into()),
        ("CollectMode", "inactive-or-failed".into()),
        // Neither a host that is switched off nor one that is no proxy any more waits for as long as
        // connections may last.
        ("TimeoutStopUSec", (10 * SECOND).into()),
        ("UMask", 0o077u32.into()),
        ("LimitNOFILE", FILES.into()),
        ("ReadWritePaths", vec![folder].into()),
        ("ProtectSystem", "strict".into()),
        ("ProtectHome", "read-only".into()),
        ("CapabilityBoundingSet", BIND.into()),
        ("RestrictAddressFamilies", only(&["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"])),
        ("RestrictNamespaces", 0u64.into()),
        ("SystemCallArchitectures", texts(&["native"]).into()),
        ("SystemCallFilter", only(&["@system-service"])),
    ];
    let yes = [
        "NoNewPrivileges",
        "PrivateDevices",
        "ProtectClock",
        "ProtectControlGroups",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "LockPersonality",
        "MemoryDenyWriteExecute",
        "RestrictRealtime",
        "RestrictSUIDSGID",
    ];
    all.extend(yes.map(|name| (name, true.into())));
    all.push(("PrivateTmp", (!in_tmp).into()));
    all
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|it| (*it).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_host_without_systemd_says_what_to_do() {
        if Path::new(BOOTED).is_dir() {
            return;
        }
        let error = Systemd::default().running().await.expect_err("no systemd");
        assert!(error.to_string().contains("choose another host"), "{error}");
    }

    #[test]
    fn a_unit_has_no_power_but_that_of_taking_ports() {
        let unit = Unit {
            generation: Generation::of("a test"),
            program: "/usr/bin/traefik".into(),
            folder: "/var/lib/fluke/proxy".into(),
        };
        let all = properties(&unit);
        let value = |name: &str| all.iter().find(|(it, _)| *it == name).map(|(_, value)| value);
        assert_eq!(value("CapabilityBoundingSet"), Some(&Variant::U64(1 << 10)));
        assert_eq!(value("PrivateTmp"), Some(&Variant::Bool(true)));
        let signature = |name: &str| value(name).map(|it| it.value_signature().to_string());
        assert_eq!(signature("ExecStart").as_deref(), Some("a(sasb)"));
        assert_eq!(signature("SystemCallFilter").as_deref(), Some("(bas)"));
        assert_eq!(signature("ReadWritePaths").as_deref(), Some("as"));
    }
}
