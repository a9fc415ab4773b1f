//! Over HTTP(S), with git's own CGI program behind a real server.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::super::fixture::forge::{Forge, Mood};
use super::*;

#[tokio::test]
async fn the_right_password_opens_and_a_wrong_one_is_told() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let mut mirror = Mirror::new(forge.config(&repository, "right"));
    assert_eq!(mirror.tip().await.expect("a tip"), repository.head());
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "one");

    let none = GitConfig { credentials: None, ..forge.config(&repository, "") };
    for config in [forge.config(&repository, "wr0ng"), none] {
        let mut mirror = Mirror::new(config);
        for error in [mirror.tip().await.expect_err("refused"), refused(&mut mirror).await] {
            assert!(matches!(error, GitError::Authentication { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error}");
        }
    }
}

#[tokio::test]
async fn credentials_in_the_url_work_and_never_reach_an_argument() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let server = forge.url.replace("http://", "http://bot:right@");
    let mut mirror = Mirror::new(repository.config_for(&format!("{server}/work/.git")));
    assert_eq!(mirror.tip().await.expect("a tip"), repository.head());
    assert!(!mirror.url().as_str().contains("right"));
}

#[tokio::test]
async fn a_private_ca_is_trusted_where_it_is_named_and_nowhere_else() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let forge = Forge::with_tls(&repository).await;
    let config = forge.config(&repository, "right");
    let mut mirror = Mirror::new(config.clone());
    assert_eq!(mirror.tip().await.expect("a tip"), repository.head());
    assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), "one");

    let other = Repository::empty();
    let stranger = Forge::with_tls(&other).await;
    let nowhere = Some(repository.beside("no-such-ca.pem"));
    for (case, ca_file) in
        [("the system's", None), ("another", stranger.ca_file.clone()), ("a missing one", nowhere)]
    {
        let error = refused(&mut Mirror::new(GitConfig { ca_file, ..config.clone() })).await;
        assert!(matches!(error, GitError::Certificate { .. }), "{case}: {error}");
        assert!(error.to_string().contains("`ca_file`"), "{case}: {error}");
    }
}

#[tokio::test]
async fn a_password_is_as_right_or_wrong_over_tls() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let forge = Forge::with_tls(&repository).await;
    let error = refused(&mut Mirror::new(forge.config(&repository, "wr0ng"))).await;
    assert!(matches!(error, GitError::Authentication { .. }), "{error}");
}

#[tokio::test]
async fn a_path_without_a_repository_is_not_found() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let mut config = forge.config(&repository, "right");
    config.url = RemoteUrl::parse(&format!("{}/nothing.git", forge.url)).expect("an address");
    let error = refused(&mut Mirror::new(config)).await;
    assert!(matches!(error, GitError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn a_redirect_is_followed_without_credentials_and_never_with_them() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let moved = |forge: &Forge| {
        RemoteUrl::parse(&format!("{}/moved/work/.git", forge.url)).expect("an address")
    };
    let config = GitConfig { url: moved(&forge), ..forge.config(&repository, "right") };
    let error = refused(&mut Mirror::new(config)).await;
    assert!(matches!(error, GitError::Moved { .. }), "{error}");
    assert_eq!(forge.asked(), [""; 0], "nothing was sent to the new address");

    let open = Forge::open(&repository).await;
    let config = GitConfig { url: moved(&open), credentials: None, ..open.config(&repository, "") };
    assert_eq!(checkout(&mut Mirror::new(config)).await.commit, repository.head());
}

#[tokio::test]
async fn a_closed_port_and_a_broken_server_are_a_matter_of_the_network() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let error = refused(&mut Mirror::new(repository.config_for("http://127.0.0.1:1/x"))).await;
    assert!(matches!(error, GitError::Network { .. }), "{error}");
    let forge = Forge::of(&repository).await;
    forge.is(Mood::Broken);
    let error = refused(&mut Mirror::new(forge.config(&repository, "right"))).await;
    assert!(matches!(error, GitError::Network { .. }), "{error}");
}

#[tokio::test]
async fn only_the_newest_commit_is_fetched_however_the_branch_moves() {
    let repository = Repository::with("a.fluke.hcl", "one");
    for round in 0..5 {
        repository.commit("a.fluke.hcl", &format!("round {round}"));
    }
    let forge = Forge::of(&repository).await;
    let mut mirror = Mirror::new(forge.config(&repository, "right"));
    let kept = |repository: &Repository| {
        let mirror = repository.cache().join("mirror.git");
        git_in(&mirror, &["rev-list", "--count", TIP]).trim().to_string()
    };
    checkout(&mut mirror).await;
    assert_eq!(kept(&repository), "1", "after the first fetch");
    repository.commit("a.fluke.hcl", "next");
    repository.commit("a.fluke.hcl", "and next");
    checkout(&mut mirror).await;
    assert_eq!(kept(&repository), "1", "after several commits at once");
    repository.git(&["reset", "--quiet", "--hard", "HEAD~4"]);
    repository.commit("a.fluke.hcl", "rewritten");
    let rewritten = checkout(&mut mirror).await;
    assert_eq!(text(&rewritten, "a.fluke.hcl"), "rewritten");
    assert_eq!(kept(&repository), "1", "after a force-push");
}

/// Waits until no process has `word` among its arguments.
async fn until_none_runs_with(word: &str) {
    let runs = || {
        let processes = std::fs::read_dir("/proc").expect("processes").flatten();
        processes
            .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
            .any(|arguments| String::from_utf8_lossy(&arguments).contains(word))
    };
    let gone = async {
        while runs() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("all of them are ended");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_and_nothing_is_left_running() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let repository = Repository::empty();
    let mut config = repository.config_for(&format!("http://{address}/x"));
    config.timeout = Duration::from_millis(300);
    let mut mirror = Mirror::new(config);
    let (error, ()) = tokio::join!(mirror.tip(), async {
        let (mut connection, _) = listener.accept().await.expect("git connects");
        // Ends when the last process that holds the connection is gone.
        let mut request = Vec::new();
        let _ = connection.read_to_end(&mut request).await;
    });
    let error = error.expect_err("no answer");
    assert!(matches!(error, GitError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_stops_half_way_is_given_up_and_found_again() {
    let repository = Repository::with("a.fluke.hcl", "one");
    let forge = Forge::of(&repository).await;
    let mut mirror = Mirror::new(forge.config(&repository, "right"));
    checkout(&mut mirror).await;
    for mood in [Mood::Silent, Mood::HalfAPack, Mood::Trickling] {
        repository.commit("a.fluke.hcl", &format!("{mood:?}"));
        forge.is(mood);
        mirror.config.timeout = Duration::from_millis(500);
        let error = refused(&mut mirror).await;
        assert!(matches!(error, GitError::Timeout { .. }), "{mood:?}: {error}");
        until_none_runs_with(&forge.url).await;
        forge.is(Mood::Well);
        mirror.config.timeout = GitConfig::TIMEOUT;
        assert_eq!(text(&checkout(&mut mirror).await, "a.fluke.hcl"), format!("{mood:?}"));
    }
}
