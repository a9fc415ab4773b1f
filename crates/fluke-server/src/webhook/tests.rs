use http::{HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;

use super::*;

// Signatures below were computed with `openssl dgst -sha256 -hmac`.
const SECRET: &str = "It's a Secret";
const PUSH: &str = r#"{"ref":"refs/heads/main","before":"0000000000000000000000000000000000000000","after":"c9f1d3a5e7b20864c9f1d3a5e7b20864c9f1d3a5","commits":[]}"#;
const PUSH_SIGNED: &str = "bdee49868fdead65738827d1c640dc557b4e25dc08cc7f45b9131fb365ad4ee3";
const COMMIT: &str = "c9f1d3a5e7b20864c9f1d3a5e7b20864c9f1d3a5";

fn sent(headers: &[(&str, &str)], body: &str) -> Result<Webhook, WebhookError> {
    verify(&map(headers), body.as_bytes(), Some(SECRET))
}

fn map(headers: &[(&str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&str, &str)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    };
    headers.iter().map(header).collect()
}

fn pushed(branch: &str, commit: Option<&str>) -> Result<Webhook, WebhookError> {
    Ok(Webhook::Push(Push { branch: branch.into(), commit: commit.map(CommitId::new) }))
}

#[test]
fn pushes_of_every_kind_of_host_are_understood() {
    let prefixed = format!("sha256={PUSH_SIGNED}");
    for (host, headers) in [
        ("GitHub", vec![("X-GitHub-Event", "push"), ("X-Hub-Signature-256", &*prefixed)]),
        ("Gitea", vec![("X-Gitea-Event", "push"), ("X-Gitea-Signature", PUSH_SIGNED)]),
        (
            "Forgejo",
            vec![
                ("X-GitHub-Event", "push"),
                ("X-Forgejo-Event", "push"),
                ("X-Forgejo-Signature", PUSH_SIGNED),
                ("X-Gitea-Signature", PUSH_SIGNED),
                ("X-Hub-Signature-256", &prefixed),
            ],
        ),
        ("GitLab", vec![("X-Gitlab-Event", "Push Hook"), ("X-Gitlab-Token", SECRET)]),
    ] {
        assert_eq!(sent(&headers, PUSH), pushed("main", Some(COMMIT)), "{host}");
    }
}

#[test]
fn what_is_not_signed_with_the_secret_is_refused() {
    let upper = PUSH_SIGNED.to_uppercase();
    let other = format!("sha256={}", "0".repeat(64));
    let push = ("X-GitHub-Event", "push");
    for (case, headers, expected) in [
        ("unsigned", vec![push], WebhookError::Unsigned),
        ("old SHA-1", vec![push, ("X-Hub-Signature", "sha1=00")], WebhookError::Unsigned),
        ("another key", vec![push, ("X-Hub-Signature-256", &*other)], WebhookError::Forged),
        ("no prefix", vec![push, ("X-Hub-Signature-256", PUSH_SIGNED)], WebhookError::Forged),
        ("cut", vec![push, ("X-Gitea-Signature", &upper[..62])], WebhookError::Forged),
        ("empty", vec![push, ("X-Gitea-Signature", "")], WebhookError::Forged),
        ("wrong token", vec![push, ("X-Gitlab-Token", "It's a secret")], WebhookError::Forged),
        ("empty token", vec![push, ("X-Gitlab-Token", "")], WebhookError::Forged),
        (
            "a bad signature beside a good token",
            vec![push, ("X-Hub-Signature-256", &other), ("X-Gitlab-Token", SECRET)],
            WebhookError::Forged,
        ),
    ] {
        assert_eq!(sent(&headers, PUSH), Err(expected.clone()), "{case}");
        assert_eq!(expected.status(), StatusCode::UNAUTHORIZED);
    }
    let changed = PUSH.replace("main", "evil");
    let headers = [push, ("X-Gitea-Signature", PUSH_SIGNED)];
    assert_eq!(sent(&headers, &changed), Err(WebhookError::Forged));
}

#[test]
fn without_a_secret_nothing_is_accepted() {
    for secret in [None, Some("")] {
        let headers = map(&[("X-Gitlab-Event", "Push Hook"), ("X-Gitlab-Token", "")]);
        assert_eq!(verify(&headers, PUSH.as_bytes(), secret), Err(WebhookError::NoSecret));
    }
    assert!(WebhookError::NoSecret.to_string().contains("webhook_secret"));
}

#[test]
fn other_genuine_events_are_answered_and_change_nothing() {
    for (event, body, signature, expected) in [
        (
            "ping",
            r#"{"zen":"x"}"#,
            "5ed0addb0a7022b54a18473d601b3d8cde88591afe9023160a9482b279340c1b",
            Ok(Webhook::Ping),
        ),
        (
            "push",
            r#"{"ref":"refs/tags/v1","after":"c9f1d3a5e7b20864c9f1d3a5e7b20864c9f1d3a5"}"#,
            "2a60b51cba6ca172a66bdf8b1ad87231720afe32b750fe51e48b616acfa250e2",
            Ok(Webhook::Ignored { what: "`refs/tags/v1`".into() }),
        ),
        (
            "push",
            r#"{"ref":"refs/heads/old","after":"0000000000000000000000000000000000000000"}"#,
            "ce22aa49bfbe55fbbab82a23ae8c65a8002f92c876c2a5fb4743c4c698852e8b",
            pushed("old", None),
        ),
        (
            "push",
            r#"{"ref":"refs/heads/main"}"#,
            "dab6a321e8ce9cb8b2cae43050e45045c63af4deac245bc208e88ebe9cd0b55d",
            pushed("main", None),
        ),
        ("issues", PUSH, PUSH_SIGNED, Ok(Webhook::Ignored { what: "a `issues` event".into() })),
    ] {
        let headers = [("X-GitHub-Event", event), ("X-Gitea-Signature", signature)];
        assert_eq!(sent(&headers, body), expected, "{event} {body}");
    }
}

#[test]
fn a_genuine_push_that_makes_no_sense_is_a_bad_request() {
    for (body, signature) in [
        ("not json", "0f3deb7933705940b30734a4a3897178737a306f2fb6e80769c4002c8ed7fe1f"),
        (
            r#"{"ref":"refs/heads/main","after":"HEAD"}"#,
            "13fbe20570299bd6205608a7149ec5f1e071cbfe3846d83650b2e3788177fa8e",
        ),
    ] {
        let headers = [("X-GitHub-Event", "push"), ("X-Gitea-Signature", signature)];
        let error = sent(&headers, body).expect_err("malformed");
        assert_eq!(error.status(), StatusCode::BAD_REQUEST, "{error}");
    }
    let headers = [("X-Gitea-Signature", PUSH_SIGNED)];
    assert!(matches!(sent(&headers, PUSH), Err(WebhookError::Malformed(_))), "no event named");
    let large = " ".repeat(MAX_BODY + 1);
    assert_eq!(sent(&[], &large), Err(WebhookError::TooLarge(MAX_BODY + 1)));
}

proptest! {
    #[test]
    fn no_signature_and_no_body_make_it_panic(signature in "\\PC{0,80}", body in any::<Vec<u8>>()) {
        let mut headers = map(&[("X-GitHub-Event", "push")]);
        if let Ok(value) = HeaderValue::from_bytes(signature.as_bytes()) {
            headers.insert("x-gitea-signature", value);
            prop_assert!(verify(&headers, &body, Some(SECRET)).is_err());
        }
        headers.remove("x-gitea-signature");
        headers.insert("x-gitlab-token", HeaderValue::from_static(SECRET));
        let _ = verify(&headers, &body, Some(SECRET));
    }
}
