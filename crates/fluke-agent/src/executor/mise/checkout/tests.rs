use std::process::Command as Program;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::watch;

use super::super::super::tests::host;
use super::*;

/// A repository somewhere, and a place for its clone.
struct Rig {
    root: TempDir,
    host: Host,
    _switch: watch::Sender<bool>,
}

fn rig() -> Rig {
    let root = tempfile::tempdir().expect("a directory");
    let (switch, host) = host(root.path(), &[]);
    let rig = Rig { root, host, _switch: switch };
    std::fs::create_dir(rig.upstream()).expect("room");
    rig.git("upstream", &["init", "--quiet", "--initial-branch", "main"]);
    rig.commit("file", "one");
    rig
}

impl Rig {
    fn upstream(&self) -> PathBuf {
        self.root.path().join("upstream")
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("deep/clone")
    }

    fn git(&self, dir: &str, args: &[&str]) {
        let done = Program::new("git")
            .current_dir(self.root.path().join(dir))
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(args)
            .env("HOME", self.root.path())
            .output()
            .expect("git runs");
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn commit(&self, file: &str, content: &str) {
        std::fs::write(self.upstream().join(file), content).expect("room");
        self.git("upstream", &["add", "."]);
        self.git("upstream", &["commit", "--quiet", "--message", content]);
    }

    fn wanted(&self) -> GitCheckout {
        let url = self.upstream().to_str().expect("plain").to_owned();
        GitCheckout { url, branch: "main".into() }
    }

    async fn update(&self) -> Result<(), String> {
        self.update_to(self.wanted()).await
    }

    async fn update_to(&self, wanted: GitCheckout) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        update(&self.host, &self.dir(), &wanted, deadline).await
    }

    fn content(&self, file: &str) -> String {
        std::fs::read_to_string(self.dir().join(file)).unwrap_or_default()
    }

    async fn refused(&self, wanted: GitCheckout, text: &str) {
        let before = self.content("file");
        let error = self.update_to(wanted).await.expect_err("left alone");
        assert!(error.contains(text), "{error}");
        assert_eq!(self.content("file"), before, "nothing was touched");
    }
}

#[tokio::test]
async fn a_directory_is_cloned_and_then_follows_its_branch() {
    let rig = rig();
    rig.update().await.expect("cloned");
    assert_eq!(rig.content("file"), "one");
    rig.update().await.expect("nothing to do");
    rig.commit("file", "two");
    rig.update().await.expect("pulled");
    assert_eq!(rig.content("file"), "two");
}

#[tokio::test]
async fn an_empty_directory_and_a_clone_cut_short_are_no_obstacle() {
    let rig = rig();
    std::fs::create_dir_all(rig.dir()).expect("room");
    let beside = rig.root.path().join("deep/.clone.fluke-clone");
    std::fs::create_dir_all(beside.join("half")).expect("room");
    rig.update().await.expect("cloned");
    assert_eq!(rig.content("file"), "one");
    assert!(!beside.exists());
}

#[tokio::test]
async fn history_that_was_rewritten_upstream_is_followed() {
    let rig = rig();
    rig.commit("file", "two");
    rig.update().await.expect("cloned");
    rig.git("upstream", &["reset", "--quiet", "--hard", "HEAD~1"]);
    rig.commit("file", "other");
    rig.update().await.expect("reset");
    assert_eq!(rig.content("file"), "other");
}

#[tokio::test]
async fn another_branch_of_the_same_repository_is_checked_out() {
    let rig = rig();
    rig.update().await.expect("cloned");
    rig.git("upstream", &["checkout", "--quiet", "-b", "next"]);
    rig.commit("file", "next");
    let next = GitCheckout { branch: "next".into(), ..rig.wanted() };
    rig.update_to(next).await.expect("moved");
    assert_eq!(rig.content("file"), "next");
    rig.update().await.expect("and back");
    assert_eq!(rig.content("file"), "one");
}

#[tokio::test]
async fn local_changes_are_left_alone() {
    let rig = rig();
    rig.update().await.expect("cloned");
    std::fs::write(rig.dir().join("file"), "mine").expect("room");
    rig.commit("file", "two");
    rig.refused(rig.wanted(), "has local changes, which are left alone: file; commit").await;
}

#[tokio::test]
async fn local_commits_are_left_alone() {
    let rig = rig();
    rig.update().await.expect("cloned");
    std::fs::write(rig.dir().join("file"), "mine").expect("room");
    rig.git("deep/clone", &["commit", "--quiet", "--all", "--message", "mine"]);
    rig.commit("file", "two");
    rig.refused(rig.wanted(), "has commits that are not on branch main").await;
}

#[tokio::test]
async fn files_that_git_does_not_know_stay_and_are_not_overwritten() {
    let rig = rig();
    rig.update().await.expect("cloned");
    std::fs::write(rig.dir().join("built"), "mine").expect("room");
    rig.commit("file", "two");
    rig.update().await.expect("pulled");
    assert_eq!((rig.content("file"), rig.content("built")), ("two".into(), "mine".into()));
    rig.commit("built", "theirs");
    rig.refused(rig.wanted(), "could not bring").await;
    assert_eq!(rig.content("built"), "mine");
}

#[tokio::test]
async fn what_is_not_a_clone_of_it_is_left_alone() {
    let rig = rig();
    // Within another repository, which must not be taken for it.
    rig.git(".", &["init", "--quiet"]);
    std::fs::create_dir_all(rig.dir()).expect("room");
    std::fs::write(rig.dir().join("file"), "mine").expect("room");
    rig.refused(rig.wanted(), "exists and is not a clone of").await;

    std::fs::remove_dir_all(rig.dir()).expect("ours");
    rig.update().await.expect("cloned");
    let other = GitCheckout { url: "https://u:pa55@host/other.git".into(), ..rig.wanted() };
    rig.refused(other, "not of https://u:•••@host/other.git").await;
}

#[tokio::test]
async fn what_cannot_be_cloned_says_why() {
    let rig = rig();
    for (url, branch, text) in [
        ("/no/such/repository", "main", "could not clone /no/such/repository (branch main) into"),
        ("UPSTREAM", "nope", "Remote branch nope not found"),
        ("ext::sh -c touch% pwned", "main", "transport 'ext' not allowed"),
        ("--upload-pack=touch pwned", "main", "can begin with a dash"),
    ] {
        let url = url.replace("UPSTREAM", rig.upstream().to_str().expect("plain"));
        let wanted = GitCheckout { url, branch: branch.into() };
        let error = rig.update_to(wanted).await.expect_err("not to be had");
        assert!(error.contains(text), "{error}");
    }
    assert!(!rig.dir().exists());
}

#[tokio::test]
async fn a_repository_cannot_run_anything_here() {
    let rig = rig();
    rig.update().await.expect("cloned");
    let hook = rig.dir().join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().expect("it has one")).expect("room");
    std::fs::write(&hook, "#!/bin/sh\ntouch \"$PWD/pwned\"\n").expect("room");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).expect("ours");
    rig.commit("file", "two");
    rig.update().await.expect("pulled");
    assert_eq!((&*rig.content("file"), rig.dir().join("pwned").exists()), ("two", false));
}

#[test]
fn passwords_in_urls_are_found() {
    for (url, found) in [
        ("https://u:p@host/x", Some("p")),
        ("https://u:p@q@host/x", Some("p@q")),
        ("https://u@host/x", None),
        ("https://host/x:y@z", None),
        ("git@host:repo", None),
    ] {
        assert_eq!(password(url), found, "{url}");
    }
}
