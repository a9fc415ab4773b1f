use proptest::prelude::*;

use super::*;

use fluke_model::id::{StepAddress, TaskName};
use fluke_model::snapshot::StepIndex;

fn entry(fact: Fact) -> Entry {
    Entry {
        at: Timestamp(1_700_000_000_000),
        instruction: None,
        snapshot: Hash256::of(b"s"),
        commit: CommitId::new("c0ffee"),
        subject: Subject::Step {
            task: TaskName::new("t").expect("a name"),
            step: StepAddress::new("shell", "s").expect("a name"),
            index: StepIndex(0),
        },
        trigger: Trigger::Offline,
        fact,
    }
}

fn began() -> Fact {
    Fact::Began { reason: "missing\n".into() }
}

fn ended(text: &str) -> Fact {
    Fact::Ended { outcome: Outcome::Success, duration_ms: 1, output: Output::from_text(text) }
}

fn passed() -> Fact {
    Fact::PassedOver { outcome: Outcome::Healed, reason: "ok".into() }
}

fn ids(journal: &Journal) -> Vec<u64> {
    journal.unacknowledged().map(|record| record.id.0).collect()
}

#[test]
fn records_count_up_and_go_when_they_are_safe() {
    let mut journal = Journal::starting_at(RecordId(7));
    for _ in 0..4 {
        journal.add(entry(passed()));
    }
    journal.acknowledge(RecordId(8));
    assert_eq!(ids(&journal), [9, 10]);
    assert_eq!(journal.get(RecordId(10)).map(|record| record.id), Some(RecordId(10)));
    assert_eq!((journal.get(RecordId(8)), journal.get(RecordId(11))), (None, None));
    journal.acknowledge(RecordId(99));
    assert_eq!(journal.add(entry(passed())).id, RecordId(11));
}

#[test]
fn a_server_that_stays_away_costs_only_so_much() {
    let mut journal = Journal::starting_at(RecordId(1));
    for _ in 0..MAX_RECORDS + 5 {
        journal.add(entry(passed()));
    }
    assert_eq!(journal.unacknowledged().len(), MAX_RECORDS);
    assert_eq!(journal.lost(), 5);
    let (found, _) = Journal::parse(&journal.to_bytes()).expect("readable");
    assert_eq!(found.lost(), 5, "until somebody was told");
    journal.add(entry(passed()));
    journal.told_lost(5);
    assert_eq!(journal.lost(), 1, "what went since is not told yet");
    let loud = "x".repeat(fluke_model::verdict::MAX_OUTPUT);
    for _ in 0..1000 {
        journal.add(entry(ended(&loud)));
    }
    assert!(journal.bytes <= MAX_BYTES);
    assert!(journal.lost() > 0);
}

#[test]
fn an_apply_cut_short_is_ended_once_even_if_its_beginning_is_safe_already() {
    for acknowledged in [false, true] {
        let mut journal = Journal::starting_at(RecordId(1));
        journal.add(entry(began()));
        if acknowledged {
            journal.acknowledge(RecordId(1));
        }
        let (mut found, _) = Journal::parse(&journal.to_bytes()).expect("readable");
        let record = found.close_open(Timestamp(2)).expect("it was under way").clone();
        assert_eq!(record.id, RecordId(2));
        assert!(matches!(record.fact, Fact::Ended { outcome: Outcome::Interrupted, .. }));
        assert!(found.close_open(Timestamp(3)).is_none());
        let (mut again, _) = Journal::parse(&found.to_bytes()).expect("readable");
        assert!(again.close_open(Timestamp(4)).is_none());
    }
}

#[test]
fn what_cannot_be_read_is_told_from_what_was_cut_off() {
    let mut journal = Journal::starting_at(RecordId(1));
    for _ in 0..3 {
        journal.add(entry(passed()));
    }
    let bytes = journal.to_bytes();
    let damaged = |from: &str, to: &str| {
        let text = String::from_utf8(bytes.clone()).expect("json");
        text.replacen(from, to, 1).into_bytes()
    };
    for (case, bytes, expected) in [
        ("whole", bytes.clone(), Some((Condition::Sound, vec![1, 2, 3]))),
        ("cut", bytes[..bytes.len() - 9].to_vec(), Some((Condition::CutOff, vec![1, 2]))),
        ("in the middle", damaged("\"id\":2", "id:2"), Some((Condition::Damaged, vec![1, 3]))),
        ("at the end", damaged("\"id\":3", "id:3"), Some((Condition::Damaged, vec![1, 2]))),
        ("at the head", damaged("next", "nix"), None),
        ("empty", Vec::new(), None),
        ("zeroes", vec![0; 4096], None),
    ] {
        let found = Journal::parse(&bytes);
        let found = found.map(|(journal, condition)| (condition, ids(&journal)));
        assert_eq!(found, expected, "{case}");
    }
}

#[derive(Debug, Clone)]
enum Action {
    Add(Fact),
    Acknowledge(u64),
    Rewrite,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Add(began())),
        "\\PC{0,20}".prop_map(|text| Action::Add(ended(&text))),
        Just(Action::Add(passed())),
        (0..30u64).prop_map(Action::Acknowledge),
        Just(Action::Rewrite),
    ]
}

proptest! {
    /// Appends may be cut anywhere; a rewrite is there as a whole or not at all.
    #[test]
    fn any_crash_leaves_a_journal_that_reads_as_it_was_before_some_record(
        actions in proptest::collection::vec(action(), 0..25),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut journal = Journal::starting_at(RecordId(1));
        let mut file = journal.to_bytes();
        let mut whole = file.len();
        let mut before = vec![journal.clone()];
        for action in actions {
            match action {
                Action::Add(fact) => file.extend(line(journal.add(entry(fact)))),
                Action::Acknowledge(id) => {
                    journal.acknowledge(RecordId(id)).iter().for_each(|it| file.extend(line(it)));
                }
                Action::Rewrite => {
                    file = journal.to_bytes();
                    whole = file.len();
                    before.clear();
                }
            }
            before.push(journal.clone());
        }
        let end = whole + cut.index(file.len() - whole + 1);
        let (found, condition) = Journal::parse(&file[..end]).expect("readable");
        prop_assert_ne!(condition, Condition::Damaged);
        let as_it_was = before.iter().any(|was| {
            (found.next, &found.records, &found.open) == (was.next, &was.records, &was.open)
        });
        prop_assert!(as_it_was, "{:?}", found);
    }

    #[test]
    fn no_bytes_whatever_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Journal::parse(&bytes);
        let header = line(&Header { next: RecordId(3), open: Vec::new(), lost: 0 });
        let _ = Journal::parse(&[header, bytes].concat());
    }
}
