use super::super::config::{Retry, Server, Share};
use super::*;

/// As Traefik 3.7 says it, with what it has by itself.
const ANSWER: &str = r#"{
  "routers": {
    "api@internal": { "entryPoints": ["traefik"], "service": "api@internal",
      "rule": "PathPrefix(`/api`)", "priority": 9223372036854775806, "status": "enabled" },
    "web.http@file": { "entryPoints": ["websecure"], "service": "web.http",
      "rule": "Host(`shop.example.com`)", "priority": 25, "tls": { "certResolver": "acme" },
      "middlewares": ["retry@file"],
      "observability": { "accessLogs": true }, "status": "enabled", "using": ["websecure"] }
  },
  "middlewares": {
    "retry@file": { "retry": { "attempts": 8, "maxRequestBodyBytes": 2097152 }, "status": "enabled",
      "usedBy": ["web.http@file"] }
  },
  "services": {
    "noop@internal": { "status": "enabled" },
    "fluke-abc@file": { "loadBalancer": { "strategy": "wrr", "passHostHeader": true }, "status": "enabled" },
    "web.http@file": { "loadBalancer": { "strategy": "wrr", "servers": [
        { "url": "http://10.200.1.7:3000", "weight": 5 }, { "url": "http://10.200.2.7:3000", "weight": 1 } ] },
      "status": "enabled", "serverStatus": { "http://10.200.1.7:3000": "UP" } }
  },
  "tcpRouters": {
    "db.sql@file": { "entryPoints": ["tcp-5432"], "service": "db.sql", "rule": "HostSNI(`*`)",
      "error": ["entryPoint \"tcp-5432\" doesn't exist"], "status": "disabled" }
  },
  "tcpServices": {
    "db.sql@file": { "weighted": { "services": [
        { "name": "db.sql.local", "weight": 5 }, { "name": "db.sql.remote", "weight": 1 } ] }, "status": "enabled" },
    "db.sql.local@file": { "loadBalancer": { "servers": [{ "address": "10.200.1.8:5432" }] }, "status": "enabled" },
    "db.sql.remote@file": { "loadBalancer": { "servers": [{ "address": "10.200.2.8:5432" }] }, "status": "enabled" }
  }
}"#;

#[test]
fn the_answer_of_the_api_is_read_in_the_words_of_the_files() {
    let loaded = Loaded::read(ANSWER.as_bytes()).expect("an answer");
    let routers: Vec<_> = loaded.dynamic.http.routers.keys().collect();
    assert_eq!(routers, ["web.http"], "what is Traefik's own is none of ours");
    assert_eq!(loaded.dynamic.http.routers["web.http"].middlewares, ["retry"]);
    assert_eq!(loaded.dynamic.http.middlewares["retry"].retry, Some(Retry { attempts: 8 }));
    let why = r#"entryPoint "tcp-5432" doesn't exist"#;
    assert_eq!(loaded.broken, [("db.sql".to_owned(), why.to_owned())]);
    let loaded = Loaded { broken: Vec::new(), ..loaded };
    let rows: Vec<_> = loaded.routes().into_rows().into_iter().collect();
    let [(db, sql), (web, http)] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!((db.service.as_str(), web.port.as_str()), ("db", "http"));
    assert_eq!(sql.traffic, Traffic::Tcp { external: Some(5432), domain: None });
    assert_eq!(http.traffic, Traffic::Http { domain: Some("shop.example.com".into()) });
    let addresses = |all: [&str; 2]| all.map(|it| it.parse().expect("an address")).into();
    assert_eq!(http.upstreams, addresses(["10.200.1.7:3000", "10.200.2.7:3000"]));
    assert_eq!(sql.upstreams, addresses(["10.200.1.8:5432", "10.200.2.8:5432"]));
}

#[test]
fn differences_are_told_in_words_and_not_without_end() {
    let loaded =
        Loaded { broken: Vec::new(), ..Loaded::read(ANSWER.as_bytes()).expect("an answer") };
    assert_eq!(loaded.difference(&loaded.dynamic), None);
    let mut wanted = loaded.dynamic.clone();
    wanted.http.routers.clear();
    wanted.http.services.remove("web.http");
    let share = Share { name: "db.sql.local".into(), weight: 1 };
    wanted.tcp.services.insert("db.sql".into(), Service::of_services(vec![share]));
    let server = Server { url: None, address: Some("10.200.1.1:1".into()), weight: None };
    wanted.udp.services.insert("game.udp".into(), Service::of_servers(vec![server]));
    assert_eq!(
        loaded.difference(&wanted).as_deref(),
        Some(
            "web.http is loaded and should not be; db.sql is loaded, but otherwise; game.udp is not \
             loaded"
        )
    );
    let nothing = Loaded::default().difference(&loaded.dynamic).expect("all is missing");
    assert!(nothing.ends_with("; and 2 more"), "{nothing}");
}

#[test]
fn what_traefik_cannot_use_is_a_difference() {
    let loaded = Loaded::read(ANSWER.as_bytes()).expect("an answer");
    let difference = loaded.difference(&loaded.dynamic).expect("one is broken");
    assert!(difference.starts_with("Traefik cannot use db.sql: entryPoint"), "{difference}");
}

#[test]
fn what_traefik_cannot_use_is_not_among_the_routes_that_it_has() {
    let services = |answer: &str| -> Vec<String> {
        let loaded = Loaded::read(answer.as_bytes()).expect("an answer");
        loaded.routes().into_rows().into_keys().map(|key| key.service.to_string()).collect()
    };
    assert_eq!(services(ANSWER), ["web"], "its router is disabled");
    let router = r#""error": ["entryPoint \"tcp-5432\" doesn't exist"], "status": "disabled""#;
    let answer = ANSWER.replace(router, r#""status": "enabled""#);
    assert_eq!(services(&answer), ["db", "web"]);
    let server = r#"[{ "address": "10.200.2.8:5432" }] }, "status": "#;
    let answer = answer.replace(&format!("{server}\"enabled"), &format!("{server}\"disabled"));
    assert_eq!(services(&answer), ["web"], "a service that it is made of is");
}

#[test]
fn nonsense_is_not_understood_and_does_no_harm() {
    for answer in ["", "1", "{\"routers\": 1}", "404 page not found"] {
        assert!(Loaded::read(answer.as_bytes()).is_err(), "{answer}");
    }
    assert_eq!(Loaded::read(b"{}").expect("nothing yet"), Loaded::default());
}
