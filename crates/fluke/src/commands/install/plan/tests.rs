use super::*;
use crate::config;

fn nothing() -> Facts {
    Facts {
        running: "/srv/fluke".into(),
        has_program: false,
        is_same_program: false,
        has_user: false,
        has_folder: false,
        has_state: false,
        has_config: false,
        has_variables: false,
        unit: None,
        is_enabled: false,
        is_active: false,
        runs_old_program: false,
        record: Record::default(),
        other: Record::default(),
        services: None,
        needs: Needs {
            socket: Some("/run/podman/podman.sock".into()),
            has_socket: true,
            is_proxy: false,
            has_traefik: true,
        },
    }
}

fn server() -> Wish {
    Wish {
        part: Part::Server,
        skeleton: Some(Skeleton::Server {
            git_url: "git@git.example.com:infra.git".into(),
            git_branch: None,
        }),
        token: Some(Secret::new("0a1b")),
        start: true,
    }
}

fn agent() -> Wish {
    let labels = ["role=web", "env=prod"]
        .map(|pair| fluke_model::label::Labels::parse_pair(pair).expect("a label"));
    Wish {
        part: Part::Agent,
        skeleton: Some(Skeleton::Agent {
            url: "grpcs://fluke.example:7070".into(),
            ca_fingerprint: Some("ab".repeat(32)),
            ca_file: None,
            name: None,
            labels: fluke_model::label::Labels(labels.into_iter().collect()),
            is_proxy: true,
        }),
        token: Some(Secret::new("0a1b")),
        start: true,
    }
}

fn lines(plan: &Plan) -> Vec<String> {
    plan.actions.iter().map(ToString::to_string).collect()
}

/// The host after `plan` was carried out on one like `facts`.
fn after(facts: &Facts, plan: &Plan, part: Part) -> Facts {
    let mut facts = facts.clone();
    for action in &plan.actions {
        match action {
            Action::MakeFolder(_) => facts.has_folder = true,
            Action::Remember(_, record) => facts.record = record.clone(),
            Action::AddUser(..) => facts.has_user = true,
            Action::CopyProgram(..) => (facts.has_program, facts.is_same_program) = (true, true),
            Action::Write { path, content, .. } => match content {
                Content::Plain(text) if *path == part.unit_file() => {
                    facts.unit = Some(text.clone());
                }
                Content::Plain(_) => facts.has_config = true,
                Content::Hidden(_) => facts.has_variables = true,
            },
            Action::Systemctl(arguments) => match arguments[0] {
                "enable" => facts.is_enabled = true,
                "start" => (facts.is_active, facts.has_state) = (true, true),
                "disable" => (facts.is_active, facts.is_enabled) = (false, false),
                _ => {}
            },
            Action::Remove(path) if *path == part.unit_file() => facts.unit = None,
            Action::Remove(path) if *path == part.record() => facts.record = Record::default(),
            _ => {}
        }
    }
    facts
}

fn planned(wish: &Wish, facts: &Facts) -> Plan {
    install(wish, facts).expect("a plan")
}

#[test]
fn on_a_fresh_host_everything_is_made_in_the_order_in_which_it_is_needed() {
    assert_eq!(
        lines(&planned(&server(), &nothing())),
        [
            "make the folder /etc/fluke",
            "remember in /etc/fluke/installed-server.json what is made",
            "add the system user fluke",
            "copy /srv/fluke to /usr/local/bin/fluke",
            "write /etc/fluke/server.hcl (0640 root:fluke)",
            "write /etc/fluke/server.env (0600 fluke:fluke)",
            "write /etc/systemd/system/fluke-server.service (0644 root:root)",
            "systemctl daemon-reload",
            "systemctl enable fluke-server.service",
            "systemctl start fluke-server.service",
        ]
    );
    assert_eq!(
        lines(&planned(&agent(), &nothing()))[2..],
        [
            "copy /srv/fluke to /usr/local/bin/fluke",
            "write /etc/fluke/agent.hcl (0600 root:root)",
            "write /etc/fluke/agent.env (0600 root:root)",
            "write /etc/systemd/system/fluke-agent.service (0644 root:root)",
            "systemctl daemon-reload",
            "systemctl enable fluke-agent.service",
            "systemctl start fluke-agent.service",
        ]
    );
}

#[test]
fn a_second_run_has_nothing_to_do_and_says_what_stays() {
    for wish in [server(), agent()] {
        let facts = after(&nothing(), &planned(&wish, &nothing()), wish.part);
        let again = planned(&wish, &facts);
        assert_eq!(lines(&again), Vec::<String>::new());
        assert!(again.notes[0].ends_with("is there and stays as it is"), "{:?}", again.notes);
    }
}

#[test]
fn a_newer_program_takes_over_an_agent_is_reloaded_and_a_server_started_anew() {
    for (wish, verb) in [(server(), "restart"), (agent(), "reload")] {
        let facts = after(&nothing(), &planned(&wish, &nothing()), wish.part);
        let unit = wish.part.unit();
        let tells = format!("systemctl {verb} {unit}");
        let newer = Facts { is_same_program: false, ..facts.clone() };
        assert_eq!(
            lines(&planned(&wish, &newer)),
            ["copy /srv/fluke to /usr/local/bin/fluke", &tells]
        );
        let replaced_before = Facts { runs_old_program: true, ..facts };
        assert_eq!(lines(&planned(&wish, &replaced_before)), [tells]);
    }
}

#[test]
fn a_unit_of_an_earlier_version_is_replaced_and_one_that_somebody_edited_is_not() {
    let wish = agent();
    let mut facts = after(&nothing(), &planned(&wish, &nothing()), wish.part);
    let path = wish.part.unit_file();
    facts.unit = Some("[Service]\n".into());
    let edited = planned(&wish, &facts);
    assert_eq!(lines(&edited), Vec::<String>::new());
    assert!(edited.notes.iter().any(|note| note.contains("systemctl edit")), "{edited:?}");

    facts.record.add(Made::Unit { path, sha256: Hash256::of(b"[Service]\n") });
    let lines = lines(&planned(&wish, &facts));
    assert!(lines.iter().any(|line| line.starts_with("write /etc/systemd")), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("systemctl restart fluke-agent.service"));
}

#[test]
fn a_packaged_program_stays_where_it_is() {
    let facts = Facts {
        running: "/usr/bin/fluke".into(),
        has_program: true,
        is_same_program: true,
        ..nothing()
    };
    let plan = planned(&agent(), &facts);
    assert!(!lines(&plan).iter().any(|line| line.starts_with("copy")), "{plan:?}");
    let unit = plan.actions.iter().find_map(|action| match action {
        Action::Write { path, content: Content::Plain(text), .. }
            if *path == Part::Agent.unit_file() =>
        {
            Some(text)
        }
        _ => None,
    });
    assert!(unit.expect("a unit").contains("ExecStart=/usr/bin/fluke agent "));
}

#[test]
fn what_install_writes_is_what_the_repository_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for part in [Part::Server, Part::Agent] {
        let shown = std::fs::read_to_string(root.join("contrib/systemd").join(part.unit()));
        assert_eq!(texts::unit(part, Path::new(PROGRAM)), shown.expect("a unit"));
        let places = [part.config(), part.variables()];
        for place in places {
            assert!(texts::unit(part, Path::new(PROGRAM)).contains(&*place.to_string_lossy()));
        }
    }
}

#[test]
fn what_a_first_config_must_say_is_asked_for() {
    for (wish, expected) in [
        (Wish { skeleton: None, ..server() }, "--git-url"),
        (Wish { skeleton: None, ..agent() }, "--url"),
        (Wish { token: None, ..agent() }, "FLUKE_TOKEN"),
    ] {
        let objection = install(&wish, &nothing()).expect_err("not enough");
        assert!(objection.help().contains(expected), "{objection}");
        // What is there need not be said again.
        let there = Facts { has_config: true, has_variables: true, ..nothing() };
        assert!(install(&wish, &there).is_ok());
    }
}

#[test]
fn first_configs_can_be_read_and_are_as_fmt_would_write_them() {
    let branch = Skeleton::Server {
        git_url: "https://git.example.com/a \"b\".git".into(),
        git_branch: Some("production".into()),
    };
    let (plain, agent) = (server().skeleton, agent().skeleton);
    for skeleton in [Some(branch), plain, agent].into_iter().flatten() {
        let text = skeleton.text().expect("writable");
        let problems = config::check("c.hcl", text.as_bytes(), &|name| {
            (name == "FLUKE_TOKEN").then(|| "t".into())
        });
        assert!(problems.is_empty(), "{text}\n{problems:?}");
        let formatted = fluke_manifest::fmt::format(&text).expect("it parses");
        assert_eq!(formatted, text);
    }
    let odd = Skeleton::Server { git_url: "https://a$b/".into(), git_branch: None };
    assert_eq!(odd.text(), None, "a dollar would be a reference");
    assert!(texts::variables(&Secret::new("two\nlines")).is_none());
}

#[test]
fn uninstall_removes_what_was_made_and_keeps_what_is_the_operators() {
    let wish = server();
    let facts = after(&nothing(), &planned(&wish, &nothing()), wish.part);
    let plan = uninstall(Part::Server, &facts, false);
    assert_eq!(
        lines(&plan),
        [
            "systemctl disable --now fluke-server.service",
            "remove /etc/systemd/system/fluke-server.service",
            "systemctl daemon-reload",
            "remove /usr/local/bin/fluke",
            "remove /usr/local/bin/fluke.previous",
            "remember in /etc/fluke/installed-server.json what is made",
        ]
    );
    assert!(plan.notes.iter().any(|note| note.starts_with("/etc/fluke/server.hcl stays")));

    let left = after(&facts, &plan, Part::Server);
    assert_eq!(lines(&uninstall(Part::Server, &left, false)), Vec::<String>::new());
    let purged = uninstall(Part::Server, &left, true);
    assert_eq!(
        lines(&purged),
        [
            "remove /var/cache/fluke",
            "remove /etc/fluke/server.env",
            "remove /etc/fluke/server.hcl",
            "delete the system user fluke",
            "remove /etc/fluke/installed-server.json",
            "remove /etc/fluke if it is empty",
        ]
    );
    assert_eq!(
        uninstall(Part::Server, &after(&left, &purged, Part::Server), true),
        Plan::default()
    );
}

#[test]
fn what_was_there_before_stays_and_what_both_parts_use_goes_with_the_last() {
    let before = Facts {
        has_program: true,
        is_same_program: true,
        has_folder: true,
        has_config: true,
        has_state: true,
        ..nothing()
    };
    let facts = after(&before, &planned(&agent(), &before), Part::Agent);
    let removed = lines(&uninstall(Part::Agent, &facts, true)).join("\n");
    for kept in ["/usr/local/bin/fluke", "/etc/fluke/agent.hcl", "/var/lib/fluke", "if it is empty"]
    {
        assert!(!removed.contains(kept), "{kept} was there before:\n{removed}");
    }

    let first = after(&nothing(), &planned(&server(), &nothing()), Part::Server);
    let beside = Facts { other: first.record.clone(), record: Record::default(), ..first.clone() };
    let beside = Facts { has_config: false, has_variables: false, unit: None, ..beside };
    let second = after(&beside, &planned(&agent(), &beside), Part::Agent);
    let server_goes =
        uninstall(Part::Server, &Facts { other: second.record.clone(), ..first }, true);
    assert!(!lines(&server_goes).contains(&"remove /usr/local/bin/fluke".to_string()));
    let agent_goes = uninstall(Part::Agent, &Facts { other: Record::default(), ..second }, true);
    let agent_goes = lines(&agent_goes);
    assert!(agent_goes.contains(&"remove /usr/local/bin/fluke".to_string()), "{agent_goes:?}");
    assert!(agent_goes.contains(&"remove /etc/fluke if it is empty".to_string()));
}

#[test]
fn an_agent_takes_proxy_mesh_and_network_along_and_says_what_people_have_to_decide() {
    let installed = after(&nothing(), &planned(&agent(), &nothing()), Part::Agent);
    let remains = Remains {
        proxies: vec!["fluke-proxy-1.service".into()],
        mesh: true,
        empty_network: true,
        containers: vec!["web-1".into(), "web-2".into()],
        volumes: vec!["fluke.db.data".into()],
    };
    let places = Places { state_dir: "/var/lib/fluke".into(), socket: "/podman.sock".into() };
    let services = Some((remains, places.clone()));
    let facts = Facts { services: services.clone(), ..installed.clone() };
    let plan = uninstall(Part::Agent, &facts, false);
    let removed = lines(&plan);
    assert_eq!(
        removed[..7],
        [
            "have the agent tell its server that it goes for good",
            "systemctl disable --now fluke-agent.service",
            "remove /etc/systemd/system/fluke-agent.service",
            "systemctl daemon-reload",
            "end Traefik (fluke-proxy-1.service)",
            "leave the mesh: remove fluke0 and the nftables table fluke-mesh",
            "remove the network fluke from Podman",
        ]
    );
    let said = plan.notes.join("\n");
    assert!(said.contains("podman rm --force web-1 web-2 && podman network rm fluke"), "{said}");
    assert!(said.contains("podman volume rm fluke.db.data"), "{said}");

    // One that somebody else installed, and that runs, would put it all back.
    let theirs = Facts { services: services.clone(), is_active: true, ..nothing() };
    assert_eq!(uninstall(Part::Agent, &theirs, true), Plan::default());
    let stopped = Facts { services, ..nothing() };
    assert_eq!(lines(&uninstall(Part::Agent, &stopped, true)).len(), 3);
    let clean = Facts { services: Some((Remains::default(), places)), ..nothing() };
    assert_eq!(uninstall(Part::Agent, &clean, true), Plan::default());
}

#[test]
fn an_agent_whose_host_lacks_what_services_need_says_so_with_what_to_do() {
    let notes = |wish: &Wish, change: fn(&mut Needs)| {
        let mut facts = nothing();
        change(&mut facts.needs);
        install(wish, &facts).expect("a plan").notes
    };
    assert!(notes(&agent(), |_| {}).is_empty());
    let without = notes(&agent(), |needs| (needs.has_socket, needs.has_traefik) = (false, false));
    assert_eq!(without.len(), 2);
    assert!(without[0].contains("systemctl enable --now podman.socket"), "{without:?}");
    assert!(!without[0].contains("restart"), "the agent sees it come: {without:?}");
    assert!(without[1].contains("there is no Traefik"), "{without:?}");
    let refused = notes(&agent(), |needs| (needs.socket, needs.has_socket) = (None, false));
    assert!(refused.is_empty(), "it refuses containers: {refused:?}");
    assert!(notes(&server(), |needs| needs.has_socket = false).is_empty());

    let mut worker = agent();
    if let Some(Skeleton::Agent { is_proxy, .. }) = &mut worker.skeleton {
        *is_proxy = false;
    }
    assert!(notes(&worker, |needs| needs.has_traefik = false).is_empty());
    let of_a_proxy = notes(&worker, |needs| (needs.is_proxy, needs.has_traefik) = (true, false));
    assert_eq!(of_a_proxy.len(), 1, "the config that is there says that it is one");
}
