mod http;
mod ssh;

use std::os::unix::fs::{PermissionsExt, symlink};

use fluke_manifest::tree::{EntryKind, Tree, TreeError};

use super::fixture::{Repository, git_in};
use super::*;

async fn checkout(mirror: &mut Mirror) -> Checkout {
    mirror.checkout(None).await.expect("a checkout").expect("a new commit")
}

async fn refused(mirror: &mut Mirror) -> GitError {
    match mirror.checkout(None).await {
        Err(error) => error,
        Ok(checkout) => panic!("checked out {:?}", checkout.map(|checkout| checkout.commit)),
    }
}

fn text(checkout: &Checkout, path: &str) -> String {
    let content = checkout.tree.read(path).expect(path);
    String::from_utf8_lossy(&content).into_owned()
}

fn paths(checkout: &Checkout) -> Vec<&str> {
    checkout.tree.entries().iter().map(|entry| &*entry.path).collect()
}

#[tokio::test]
async fn a_first_checkout_and_every_later_one_gives_the_newest_commit() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let mut mirror = Mirror::new(repository.config());
    assert_eq!(mirror.tip().await.expect("a tip"), repository.head());
    let first = checkout(&mut mirror).await;
    assert_eq!((&first.commit, &*text(&first, "a.fluke.hcl")), (&repository.head(), "one"));

    repository.write("deep/er/b.fluke.hcl", "two");
    repository.commit("a.fluke.hcl", "three");
    let second = checkout(&mut mirror).await;
    assert_eq!(
        (&second.commit, &second.parents),
        (&repository.head(), &vec![first.commit.clone()])
    );
    assert_eq!(paths(&second), ["a.fluke.hcl", "deep/er/b.fluke.hcl"]);
    assert_eq!(text(&second, "deep/er/b.fluke.hcl"), "two");
    assert_eq!(text(&second, "a.fluke.hcl"), "three");
    assert_eq!(text(&first, "a.fluke.hcl"), "one", "a tree in use is not changed");
}

#[tokio::test]
async fn a_commit_that_is_there_already_is_found_again() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let mut mirror = Mirror::new(repository.config());
    let first = checkout(&mut mirror).await;
    assert_eq!(checkout(&mut mirror).await.commit, first.commit);
    assert_eq!(mirror.tip().await.expect("a tip"), first.commit);
    let mut restarted = Mirror::new(repository.config());
    assert_eq!(checkout(&mut restarted).await.commit, first.commit);
}

#[tokio::test]
async fn a_rewritten_branch_is_followed() {
    let repository = Repository::with("a.fluke.hcl", "one");
    repository.commit("a.fluke.hcl", "two");
    let mut mirror = Mirror::new(repository.config());
    let before = checkout(&mut mirror).await;
    repository.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let set_back = checkout(&mut mirror).await;
    assert_eq!(text(&set_back, "a.fluke.hcl"), "one");
    repository.git(&["checkout", "--quiet", "--orphan", "fresh"]);
    repository.commit("a.fluke.hcl", "three");
    repository.git(&["branch", "--force", "main", "fresh"]);
    let unrelated = checkout(&mut mirror).await;
    assert_eq!(text(&unrelated, "a.fluke.hcl"), "three");
    assert!(unrelated.parents.is_empty() && unrelated.commit != before.commit);
}

#[tokio::test]
async fn a_repository_that_vanishes_and_returns_is_read_again() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let mut mirror = Mirror::new(repository.config());
    checkout(&mut mirror).await;
    repository.hide();
    assert!(matches!(mirror.tip().await, Err(GitError::NotFound { .. })));
    assert!(matches!(refused(&mut mirror).await, GitError::NotFound { .. }));
    repository.show();
    assert_eq!(checkout(&mut mirror).await.commit, repository.head());
}

#[tokio::test]
async fn a_missing_branch_is_told_from_an_empty_repository() {
    let repository = Repository::empty();
    let mut mirror = Mirror::new(repository.config());
    assert!(matches!(mirror.tip().await, Err(GitError::Empty { .. })));
    assert!(matches!(refused(&mut mirror).await, GitError::Empty { .. }));

    repository.commit("a.fluke.hcl", "one");
    assert_eq!(checkout(&mut mirror).await.commit, repository.head());
    repository.git(&["branch", "--move", "main", "trunk"]);
    let error = refused(&mut mirror).await;
    assert!(matches!(error, GitError::NoBranch { .. }));
    assert!(error.to_string().contains("no branch `main` (it has trunk)"), "{error}");
    assert!(matches!(mirror.tip().await, Err(GitError::NoBranch { .. })));
}

#[tokio::test]
async fn a_mirror_that_is_damaged_or_deleted_is_made_anew() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let mut mirror = Mirror::new(repository.config());
    checkout(&mut mirror).await;
    let directory = repository.cache().join("mirror.git");

    std::fs::remove_dir_all(repository.cache()).expect("removed");
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "one");

    std::fs::write(directory.join("HEAD"), "nonsense").expect("written");
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "one");

    std::fs::write(directory.join("shallow.lock"), "").expect("written");
    repository.commit("a.fluke.hcl", "two");
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "two");

    damage_all_objects(&directory.join("objects"));
    let mut restarted = Mirror::new(repository.config());
    assert_eq!(text(&checkout(&mut restarted).await, "a.fluke.hcl"), "two");

    std::fs::remove_dir_all(directory.join("objects")).expect("removed");
    std::fs::create_dir(directory.join("objects")).expect("made");
    let mut restarted = Mirror::new(repository.config());
    assert_eq!(text(&checkout(&mut restarted).await, "a.fluke.hcl"), "two");
}

fn damage_all_objects(directory: &std::path::Path) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            damage_all_objects(&path);
        } else {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode");
            std::fs::write(&path, "damaged").expect("written");
        }
    }
}

#[tokio::test]
async fn symlinks_and_submodules_are_listed_and_never_followed() {
    let repository = Repository::with("a.fluke.hcl", "one");
    symlink("/etc/passwd", repository.path().join("out")).expect("a symlink");
    symlink("a.fluke.hcl", repository.path().join("b.fluke.hcl")).expect("a symlink");
    let id = repository.head();
    let module = format!("160000,{id},module");
    repository.git(&["add", "--all"]);
    repository.git(&["update-index", "--add", "--cacheinfo", &module]);
    repository.git(&["commit", "--quiet", "--message=links"]);
    let checkout = checkout(&mut Mirror::new(repository.config())).await;
    let kinds: Vec<_> =
        checkout.tree.entries().iter().map(|entry| (&*entry.path, entry.kind)).collect();
    use EntryKind::*;
    let expected =
        [("a.fluke.hcl", File), ("b.fluke.hcl", Symlink), ("module", Submodule), ("out", Symlink)];
    assert_eq!(kinds, expected);
    for path in ["b.fluke.hcl", "module", "out"] {
        assert!(matches!(checkout.tree.read(path), Err(TreeError::Unreadable { .. })), "{path}");
    }
    assert!(matches!(checkout.tree.read("../x"), Err(TreeError::Missing(_))));
}

#[tokio::test]
async fn a_huge_file_is_refused_by_its_size_alone() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let huge = std::fs::File::create(repository.path().join("huge.fluke.hcl")).expect("a file");
    huge.set_len(100 * 1024 * 1024).expect("sparse");
    repository.write("limit.bin", vec![7; fluke_manifest::tree::MAX_FILE as usize]);
    repository.commit_all();
    let checkout = checkout(&mut Mirror::new(repository.config())).await;
    let refused = checkout.tree.read("huge.fluke.hcl");
    assert!(matches!(refused, Err(TreeError::TooLarge { size: 104_857_600, .. })), "{refused:?}");
    assert_eq!(checkout.tree.read("limit.bin").expect("just small enough").len(), 1 << 20);
    assert_eq!(text(&checkout, "a.fluke.hcl"), "one");
}

#[tokio::test]
async fn names_that_are_no_text_are_left_out_and_told() {
    use std::os::unix::ffi::OsStrExt;
    let repository = Repository::with("a.fluke.hcl", "one");
    for name in [&b"bad\xff.fluke.hcl"[..], b"line\nbreak.fluke.hcl"] {
        let path = repository.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(path, "two").expect("a file");
    }
    repository.write("ünï/ok.fluke.hcl", "three");
    repository.commit_all();
    let checkout = checkout(&mut Mirror::new(repository.config())).await;
    assert_eq!(paths(&checkout), ["a.fluke.hcl", "ünï/ok.fluke.hcl"]);
    assert_eq!(checkout.tree.skipped(), ["bad\\xff.fluke.hcl", "line\\nbreak.fluke.hcl"]);
}

#[tokio::test]
async fn a_repository_of_another_hash_is_read_too() {
    let repository = Repository::empty();
    std::fs::remove_dir_all(repository.path().join(".git")).expect("removed");
    repository.git(&["init", "--quiet", "--initial-branch=main", "--object-format=sha256"]);
    repository.commit("sub/a.fluke.hcl", "one");
    let mut mirror = Mirror::new(repository.config());
    let checkout = checkout(&mut mirror).await;
    assert_eq!((checkout.commit.as_str().len(), &*text(&checkout, "sub/a.fluke.hcl")), (64, "one"));
}

#[tokio::test]
async fn a_repository_cannot_make_the_server_run_anything() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let canary = repository.beside("canary");
    let script = format!("touch {}", canary.display());
    repository.write(".gitattributes", "*.hcl filter=evil diff=evil\n");
    repository.write(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh\n");
    repository.commit_all();
    for (key, value) in [
        ("filter.evil.smudge", &*script),
        ("filter.evil.clean", "cat"),
        ("uploadpack.packObjectsHook", &script),
        ("core.fsmonitor", &script),
    ] {
        repository.git(&["config", key, value]);
    }
    let mut mirror = Mirror::new(repository.config());
    checkout(&mut mirror).await;
    let directories = [repository.path().join(".git"), repository.cache().join("mirror.git")];
    for directory in &directories {
        let hooks = directory.join("hooks");
        std::fs::create_dir_all(&hooks).expect("a directory");
        for hook in ["reference-transaction", "post-checkout", "post-merge", "pre-auto-gc"] {
            let file = hooks.join(hook);
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a hook");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("mode");
        }
    }
    git_in(
        &repository.path(),
        &[
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
            "commit",
            "--quiet",
            "--allow-empty",
            "--message=x",
        ],
    );
    let _ = std::fs::remove_file(&canary);
    let checkout = checkout(&mut mirror).await;
    mirror.fetches = TIDY_AFTER;
    mirror.tidy().await;
    assert_eq!(text(&checkout, "a.fluke.hcl"), "one");
    assert!(!canary.exists(), "something was run");
}

#[tokio::test]
async fn packing_keeps_the_mirror_small_and_readable() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let mut mirror = Mirror::new(repository.config());
    for round in 0..5 {
        repository.commit("a.fluke.hcl", &format!("round {round}"));
        checkout(&mut mirror).await;
    }
    let kept = checkout(&mut mirror).await;
    mirror.fetches = TIDY_AFTER;
    mirror.tidy().await;
    let count = git_in(&repository.cache().join("mirror.git"), &["count-objects", "-v"]);
    assert!(count.contains("count: 0\n") && count.contains("in-pack: 3\n"), "{count}");
    assert_eq!(text(&kept, "a.fluke.hcl"), "round 4");
    repository.commit("a.fluke.hcl", "after");
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "after");
}

/// How many objects the mirror holds, and in how many files.
fn holdings(repository: &Repository) -> (usize, usize) {
    let count = git_in(&repository.cache().join("mirror.git"), &["count-objects", "-v"]);
    let number = |name: &str| {
        let line = count.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse::<usize>().ok()).expect("a number")
    };
    let (loose, packed, packs) = (number("count:"), number("in-pack:"), number("packs:"));
    (loose + packed, loose + packs)
}

/// Commits `count` changes to a file at once; returns them, oldest first.
fn history(repository: &Repository, count: usize) -> Vec<String> {
    let stream: String = (0..count)
        .map(|round| {
            let data = format!("round {round}");
            let from = if round == 0 { "from refs/heads/main^0\n" } else { "" };
            format!(
                "commit refs/heads/next\ncommitter C <c@example.org> {round} +0000\ndata 1\nx\n{from}\
                 M 100644 inline a.fluke.hcl\ndata {}\n{data}\n",
                data.len()
            )
        })
        .collect();
    std::fs::write(repository.beside("stream"), stream).expect("written");
    let imported = std::process::Command::new("git")
        .args(["fast-import", "--quiet"])
        .current_dir(repository.path())
        .stdin(std::fs::File::open(repository.beside("stream")).expect("a file"))
        .status();
    assert!(imported.expect("git runs").success());
    let listed = repository.git(&["rev-list", "--reverse", "main..next"]);
    listed.lines().map(str::to_string).collect()
}

#[tokio::test]
async fn a_mirror_does_not_grow_with_the_number_of_commits() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let mut mirror = Mirror::new(repository.config());
    checkout(&mut mirror).await;
    let mut most = (0, 0);
    for commit in history(&repository, TIDY_AFTER as usize + 20) {
        repository.git(&["update-ref", "refs/heads/main", &commit]);
        assert_eq!(checkout(&mut mirror).await.commit.as_str(), commit);
        mirror.tidy().await;
        let now = holdings(&repository);
        most = (most.0.max(now.0), most.1.max(now.1));
    }
    // Three objects a commit, none of them for longer than until the next tidying.
    let bound = 3 * (TIDY_AFTER as usize + 2);
    assert!(most.0 <= bound && most.1 <= bound, "{most:?}");
    assert!(holdings(&repository).0 <= 3 * 22, "{:?}", holdings(&repository));
}

#[tokio::test]
async fn what_short_runs_left_behind_is_tidied_by_the_next_one() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let commits = history(&repository, TIDY_AFTER as usize - 10);
    let mut mirror = Mirror::new(repository.config());
    for commit in &commits {
        repository.git(&["update-ref", "refs/heads/main", commit]);
        checkout(&mut mirror).await;
        mirror.tidy().await;
    }
    assert!(holdings(&repository).0 > 200, "{:?}", holdings(&repository));
    let mut restarted = Mirror::new(repository.config());
    checkout(&mut restarted).await;
    restarted.tidy().await;
    assert_eq!(holdings(&repository), (3, 1));
}

#[tokio::test]
async fn a_file_that_cannot_be_read_marks_the_mirror_as_damaged() {
    let repository = Repository::with("a.txt", "one");
    let mut mirror = Mirror::new(repository.config());
    let checkout = checkout(&mut mirror).await;
    assert!(!checkout.tree.is_damaged());
    damage_all_objects(&repository.cache().join("mirror.git/objects"));
    mirror.remove().await.expect("removed");
    assert!(matches!(checkout.tree.read("a.txt"), Err(TreeError::Unreadable { .. })));
    assert!(checkout.tree.is_damaged());
}

#[tokio::test]
async fn a_commit_with_billions_of_paths_is_refused_at_once() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let blob = repository.git(&["hash-object", "-w", "a.fluke.hcl"]);
    let mut kind = "100644 blob";
    let mut id = blob.trim().to_string();
    for _ in 0..10 {
        let lines: String = (0..10).map(|n| format!("{kind} {id}\tx{n}\n")).collect();
        repository.write("../listing", lines);
        let tree = std::process::Command::new("git")
            .arg("mktree")
            .current_dir(repository.path())
            .stdin(std::fs::File::open(repository.beside("listing")).expect("a file"))
            .output()
            .expect("git runs");
        id = String::from_utf8_lossy(&tree.stdout).trim().to_string();
        kind = "040000 tree";
    }
    let commit = repository.git(&["commit-tree", "-m", "bomb", &id]);
    repository.git(&["update-ref", "refs/heads/main", commit.trim()]);
    let error = refused(&mut Mirror::new(repository.config())).await;
    assert!(matches!(error, GitError::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_machine_without_room_says_so() {
    let repository = Repository::with("a.fluke.hcl", "one");
    std::fs::write(repository.cache(), "a file where a directory should be").expect("written");
    let error = refused(&mut Mirror::new(repository.config())).await;
    assert!(matches!(error, GitError::Storage { .. }), "{error}");
}

#[tokio::test]
async fn a_repository_that_belongs_to_somebody_else_is_read() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let head = repository.head();
    let git = repository.path().join(".git");
    let nobody = nix::unistd::Uid::from_raw(65_534);
    if nix::unistd::chown(&git, Some(nobody), None).is_err() {
        #[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
        {
            eprintln!("SKIP: only root can give a repository to somebody else");
        }
        return;
    }
    let mut mirror = Mirror::new(repository.config());
    assert_eq!(mirror.tip().await.expect("a tip"), head);
    assert_eq!(checkout(&mut mirror).await.commit, head);
}
