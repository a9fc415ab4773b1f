//! A host on which others have containers, too, and where somebody does things.

use std::cell::RefCell;
use std::ops::Deref;

use crate::hosts::support::Host;

/// Where Podman keeps volumes.
pub const VOLUMES: &str = "/var/lib/containers/storage/volumes";
/// Who runs, and who has run and ended, before fluke comes; both are nobody's business.
const STRANGERS: [&str; 2] = ["idle", "stranger"];

/// Such a host.
pub struct Premises {
    host: Host,
    /// Others' containers: which they are, and since when they are as they are.
    strangers: RefCell<String>,
}

impl Deref for Premises {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Premises {
    /// Strangers move in; one of them runs this, and has a volume.
    pub fn of(host: Host, program: &str) -> Self {
        host.run("podman run --name idle localhost/web:1 touch /tmp/ran");
        let run = "podman run --detach --name stranger --volume theirs:/data localhost/web:1";
        host.run(&format!("{run} sh -c \"{program}\""));
        let strangers = RefCell::new(strangers(&host));
        Self { host, strangers }
    }

    /// It is fluke's host as well.
    pub fn joins(self, labels: &str) -> Self {
        Self { host: self.host.joins(labels), ..self }
    }

    /// Whatever somebody does takes its time beside all that comes after it.
    pub fn somebody_does(&self, command: &str) {
        let run = "systemd-run --quiet --collect --property=KillMode=process";
        self.run(&format!("{run} --unit somebody-$RANDOM$RANDOM bash -c \"{command}\""));
    }

    /// Waits until whatever somebody does is done.
    pub fn is_left_alone(&self) {
        // Where a container was started its monitor goes on, in a unit that has ended.
        let busy = "systemctl list-units --plain --state=active,activating,deactivating";
        self.until(&format!("! {busy} 'somebody-*' | grep ^somebody"));
    }

    pub fn nobody_touched_strangers(&self) {
        assert_eq!(strangers(self), *self.strangers.borrow(), "they are others'");
    }

    /// It has no power from now on, however that came.
    pub fn goes_off(&self, how: impl FnOnce(&Host)) {
        // What is paused cannot be killed for as long as it is, and a host here is but a process.
        self.is_left_alone();
        self.try_run("podman unpause --all");
        self.nobody_touched_strangers();
        how(&self.host);
    }

    /// A host that comes up starts nobody's containers: their owner does.
    pub fn comes_up(&self) {
        self.host.start();
        self.run("podman start stranger");
        self.strangers.replace(strangers(self));
    }

    /// Volumes with which two containers ever ran, and who came second.
    pub fn had_two(&self) -> String {
        self.try_run(&format!("cd {VOLUMES} && grep --with-filename . */_data/twice")).stdout
    }
}

/// Which others' containers there are, and since when each is as it is.
fn strangers(host: &Host) -> String {
    let format = "'{{.Id}} {{.State.Status}} {{.State.StartedAt}} {{.State.FinishedAt}}'";
    host.run(&format!("podman inspect --format {format} {}", STRANGERS.join(" ")))
}
