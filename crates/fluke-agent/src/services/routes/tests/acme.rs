//! A certificate from a real ACME server, Pebble.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::super::Acme;
use super::stage::*;
use super::tls::{connect, trusting};

const DOMAIN: &str = "shop.example.com";

/// Answers every question for an IPv4 address with one, and every other with nothing. Pebble asks
/// over TCP.
async fn name_server(address: Ipv4Addr) -> Container {
    Container::serving(address, move |mut stream, _| async move {
        while let Ok(length) = stream.read_u16().await {
            let mut question = vec![0; length.into()];
            let Ok(_) = stream.read_exact(&mut question).await else { return };
            let Some(answer) = name_answer(&question, address) else { return };
            let framed = [&(answer.len() as u16).to_be_bytes(), answer.as_slice()].concat();
            let Ok(()) = stream.write_all(&framed).await else { return };
        }
    })
    .await
}

fn name_answer(question: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let name = question.get(12..)?.iter().position(|it| *it == 0)?;
    let end = 12 + name + 5;
    let is_a = question.get(12 + name + 1..12 + name + 3)? == [0, 1];
    let mut answer = question.get(..end)?.to_vec();
    // An answer, with recursion; one question, and one record or none.
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    if is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

struct Pebble {
    _process: Child,
    _names: Container,
    management: SocketAddr,
    client: reqwest::Client,
}

impl Pebble {
    /// The root that it signs with.
    async fn root(&self) -> CertificateDer<'static> {
        let answer = async {
            loop {
                let url = format!("https://{}/roots/0", self.management);
                match self.client.get(url).send().await {
                    Ok(answer) => return answer.text().await.expect("a text"),
                    Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
                }
            }
        };
        let pem = tokio::time::timeout(LONG, answer).await.expect("Pebble comes up");
        CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
    }
}

#[tokio::test]
async fn a_certificate_is_had_from_an_acme_server_and_served() {
    let Some(program) = tool("pebble") else { return };
    let stage = Stage::with(|settings, folder| {
        let Some(std::net::IpAddr::V4(listen)) = settings.listen else { return };
        let ca_file = Some(folder.join("pebble.crt"));
        let directory = Some(format!("https://{listen}:14000/dir"));
        let email = "ops@example.com".to_owned();
        settings.acme = Some(Acme { email, directory, ca_file });
    });
    let Some(mut stage) = stage else { return };
    let pebble = pebble(&program, &stage).await;
    let root = pebble.root().await;
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http(DOMAIN), &[&web])])).await;
    let served = async {
        while connect(&stage, SECURE, DOMAIN, &root).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(LONG, served).await.is_err() {
        let said = |name| std::fs::read_to_string(stage.folder.path().join(name));
        panic!("no certificate\n{:?}\n{:?}", said("pebble.out"), said("proxy.out"));
    }
    assert!(stage.path("acme.json").exists(), "it is kept");
}

async fn pebble(program: &std::path::Path, stage: &Stage) -> Pebble {
    let folder = stage.folder.path();
    let made = rcgen::generate_simple_self_signed([stage.listen.to_string()]).expect("a pair");
    let [certificate, key] = ["pebble.crt", "pebble.key"].map(|name| folder.join(name));
    std::fs::write(&certificate, made.cert.pem()).expect("room");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("room");
    let management = stage.at(15000);
    let config = serde_json::json!({ "pebble": {
        "listenAddress": stage.at(14000),
        "managementListenAddress": management,
        "certificate": certificate,
        "privateKey": key,
        "httpPort": WEB,
        "tlsPort": SECURE,
    } });
    let path = folder.join("pebble.json");
    std::fs::write(&path, config.to_string()).expect("room");
    let names = name_server(stage.listen).await;
    let mut command = Command::new(program);
    command.arg("-config").arg(path).args(["-dnsserver", &names.address.to_string(), "-strict"]);
    // It waits at random otherwise, and refuses some nonces at random.
    command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0");
    let log = std::fs::File::create(folder.join("pebble.out")).expect("room");
    command.stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
    let process = command.kill_on_drop(true).spawn().expect("started");
    let client = reqwest::Client::builder().no_proxy();
    let client = client.tls_backend_preconfigured(trusting(made.cert.der()));
    Pebble {
        _process: process,
        _names: names,
        management,
        client: client.build().expect("a client"),
    }
}
