//! systemd through `systemctl`, for hosts without a message bus: slower, and nothing to listen to.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use super::facts::{Active, Details, Facts, FileState, Job, Load};
use super::name::UnitName;
use crate::host::Host;
use crate::host::output::last_lines;
use crate::host::process::{End, Leftovers};

/// What is asked for of every unit.
const PROPERTIES: &str = "Id,LoadState,LoadError,ActiveState,SubState,Job,UnitFileState,Type,\
    RemainAfterExit,Result,ExecMainStatus,NRestarts,NeedDaemonReload,ConditionResult,\
    ConditionTimestampMonotonic,CanStart,CanStop,RefuseManualStart,RefuseManualStop,FragmentPath";

/// The program, and how to run it.
#[derive(Debug, Clone)]
pub(super) struct Systemctl {
    host: Host,
    program: PathBuf,
}

impl Systemctl {
    /// Where the host has it.
    pub(super) fn find(host: &Host) -> Option<Self> {
        let more = ["/usr/bin".into(), "/bin".into()];
        Some(Self { program: host.find_program("systemctl", &more)?, host: host.clone() })
    }

    /// Everything about units, in one run for all.
    pub(super) async fn list(
        &self,
        names: &[UnitName],
        within: Duration,
    ) -> Result<Vec<Facts>, String> {
        let property = format!("--property={PROPERTIES}");
        let mut args = vec!["show", property.as_str(), "--"];
        args.extend(names.iter().map(UnitName::as_str));
        let shown = read(&self.run(&args, within).await?);
        match shown.len() == names.len() {
            true => Ok(shown),
            false => Err(format!(
                "`systemctl show` told of {} units of {}; does systemd answer on this host?",
                shown.len(),
                names.len()
            )),
        }
    }

    /// One of the verbs that change something.
    pub(super) async fn act(&self, args: &[&str], within: Duration) -> Result<(), String> {
        self.run(args, within).await.map(drop)
    }

    async fn run(&self, args: &[&str], within: Duration) -> Result<String, String> {
        let command =
            self.host.command(&self.program, "/").args(["--no-ask-password", "--no-pager"]);
        let command = command.args(args);
        let ran = self.host.run(command, within, Leftovers::Kill).await;
        let ran = ran.map_err(|error| error.to_string())?;
        match ran.end {
            End::Exited(0) => Ok(ran.output.text()),
            _ => {
                let verb = args.first().copied().unwrap_or_default();
                Err(format!("`systemctl {verb}` failed: {}", last_lines(&ran.output, 3)))
            }
        }
    }
}

/// Reads what `systemctl show` printed: a paragraph a unit.
fn read(shown: &str) -> Vec<Facts> {
    let paragraphs = shown.split("\n\n").filter(|text| !text.trim().is_empty());
    paragraphs
        .map(|text| {
            let pairs = text.lines().filter_map(|line| line.split_once('='));
            let properties = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            facts(&properties.collect())
        })
        .collect()
}

fn facts(properties: &HashMap<String, String>) -> Facts {
    let text = |name: &str| properties.get(name).map_or("", String::as_str);
    // Only that there is one, not what it does; a unit that moves shows that itself.
    let job = text("Job").parse().ok().filter(|id| *id != 0);
    Facts {
        id: text("Id").to_owned(),
        load: Load::from(text("LoadState")),
        active: Active::from(text("ActiveState")),
        sub: text("SubState").to_owned(),
        job: job.map(|id| Job { id, kind: "nop".to_owned() }),
        file: FileState::read(text("UnitFileState")),
        restless: false,
        details: Some(Details::read(properties)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemctl_shows_is_read_unit_by_unit() {
        let shown = "Type=simple\nRemainAfterExit=no\nResult=exit-code\nExecMainStatus=7\n\
                     NRestarts=2\nId=a.service\nLoadState=loaded\nActiveState=failed\n\
                     SubState=failed\nUnitFileState=disabled\nNeedDaemonReload=yes\nCanStart=yes\n\
                     \nId=b.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n\
                     Job=12\nUnitFileState=\n";
        let units = read(shown);
        assert_eq!(units.len(), 2);
        let (a, b) = (&units[0], &units[1]);
        assert_eq!((a.id.as_str(), &a.active, &a.job), ("a.service", &Active::Failed, &None));
        assert_eq!(a.file, Some(FileState::Disabled));
        let details = a.details.as_ref().expect("details");
        assert_eq!((details.status, details.restarts, details.needs_reload), (7, 2, true));
        assert_eq!((&b.load, &b.file), (&Load::NotFound, &None));
        assert_eq!(b.job.as_ref().map(|job| job.id), Some(12));
    }
}
