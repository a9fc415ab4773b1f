//! Has the linker pack what the loader adjusts when the program starts: one bit instead of 24 bytes
//! for each of tens of thousands of pointers. Smaller on disk, and less to read at every start.

use std::process::Command;

/// The first C library that can load it.
const GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FLUKE_PORTABLE");
    // For machines that are older than this one.
    if std::env::var_os("FLUKE_PORTABLE").is_some() {
        return;
    }
    if target("OS") == "linux" && target("ENV") == "gnu" && loader_knows() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn target(part: &str) -> String {
    std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default()
}

/// Whether the program will find a C library that is new enough. Known only of this machine.
fn loader_knows() -> bool {
    let is_for_here = std::env::var("HOST").ok() == std::env::var("TARGET").ok();
    is_for_here && glibc_here().is_some_and(|version| version >= GLIBC)
}

fn glibc_here() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
