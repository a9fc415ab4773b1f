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
    let taken = rounds(|| times.next().ok_or_else(by_the_bed)).expect("rounds");
    assert_eq!(taken, [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(rounds(|| Ok(ENOUGH * 2.0)).expect("one"), [ENOUGH * 2.0]);
}

#[test]
fn every_peer_has_a_definition_for_every_work() {
    let folder = folder().expect("a folder");
    for (number, peer) in PEERS.iter().enumerate() {
        for (at, work) in [Work::Checks(3), Work::File].into_iter().enumerate() {
            let root = folder.path().join(format!("{number}-{at}"));
            std::fs::create_dir(&root).expect("a folder");
            let definition = peer.prepare(work, &root).expect("a definition");
            let text = std::fs::read_to_string(definition).expect("a text");
            assert!(!text.contains('@'), "{}: {text}", peer.name);
        }
    }
}

#[test]
fn what_went_wrong_with_a_peer_is_not_kept_in_words_of_this_machine() {
    let failed = figure("salt".into(), Work::File, Err(Trouble::failed("run /some/where", "no")));
    assert_eq!((failed.measured, failed.note.as_str()), (None, "failed here"));
    let absent = figure("salt".into(), Work::File, Err(Trouble::NotRun("it is not here".into())));
    assert_eq!(absent.note, "it is not here");
}
