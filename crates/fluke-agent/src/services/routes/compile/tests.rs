use std::net::Ipv4Addr;

use fluke_model::directory::Table;
use proptest::prelude::*;

use super::super::loaded::Loaded;
use super::super::settings::API_PORT;
use super::*;

fn settings() -> Settings {
    let subnet = fluke_model::directory::Subnet::new(1).expect("a subnet");
    Settings::new("/var/lib/fluke/proxy".into(), subnet)
}

fn with_acme() -> Settings {
    let acme = Acme { email: "ops@example.com".into(), directory: None, ca_file: None };
    Settings { acme: Some(acme), ..settings() }
}

fn key(service: &str, port: &str) -> RouteKey {
    RouteKey {
        service: ServiceName::new(service).expect("a name"),
        port: PortName::new(port).expect("a name"),
    }
}

/// Addresses of this host begin with 10.200.1.
fn row(service: &str, traffic: Traffic, upstreams: &[&str]) -> (RouteKey, Route) {
    let upstreams = upstreams.iter().map(|it| it.parse().expect("an address")).collect();
    (key(service, "main"), Route { traffic, upstreams })
}

fn http(domain: &str) -> Traffic {
    Traffic::Http { domain: Some(domain.into()) }
}

fn tcp(port: u16, domain: Option<&str>) -> Traffic {
    Traffic::Tcp { external: Some(port), domain: domain.map(Into::into) }
}

fn plan(rows: Vec<(RouteKey, Route)>, settings: &Settings) -> Plan {
    compile(&Routes::from(rows), settings, Vec::new(), &BTreeSet::new())
}

/// The file without the mark.
fn dynamic(plan: &Plan) -> Value {
    let mut dynamic = plan.dynamic.clone();
    dynamic.http.services.retain(|name, _| !Dynamic::is_mark(name));
    serde_json::to_value(dynamic).expect("plain data")
}

#[test]
fn every_kind_of_traffic_has_its_router_and_prefers_containers_of_this_host() {
    let both = ["10.200.1.7:3000", "10.200.2.7:3000", "10.200.3.9:3000"];
    let rows = vec![
        row("web", http("shop.example.com"), &both),
        row("db", tcp(5432, None), &both),
        row("mail", tcp(8443, Some("mail.example.com")), &both[1..]),
        row("game", Traffic::Udp { external: Some(11001) }, &[]),
        row("inner", Traffic::Http { domain: None }, &both),
    ];
    let plan = plan(rows, &settings());
    assert_eq!(plan.problems, [""; 0]);
    let remote = json!([{ "address": "10.200.2.7:3000" }, { "address": "10.200.3.9:3000" }]);
    let wanted = json!({
        "http": {
            "routers": { "web.main": {
                "entryPoints": ["web"], "rule": "Host(`shop.example.com`)", "service": "web.main",
                "middlewares": ["retry"],
            } },
            "middlewares": { "retry": { "retry": { "attempts": 8 } } },
            "services": { "web.main": { "loadBalancer": { "servers": [
                { "url": "http://10.200.1.7:3000", "weight": 5 },
                { "url": "http://10.200.2.7:3000", "weight": 1 },
                { "url": "http://10.200.3.9:3000", "weight": 1 },
            ] } } },
        },
        "tcp": {
            "routers": {
                "db.main": {
                    "entryPoints": ["tcp-5432"], "rule": "HostSNI(`*`)", "service": "db.main",
                },
                "mail.main": {
                    "entryPoints": ["tcp-8443"], "rule": "HostSNI(`mail.example.com`)",
                    "service": "mail.main", "tls": { "passthrough": true },
                },
            },
            "services": {
                "db.main": { "weighted": { "services": [
                    { "name": "db.main.local", "weight": 5 },
                    { "name": "db.main.remote", "weight": 2 },
                ] } },
                "db.main.local": { "loadBalancer": { "servers": [{ "address": "10.200.1.7:3000" }] } },
                "db.main.remote": { "loadBalancer": { "servers": remote } },
                "mail.main": { "loadBalancer": { "servers": remote } },
            },
        },
        "udp": {
            "routers": { "game.main": { "entryPoints": ["udp-11001"], "service": "game.main" } },
            "services": { "game.main": { "loadBalancer": { "servers": [] } } },
        },
    });
    assert_eq!(dynamic(&plan), wanted);
}

#[test]
fn a_proxy_listens_for_what_is_routed_and_its_api_is_for_this_host_alone() {
    let rows = vec![
        row("db", tcp(5432, None), &[]),
        row("game", Traffic::Udp { external: Some(11001) }, &[]),
    ];
    let Fixed { generation, text } = plan(rows, &settings()).fixed;
    let api = generation.api(API_PORT);
    assert!(api.ip().is_loopback() && api.port() == API_PORT, "{api}");
    let lasting = json!({ "lifeCycle": { "graceTimeOut": "600s" } });
    let mut patient = lasting.clone();
    patient["respondingTimeouts"] = json!({ "readTimeout": "12h" });
    let folder = format!("/var/lib/fluke/proxy/dynamic/{}", generation.as_str());
    let wanted = json!({
        "global": { "checkNewVersion": false, "sendAnonymousUsage": false },
        "entryPoints": {
            "traefik": { "address": api.to_string() },
            "web": { "address": ":80", "reusePort": true, "transport": patient },
            "tcp-5432": { "address": ":5432/tcp", "reusePort": true, "transport": lasting },
            "udp-11001": { "address": ":11001/udp", "reusePort": true },
        },
        "providers": {
            "providersThrottleDuration": "10ms",
            "file": { "directory": folder, "watch": true },
        },
        "api": { "insecure": true, "dashboard": false },
        "serversTransport": { "forwardingTimeouts": { "dialTimeout": "2s" } },
        "accessLog": { "filePath": "/var/lib/fluke/proxy/access.log", "format": "json" },
        "log": { "level": "INFO", "format": "json" },
    });
    let text: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(text, wanted);
}

#[test]
fn with_tls_requests_are_sent_there_and_certificates_are_asked_for() {
    let plan = plan(vec![row("web", http("shop.example.com"), &[])], &with_acme());
    let text: Value = serde_json::from_str(&plan.fixed.text).expect("JSON");
    let web = &text["entryPoints"]["web"];
    assert_eq!(web["http"]["redirections"]["entryPoint"]["to"], "websecure");
    let secure = &text["entryPoints"]["websecure"];
    assert_eq!(secure["address"], ":443");
    assert_eq!(secure["transport"], web["transport"], "uploads have the same time");
    let resolver = json!({
        "email": "ops@example.com",
        "storage": "/var/lib/fluke/proxy/acme.json",
        "httpChallenge": { "entryPoint": "web" },
    });
    assert_eq!(text["certificatesResolvers"]["acme"]["acme"], resolver);
    let router = &dynamic(&plan)["http"]["routers"]["web.main"];
    assert_eq!(router["entryPoints"], json!(["websecure"]));
    assert_eq!(router["tls"], json!({ "certResolver": "acme" }));
}

#[test]
fn only_ports_and_settings_need_another_process() {
    let base =
        vec![row("web", http("a.example.com"), &["10.200.1.7:80"]), row("db", tcp(1, None), &[])];
    let fixed = |rows: Vec<_>| plan(rows, &settings()).fixed;
    let first = fixed(base.clone());
    let mut same = base.clone();
    same[0] = row("web", http("b.example.com"), &["10.200.9.9:80", "10.200.1.1:81"]);
    same.push(row("more", http("c.example.com"), &[]));
    same.push(row("mail", tcp(1, Some("mail.example.com")), &[]));
    assert_eq!(fixed(same), first);
    for other in [tcp(2, None), Traffic::Udp { external: Some(1) }] {
        let rows = [base.clone(), vec![row("other", other, &[])]].concat();
        let other = fixed(rows);
        assert_ne!(other.generation, first.generation);
        assert_ne!(other.generation.api(1), first.generation.api(1), "they run side by side");
    }
    assert_ne!(plan(base, &with_acme()).fixed.generation, first.generation);
}

#[test]
fn what_cannot_be_is_left_out_and_said() {
    let rows = vec![
        row("a", http("shop.example.com"), &[]),
        row("b", http("Shop.example.com"), &[]),
        row("c", http("x`) || Path(`/"), &[]),
        row("d", tcp(80, None), &[]),
        row("e", tcp(22, None), &[]),
        row("f", tcp(7000, None), &[]),
        row("g", tcp(7000, None), &[]),
        row("h", tcp(7000, Some("h.example.com")), &[]),
        row("i", Traffic::Udp { external: Some(7000) }, &[]),
        row("j", tcp(settings().api, None), &[]),
    ];
    let taken = [Gate::Tcp(22)].into();
    let plan = compile(&Routes::from(rows), &settings(), Vec::new(), &taken);
    assert_eq!(
        plan.problems,
        [
            "b.main is left out: a.main has the same domain or port",
            "c.main is left out: \"x`) || Path(`/\" is not a domain",
            "d.main is left out: port 80 is for requests, by their domain",
            "e.main is left out: another program of this host has port 22; `ss -lntup` shows which",
            "g.main is left out: f.main has the same domain or port",
            "j.main is left out: Traefik itself is asked how it is at port 781",
        ]
    );
    let left_out: Vec<_> = plan.left_out.iter().map(name).collect();
    assert_eq!(left_out, ["b.main", "c.main", "d.main", "e.main", "g.main", "j.main"]);
    let routers: Vec<_> = plan.dynamic.tcp.routers.keys().collect();
    assert_eq!(routers, ["f.main", "h.main"]);
}

#[test]
fn there_can_be_no_process_where_somebody_else_has_a_port_for_requests() {
    let compiled = |settings: &Settings, taken: &[Gate]| {
        compile(&Routes::default(), settings, Vec::new(), &taken.iter().copied().collect())
    };
    let [plain, secure] = [settings(), with_acme()];
    let listens = |settings| compiled(settings, &[]).listens;
    assert_eq!(listens(&plain), [("web".to_owned(), Gate::Tcp(80))].into());
    assert_eq!(listens(&secure).get("websecure"), Some(&Gate::Tcp(443)));
    let table = [
        (&plain, Gate::Tcp(80), Some(80)),
        (&plain, Gate::Tcp(443), None),
        (&plain, Gate::Udp(80), None),
        (&secure, Gate::Tcp(443), Some(443)),
    ];
    for (settings, taken, in_the_way) in table {
        assert_eq!(compiled(settings, &[taken]).in_the_way, in_the_way, "{taken:?}");
    }
}

#[test]
fn a_port_is_known_by_the_name_of_its_entry_point() {
    let settings = with_acme();
    let plan = compile(&Routes::default(), &settings, Vec::new(), &BTreeSet::new());
    assert_eq!(plan.listens.len(), 2);
    let others = [Gate::Tcp(22), Gate::Udp(53)].map(|gate| (gate.name(), gate));
    for (name, gate) in plan.listens.into_iter().chain(others) {
        assert_eq!(Gate::of(&name, &settings), Some(gate), "{name}");
    }
    assert_eq!(Gate::of("traefik", &settings), None, "its API is nobody else's business");
}

#[test]
fn a_text_is_never_taken_for_a_template() {
    let pair = Pair { cert_file: r#"{{ env "HOME" }}{{{"#.into(), key_file: "\u{7}{{".into() };
    let settings = settings();
    let plan = compile(&Routes::default(), &settings, vec![pair.clone()], &BTreeSet::new());
    let text = plan.dynamic.text();
    assert!(!text.contains("{{"), "{text}");
    let read: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(read["tls"]["certificates"][0]["certFile"], pair.cert_file);
    assert!(!format!("{plan:?}").contains("\u{7}"), "keys are not shown");
}

#[test]
fn other_certificates_are_another_configuration() {
    let of = |cert: &str| {
        let pair = Pair { cert_file: cert.into(), key_file: "key".into() };
        compile(&Routes::default(), &settings(), vec![pair], &BTreeSet::new()).dynamic
    };
    let loaded = Loaded { dynamic: Dynamic { tls: Tls::default(), ..of("a") }, broken: Vec::new() };
    assert_eq!(loaded.difference(&of("a")), None);
    let difference = loaded.difference(&of("b"));
    assert_eq!(difference.as_deref(), Some("Traefik has loaded other certificates"));
}

fn any_traffic() -> impl Strategy<Value = Traffic> {
    let domain = prop_oneof![
        4 => "[a-c]\\.example\\.com",
        1 => any::<String>(),
        1 => "[`{}\"'$\\\\.a]{0,8}",
    ];
    let port = prop_oneof![4 => 1u16..5, 1 => Just(80), 1 => Just(443), 1 => any::<u16>()];
    let port = proptest::option::weighted(0.9, port);
    let domain = proptest::option::weighted(0.7, domain);
    prop_oneof![
        domain.clone().prop_map(|domain| Traffic::Http { domain }),
        (port.clone(), domain).prop_map(|(external, domain)| Traffic::Tcp { external, domain }),
        port.prop_map(|external| Traffic::Udp { external }),
    ]
}

fn any_upstream() -> impl Strategy<Value = SocketAddrV4> {
    (0u8..4, any::<u8>(), 1u16..3)
        .prop_map(|(host, last, port)| SocketAddrV4::new(Ipv4Addr::new(10, 200, host, last), port))
}

prop_compose! {
    fn any_routes()(rows in proptest::collection::vec(
        ("[a-d]", "[pq]", any_traffic(), proptest::collection::btree_set(any_upstream(), 0..5)), 0..12,
    )) -> Routes {
        let row = |(service, port, traffic, upstreams): (String, String, _, _)| {
            (key(&service, &port), Route { traffic, upstreams })
        };
        Routes::from(rows.into_iter().map(row).collect::<Vec<_>>())
    }
}

proptest! {
    #[test]
    fn no_two_routers_collide_and_each_leads_somewhere(routes in any_routes(), tls in any::<bool>()) {
        let settings = if tls { with_acme() } else { settings() };
        let plan = compile(&routes, &settings, Vec::new(), &BTreeSet::new());
        let fixed: Value = serde_json::from_str(&plan.fixed.text).expect("JSON");
        let mut seen = BTreeSet::new();
        let Dynamic { http, tcp, udp, .. } = &plan.dynamic;
        for (kind, section) in [("http", http), ("tcp", tcp), ("udp", udp)] {
            for router in section.routers.values() {
                let [entry_point] = router.entry_points.as_slice() else { panic!("{router:?}") };
                prop_assert!(fixed["entryPoints"][entry_point].is_object(), "{entry_point}");
                prop_assert!(seen.insert((kind, entry_point, &router.rule)), "{router:?}");
                prop_assert!(section.services.contains_key(&router.service));
                let rule = router.rule.as_deref().unwrap_or_default();
                let is_plain = rule.matches('`').count() <= 2 && !rule.contains(['"', '{', '$']);
                prop_assert!(is_plain, "{}", rule);
            }
            let shares = section.services.values().filter_map(|it| it.weighted.as_ref());
            for share in shares.flat_map(|it| &it.services) {
                prop_assert!(share.weight > 0 && section.services.contains_key(&share.name));
            }
        }
        prop_assert!(!plan.dynamic.text().contains("{{"));
    }

    #[test]
    fn what_is_loaded_says_which_routes_it_is_made_from(routes in any_routes()) {
        let plan = compile(&routes, &settings(), Vec::new(), &BTreeSet::new());
        let left_out = |name: &str| plan.problems.iter().any(|it| it.starts_with(&format!("{name} ")));
        let mut served = routes.clone().into_rows();
        served.retain(|key, route| route.traffic.is_public() && !left_out(&name(key)));
        let loaded = Loaded { dynamic: plan.dynamic.clone(), broken: Vec::new() };
        prop_assert_eq!(loaded.difference(&plan.dynamic), None);
        prop_assert_eq!(loaded.routes(), Table::from(served));
    }

    #[test]
    fn every_change_of_routes_is_seen(one in any_routes(), other in any_routes()) {
        let of = |routes| compile(routes, &settings(), Vec::new(), &BTreeSet::new()).dynamic;
        let loaded = Loaded { dynamic: of(&one), broken: Vec::new() };
        prop_assert_eq!(loaded.difference(&of(&other)).is_none(), of(&one) == of(&other));
    }
}
