//! A container's own view of its network.
//!
//! Its root is whatever its first process made of it, and who waits for what is found there waits
//! for a stranger. So nothing leads out of it, nothing is opened but what the kernel itself says,
//! and no more of that is read than a number has digits.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2, statfs};

/// The longest number, and the end of its line.
const LONGEST: u64 = 11;

/// The number of the other end of the container's interface, where it can be told. The host's own
/// `sys` tells how the kernel's word is known.
pub fn other_end(root: &Path, sys: &Path) -> Option<u32> {
    number(interface(root, sys)?, "iflink")
}

/// The number that the container's interface has in the container, where it can be told.
pub fn own_end(root: &Path, sys: &Path) -> Option<u32> {
    number(interface(root, sys)?, "ifindex")
}

fn interface(root: &Path, sys: &Path) -> Option<OwnedFd> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, folder, Mode::empty()).ok()?;
    let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let eth0 = openat2(root, "sys/class/net/eth0", folder, Mode::empty(), within).ok()?;
    let is_the_kernels = fstatfs(&eth0).ok()?.f_type == statfs(sys).ok()?.f_type;
    is_the_kernels.then_some(eth0)
}

fn number(folder: impl AsFd, name: &str) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let here = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let file = File::from(openat2(folder, name, flags, Mode::empty(), here).ok()?);
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests;
