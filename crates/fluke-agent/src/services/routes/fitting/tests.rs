use fluke_model::directory::{Route, RouteKey, Routes, Subnet};
use fluke_model::gather::Gather;
use fluke_model::id::{PortName, ServiceName};
use fluke_model::service::Traffic;

use super::super::compile::compile;
use super::super::settings::{Acme, Settings};
use super::*;

fn named(service: &str) -> RouteKey {
    let service = ServiceName::new(service).expect("a name");
    RouteKey { service, port: PortName::new("main").expect("a name") }
}

/// A plan for a domain, and these ports.
fn plan(ports: &[(&str, Traffic)], has_tls: bool) -> Plan {
    let subnet = Subnet::new(1).expect("a subnet");
    let mut settings = Settings::new("/var/lib/fluke/proxy".into(), subnet);
    let acme = || Acme { email: "ops@example.com".into(), directory: None, ca_file: None };
    settings.acme = has_tls.then(acme);
    let web = ("web", Traffic::Http { domain: Some("shop.example.com".into()) });
    let upstreams = ["10.200.1.7:3000", "10.200.2.7:3000"].map(|it| it.parse().expect("one"));
    let row = |(service, traffic): &(&str, Traffic)| {
        (named(service), Route { traffic: traffic.clone(), upstreams: upstreams.into() })
    };
    let rows: Vec<_> = [web].iter().chain(ports).map(row).collect();
    compile(&Routes::from(rows), &settings, Vec::new(), &BTreeSet::new())
}

fn sql() -> (&'static str, Traffic) {
    ("db", Traffic::Tcp { external: Some(5432), domain: None })
}

fn game() -> (&'static str, Traffic) {
    ("game", Traffic::Udp { external: Some(11001) })
}

/// What a process that was started by a plan listens by.
fn entry_points(of: &Plan) -> BTreeSet<String> {
    of.listens.keys().cloned().chain(["traefik".to_owned()]).gather()
}

/// Where requests for the domain come in, and whether over TLS.
fn door(of: &Plan) -> (&str, bool) {
    let router = &of.dynamic.http.routers["web.main"];
    (router.entry_points[0].as_str(), router.tls.is_some())
}

#[test]
fn a_process_is_told_of_domains_where_it_takes_requests() {
    let table = [
        (false, false, (WEB, false)),
        (false, true, (WEB, false)),
        (true, true, (SECURE, true)),
        (true, false, (SECURE, true)),
    ];
    for (before, after, expected) in table {
        let fitting = plan(&[], after).fitting(&entry_points(&plan(&[], before)));
        assert_eq!(door(&fitting), expected, "TLS: {before}, then {after}");
        assert_eq!(fitting.left_out, BTreeSet::new());
    }
    let next = plan(&[sql()], true);
    assert_eq!(next.clone().fitting(&entry_points(&next)), next, "all of it is for the next one");
    assert_eq!(next.clone().fitting(&BTreeSet::new()), next, "nothing is known of it");
}

#[test]
fn ports_that_a_process_has_not_are_left_out_and_others_stay() {
    let fitting = plan(&[sql(), game()], true).fitting(&entry_points(&plan(&[game()], true)));
    assert_eq!(fitting.left_out, BTreeSet::from([named("db")]));
    let Dynamic { tcp, udp, http, .. } = &fitting.dynamic;
    assert_eq!(*tcp, Section::default(), "with the services that it is made of");
    let services: Vec<&str> = udp.services.keys().map(String::as_str).collect();
    assert_eq!(services, ["game.main", "game.main.local", "game.main.remote"]);
    assert!(udp.routers.contains_key("game.main") && http.routers.contains_key("web.main"));
}
