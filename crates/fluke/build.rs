//! Has the linker make the program smaller where it can.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The first C library that can load packed relocations.
const GLIBC: (u32, u32) = (2, 36);
/// Functions that come to the same code are there once; generic ones often do.
const FOLD: &str = "-Wl,--icf=all";
/// What the loader adjusts when the program starts takes one bit instead of 24 bytes for each of tens
/// of thousands of pointers: smaller on disk, and less to read at every start.
const PACK: &str = "-Wl,-z,pack-relative-relocs";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FLUKE_PORTABLE");
    if variable("PROFILE") == "release" && linker_knows(FOLD) {
        println!("cargo::rustc-link-arg-bins={FOLD}");
    }
    // Not for machines that are older than this one.
    let is_portable = std::env::var_os("FLUKE_PORTABLE").is_some();
    let is_glibc =
        variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if is_glibc && !is_portable && loader_knows() {
        println!("cargo::rustc-link-arg-bins={PACK}");
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Whether the linker that will be used takes an argument: it is asked.
fn linker_knows(argument: &str) -> bool {
    let probe = PathBuf::from(variable("OUT_DIR")).join("probe");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--crate-name=probe", "-", "--target", &variable("TARGET"), "-o"]).arg(probe);
    rustc.arg(format!("-Clink-arg={argument}"));
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let started = rustc.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut rustc) = started else { return false };
    let told = rustc.stdin.take().is_some_and(|mut input| input.write_all(b"fn main() {}").is_ok());
    rustc.wait().is_ok_and(|status| told && status.success())
}

/// Whether the program will find a C library that is new enough. Known only of this machine.
fn loader_knows() -> bool {
    variable("HOST") == variable("TARGET") && glibc_here().is_some_and(|version| version >= GLIBC)
}

fn glibc_here() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
