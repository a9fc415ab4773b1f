use std::os::unix::fs::PermissionsExt;

use super::*;

const UGLY: &str = "a=1\nlonger   = 2\n";
const GOOD: &str = "a      = 1\nlonger = 2\n";

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    folder
}

#[test]
fn of_a_folder_only_manifests_are_taken_and_of_files_any() {
    let folder = folder(&[
        ("a.fluke.hcl", ""),
        ("deep/er/b.fluke.hcl", ""),
        ("server.hcl", ""),
        ("x.txt", ""),
    ]);
    let names = |path: &Path| -> Vec<String> {
        let found = files(path).expect("readable");
        found
            .iter()
            .map(|file| file.strip_prefix(folder.path()).expect("inside").display().to_string())
            .collect()
    };
    assert_eq!(names(folder.path()), ["a.fluke.hcl", "deep/er/b.fluke.hcl"]);
    assert_eq!(names(&folder.path().join("server.hcl")), ["server.hcl"]);
    assert!(files(&folder.path().join("none")).is_err());
}

#[test]
fn a_file_is_replaced_whole_and_keeps_its_mode() {
    let folder = folder(&[("a.hcl", UGLY)]);
    let file = folder.path().join("a.hcl");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
    let link = folder.path().join("link.hcl");
    std::os::unix::fs::symlink("a.hcl", &link).expect("a link");

    replace(&link, GOOD).expect("replaced");
    assert_eq!(fs::read_to_string(&file).expect("text"), GOOD);
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 2, "nothing is left behind");
}

#[test]
fn differences_show_the_lines_that_change() {
    assert_eq!(
        differences("a.hcl", UGLY, GOOD, Style::default()),
        "a.hcl\n    1 - a=1\n      + a      = 1\n    2 - longer   = 2\n      + longer = 2\n"
    );
}
