use std::process::Command as Program;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::watch;

use super::super::super::tests::host;
use super::*;
use crate::host::environment::Environment;

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
    rig.refused(other, "not of https://host/other.git").await;
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

/// A forge that asks for a password, served by git's own CGI program; returns its port.
fn forge(root: &Path) -> u16 {
    use std::io::{BufRead, BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let root = root.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let root = root.clone();
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                let mut head = Vec::new();
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    head.push(std::mem::take(&mut line));
                }
                let header = |name: &str| {
                    let lines = head.iter().filter_map(|line| line.split_once(": "));
                    let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
                    found.next().map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
                };
                // bot:p@ss
                let answer = if header("authorization") != "Basic Ym90OnBAc3M=" {
                    let ask = "WWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\n";
                    format!("HTTP/1.1 401 No\r\n{ask}Connection: close\r\n\r\n").into_bytes()
                } else {
                    let length = header("content-length").parse().unwrap_or(0);
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).expect("a body");
                    let mut request = head[0].split(' ');
                    let (method, target) = (request.next(), request.next().expect("a target"));
                    let (path, query) = target.split_once('?').unwrap_or((target, ""));
                    let mut backend = Program::new("git")
                        .arg("http-backend")
                        .env("GIT_PROJECT_ROOT", &root)
                        .env("GIT_HTTP_EXPORT_ALL", "1")
                        .env("REQUEST_METHOD", method.expect("a method"))
                        .env("PATH_INFO", path)
                        .env("QUERY_STRING", query)
                        .env("CONTENT_TYPE", header("content-type"))
                        .env("CONTENT_LENGTH", length.to_string())
                        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
                        .env("GIT_PROTOCOL", header("git-protocol"))
                        .stdin(std::process::Stdio::piped())
                        .stdout(std::process::Stdio::piped())
                        .spawn()
                        .expect("git http-backend");
                    backend.stdin.take().expect("a pipe").write_all(&body).expect("written");
                    let said = backend.wait_with_output().expect("an answer").stdout;
                    [b"HTTP/1.1 200 OK\r\nConnection: close\r\n".as_slice(), &said].concat()
                };
                let _ = stream.write_all(&answer);
            });
        }
    });
    port
}

#[tokio::test]
async fn a_password_in_the_url_opens_and_stands_nowhere() {
    use std::os::unix::fs::PermissionsExt;
    let mut rig = rig();
    let port = forge(rig.root.path());
    // Stands before the real git, and writes down what it is called with.
    let bin = rig.root.path().join("bin");
    std::fs::create_dir(&bin).expect("room");
    let calls = rig.root.path().join("calls");
    let real = rig.host.find_program("git", &[]).expect("git");
    let script =
        format!("#!/bin/sh\necho \"$@\" >> {}\nexec {} \"$@\"\n", calls.display(), real.display());
    std::fs::write(bin.join("git"), script).expect("room");
    std::fs::set_permissions(bin.join("git"), PermissionsExt::from_mode(0o755)).expect("ours");
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{path}", bin.display());
    let home = rig.root.path().to_str().expect("plain").to_owned();
    rig.host.environment = Environment::from_pairs([("PATH", path), ("HOME", home)]);

    let url = format!("http://bot:p%40ss@127.0.0.1:{port}/upstream/.git");
    let wanted = GitCheckout { url: url.clone(), branch: "main".into() };
    rig.update_to(wanted.clone()).await.expect("cloned");
    rig.commit("file", "two");
    rig.update_to(wanted.clone()).await.expect("pulled");
    assert_eq!(rig.content("file"), "two");

    let config = || std::fs::read_to_string(rig.dir().join(".git/config")).expect("a config");
    let calls = std::fs::read_to_string(&calls).expect("calls");
    assert!(calls.contains("clone") && calls.contains("fetch"), "{calls}");
    for text in [config(), calls] {
        assert!(!text.contains("p%40ss") && !text.contains("p@ss"), "{text}");
    }

    // What an agent of before left behind is put in order.
    rig.git("deep/clone", &["remote", "set-url", "origin", &url]);
    rig.update_to(wanted).await.expect("pulled");
    assert!(!config().contains("p%40ss"), "{}", config());

    let wrong = GitCheckout { url: url.replace("p%40ss", "wr0ng"), branch: "main".into() };
    let error = rig.update_to(wrong).await.expect_err("refused");
    assert!(error.contains("could not fetch branch main of http://127.0.0.1"), "{error}");
    assert!(!error.contains("wr0ng"), "{error}");
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
