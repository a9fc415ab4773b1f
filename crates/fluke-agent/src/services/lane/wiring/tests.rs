use std::fs;
use std::path::Path;

use super::*;

/// A kernel's files, as far as they are read.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn interfaces(&self) -> Interfaces {
        Interfaces { sys: self.0.path().join("sys"), proc: self.0.path().join("proc") }
    }

    fn write(&self, path: &str, number: u32) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        fs::write(path, format!("{number}\n")).expect("room");
    }

    fn remove(&self, path: &str) {
        let path: &Path = &self.0.path().join(path);
        fs::remove_dir_all(path).expect("it was there");
    }

    /// A container's process, whose interface has its end at this number.
    fn process(&self, process: i32, end: u32) {
        let process = format!("proc/{process}");
        self.write(&[&process, "root", "sys/class/net/eth0/iflink"].join("/"), end);
    }

    fn port(&self, name: &str, number: u32) {
        self.write(&format!("sys/class/net/{name}/ifindex"), number);
        self.write(&format!("sys/class/net/fluke-br0/brif/{name}/port_no"), 1);
    }
}

#[test]
fn an_interface_leads_to_the_port_with_its_number_until_that_is_gone() {
    let (files, mut wiring) = (Files::new(), Wiring::default());
    let all = BTreeSet::from([11, 12, 13]);
    files.port("veth1", 7);
    files.process(11, 7);
    files.process(12, 8);
    let seen = |wiring: &mut Wiring| {
        wiring.see(&all, &files.interfaces());
        [11, 12, 13].map(|process| wiring.leads_there(process))
    };
    assert_eq!(seen(&mut wiring), [Some(true), Some(false), None], "the last has no interface");
    files.port("veth2", 8);
    assert_eq!(seen(&mut wiring), [Some(true), Some(true), None], "it was put there");
    files.remove("sys/class/net/fluke-br0");
    assert_eq!(seen(&mut wiring), [Some(false), Some(false), None], "the bridge is gone");
}

#[test]
fn what_leads_where_it_led_is_followed_again_only_when_it_was_forgotten() {
    let (files, mut wiring) = (Files::new(), Wiring::default());
    let all = BTreeSet::from([11]);
    files.port("veth1", 7);
    files.process(11, 7);
    wiring.see(&all, &files.interfaces());
    files.process(11, 9);
    wiring.see(&all, &files.interfaces());
    assert_eq!(wiring.leads_there(11), Some(true));
    wiring.forget();
    wiring.see(&all, &files.interfaces());
    assert_eq!(wiring.leads_there(11), Some(false));
    wiring.see(&BTreeSet::new(), &files.interfaces());
    assert_eq!(wiring.leads_there(11), None, "of who is gone nothing is kept");
}
