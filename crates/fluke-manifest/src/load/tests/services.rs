//! What a `service` block may say.

use fluke_model::id::ServiceName;
use fluke_model::service::{HealthSpec, Port, Resources, Service, Traffic};

use super::*;

const FULL: &str = r#"
service "web" {
  description = "Storefront"
  selector { match_labels = { role = "app" } }
  drift { policy = "remediate_and_alert" }
  replicas         = 3
  reschedule_after = "10m"

  image   = "registry.example/shop/web:${local.version}"
  command = ["serve", "--port", 3000]
  env     = { LOG = "info", DATABASE_URL = "$DATABASE_URL" }

  port "http" {
    container = 3000
    domain    = "Shop.example.com"
  }
  port "game" {
    container = 7777
    protocol  = "udp"
    external  = 11001
  }
  port "mail" {
    container = 465
    protocol  = "tcp"
    external  = 10465
    domain    = "mail.example.com"
  }
  volume "data" { path = "/data" }
  health {
    command      = "wget -qO- localhost:3000/health"
    interval     = "10s"
    timeout      = "5s"
    retries      = 3
    start_period = "30s"
  }
  resources {
    cpu    = 0.5
    memory = "256MiB"
  }
}

locals {
  version = "1.4.2"
}
"#;

fn only(text: &str) -> Service {
    let services = model(&[("web.fluke.hcl", text)]).services;
    assert_eq!(services.len(), 1);
    let service = services.into_values().next().expect("one");
    Service::clone(&service)
}

/// A service with these lines in it.
fn service(name: &str, lines: &str) -> String {
    format!(
        "service \"{name}\" {{\n  selector {{\n    match_labels = {{}}\n  }}\n  image = \"web:1\"\n{lines}\n}}\n"
    )
}

#[test]
fn every_field_of_a_service_is_read() {
    let service = only(FULL);
    assert_eq!(service.name, ServiceName::new("web").expect("a name"));
    assert_eq!(service.description.as_deref(), Some("Storefront"));
    assert_eq!(service.policy, Some(Policy::RemediateAndAlert));
    assert_eq!(service.replicas, Some(3));
    assert_eq!(service.reschedule_after, Duration::from_secs(600));
    assert_eq!(service.defined.to_string(), "web.fluke.hcl:2");
    let container = &service.container;
    assert_eq!(container.image, "registry.example/shop/web:1.4.2");
    assert_eq!(
        container.command.as_deref(),
        Some(&["serve", "--port", "3000"].map(String::from)[..])
    );
    assert_eq!(container.env["DATABASE_URL"], "$DATABASE_URL");
    assert_eq!(
        container.volumes.iter().map(|(name, path)| format!("{name}:{path}")).collect::<Vec<_>>(),
        ["data:/data"]
    );
    assert_eq!(container.resources, Resources { cpu_millis: Some(500), memory: Some(256 << 20) });
    let health = HealthSpec {
        command: "wget -qO- localhost:3000/health".into(),
        interval_ms: 10_000,
        timeout_ms: 5_000,
        retries: 3,
        start_period_ms: 30_000,
    };
    assert_eq!(container.health, Some(health));
    let traffic: Vec<&Traffic> = service.ports.iter().map(|Port { traffic, .. }| traffic).collect();
    assert_eq!(
        traffic,
        [
            &Traffic::Http { domain: Some("shop.example.com".into()) },
            &Traffic::Udp { external: Some(11001) },
            &Traffic::Tcp { external: Some(10465), domain: Some("mail.example.com".into()) },
        ]
    );
}

#[test]
fn what_is_left_out_has_a_meaning() {
    let service = only(&service("web", "  health {\n    command = \"true\"\n  }"));
    assert_eq!((service.replicas, service.policy), (None, None));
    assert_eq!(service.reschedule_after, Duration::from_secs(300));
    let health = service.container.health.expect("one");
    assert_eq!((health.interval_ms, health.timeout_ms, health.retries), (10_000, 5_000, 3));
    assert_eq!(service.container.resources, Resources::default());
}

#[test]
fn every_mistake_in_a_service_says_where_it_is_and_what_to_do() {
    for (lines, expected) in [
        ("  imge = \"x\"", "6:3 unknown attribute `imge`; did you mean `image`?"),
        (
            "  build {\n  }",
            "6:3 a service has either an `image` or a `build` block, not both; remove one of the two",
        ),
        ("  replicas = -1", "6:14 `replicas`: -1 is not a whole number from 0 to 10000"),
        (
            "  reschedule_after = \"169h\"",
            "6:22 `reschedule_after`: it must be at most 168h; a host that is away is remembered for a week; what has volumes never moves",
        ),
        (
            "  reschedule_after = \"soon\"",
            "6:22 `reschedule_after`: \"soon\" has an unknown unit `soon`; units are ns, us, ms, s, m and h; write it like \"500ms\", \"30s\", \"5m\" or \"1h30m\"",
        ),
        (
            "  command = []",
            "6:13 `command`: it must not be empty; leave it out for the image's own",
        ),
        (
            "  env = { \"A-B\" = 1 }",
            "6:11 `env`: \"A-B\" is not a variable's name; use letters, digits and `_`, with no digit at the beginning",
        ),
        (
            "  env = { A = \"$${B} $$\", C = \"$$${B\", D = \"x $${B\" }",
            "6:44 `env`: \"D\" has a `${` without a `}`; write `$NAME` for a variable of the host, and `$$` for a dollar",
        ),
        (
            "  port \"http\" {\n  }",
            "6:3 a `port` block needs the attribute `container`; add `container = …`: a whole number from 1 to 65535",
        ),
        (
            "  port \"http\" {\n    container = 0\n  }",
            "7:17 `container`: 0 is not a whole number from 1 to 65535",
        ),
        (
            "  port \"http\" {\n    container = 80\n    protocol = \"htp\"\n  }",
            "8:16 `protocol`: \"htp\" is not one of \"http\", \"tcp\", \"udp\"; did you mean \"http\"?",
        ),
        (
            "  port \"http\" {\n    container = 80\n    domain = \"http://x.example/\"\n  }",
            "8:14 `domain`: \"http://x.example/\" is not a domain; write the name alone, for example \"shop.example.com\"",
        ),
        (
            "  port \"http\" {\n    container = 80\n    domain = \"web.internal\"\n  }",
            "8:14 `domain`: \"web.internal\" is a name of the mesh; services are called <service>.internal there without being asked",
        ),
        (
            "  port \"http\" {\n    container = 80\n    external = 8080\n  }",
            "8:16 an http port has no `external`; requests come in at 80 and 443, by `domain`; for another port, use \"tcp\"",
        ),
        (
            "  port \"u\" {\n    container = 80\n    protocol = \"udp\"\n    domain = \"x.example\"\n  }",
            "9:14 a udp port has no `domain`; packets carry no name: use `external` alone",
        ),
        (
            "  port \"t\" {\n    container = 80\n    protocol = \"tcp\"\n    domain = \"x.example\"\n  }",
            "9:14 a tcp port with a `domain` needs an `external`; say where proxies listen for it, for example external = 8443",
        ),
        (
            "  port \"a\" {\n    container = 80\n  }\n  port \"a\" {\n    container = 81\n  }",
            "9:3 port `a` is declared twice in this service; give one of the two another name",
        ),
        (
            "  volume \"data\" {\n    path = \"data\"\n  }",
            "7:12 `path`: \"data\" is not a place in a container; write an absolute path below /, for example \"/data\"",
        ),
        (
            "  volume \"a\" {\n    path = \"/x\"\n  }\n  volume \"b\" {\n    path = \"/x\"\n  }",
            "10:12 the volumes `a` and `b` have the same path; give each one of its own",
        ),
        (
            "  health {\n    command = \"x\"\n    interval = \"1ms\"\n  }",
            "8:16 `interval`: it must be at least 100ms; for example \"10s\"",
        ),
        (
            "  resources {\n    cpu = 0\n  }",
            "7:11 `cpu`: 0 is not a number of cores; for example 0.5 for half a core; from 0.01 to 1024",
        ),
        (
            "  resources {\n    cpu = 1025\n  }",
            "7:11 `cpu`: 1025 is not a number of cores; for example 0.5 for half a core; from 0.01 to 1024",
        ),
        (
            "  resources {\n    memory = \"256\"\n  }",
            "7:14 `memory`: \"256\" is not an amount of memory; for example \"256MiB\" or \"2GiB\"",
        ),
        (
            "  resources {\n    memory = \"1048577GiB\"\n  }",
            "7:14 `memory`: \"1048577GiB\" is more than the 1048576GiB that are accepted; for example \"256MiB\" or \"2GiB\"",
        ),
    ] {
        assert_eq!(wrong(&service("web", lines)), [expected], "{lines}");
    }
    // One that is only misspelt is one mistake.
    let misspelt = service("web", "").replace("  image = ", "  imagge = ");
    assert_eq!(wrong(&misspelt), ["5:3 unknown attribute `imagge`; did you mean `image`?"]);
    // So is one that is written as a block.
    let block = service("web", "").replace("  image = ", "  image {}\n  # ");
    assert_eq!(wrong(&block).len(), 1, "{:?}", wrong(&block));
    let nameless = "service \"Web\" {\n  selector {\n    match_labels = {}\n  }\n}\n";
    assert_eq!(
        wrong(nameless),
        [
            "1:1 a `service` block needs the attribute `image`; for example image = \"registry.example/shop/web:1.4.2\"",
            "1:9 a service name becomes part of a host name: use lower-case letters, digits and `-`, at most 63, with a letter or digit at both ends",
        ]
    );
}

#[test]
fn every_entry_that_is_wrong_is_told_where_it_stands() {
    let port = |name: &str| format!("  port \"{name}\" {{\n    container = 80\n  }}\n");
    let long = "x".repeat(70_000);
    let name =
        "is not a variable's name; use letters, digits and `_`, with no digit at the beginning";
    let dollar =
        "has a `${` without a `}`; write `$NAME` for a variable of the host, and `$$` for a dollar";
    let twice = "is declared twice in this service; give one of the two another name";
    let much = "has 70000 bytes; at most 65536 are accepted; let the image bring what is large, or a volume";
    for (lines, expected) in [
        (
            "  env = {\n    A   = 1\n    B-C = 2\n    D   = \"$${E\"\n    \"1F\" = \"$${E\"\n  }"
                .into(),
            vec![
                format!("8:5 `env`: \"B-C\" {name}"),
                format!("9:11 `env`: \"D\" {dollar}"),
                format!("10:5 `env`: \"1F\" {name}"),
                format!("10:12 `env`: \"1F\" {dollar}"),
            ],
        ),
        (
            "  env = merge({ A-B = 1 }, { C-D = 2 })".into(),
            vec![format!("6:9 `env`: \"A-B\" {name}"), format!("6:9 `env`: \"C-D\" {name}")],
        ),
        (
            format!("  command = [\n    \"{long}\",\n    \"a\",\n    \"{long}\"\n  ]"),
            vec![
                format!("7:5 `command`: its word 1 {much}"),
                format!("9:5 `command`: its word 3 {much}"),
            ],
        ),
        (
            ["a", "a", "b", "b", "a"].map(port).concat(),
            vec![
                format!("9:3 port `a` {twice}"),
                format!("15:3 port `b` {twice}"),
                format!("18:3 port `a` {twice}"),
            ],
        ),
    ] {
        assert_eq!(wrong(&service("web", &lines)), expected, "{lines:.200}");
    }
}

#[test]
fn an_image_that_is_null_is_a_mistake_and_never_a_service_that_is_gone() {
    for null in ["null", "false ? \"web:1\" : null", "try(local.absent, null)"] {
        let text = service("web", "").replace("\"web:1\"", null);
        let expected = "5:11 `image` is required and must not be null; give it a string";
        assert_eq!(wrong(&text), [expected], "{null}");
    }
}

/// So many blocks, or entries, each made from its number.
fn many(count: usize, each: impl Fn(usize) -> String) -> String {
    (0..count).map(each).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_there_is_too_much_of_says_where_it_is_and_how_much_there_may_be() {
    let long = "x".repeat(70_000);
    let help = "let the image bring what is large, or a volume";
    for (lines, expected) in [
        (
            format!("  command = [\n{}\n  ]", many(1001, |it| format!("    \"{it}\","))),
            format!("6:13 `command`: command has 1001 entries; at most 1000 are accepted; {help}"),
        ),
        (
            format!("  command = [\"a\", \"{long}\"]"),
            format!(
                "6:19 `command`: its word 2 has 70000 bytes; at most 65536 are accepted; {help}"
            ),
        ),
        (
            format!("  env = {{\n{}\n  }}", many(1001, |it| format!("    A{it} = \"\""))),
            format!("6:9 `env`: env has 1001 entries; at most 1000 are accepted; {help}"),
        ),
        (
            format!("  env = {{ KEY = \"{long}\" }}"),
            format!(
                "6:17 `env`: the value of `KEY` has 70000 bytes; at most 65536 are accepted; {help}"
            ),
        ),
        (
            many(65, |it| format!("  volume \"v{it}\" {{\n    path = \"/{it}\"\n  }}")),
            "198:3 a service has at most 64 volumes; keep more in one of them".to_string(),
        ),
        (
            format!("  volume \"data\" {{\n    path = \"/{}\"\n  }}", "x".repeat(4096)),
            format!("7:12 `path`: it has 4097 bytes; at most 4096 are accepted; {help}"),
        ),
        (
            http("p", &format!("{}example", "x.".repeat(125))),
            "8:14 `domain`: it has 257 bytes; at most 253 are accepted".to_string(),
        ),
        (
            http("p", &format!("{}.example", "x".repeat(64))),
            format!(
                "8:14 `domain`: its part `{}` has 64 bytes; at most 63 are accepted",
                "x".repeat(64)
            ),
        ),
        (
            many(1001, |it| format!("  port \"p{it}\" {{\n    container = {}\n  }}", it + 1)),
            "3006:3 a service has at most 1000 ports; give some of them to another service"
                .to_string(),
        ),
        (
            format!("  health {{\n    command = \"{long}\"\n  }}"),
            format!("7:15 `command`: it has 70000 bytes; at most 65536 are accepted; {help}"),
        ),
        (
            format!("  env = {{\n{}\n  }}", many(20, |it| format!("    A{it} = local.large"))),
            format!(
                "1:1 this service: all of it together has 1200055 bytes; at most 1048576 are \
                 accepted; {help}"
            ),
        ),
    ] {
        let locals = format!("locals {{\n  large = \"{}\"\n}}\n", "x".repeat(60_000));
        let found = wrong(&format!("{}{locals}", service("web", &lines)));
        assert_eq!(found, [expected], "{}", lines.chars().take(200).collect::<String>());
    }
    let image = format!("r.example/{}", "x".repeat(1020));
    let lines = service("web", "").replace("web:1", &image);
    assert_eq!(
        wrong(&lines),
        ["5:11 `image`: it has 1030 bytes; at most 1024 are accepted; for example \
          \"registry.example/shop/web:1.4.2\""]
    );
}

#[test]
fn all_services_together_have_no_more_replicas_than_one_host_can_be_told_of() {
    let (a, b) = (service("a", "  replicas = 9999"), service("b", ""));
    let c = service("c", "  replicas = 0");
    let files = [("a.fluke.hcl", a.as_str()), ("b.fluke.hcl", &b), ("c.fluke.hcl", &c)];
    assert_eq!(load(&files[..2]).diagnostics.len(), 0);
    let found: Vec<_> = load(&files).diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["c.fluke.hcl:1:1: with this one, all services have 10001 replicas; 10000 are the most; \
          run fewer of them"]
    );
}

/// A port that claims a domain.
fn http(name: &str, domain: &str) -> String {
    format!("  port \"{name}\" {{\n    container = 80\n    domain = \"{domain}\"\n  }}")
}

/// A port that claims an external one, or a part of it.
fn with_external(name: &str, protocol: &str, domain: Option<&str>) -> String {
    let domain = domain.map(|it| format!("    domain = \"{it}\"\n")).unwrap_or_default();
    format!(
        "  port \"{name}\" {{\n    container = 80\n    protocol = \"{protocol}\"\n    \
         external = 10000\n{domain}  }}"
    )
}

#[test]
fn what_two_services_claim_is_a_problem_of_the_later_one_where_it_claims_it() {
    let tcp = with_external("p", "tcp", None);
    let udp = with_external("p", "udp", None);
    let named = |name: &str| with_external("p", "tcp", Some(name));
    let tls = "TLS for `x.example` at the external tcp port 10000";
    for (one, other, expected) in [
        (http("p", "x.example"), http("p", "X.EXAMPLE"), Some(("8:14", "the domain `x.example`"))),
        (tcp.clone(), tcp.clone(), Some(("9:16", "the external tcp port 10000"))),
        (udp.clone(), udp.clone(), Some(("9:16", "the external udp port 10000"))),
        (named("x.example"), named("x.example"), Some(("10:14", tls))),
        (tcp.clone(), named("x.example"), Some(("9:16", tls))),
        (named("x.example"), tcp.clone(), Some(("9:16", "the external tcp port 10000"))),
        (tcp, udp, None),
        (named("x.example"), named("y.example"), None),
        (http("p", "x.example"), http("p", "y.example"), None),
    ] {
        let (a, b) = (service("a", &one), service("b", &other));
        let loaded = load(&[("a.fluke.hcl", &a), ("b.fluke.hcl", &b)]);
        let found: Vec<_> = loaded.diagnostics.iter().map(ToString::to_string).collect();
        let told = expected.map(|(place, what)| {
            format!(
                "b.fluke.hcl:{place}: {what} is taken by the service `a`; it is defined at \
                 a.fluke.hcl:1; only one of them can have it"
            )
        });
        assert_eq!(found, Vec::from_iter(told), "{one}\n{other}");
    }
}

#[test]
fn what_two_ports_of_one_service_claim_is_told_of_the_ports() {
    let pair = |of: &dyn Fn(&str) -> String| [of("one"), of("two")].join("\n");
    let taken = "is taken by the port `one` of this service; only one of the two can have it";
    for (lines, expected) in [
        (pair(&|name| http(name, "x.example")), "12:14 the domain `x.example`"),
        (pair(&|name| with_external(name, "tcp", None)), "14:16 the external tcp port 10000"),
        (pair(&|name| with_external(name, "udp", None)), "14:16 the external udp port 10000"),
        (
            pair(&|name| with_external(name, "tcp", Some("x.example"))),
            "16:14 TLS for `x.example` at the external tcp port 10000",
        ),
    ] {
        assert_eq!(wrong(&service("web", &lines)), [format!("{expected} {taken}")], "{lines}");
    }
}

#[test]
fn what_proxies_and_the_mesh_listen_on_is_not_free() {
    let external = |protocol: &str, port: u16| {
        let port = with_external("p", protocol, None).replace("10000", &port.to_string());
        service("web", &port)
    };
    let [proxies, names, mesh] = [
        "proxies take requests there",
        "hosts answer containers' questions for names there",
        "the mesh has it",
    ];
    for (protocol, port, why) in [
        ("tcp", 80, proxies),
        ("tcp", 443, proxies),
        ("tcp", 53, names),
        ("udp", 53, names),
        ("tcp", 781, "proxies are asked there how they are"),
        ("udp", 51820, mesh),
    ] {
        let expected = format!("9:16 the external port {port} is not free: {why}; choose another");
        assert_eq!(wrong(&external(protocol, port)), [expected], "{protocol} {port}");
    }
    for (protocol, port) in [("udp", 80), ("udp", 443), ("udp", 781), ("tcp", 51820)] {
        model(&[("web.fluke.hcl", &external(protocol, port))]);
    }
}

#[test]
fn a_service_is_defined_once() {
    let one = service("web", "");
    let loaded = load(&[("a.fluke.hcl", &one), ("b.fluke.hcl", &one)]);
    let found: Vec<_> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "b.fluke.hcl:1:1: service `web` is defined twice; the other one is at a.fluke.hcl:1; rename one of them"
        ]
    );
}

#[test]
fn a_service_is_read_again_only_when_it_or_what_it_uses_changed() {
    let mut loader = Loader::new(DEFAULT_GLOB).expect("a glob");
    let mut read = |version: &str| {
        let locals = format!("locals {{\n  version = \"{version}\"\n}}\n");
        let web = FULL.replace("locals {\n  version = \"1.4.2\"\n}\n", "");
        let tree = MemoryTree::new([("l.fluke.hcl", locals.as_str()), ("w.fluke.hcl", &web)]);
        let model = loader.load(&tree).model.expect("valid");
        model.services.into_values().next().expect("one")
    };
    let (one, same, other) = (read("1"), read("1"), read("2"));
    assert!(Arc::ptr_eq(&one, &same));
    assert_eq!(other.container.image, "registry.example/shop/web:2");
}
