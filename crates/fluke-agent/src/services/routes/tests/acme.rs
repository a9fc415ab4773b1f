//! A certificate from a real ACME server, Pebble.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::super::Acme;
use super::stage::*;
use super::takeovers::leaves_alone;
use super::tls::{connect, trusting};
use crate::services::section::Found;

const DOMAIN: &str = "shop.example.com";

/// Answers every question for an IPv4 address with one, once domains lead there, and every other with
/// nothing. Pebble asks over TCP.
async fn name_server(address: Ipv4Addr, leads_here: Arc<AtomicBool>) -> Container {
    Container::serving(address, move |mut stream, _| {
        let leads_here = leads_here.clone();
        async move {
            while let Ok(length) = stream.read_u16().await {
                let mut question = vec![0; length.into()];
                let Ok(_) = stream.read_exact(&mut question).await else { return };
                let leads_to = leads_here.load(Ordering::Relaxed).then_some(address);
                let Some(answer) = name_answer(&question, leads_to) else { return };
                let framed = [&(answer.len() as u16).to_be_bytes(), answer.as_slice()].concat();
                let Ok(()) = stream.write_all(&framed).await else { return };
            }
        }
    })
    .await
}

fn name_answer(question: &[u8], address: Option<Ipv4Addr>) -> Option<Vec<u8>> {
    let name = question.get(12..)?.iter().position(|it| *it == 0)?;
    let end = 12 + name + 5;
    let asks = question.get(12 + name + 1..12 + name + 3)? == [0, 1];
    let address = address.filter(|_| asks);
    let mut answer = question.get(..end)?.to_vec();
    // An answer, with recursion; one question, and one record or none.
    let count = u8::from(address.is_some());
    answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0]);
    if let Some(address) = address {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}

struct Pebble {
    _process: Child,
    _names: Container,
    /// Whether domains lead to the proxy.
    leads_here: Arc<AtomicBool>,
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

/// A proxy that gets its certificates from Pebble, and the root that they are trusted by.
async fn asking() -> Option<(Stage, Pebble, CertificateDer<'static>)> {
    let program = tool("pebble")?;
    let stage = Stage::with(|settings, folder| {
        let Some(std::net::IpAddr::V4(listen)) = settings.listen else { return };
        let ca_file = Some(folder.join("pebble.crt"));
        let directory = Some(format!("https://{listen}:14000/dir"));
        let email = "ops@example.com".to_owned();
        settings.acme = Some(Acme { email, directory, ca_file });
    });
    let stage = stage?;
    let pebble = pebble(&program, &stage).await;
    let root = pebble.root().await;
    Some((stage, pebble, root))
}

fn said(stage: &Stage, name: &str) -> String {
    std::fs::read_to_string(stage.folder.path().join(name)).unwrap_or_default()
}

/// How often Traefik was refused a certificate.
fn refusals(stage: &Stage) -> usize {
    said(stage, "proxy.out").matches("Unable to obtain ACME").count()
}

async fn until_served(stage: &Stage, root: &CertificateDer<'static>) {
    let served = async {
        while connect(stage, SECURE, DOMAIN, root).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    if tokio::time::timeout(LONG, served).await.is_err() {
        panic!("no certificate\n{}\n{}", said(stage, "pebble.out"), said(stage, "proxy.out"));
    }
}

#[tokio::test]
async fn a_certificate_is_had_from_an_acme_server_and_served() {
    let Some((mut stage, _pebble, root)) = asking().await else { return };
    let web = Container::http(LOCAL, "web").await;
    stage.routes(&table([("web", http(DOMAIN), &[&web])])).await;
    until_served(&stage, &root).await;
    assert!(stage.path("acme.json").exists(), "it is kept");
}

#[tokio::test]
async fn a_certificate_that_was_refused_is_asked_for_again_and_missed_until_then() {
    let Some((mut stage, pebble, root)) = asking().await else { return };
    pebble.leads_here.store(false, Ordering::Relaxed);
    let web = Container::http(LOCAL, "web").await;
    let routes = table([("web", http(DOMAIN), &[&web])]);
    stage.routes(&routes).await;
    until("it is refused", || refusals(&stage) > 0).await;
    let later = tokio::time::Instant::now() + LONG * 2;
    let today = std::time::SystemTime::now().into();
    let words = stage.proxy.awaited.words(later, today).unwrap_or_default();
    assert!(words.contains(DOMAIN), "{words}");
    pebble.leads_here.store(true, Ordering::Relaxed);
    let plan = stage.proxy.plan(&routes, &[]).await.expect("known");
    let one = plan.fixed.generation.clone();
    stage.proxy.ask_again(&one, &plan, &routes).await.expect("it can be told");
    until_served(&stage, &root).await;
    assert_eq!(stage.finds(&routes).await, Found::default(), "nothing differs from before");
    assert_eq!(stage.proxy.awaited.words(later, today), None);
    let in_years = fluke_model::time::Timestamp(10_000_000_000_000);
    let words = stage.proxy.awaited.words(later, in_years).unwrap_or_default();
    assert!(words.starts_with(&format!("nobody renewed the certificate for {DOMAIN}")), "{words}");
}

#[tokio::test]
async fn a_certificate_is_asked_for_again_by_the_one_that_goes_on() {
    let Some((mut stage, pebble, root)) = asking().await else { return };
    pebble.leads_here.store(false, Ordering::Relaxed);
    let (web, db) = (Container::http(LOCAL, "web").await, Container::tcp(LOCAL, "db").await);
    let web = ("web", http(DOMAIN), &[&web][..]);
    let before = table([web.clone()]);
    stage.routes(&before).await;
    until("it is refused", || refusals(&stage) > 0).await;
    let first = stage.proxy.plan(&before, &[]).await.expect("known").fixed.generation;
    let routes = table([web, ("db", tcp(15432), &[&db])]);
    leaves_alone(&mut stage, &routes).await;
    let refused = refusals(&stage);
    stage.goes_on_with(&routes).await;
    // It asks by itself when it is told anything new, and asks no more before it has the answer.
    until("it is refused again", || refusals(&stage) > refused).await;
    pebble.leads_here.store(true, Ordering::Relaxed);
    let plan = stage.proxy.plan(&routes, &[]).await.expect("known");
    stage.proxy.ask_again(&first, &plan, &routes).await.expect("it can be told");
    until_served(&stage, &root).await;
    stage.is_hindered(&routes).await;
    let later = tokio::time::Instant::now() + LONG * 2;
    let today = std::time::SystemTime::now().into();
    assert_eq!(stage.proxy.awaited.words(later, today), None, "it is seen that it is there");
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
    let leads_here = Arc::new(AtomicBool::new(true));
    let names = name_server(stage.listen, leads_here.clone()).await;
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
        leads_here,
        management,
        client: client.build().expect("a client"),
    }
}
