use super::definition::{expanded, version};
use super::*;

#[test]
fn a_definition_has_as_many_of_a_thing_as_are_wanted() {
    let template = "begin @root\n# @each\n  one @n\n# @end\nend\n";
    assert_eq!(expanded(template, 2, "/r"), "begin /r\n  one 1\n  one 2\nend\n");
    assert_eq!(expanded(template, 0, "/r"), "begin /r\nend\n");
    assert_eq!(expanded("plain\n", 5, "/r"), "plain\n");
}

#[test]
fn versions_are_found_in_what_programs_say() {
    let table = [
        ("ansible-playbook [core 2.19.14]\n  config file = None", Some("2.19.14")),
        ("salt-call 3008.3 (Argon)", Some("3008.3")),
        ("7.23.0\n", Some("7.23.0")),
        ("CFEngine Core 3.21.0\n", Some("3.21.0")),
        ("nothing of the kind", None),
    ];
    for (said, found) in table {
        assert_eq!(version(said).as_deref(), found);
    }
}

#[test]
fn there_are_rounds_until_there_are_enough_or_it_took_too_long() {
    assert!(goes_on(&[]));
    assert!(goes_on(&[1.0; ROUNDS - 1]));
    assert!(!goes_on(&[1.0; ROUNDS]));
    assert!(!goes_on(&[ENOUGH]));
}

#[test]
fn the_first_round_counts_only_if_it_is_the_only_one() {
    let mut times = [5.0, 1.0, 2.0, 3.0, 4.0, 5.0].into_iter();
    let none = || Trouble::NotRun("no more".into());
    let taken = rounds(|| times.next().ok_or_else(none)).expect("rounds");
    assert_eq!(taken, [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(rounds(|| Ok(ENOUGH * 2.0)).expect("one"), [ENOUGH * 2.0]);
}

#[test]
fn every_peer_has_a_definition_for_every_work() {
    for peer in PEERS {
        for work in [Work::Checks(3), Work::File, Work::Service] {
            let files = guest::files(peer, work, "/srv/x").expect("definitions");
            let (path, text) = &files[0];
            assert!(!text.contains("@root") && !text.contains("@n"), "{}: {text}", peer.name);
            assert!(peer.line("/venv".as_ref(), "/srv/x", work.definition()).contains("/srv/x"));
            assert!(path.ends_with(peer.ending), "{path}");
        }
    }
}

#[test]
fn what_went_wrong_with_a_peer_is_not_kept_in_words_of_this_machine() {
    let failed = figure("salt".into(), Work::File, Err(Trouble::failed("run /some/where", "no")));
    assert_eq!((failed.measured, failed.note.as_str()), (None, "failed here"));
}

#[test]
fn everybody_stands_beside_everybody() {
    let of = |peer: &str, work, seconds: Option<f64>| {
        let none = || Trouble::NotRun("not here".into());
        figure(peer.into(), work, seconds.map(|it| vec![it]).ok_or_else(none))
    };
    let shown = grid(&[
        of("fluke", Work::File, Some(0.1)),
        of("salt 1.2", Work::File, Some(4.0)),
        of("fluke", Work::Service, Some(0.1)),
        of("salt 1.2", Work::Service, None),
    ]);
    assert_eq!(
        shown,
        [
            vec!["", "one changed file", "one killed service"],
            vec!["fluke", "100 ms", "100 ms"],
            vec!["salt 1.2", "4.00 s (40 ×)", "not here"],
        ]
    );
}

#[test]
fn works_are_chosen_by_name() {
    assert_eq!(Work::named("checks-1000"), Ok(Work::Checks(1000)));
    assert_eq!(Work::named("service"), Ok(Work::Service));
    assert!(Work::named("nonsense").is_err_and(|why| why.contains("checks-100, ")));
}
