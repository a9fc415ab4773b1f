use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use super::*;

/// What a first process has as its root, and what the host has beside it.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("a folder"));
        for folder in ["sys", "root/sys/class/net/eth0"] {
            fs::create_dir_all(files.at(folder)).expect("room");
        }
        files
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Asks as somebody who does not wait for ever.
    fn other_end(&self, sys: &Path) -> Option<u32> {
        let (root, sys) = (self.at("root"), sys.to_owned());
        let (told, heard) = mpsc::channel();
        std::thread::spawn(move || told.send(other_end(&root, &sys)));
        heard.recv_timeout(Duration::from_secs(20)).expect("an answer, whatever is there")
    }
}

const IFLINK: &str = "root/sys/class/net/eth0/iflink";

#[test]
fn it_says_where_its_interface_ends() {
    let files = Files::new();
    fs::write(files.at(IFLINK), format!("{}\n", u32::MAX)).expect("room");
    assert_eq!(files.other_end(&files.at("sys")), Some(u32::MAX));
    fs::rename(files.at("root/sys/class/net/eth0"), files.at("root/eth0")).expect("moved");
    symlink("/eth0", files.at("root/sys/class/net/eth0")).expect("room");
    assert_eq!(files.other_end(&files.at("sys")), Some(u32::MAX), "by its own root");
}

#[test]
fn nobody_waits_for_what_a_container_puts_there() {
    let files = Files::new();
    let made = Command::new("mkfifo").arg(files.at(IFLINK)).status().expect("mkfifo runs");
    assert!(made.success());
    assert_eq!(files.other_end(&files.at("sys")), None);
}

#[test]
fn nothing_leads_out_of_a_container() {
    let files = Files::new();
    fs::write(files.at("theirs"), "7\n").expect("room");
    for to in [files.at("theirs"), "/dev/zero".into(), "../../../../../theirs".into()] {
        symlink(&to, files.at(IFLINK)).expect("room");
        assert_eq!(files.other_end(&files.at("sys")), None, "{}", to.display());
        fs::remove_file(files.at(IFLINK)).expect("it was there");
    }
    fs::create_dir(files.at("host")).expect("room");
    fs::write(files.at("host/iflink"), "7\n").expect("room");
    fs::remove_dir(files.at("root/sys/class/net/eth0")).expect("it was there");
    symlink(files.at("host"), files.at("root/sys/class/net/eth0")).expect("room");
    assert_eq!(files.other_end(&files.at("sys")), None);
}

#[test]
fn what_the_kernel_does_not_say_does_not_count() {
    let files = Files::new();
    fs::write(files.at(IFLINK), "7\n").expect("room");
    assert_eq!(files.other_end(Path::new("/proc")), None, "another kind of file system");
    fs::write(files.at(IFLINK), "7".repeat(1 << 20)).expect("room");
    assert_eq!(files.other_end(&files.at("sys")), None);
}
