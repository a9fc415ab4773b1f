//! Whoever speaks TLS to whom: each mismatch, with the real program at both ends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

use super::*;

const TOKEN: &str = "  agent_tokens = [\"t\"]\n";
const OFF: &str = "  tls {\n    enabled = false\n  }\n";

/// An agent that trusts this CA.
fn trusting(folder: &Path, name: &str, url: &str, ca: &Path) -> Program {
    let config = folder.join(format!("{name}-trusting.hcl"));
    let text = format!(
        "agent {{\n  server_url = \"{url}\"\n  name = \"{name}\"\n  token = \"t\"\n  \
         state_dir = \"{}\"\n  tls {{\n    ca_file = \"{}\"\n  }}\n}}\n",
        folder.join(format!("state-{name}")).display(),
        ca.display()
    );
    std::fs::write(&config, text).expect("a config");
    Program::start(&["agent", "--config", config.to_str().expect("plain")], &[])
}

/// A CA in a folder, and certificates of it.
struct Ca(CertifiedIssuer<'static, KeyPair>);

impl Ca {
    fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let ca = Self(CertifiedIssuer::self_signed(params, key).expect("a CA"));
        std::fs::write(folder.join("ca.pem"), ca.0.pem()).expect("written");
        ca
    }

    /// Puts a certificate and its key where a server's config looks for them.
    fn give(&self, folder: &Path, name: &str, from: i32, until: i32) {
        let mut params = CertificateParams::new(vec![name.to_string()]).expect("a name");
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("signed").pem();
        for (file, text) in [("server.key", key.serialize_pem()), ("server.pem", certificate)] {
            let new = folder.join("new");
            std::fs::write(&new, text).expect("written");
            std::fs::rename(new, folder.join(file)).expect("renamed");
        }
    }
}

fn files(folder: &Path) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    format!(
        "  tls {{\n    cert_file = \"{}\"\n    key_file = \"{}\"\n  }}\n",
        file("server.pem"),
        file("server.key")
    )
}

/// Knocks until the server has said this so many times: it looks at its files when somebody comes.
fn notices(server: &ServerProgram, words: &[&str], times: usize) {
    let began = std::time::Instant::now();
    let is_it = |line: &&str| words.iter().all(|word| line.contains(word));
    while server.program.log().lines().filter(is_it).count() < times {
        let mut stream = TcpStream::connect(&server.http).expect("connects");
        stream.write_all(TLS_1_0).expect("written");
        let _ = stream.read_to_end(&mut Vec::new());
        let log = server.program.log();
        assert!(began.elapsed().as_secs() < 60, "never {words:?} {times} times:\n{log}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn certificates_that_are_given_must_fit_and_can_be_replaced_while_all_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let git = git(&repository(folder));
    let ca = Ca::new(folder);
    let ca_file = folder.join("ca.pem");
    ca.give(folder, "fluke.example", 2000, 4000);
    let body = TOKEN.to_string() + &git + &files(folder);
    let server = ServerProgram::start(folder, &body, &[]);
    let url = format!("grpcs://{}", server.grpc);

    let misnamed = trusting(folder, "misnamed", &url, &ca_file);
    misnamed.says(&["not for `127.0.0.1` but for", "fluke.example"]);
    server.program.says(&["by a name that is not in its certificate"]);

    ca.give(folder, "127.0.0.1", 2000, 4000);
    notices(&server, &["using a new TLS certificate"], 1);
    let first = trusting(folder, "first", &url, &ca_file);
    server.agents_show(&["first", "in_sync"]);

    // Half of a pair: the old one stays, and the log says why.
    let whole = std::fs::read(folder.join("server.pem")).expect("a certificate");
    std::fs::write(folder.join("server.pem"), &whole[..whole.len() / 2]).expect("written");
    notices(&server, &["the TLS certificate in use stays in use", "server.pem"], 1);
    let _second = trusting(folder, "second", &url, &ca_file);
    server.agents_show(&["second"]);

    // Nobody accepts a certificate of tomorrow, and both ends say so.
    ca.give(folder, "127.0.0.1", 3999, 4000);
    notices(&server, &["the TLS certificate is not valid yet; check the clock"], 1);
    let early = trusting(folder, "early", &url, &ca_file);
    early.says(&["not valid yet by the clock of this host"]);
    server.program.says(&["not valid yet by the client's clock"]);

    // One whose time is over is not even taken.
    ca.give(folder, "127.0.0.1", 2000, 2001);
    notices(&server, &["the TLS certificate in use stays in use", "expired on 2001"], 1);

    ca.give(folder, "127.0.0.1", 2000, 4000);
    notices(&server, &["using a new TLS certificate"], 3);
    server.agents_show(&["early", "first", "second"]);
    assert_eq!(first.log().matches(" connected").count(), 1, "{}", first.log());
}

#[test]
fn every_mismatch_is_told_at_both_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let git = git(&repository(folder));
    let (with, without) = (folder.join("with"), folder.join("without"));
    [&with, &without].iter().for_each(|path| std::fs::create_dir(path).expect("a folder"));
    let tls = ServerProgram::start(&with, &(TOKEN.to_string() + &git), &[]);
    let plain = ServerProgram::start(&without, &(TOKEN.to_string() + OFF + &git), &[]);
    let line = tls.program.says(&["agents join with", "--ca-fingerprint"]);
    let (_, rest) = line.split_once("--ca-fingerprint ").expect("a fingerprint");
    let fingerprint: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    let other = "0".repeat(64);
    let ca = tls.ca_file().display().to_string();
    let stranger = {
        let other = folder.join("other");
        std::fs::create_dir(&other).expect("a folder");
        // The CA of another server.
        let server = ServerProgram::start(&other, &(TOKEN.to_string() + &git), &[]);
        let kept = folder.join("stranger.pem");
        std::fs::copy(server.ca_file(), &kept).expect("copied");
        kept
    };
    let pinned = ["--ca-fingerprint", fingerprint.as_str()];
    let cases: &[(String, &[&str], &str, &ServerProgram, &str)] = &[
        // Plaintext to a TLS port.
        (
            format!("grpc://{}", tls.grpc),
            &[],
            "speaks TLS; use grpcs://",
            &tls,
            "the client does not speak TLS",
        ),
        // TLS to a plaintext port.
        (
            format!("grpcs://{}", plain.grpc),
            &[],
            "does not speak TLS; use grpc://",
            &plain,
            "the client speaks TLS, and this port does not",
        ),
        // A fingerprint of another CA.
        (
            format!("grpcs://{}", tls.grpc),
            &["--ca-fingerprint", &other],
            "has no CA with the fingerprint",
            &tls,
            "may have the fingerprint of another CA",
        ),
        // An agent at the HTTP port, TLS.
        (
            format!("grpcs://{}", tls.http),
            &pinned,
            "they connect to `listen_grpc`",
            &tls,
            "an agent calls at the port for people",
        ),
        // An agent at the HTTP port, plaintext.
        (
            format!("grpc://{}", plain.http),
            &[],
            "they connect to `listen_grpc`",
            &plain,
            "an agent calls at the port for people",
        ),
    ];
    for (number, (url, flags, here, server, there)) in cases.iter().enumerate() {
        let agent = agent(folder, &format!("a{number}"), url, "t", flags);
        agent.says(&[here]);
        server.program.says(&[there]);
    }
    let wrong_ca = trusting(folder, "b", &format!("grpcs://{}", tls.grpc), &stranger);
    wrong_ca.says(&["not signed by a CA that this agent trusts"]);
    tls.program.says(&["the client does not trust the CA of this server's certificate"]);

    // And one that matches.
    let _good = agent(folder, "good", &format!("grpcs://{}", tls.grpc), "t", &pinned);
    tls.agents_show(&["good"]);

    // People: the command line and browsers.
    let (code, said) =
        tls.fluke(&["get", "agents", "--server", &format!("http://{}", tls.http)], &[]);
    assert!(code == Some(1) && said.contains("https://"), "{said}");
    let (code, said) =
        tls.fluke(&["get", "agents", "--server", &format!("https://{}", tls.http)], &[]);
    assert!(code == Some(1) && said.contains("FLUKE_CA_FILE"), "{said}");
    let (code, said) = tls.fluke(
        &["get", "agents", "--server", &format!("https://{}", tls.http)],
        &[("FLUKE_CA_FILE", &ca)],
    );
    assert_eq!(code, Some(0), "{said}");
    let (code, said) =
        plain.fluke(&["get", "agents", "--server", &format!("https://{}", plain.http)], &[]);
    assert!(code == Some(1) && said.contains("http://"), "{said}");
}

/// The first bytes of a client that knows TLS 1.0 and no more.
const TLS_1_0: &[u8] = &[
    0x16, 0x03, 0x01, 0x00, 0x2d, // a handshake of 45 bytes
    0x01, 0x00, 0x00, 0x29, // ClientHello, 41 bytes
    0x03, 0x01, // TLS 1.0
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, // random
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,   //
    0x00, // no session
    0x00, 0x02, 0x00, 0x2f, // TLS_RSA_WITH_AES_128_CBC_SHA
    0x01, 0x00, // no compression
];

#[test]
fn a_client_of_the_last_century_is_refused_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let git = git(&repository(folder.path()));
    let server = ServerProgram::start(folder.path(), &(TOKEN.to_string() + &git), &[]);
    for version in [0x01, 0x02] {
        let mut hello = TLS_1_0.to_vec();
        hello[10] = version;
        let mut stream = TcpStream::connect(&server.http).expect("connects");
        stream.write_all(&hello).expect("written");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        // An alert: fatal, handshake_failure or protocol_version.
        let expected = [[2, 40], [2, 70]].iter().any(|alert| answer[5..] == *alert);
        assert!(answer[0] == 0x15 && expected, "{answer:02x?}");
    }
    server.program.says(&["a client could not be served", "neither TLS 1.2 nor TLS 1.3"]);
}

#[test]
fn a_server_with_bad_files_does_not_start_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let git = git(&repository(path));
    // A certificate and a key that are good, from a server's own CA.
    let own = path.join("own");
    std::fs::create_dir(&own).expect("a folder");
    drop(ServerProgram::start(&own, &(TOKEN.to_string() + &git), &[]));
    let (cert, key) = (own.join("cache/tls/ca.pem"), own.join("cache/tls/ca.key"));
    std::fs::write(
        path.join("locked.key"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .expect("written");
    for (cert, key, said) in [
        (&cert, path.join("missing.key"), "could not read the private key"),
        (&key, key.clone(), "does not hold a certificate"),
        (&cert, path.join("locked.key"), "is encrypted"),
    ] {
        let body = format!(
            "{TOKEN}{git}  tls {{\n    cert_file = \"{}\"\n    key_file = \"{}\"\n  }}\n",
            cert.display(),
            key.display()
        );
        let config = path.join("server.hcl");
        let text = format!(
            "server {{\n  listen_grpc = \"127.0.0.1:0\"\n  listen_http = \"127.0.0.1:0\"\n  socket = \"\"\n  cache_dir = \"{}\"\n{body}}}\n",
            path.join("cache").display()
        );
        std::fs::write(&config, text).expect("a config");
        let mut server =
            Program::start(&["server", "--config", config.to_str().expect("plain")], &[]);
        assert_eq!(server.ends().code(), Some(1));
        server.says(&[said]);
    }
}
