//! Over SSH, with a real `sshd`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::net::TcpListener;

use super::*;

/// An `sshd` for the current user, one process a connection.
struct Sshd {
    address: std::net::SocketAddr,
    files: PathBuf,
}

/// None, loudly, where there is no `sshd`; a failure where one is promised.
fn sshd_program() -> Option<PathBuf> {
    let named = std::env::var_os("FLUKE_TEST_SSHD").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let searched = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = named.or_else(|| searched.map(|d| d.join("sshd")).find(|file| file.is_file()));
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "sshd is missing: install openssh-server");
        #[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
        {
            eprintln!("SKIP: no sshd in PATH or /usr/sbin; install openssh-server");
        }
    }
    found
}

fn keygen(file: &Path, passphrase: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", passphrase, "-f"])
        .arg(file)
        .status()
        .expect("ssh-keygen runs");
    assert!(made.success());
}

impl Sshd {
    async fn start(repository: &Repository) -> Option<Self> {
        let program = sshd_program()?;
        // As root it insists on this one.
        let _ = std::fs::create_dir_all("/run/sshd");
        let files = repository.beside("ssh key%20 'files'");
        std::fs::create_dir(&files).expect("a directory");
        ["host", "host2", "user", "stranger"].iter().for_each(|name| keygen(&files.join(name), ""));
        keygen(&files.join("locked"), "a passphrase");
        let public = |name: &str| std::fs::read(files.join(name)).expect("a key");
        let authorized = [public("user.pub"), public("locked.pub")].concat();
        std::fs::write(repository.beside("authorized"), authorized).expect("written");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        std::fs::copy(files.join("host"), repository.beside("hostkey")).expect("copied");
        let arguments = [
            format!("-oHostKey={}", repository.beside("hostkey").display()),
            format!("-oAuthorizedKeysFile={}", repository.beside("authorized").display()),
            "-oStrictModes=no".into(),
            "-oUsePAM=no".into(),
            "-oPermitRootLogin=yes".into(),
            "-oPasswordAuthentication=no".into(),
            "-oPidFile=none".into(),
        ];
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let connection = connection.into_std().expect("a socket");
                connection.set_nonblocking(false).expect("a blocking socket");
                let output = connection.try_clone().expect("a socket");
                let child = tokio::process::Command::new(&program)
                    .args(["-i", "-e", "-f", "/dev/null"])
                    .args(&arguments)
                    .stdin(Stdio::from(std::os::fd::OwnedFd::from(connection)))
                    .stdout(Stdio::from(std::os::fd::OwnedFd::from(output)))
                    .stderr(Stdio::null())
                    .kill_on_drop(true)
                    .spawn();
                let mut child = child.expect("sshd starts");
                tokio::spawn(async move { child.wait().await });
            }
        });
        Some(Self { address, files })
    }

    fn config(&self, repository: &Repository, key: &str, host_key: Option<&str>) -> GitConfig {
        let user = nix::unistd::User::from_uid(nix::unistd::getuid()).expect("users");
        let user = user.expect("the current user").name;
        let path = repository.path().display().to_string();
        let mut config = repository.config_for(&format!("ssh://{user}@{}{path}", self.address));
        let known = self.files.join(format!("known {}", host_key.unwrap_or("none")));
        let line = host_key.map(|name| {
            let key = std::fs::read_to_string(self.files.join(format!("{name}.pub")));
            format!("[127.0.0.1]:{} {}", self.address.port(), key.expect("a key"))
        });
        std::fs::write(&known, line.unwrap_or_default()).expect("written");
        config.known_hosts_file = Some(known);
        config.ssh_key_file = Some(self.files.join(key));
        config
    }
}

#[tokio::test]
async fn a_known_host_and_an_accepted_key_open_the_repository() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let Some(sshd) = Sshd::start(&repository).await else { return };
    let mut mirror = Mirror::new(sshd.config(&repository, "user", Some("host")));
    assert_eq!(mirror.tip().await.expect("a tip"), repository.head());
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "one");
}

#[tokio::test]
async fn unknown_hosts_changed_hosts_and_refused_keys_are_told_apart() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let Some(sshd) = Sshd::start(&repository).await else { return };
    let unknown = sshd.config(&repository, "user", None);
    let error = refused(&mut Mirror::new(unknown)).await;
    assert!(matches!(error, GitError::HostKeyUnknown { .. }), "{error}");

    let changed = sshd.config(&repository, "user", Some("host2"));
    let error = refused(&mut Mirror::new(changed)).await;
    assert!(matches!(error, GitError::HostKeyChanged { .. }), "{error}");

    let stranger = sshd.config(&repository, "stranger", Some("host"));
    let error = refused(&mut Mirror::new(stranger)).await;
    assert!(matches!(error, GitError::Authentication { .. }), "{error}");

    let mut elsewhere = sshd.config(&repository, "user", Some("host"));
    let missing = format!("{}-missing", elsewhere.url.as_str());
    elsewhere.url = RemoteUrl::parse(&missing).expect("an address");
    let error = refused(&mut Mirror::new(elsewhere)).await;
    assert!(matches!(error, GitError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn a_key_that_cannot_be_used_says_why_and_asks_nobody() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let Some(sshd) = Sshd::start(&repository).await else { return };
    for (key, why) in [
        ("locked", "has a passphrase, which nobody is here to type"),
        ("missing", "cannot be read: No such file"),
    ] {
        let error = refused(&mut Mirror::new(sshd.config(&repository, key, Some("host")))).await;
        assert!(matches!(error, GitError::Authentication { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
    let open = sshd.files.join("user");
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .expect("ours");
    let error = refused(&mut Mirror::new(sshd.config(&repository, "user", Some("host")))).await;
    assert!(matches!(error, GitError::Authentication { .. }), "{error}");
    assert!(error.to_string().contains("too open"), "{error}");
}

#[tokio::test]
async fn only_the_newest_commit_comes_over_ssh_also_after_a_force_push() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let Some(sshd) = Sshd::start(&repository).await else { return };
    (0..3).for_each(|round| drop(repository.commit("a.fluke.hcl", &format!("round {round}"))));
    let mut mirror = Mirror::new(sshd.config(&repository, "user", Some("host")));
    checkout(&mut mirror).await;
    repository.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
    repository.commit("a.fluke.hcl", "rewritten");
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "rewritten");
    let mirror = repository.cache().join("mirror.git");
    assert_eq!(git_in(&mirror, &["rev-list", "--count", TIP]).trim(), "1");
}

#[tokio::test]
async fn an_ssh_server_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let repository = Repository::empty();
    let mut config = repository.config_for(&format!("ssh://git@{address}/x.git"));
    config.timeout = std::time::Duration::from_millis(300);
    let mut mirror = Mirror::new(config);
    let (error, ()) = tokio::join!(mirror.tip(), async {
        let (mut connection, _) = listener.accept().await.expect("ssh connects");
        // Ends when the last process that holds the connection is gone.
        let _ = tokio::io::copy(&mut connection, &mut tokio::io::sink()).await;
    });
    let error = error.expect_err("no answer");
    assert!(matches!(error, GitError::Timeout { .. }), "{error}");
}
