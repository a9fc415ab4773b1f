//! A program that serves the interface where the kernel does not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};
use zbus::connection::Builder;
use zbus::{Connection, OwnedObjectPath, Variant};

use super::MeshError;
use crate::host::daemon;

/// Where systemd shows that it runs the host.
const BOOTED: &str = "/run/systemd/system";
/// How long the program may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between looks whether it has.
const PAUSE: Duration = Duration::from_millis(20);

/// What systemd says of a name that is taken.
const EXISTS: &str = "org.freedesktop.systemd1.UnitExists";

/// Who sees to it that the program goes on while the agent does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// systemd: a unit of its own.
    Systemd,
    /// Nobody: it goes to the background by itself.
    Nobody,
}

impl Keeper {
    /// Whoever there is on this host.
    pub fn here() -> Self {
        if Path::new(BOOTED).is_dir() { Self::Systemd } else { Self::Nobody }
    }
}

/// Has the program run, whatever becomes of the agent, until its socket answers.
pub async fn start(
    program: &Path,
    keeper: Keeper,
    interface: &str,
    socket: &Path,
) -> Result<(), MeshError> {
    let failed = |why: String| MeshError::NoProgram { program: program.into(), why };
    let program = find(program).ok_or_else(|| failed("it is not there".to_owned()))?;
    let started = async {
        match keeper {
            Keeper::Systemd => {
                unit(&program, interface).await.map_err(|error| error.to_string())?
            }
            Keeper::Nobody => {
                // One whose interface was taken away listens until it ends, and takes the name of
                // the socket with it.
                while UnixStream::connect(socket).await.is_ok() {
                    sleep(PAUSE).await;
                }
                // It goes to the background once its socket is open.
                daemon::start(&program, interface)
                    .await
                    .map_err(|why| format!("{why}; is there a /dev/net/tun?"))?;
            }
        }
        // The name is there before somebody listens.
        while UnixStream::connect(socket).await.is_err() {
            sleep(PAUSE).await;
        }
        Ok(())
    };
    match timeout(PATIENCE, started).await {
        Ok(done) => done.map_err(failed),
        Err(_) => Err(failed(format!("it did not begin within {} s", PATIENCE.as_secs()))),
    }
}

/// Where a program is: as it is given, or in the usual places.
fn find(program: &Path) -> Option<PathBuf> {
    let usual = ["/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(usual).map(|place| place.join(program));
    places.find(|place| place.is_absolute() && place.is_file())
}

/// As a unit of systemd, which is not the agent's: it goes on while the agent is replaced. It is not
/// started again by systemd: without the agent it would know no peers, and the agent hears of its end
/// at once, as the interface ends with it.
async fn unit(program: &Path, interface: &str) -> zbus::Result<()> {
    let name = format!("fluke-mesh-{interface}.service");
    let bus = Builder::system().build().await?;
    // One that failed, or goes on without its interface, is in the way.
    let _ = call(&bus, "StopUnit", &(&name, "replace")).await;
    let _ = call(&bus, "ResetFailedUnit", &name.as_str()).await;
    let program = program.to_string_lossy().into_owned();
    let arguments = vec![program.clone(), "--foreground".to_owned(), interface.to_owned()];
    let properties: Vec<(&str, Variant<'_>)> = vec![
        ("Description", format!("WireGuard for the mesh of fluke ({interface})").into()),
        ("ExecStart", vec![(program, arguments, false)].into()),
        ("Environment", vec!["LOG_LEVEL=error"].into()),
        ("CollectMode", "inactive-or-failed".into()),
        ("NoNewPrivileges", true.into()),
    ];
    let others: Vec<(&str, Vec<(&str, Variant<'_>)>)> = Vec::new();
    let asked = (name.as_str(), "replace", properties, others);
    let answer = loop {
        match call(&bus, "StartTransientUnit", &asked).await {
            // Its predecessor is not quite gone; there is an end to whoever waits.
            Err(zbus::Error::MethodError(error, ..)) if error.as_str() == EXISTS => {
                sleep(PAUSE).await;
            }
            answer => break answer?,
        }
    };
    answer.body().deserialize::<OwnedObjectPath>().map(drop)
}

async fn call<B: serde::Serialize + zbus::Type>(
    bus: &Connection,
    method: &str,
    body: &B,
) -> zbus::Result<zbus::Message> {
    const SYSTEMD: &str = "org.freedesktop.systemd1";
    const MANAGER: &str = "org.freedesktop.systemd1.Manager";
    bus.call_method(Some(SYSTEMD), "/org/freedesktop/systemd1", Some(MANAGER), method, body).await
}
