use std::os::unix::fs::symlink;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

fn folder() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

fn write(folder: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(path, content).expect("a file");
}

fn paths(tree: &FolderTree) -> Vec<&str> {
    tree.entries().iter().map(|entry| &*entry.path).collect()
}

#[test]
fn a_folder_is_a_tree_without_git_and_without_what_links_point_to() {
    let folder = folder();
    write(folder.path(), "b/c.fluke.hcl", "two");
    write(folder.path(), "a.fluke.hcl", "one");
    write(folder.path(), ".git/config", "no");
    write(folder.path(), "sub/.git/config", "no");
    symlink("/etc", folder.path().join("etc")).expect("a symlink");
    symlink("a.fluke.hcl", folder.path().join("link.fluke.hcl")).expect("a symlink");
    nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("fifo");
    let tree = FolderTree::read(folder.path()).expect("a tree");
    assert_eq!(paths(&tree), ["a.fluke.hcl", "b/c.fluke.hcl", "etc", "link.fluke.hcl"]);
    assert_eq!(*tree.read("b/c.fluke.hcl").expect("content"), *b"two");
    for path in ["etc", "link.fluke.hcl"] {
        assert!(matches!(tree.read(path), Err(TreeError::Unreadable { .. })), "{path}");
    }
    for path in ["../x", "/etc/passwd", "etc/passwd", "nothing"] {
        assert!(matches!(tree.read(path), Err(TreeError::Missing(_))), "{path}");
    }
}

#[test]
fn equal_files_make_equal_commits_and_other_files_others() {
    let (one, two) = (folder(), folder());
    for folder in [&one, &two] {
        write(folder.path(), "a", "1");
        write(folder.path(), "b/c", "2");
    }
    let commit = |folder: &TempDir| FolderTree::read(folder.path()).expect("a tree").commit();
    assert_eq!(commit(&one), commit(&two));
    write(two.path(), "b/c", "3");
    assert_ne!(commit(&one), commit(&two));
    write(two.path(), "b/c", "2");
    assert_eq!(commit(&one), commit(&two));
}

#[test]
fn what_changed_between_listing_and_reading_is_never_passed_off_as_the_old() {
    let folder = folder();
    write(folder.path(), "a", "1");
    let tree = FolderTree::read(folder.path()).expect("a tree");
    write(folder.path(), "a", "2");
    assert!(matches!(tree.read("a"), Err(TreeError::Unreadable { .. })));
    std::fs::remove_file(folder.path().join("a")).expect("removed");
    symlink("/etc/passwd", folder.path().join("a")).expect("a symlink");
    assert!(matches!(tree.read("a"), Err(TreeError::Unreadable { .. })));
}

#[test]
fn large_files_are_refused_and_bad_names_told() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder();
    let large = File::create(folder.path().join("large")).expect("a file");
    large.set_len(MAX_FILE + 1).expect("sparse");
    write(folder.path(), "limit", vec![1; MAX_FILE as usize]);
    let name = std::ffi::OsStr::from_bytes(b"bad\xff");
    std::fs::write(folder.path().join(name), "x").expect("a file");
    let tree = FolderTree::read(folder.path()).expect("a tree");
    assert!(matches!(tree.read("large"), Err(TreeError::TooLarge { .. })));
    assert_eq!(tree.read("limit").expect("just small enough").len() as u64, MAX_FILE);
    assert_eq!(tree.skipped(), ["bad\\xff"]);
}

#[test]
fn a_missing_folder_and_a_bottomless_one_are_errors() {
    let folder = folder();
    let missing = FolderTree::read(&folder.path().join("missing")).expect_err("missing");
    assert!(missing.to_string().contains("missing"), "{missing}");
    let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 2).collect();
    std::fs::create_dir_all(folder.path().join(deep)).expect("directories");
    assert!(matches!(FolderTree::read(folder.path()), Err(FolderError::TooLarge { .. })));
}

#[test]
fn a_reader_sees_every_change_of_a_file_it_knows() {
    let folder = folder();
    let mut reader = FolderReader::new(folder.path());
    let mut commits = std::collections::HashSet::new();
    for round in 0..50 {
        write(folder.path(), "a", format!("{round:02}"));
        commits.insert(reader.read().expect("a tree").commit());
    }
    assert_eq!(commits.len(), 50);
}

/// Fails a test that would wait forever.
async fn changes(watch: &mut FolderWatch) {
    let changed = tokio::time::timeout(Duration::from_secs(20), watch.changed()).await;
    changed.expect("a change is told").expect("watched");
}

#[tokio::test]
async fn every_way_to_change_a_file_is_told() {
    let folder = folder();
    write(folder.path(), "a", "1");
    let mut watch = FolderWatch::new(folder.path()).expect("watched");

    write(folder.path(), "a", "2");
    changes(&mut watch).await;

    write(folder.path(), "a.tmp", "3");
    std::fs::rename(folder.path().join("a.tmp"), folder.path().join("a")).expect("renamed");
    changes(&mut watch).await;

    write(folder.path(), "new/deep/b", "4");
    changes(&mut watch).await;
    write(folder.path(), "new/deep/b", "5");
    changes(&mut watch).await;

    std::fs::remove_dir_all(folder.path().join("new")).expect("removed");
    changes(&mut watch).await;
    write(folder.path(), "new/deep/b", "6");
    changes(&mut watch).await;
    write(folder.path(), "new/deep/b", "7");
    changes(&mut watch).await;
}

#[tokio::test]
async fn a_folder_that_is_replaced_is_watched_again() {
    let above = folder();
    let root = above.path().join("infra");
    write(&root, "a", "1");
    let mut watch = FolderWatch::new(&root).expect("watched");
    std::fs::remove_dir_all(&root).expect("removed");
    changes(&mut watch).await;
    write(&root, "a", "2");
    changes(&mut watch).await;
    write(&root, "sub/b", "3");
    changes(&mut watch).await;
    std::fs::rename(&root, above.path().join("old")).expect("renamed");
    changes(&mut watch).await;
    write(&root, "c", "4");
    changes(&mut watch).await;
    write(&root, "c", "5");
    changes(&mut watch).await;
}

#[tokio::test]
async fn reading_is_no_change() {
    let folder = folder();
    write(folder.path(), "a", "1");
    let mut watch = FolderWatch::new(folder.path()).expect("watched");
    FolderTree::read(folder.path()).expect("a tree").read("a").expect("content");
    tokio::select! {
        biased;
        _ = watch.changed() => panic!("reading was told as a change"),
        () = tokio::time::sleep(Duration::from_millis(200)) => {}
    }
}
