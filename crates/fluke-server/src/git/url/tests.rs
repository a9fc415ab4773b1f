use proptest::prelude::*;

use super::*;

#[test]
fn every_form_of_address_is_understood() {
    use Transport::*;
    for (text, shown, transport) in [
        ("/srv/infra.git", "/srv/infra.git", File),
        ("file:///srv/infra.git", "file:///srv/infra.git", File),
        ("http://git.example/infra.git", "http://git.example/infra.git", Http),
        ("HTTPS://git.example:8443/infra.git", "https://git.example:8443/infra.git", Https),
        ("ssh://git@host:2222/infra.git", "ssh://git@host:2222/infra.git", Ssh),
        ("git@host:infra.git", "git@host:infra.git", Ssh),
        ("host:infra.git", "host:infra.git", Ssh),
        ("git@[::1]:infra.git", "git@[::1]:infra.git", Ssh),
        ("/srv/a:b", "/srv/a:b", File),
    ] {
        let url = RemoteUrl::parse(text).expect(text);
        assert_eq!((url.as_str(), url.transport()), (shown, transport), "{text}");
    }
    let relative = RemoteUrl::parse("./infra").expect("a relative path");
    assert!(relative.as_str().starts_with('/') && relative.as_str().ends_with("/infra"));
}

#[test]
fn what_could_run_something_is_refused() {
    for text in [
        "-upload-pack=touch",
        "--config=x",
        "ext::sh -c touch% /tmp/x",
        "fd::17",
        "a-b::c",
        "ssh://-oProxyCommand=x/y",
        "ssh://-oProxyCommand=x@host/y",
        "-oProxyCommand=x:y",
        "git@-oProxyCommand=x:y",
        "host:-x",
        "git://host/x",
        "ftp://host/x",
        "a\nb",
        "a\0b",
        "",
        "   ",
        "~/infra",
        "https://",
        "https:///x",
        "https://user@/x",
        "ssh://host",
        "git@:x",
        "file://host/x",
        "ssh://user:password@host/x",
        "https://user:%zz@host/x",
    ] {
        assert!(RemoteUrl::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn credentials_leave_the_url_and_are_never_shown() {
    let url = RemoteUrl::parse("https://bot:p%40ss:w0rd@git.example/infra.git").expect("parses");
    let credentials = url.credentials().expect("has credentials");
    assert_eq!((&*credentials.user, &*credentials.password), ("bot", "p@ss:w0rd"));
    let shown = format!("{url} {url:?} {}", url.as_str());
    assert!(!shown.contains("w0rd") && !shown.contains("p@ss"), "{shown}");
}

#[test]
fn branches_are_what_git_says_they_are() {
    for good in ["main", "release/1.2", "feature-x", "ünï"] {
        assert!(Branch::parse(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "-x",
        "a b",
        "a..b",
        "a:b",
        "a*",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "a.lock",
        "a@{1}",
        "HEAD",
        "@",
        "a\\b",
        "a\n",
        "a.",
        "refs/heads/main",
        "a^",
        "a~1",
        "a?",
        "a[b",
    ] {
        assert!(Branch::parse(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic_or_keeps_an_option(text in "\\PC{0,40}") {
        if let Ok(url) = RemoteUrl::parse(&text) {
            prop_assert!(!url.as_str().starts_with('-'));
        }
    }

    #[test]
    fn an_accepted_branch_cannot_change_a_refspec(text in "[a-z/.:*+ @{^-]{0,12}") {
        if let Ok(branch) = Branch::parse(&text) {
            prop_assert!(!branch.as_str().contains([':', '*', ' ', '^']));
        }
    }
}
