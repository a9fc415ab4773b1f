use fluke_model::directory::{Routes, Subnet};

use super::super::compile::compile;
use super::super::settings::Settings;
use super::*;

fn plan(folder: &Path) -> Plan {
    let settings = Settings::new(folder.into(), Subnet::new(1).expect("a subnet"));
    compile(&Routes::default(), &settings, Vec::new(), &BTreeSet::new())
}

#[test]
fn what_is_written_is_so_and_anything_else_is_seen_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, plan) = (folder.path(), plan(folder.path()));
    assert!(!is_written(folder, &plan).expect("readable"));
    write(folder, &plan).expect("room");
    assert!(is_written(folder, &plan).expect("readable"));
    let dynamic = dynamic_folder(folder, &plan.fixed.generation);
    type Tamper = fn(&Path) -> io::Result<()>;
    let tamperings: [(&str, Tamper); 3] = [
        ("routes.yaml", |path| std::fs::write(path, "")),
        ("other.yaml", |path| std::fs::write(path, "http: {}")),
        ("folder", |path| std::fs::create_dir(path)),
    ];
    for (name, tamper) in tamperings {
        tamper(&dynamic.join(name)).expect("room");
        assert!(!is_written(folder, &plan).expect("readable"), "{name}");
        write(folder, &plan).expect("room");
        assert!(is_written(folder, &plan).expect("readable"), "{name}");
    }
}

#[test]
fn what_a_process_listens_by_is_in_what_it_was_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, plan) = (folder.path(), plan(folder.path()));
    assert_eq!(entry_points(folder, &plan.fixed.generation), BTreeSet::new());
    write(folder, &plan).expect("room");
    let names = ["traefik", "web"].map(str::to_owned);
    assert_eq!(entry_points(folder, &plan.fixed.generation), names.into());
}

#[test]
fn what_is_so_already_is_not_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, plan) = (folder.path(), plan(folder.path()));
    write(folder, &plan).expect("room");
    let routes = dynamic_folder(folder, &plan.fixed.generation).join(ROUTES);
    let number =
        || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&routes).expect("there"));
    let before = number();
    write(folder, &plan).expect("room");
    assert_eq!(number(), before);
}

#[test]
fn only_what_processes_of_the_past_have_read_is_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, plan) = (folder.path(), plan(folder.path()));
    write(folder, &plan).expect("room");
    let old = Generation::parse("0123456789ab").expect("a name");
    tell(folder, &old, &plan.dynamic).expect("room");
    for name in ["traefik-0123456789ab.yaml", "acme.json", "access.log"] {
        std::fs::write(folder.join(name), "").expect("room");
    }
    forget_all_but(folder, &[&plan.fixed.generation]).expect("possible");
    assert!(is_written(folder, &plan).expect("readable"));
    assert!(folder.join("acme.json").exists() && folder.join("access.log").exists());
    assert!(!folder.join("traefik-0123456789ab.yaml").exists());
    assert!(!dynamic_folder(folder, &old).exists());
}

#[test]
fn all_that_was_told_can_be_forgotten_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, plan) = (folder.path(), plan(folder.path()));
    assert!(!has_any(folder) && !has_any(&folder.join("none")));
    forget_all(&folder.join("none")).expect("there is nothing to remove");
    write(folder, &plan).expect("room");
    for kept in ["acme.json", "access.log"] {
        std::fs::write(folder.join(kept), "kept").expect("room");
    }
    assert!(has_any(folder));
    forget_all(folder).expect("removed");
    assert!(!has_any(folder));
    let mut left: Vec<_> = entries(folder).expect("readable");
    left.sort();
    assert_eq!(left, [folder.join("access.log"), folder.join("acme.json")]);
}
