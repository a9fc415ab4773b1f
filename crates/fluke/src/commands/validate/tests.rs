use super::*;

const TASK: &str = r#"
task "motd" {
  selector {
    match_labels = { role = local.role }
  }
  shell "motd" {
    check   = "test -f /etc/motd"
    command = "touch /etc/motd"
  }
}
"#;
const LOCALS: &str = "locals {\n  role = \"web\"\n}\n";

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    folder
}

fn checked(path: &Path) -> Checked {
    check(path, "**/*.fluke.hcl").unwrap_or_else(|failure| panic!("{}", failure.text()))
}

#[test]
fn a_folder_is_checked_as_a_commit_would_be() {
    let folder = folder_with(&[
        ("a/task.fluke.hcl", TASK),
        ("locals.fluke.hcl", LOCALS),
        ("other.hcl", "!"),
    ]);
    let result = checked(folder.path());
    assert_eq!((result.valid, result.files, result.tasks), (true, 2, 1), "{result:?}");

    fs::write(folder.path().join("b.fluke.hcl"), "task \"motd\" {}\n").expect("a file");
    let result = checked(folder.path());
    assert!(!result.valid);
    assert!(result.diagnostics.iter().all(|problem| problem.file == "b.fluke.hcl"), "{result:?}");
    let json = serde_json::to_value(&result).expect("JSON");
    assert_eq!((&json["valid"], &json["files"]), (&false.into(), &3.into()));
    assert!(json["diagnostics"][0]["line"].is_u64(), "{json}");
}

#[test]
fn one_manifest_is_checked_among_the_others_of_its_repository() {
    let folder = folder_with(&[
        (".git/HEAD", ""),
        ("a/task.fluke.hcl", TASK),
        ("locals.fluke.hcl", LOCALS),
        ("broken.fluke.hcl", "nonsense = 1\n"),
    ]);
    let result = checked(&folder.path().join("a/task.fluke.hcl"));
    assert!(result.valid, "{result:?}");
    assert!(matches!(result.what, What::Manifest { elsewhere: 1 }), "{result:?}");
    assert!(!checked(&folder.path().join("broken.fluke.hcl")).valid);
}

#[test]
fn a_config_is_recognised_whatever_its_name() {
    let folder =
        folder_with(&[("x.hcl", "server {\n  listen_grpc = \"7070\"\n}\n"), ("y.hcl", "a = 1\n")]);
    let result = checked(&folder.path().join("x.hcl"));
    assert!(!result.valid);
    assert_eq!(result.diagnostics.len(), 3, "{result:?}");
    let failure = check(&folder.path().join("y.hcl"), "**/*.fluke.hcl").expect_err("neither");
    assert!(failure.text().contains("does not match"), "{}", failure.text());
}

#[test]
fn what_cannot_be_read_is_told() {
    let failure = check(Path::new("/nonexistent/x"), "**").expect_err("not there");
    assert!(
        failure.text().starts_with("error: could not read /nonexistent/x\n"),
        "{}",
        failure.text()
    );
    let folder = folder_with(&[]);
    let failure = check(folder.path(), "a[").expect_err("no glob");
    assert!(failure.text().contains("is not a pattern"), "{}", failure.text());
}
