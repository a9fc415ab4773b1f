//! All these stories once more, with the WireGuard of a real kernel. The machine that runs tests may
//! have none, so they are told in a virtual one, with Debian's kernel and this very program.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::hosts::skip;

/// In the virtual machine: what every host's interface must be, in the kernel's word.
pub const SERVED_BY: &str = "FLUKE_TEST_WIREGUARD";
/// What the machine says last when nothing failed in it.
const GOOD: &str = "every story holds";
const EMULATOR: &str = "qemu-system-x86_64";
/// What an emulated processor has no need of, or nobody the time.
const QUICK: &str = "mitigations=off rcupdate.rcu_expedited=1 tsc=reliable";
/// A minute or two are usual, as the processor is emulated.
const SECONDS: &str = "600";

#[test]
#[expect(clippy::print_stdout, reason = "what was said there is shown like what is said here")]
fn every_story_of_the_mesh_holds_with_the_wireguard_of_a_real_kernel() {
    if std::env::var_os(SERVED_BY).is_some() {
        // This is that machine.
        return;
    }
    let kernel = match kernel() {
        Ok(kernel) => kernel,
        Err(why) => return skip(&why),
    };
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().join("root.cpio");
    compose(&kernel, &root);
    let said = boot(&kernel.join("vmlinuz"), &root);
    let is_good = said.lines().any(|line| line == GOOD);
    // What it says of its tests must not be counted as said of this program's own.
    let said: String = said.lines().map(|line| format!("  | {line}\n")).collect();
    println!("{said}");
    assert!(is_good, "not every story holds in the virtual machine; above is what it said");
}

/// Where `scripts/test-tools` puts a kernel.
fn kernel() -> Result<PathBuf, String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(format!("needs {EMULATOR} and programs of its kind"));
    }
    let has = Command::new(EMULATOR).arg("--version").output();
    has.map_err(|error| format!("needs {EMULATOR}, which scripts/test installs: {error}"))?;
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/kernel");
    kernel
        .canonicalize()
        .map_err(|_| "there is no kernel to boot: run scripts/test-tools".to_owned())
}

/// The machine's only file system, in memory: this program, and what its stories need.
fn compose(kernel: &Path, into: &Path) {
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/src/services/mesh/tests/machine/compose.sh");
    let program = std::env::current_exe().expect("a program");
    let made = Command::new("sh").arg(recipe).arg(program).arg(kernel).arg(into).output();
    let made = made.expect("sh runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// All that the machine says until it is switched off.
fn boot(kernel: &Path, root: &Path) -> String {
    let mut machine = Command::new("timeout");
    machine.args(["--kill-after=5", SECONDS, EMULATOR, "-accel", "tcg"]);
    machine.args(["-machine", "pc", "-cpu", "max", "-m", "1024", "-nodefaults", "-no-user-config"]);
    machine.args(["-display", "none", "-serial", "stdio", "-no-reboot"]);
    machine.arg("-kernel").arg(kernel).arg("-initrd").arg(root);
    machine.args(["-append", &format!("console=ttyS0 quiet panic=-1 {QUICK}")]);
    let output = machine.stdin(std::process::Stdio::null()).output().expect("timeout runs");
    let (said, complaints) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{complaints}\n{}", String::from_utf8_lossy(&said));
    String::from_utf8_lossy(&said).replace('\r', "")
}
