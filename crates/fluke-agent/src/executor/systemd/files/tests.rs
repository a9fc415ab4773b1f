use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn unit(name: &str) -> UnitName {
    UnitName::parse(name).expect("a name")
}

/// A tree of unit files.
fn tree(root: &Path) -> Vec<PathBuf> {
    let (etc, usr) = (root.join("etc"), root.join("usr"));
    fs::create_dir_all(etc.join("multi-user.target.wants")).expect("a directory");
    fs::create_dir_all(&usr).expect("a directory");
    fs::write(usr.join("a.service"), "[Service]\n[Install]\n").expect("a file");
    fs::write(usr.join("a@.service"), "[Service]\n").expect("a file");
    vec![etc, usr]
}

/// When the changes of this test are long enough ago to be relied upon.
fn later() -> SystemTime {
    SystemTime::now() + 2 * TOO_YOUNG
}

#[test]
fn what_is_known_holds_until_a_directory_or_the_file_changes() {
    let root = tempfile::tempdir().expect("a directory");
    let paths = tree(root.path());
    let mut known = Known::default();
    let seen = known.refresh(&paths);
    known.keep(&unit("a.service"), &Some(FileState::Disabled), &seen, SystemTime::now());
    assert_eq!(known.get(&unit("a.service")), None, "its directories are too young to tell");

    let seen = known.refresh(&paths);
    known.keep(&unit("a.service"), &Some(FileState::Disabled), &seen, later());
    known.keep(&unit("gone.service"), &None, &seen, later());
    known.refresh(&paths);
    assert_eq!(known.get(&unit("a.service")), Some(&Some(FileState::Disabled)));
    assert_eq!(known.get(&unit("gone.service")), Some(&None));

    // Changed in place: its directory does not tell.
    fs::write(paths[1].join("a.service"), "[Service]\n").expect("a file");
    known.refresh(&paths);
    assert_eq!(known.get(&unit("a.service")), None);
    assert_eq!(known.get(&unit("gone.service")), Some(&None), "others are not concerned");

    let link = paths[0].join("multi-user.target.wants/a.service");
    symlink("/nowhere", link).expect("a link");
    known.refresh(&paths);
    assert_eq!(known.get(&unit("gone.service")), None, "a link may enable anything");
}

#[test]
fn what_was_asked_before_a_change_is_not_kept_after_it() {
    let root = tempfile::tempdir().expect("a directory");
    let paths = tree(root.path());
    let mut known = Known::default();
    let seen = known.refresh(&paths);
    fs::write(paths[0].join("b.service"), "").expect("a file");
    known.refresh(&paths);
    known.keep(&unit("a.service"), &Some(FileState::Disabled), &seen, later());
    assert_eq!(known.get(&unit("a.service")), None);
}

#[test]
fn names_like_the_one_that_is_missing_are_offered() {
    let root = tempfile::tempdir().expect("a directory");
    for name in ["nginx.service", "nginx.timer", "postgresql.service", "cron.service"] {
        fs::write(root.path().join(name), "").expect("a file");
    }
    let paths = [root.path().to_owned()];
    assert_eq!(near(&unit("ngnix.service"), &paths), ["nginx.service"]);
    assert_eq!(near(&unit("postgres.service"), &paths), ["postgresql.service"]);
    assert!(near(&unit("something-else.service"), &paths).is_empty());
}

#[test]
fn an_install_section_is_seen() {
    let root = tempfile::tempdir().expect("a directory");
    let paths = tree(root.path());
    let shown = |name: &str| is_installable(&paths[1].join(name).to_string_lossy());
    assert_eq!(shown("a.service"), Some(true));
    assert_eq!(shown("a@.service"), Some(false));
    assert_eq!(shown("nowhere.service"), None);
}
