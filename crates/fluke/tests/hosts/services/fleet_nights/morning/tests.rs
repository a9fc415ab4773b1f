use super::*;

/// What each host says on a good morning, when Git wants one `web` on every host, one `asked`, two
/// `twins`.
const GOOD: [&str; 3] = [
    "is t0 twins 0 running localhost/web:1\nat t0 10.1.0.3\nhas fluke.twins.data-1.0 t0\n",
    "is t1 twins 1 running localhost/web:1\nat t1 10.2.0.3\nhas fluke.twins.data-1.1 t1\n",
    "is a0 asked 0 running localhost/web:2\nat a0 10.3.0.3\n",
];

fn wanted() -> Wanted {
    let good = |tag, replicas| Want { version: Version::Good(tag), replicas, of_night: 1 };
    let all = [
        (Kind::Web, good("1", None)),
        (Kind::Asked, good("2", Some(1))),
        (Kind::Twins, good("1", Some(2))),
    ];
    all.map(|(kind, want)| (kind.name(), (kind, want))).into()
}

/// The same on all hosts: who lives there anyway, and where names lead.
fn told(hosts: [String; 3]) -> [Found; 3] {
    let mut led = String::new();
    for (name, at, answer) in [
        ("web", "10.1.0.2", 1),
        ("web", "10.2.0.2", 1),
        ("web", "10.3.0.2", 1),
        ("twins", "10.1.0.3", 1),
        ("twins", "10.2.0.3", 1),
        ("asked", "10.3.0.3", 2),
    ] {
        led += &format!("leads {name} {at} {answer}\n");
    }
    let mut number = 0;
    hosts.map(|more| {
        number += 1;
        Found::told(&format!(
            "is i idle - exited localhost/web:1\nis s stranger - running localhost/web:1\n\
             is w{number} web - running localhost/web:1\nat w{number} 10.{number}.0.2\n{more}{led}"
        ))
    })
}

/// What is said of a good morning on which one host says something else.
fn amiss_when(at: usize, from: &str, to: &str) -> Vec<String> {
    let mut hosts = GOOD.map(str::to_string);
    let other = hosts[at].replace(from, to);
    assert_ne!(other, hosts[at]);
    hosts[at] = other;
    amiss(&wanted(), &told(hosts))
}

#[test]
fn of_a_good_morning_nothing_is_said() {
    assert_eq!(amiss(&wanted(), &told(GOOD.map(str::to_string))), Vec::<String>::new());
}

#[test]
fn whatever_is_not_as_it_should_be_is_said() {
    let twice = "is a0 asked 0 running localhost/web:2\nis a1 asked 0 running localhost/web:2";
    for (at, from, to, said) in [
        (2, "asked 0", "asked 1", "app-3 has asked.1"),
        (2, "asked 0 running", "asked 0 exited", "app-3 has asked.0"),
        (2, "web:2", "web:1", "app-3 has asked.0"),
        (2, "is a0 asked 0 running localhost/web:2", twice, "asked.0 is on [At(2), At(2)]"),
        (2, "is a0 asked 0 running localhost/web:2\n", "", "asked.0 is on []"),
        (2, "is a0", "is x db - running localhost/web:1\nis a0", "app-3 has db.-"),
        (2, "is a0", "is x idle - exited localhost/web:1\nis a0", "idle is on"),
        (2, "at a0 10.3.0.3", "at a0 10.3.0.4", "names lead to"),
        (2, "at a0", "leads web 10.3.0.9 1\nat a0", "on app-3 names lead to"),
        (2, "at a0", "has fluke.twins.data-1.1 x\nat a0", "data-1.1 is on [At(1), At(2)]"),
        (0, "data-1.0", "data-1.2", "its replica on [At(0)]"),
    ] {
        let amiss = amiss_when(at, from, to);
        assert!(amiss.iter().any(|it| it.contains(said)), "{said}: {amiss:?}");
    }
}

#[test]
fn two_on_one_host_are_too_many_where_another_has_none() {
    let mut wanted = wanted();
    wanted.get_mut("asked").expect("it is wanted").1.replicas = Some(2);
    let second = "is a1 asked 1 running localhost/web:2\n";
    let crowded = |at: usize| {
        let mut hosts = GOOD.map(str::to_string);
        hosts[at] += second;
        amiss(&wanted, &told(hosts)).iter().any(|it| it.contains("is spread like"))
    };
    assert!(crowded(2));
    assert!(!crowded(1));
}
