use super::*;

fn failed(stderr: &str) -> GitError {
    let remote = RemoteUrl::parse("https://git.example/not found.git").expect("an address");
    let branch = Branch::parse("main").expect("a branch");
    let attempt = Attempt {
        operation: "fetch from",
        remote: &remote,
        branch: &branch,
        mirror: "/c/mirror.git",
    };
    attempt.failed(stderr)
}

#[test]
fn what_git_says_is_told_apart() {
    for (stderr, wanted) in [
        (
            "fatal: could not read Username for 'https://git.example': terminal prompts disabled",
            "refused the credentials",
        ),
        (
            "git@host: Permission denied (publickey).\nfatal: Could not read from remote repository.",
            "refused the credentials",
        ),
        ("The requested URL returned error: 403", "refused the credentials"),
        (
            "No ED25519 host key is known for host and you have requested strict checking.\nHost key verification failed.",
            "is not known",
        ),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "is not the one",
        ),
        (
            "fatal: unable to access 'https://git.example/not found.git/': Could not resolve host: git.example",
            "cannot be reached",
        ),
        ("ssh: connect to host h port 22: Connection refused", "cannot be reached"),
        ("The requested URL returned error: 502", "cannot be reached"),
        (
            "fatal: unable to access 'x': server certificate verification failed. CAfile: none",
            "was not accepted",
        ),
        (
            "remote: Repository not found.\nfatal: repository 'https://git.example/not found.git/' not found",
            "no repository at",
        ),
        ("fatal: '/srv/x' does not appear to be a git repository", "no repository at"),
        ("fatal: couldn't find remote ref refs/heads/main", "no branch `main`"),
        (
            "error: unable to write file /c/mirror.git/objects/x: No space left on device",
            "cannot be written",
        ),
        (
            "fatal: write error: No space left on device\nfatal: index-pack failed",
            "cannot be written",
        ),
        ("remote: fatal: write error: No space left on device", "git could not fetch from"),
        (
            "error: cannot fork() for index-pack: Resource temporarily unavailable",
            "no room to start `git`",
        ),
        ("fatal: not a git repository: '/c/mirror.git'", "is damaged"),
        ("fatal: Unable to create '/c/mirror.git/shallow.lock': File exists.", "is damaged"),
        (
            "error: object 1234: badTree: cannot be parsed as a tree\nfatal: fsck error in packed object",
            "breaks Git's rules",
        ),
        ("fatal: the moon is in the wrong phase", "git could not fetch from"),
        ("", "it gave no reason"),
    ] {
        let error = failed(stderr).to_string();
        assert!(error.contains(wanted), "{stderr}\n→ {error}");
    }
}

#[test]
fn what_a_remote_says_cannot_reach_the_terminal() {
    let error = failed(&format!("remote: \x1b[2J\x07evil {}", "x".repeat(9000))).to_string();
    assert!(!error.contains('\x1b') && error.len() < 1000, "{error}");
}
