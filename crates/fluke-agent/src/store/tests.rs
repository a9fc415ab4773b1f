use std::os::unix::fs::PermissionsExt;

use fluke_model::id::{CommitId, Hash256, StepAddress, TaskName};
use fluke_model::message::{Fact, Subject};
use fluke_model::policy::Trigger;
use fluke_model::snapshot::{Snapshot, StepIndex};
use fluke_model::verdict::{Outcome, Output};
use tempfile::TempDir;

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn dir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

fn open(dir: &TempDir) -> Store {
    Store::open(&dir.path().join("state"), NOW).expect("usable")
}

fn path(dir: &TempDir, name: &str) -> PathBuf {
    dir.path().join("state").join(name)
}

fn entry(fact: Fact) -> Entry {
    Entry {
        at: NOW,
        instruction: None,
        snapshot: Hash256::of(b"s"),
        commit: CommitId::new("c0ffee"),
        subject: Subject::Step {
            task: TaskName::new("t").expect("a name"),
            step: StepAddress::new("shell", "s").expect("a name"),
            index: StepIndex(0),
        },
        trigger: Trigger::Poll,
        fact,
    }
}

fn passed() -> Entry {
    entry(Fact::PassedOver { outcome: Outcome::Healed, reason: "ok".into() })
}

fn loud() -> Entry {
    let output = Output { tail: vec![b'x'; 60_000], dropped: 0 };
    entry(Fact::Ended { outcome: Outcome::Success, duration_ms: 1, output })
}

fn ids(store: &Store) -> Vec<u64> {
    store.unacknowledged().map(|record| record.id.0).collect()
}

fn held() -> Arc<Held> {
    Arc::new(Held { commit: CommitId::new("c0ffee"), snapshot: Arc::new(Snapshot::default()) })
}

#[test]
fn everything_is_there_after_a_restart() {
    let dir = dir();
    let mut store = open(&dir);
    assert_eq!((store.held(), store.poll_interval()), (None, DEFAULT_POLL));
    let instance = store.instance();
    store.keep_held(held());
    store.keep_poll_interval(Duration::from_secs(7));
    for _ in 0..3 {
        store.record(passed());
    }
    store.acknowledge(RecordId(1));
    assert!(!store.is_behind());
    drop(store);

    let mut store = open(&dir);
    assert_eq!(store.instance(), instance);
    assert_eq!(store.held(), Some(&held()));
    assert_eq!(store.poll_interval(), Duration::from_secs(7));
    assert_eq!(ids(&store), [2, 3], "an acknowledged one does not come again");
    assert!(store.record(passed()) > RecordId(3), "what a disk did not take is not counted again");
}

#[test]
fn only_the_owner_may_look() {
    let dir = dir();
    let mut store = open(&dir);
    store.keep_held(held());
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&dir.path().join("state")), 0o700);
    for name in ["lock", "identity.json", "snapshot.json", "journal"] {
        assert_eq!(mode(&path(&dir, name)), 0o600, "{name}");
    }
}

#[test]
fn two_agents_cannot_share_a_directory() {
    let dir = dir();
    let _first = open(&dir);
    let error = Store::open(&dir.path().join("state"), NOW).expect_err("taken");
    assert!(error.to_string().starts_with("another agent uses the state directory"), "{error}");
}

#[test]
fn a_directory_that_is_let_go_in_a_moment_is_waited_for() {
    let dir = dir();
    drop(open(&dir));
    let held = files::lock(&path(&dir, "lock")).expect("readable").expect("free");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| open(&dir));
        // As long as it is tried again it has found it held at least once, or finds it free: either
        // way it opens.
        std::thread::sleep(BETWEEN_TRIES);
        drop(held);
        drop(waiting.join().expect("it opens"));
    });
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_at_once() {
    let error = Store::open(Path::new("/dev/null/state"), NOW).expect_err("no directory");
    assert!(error.to_string().contains("/dev/null/state cannot be used"), "{error}");
}

#[test]
fn an_apply_that_was_under_way_when_the_agent_died_is_told() {
    let dir = dir();
    let mut store = open(&dir);
    store.record(entry(Fact::Began { reason: "missing".into() }));
    store.acknowledge(RecordId(1));
    drop(store);
    let store = open(&dir);
    let last = store.unacknowledged().last().expect("a record");
    let id = last.id;
    assert!(id > RecordId(1));
    assert!(matches!(last.fact, Fact::Ended { outcome: Outcome::Interrupted, .. }), "{last:?}");
    drop(store);
    assert_eq!(ids(&open(&dir)).last(), Some(&id.0), "once");
}

#[test]
fn damaged_files_are_set_aside_and_made_anew() {
    for damage in ["", "{", "\0\0\0\0", "{\"of\": \"another kind\"}"] {
        let dir = dir();
        let mut store = open(&dir);
        store.keep_held(held());
        store.keep_poll_interval(Duration::from_secs(7));
        store.record(passed());
        drop(store);
        let names = ["identity.json", "snapshot.json", "settings.json", "journal"];
        for name in names {
            std::fs::write(path(&dir, name), damage).expect("room");
        }
        let mut store = open(&dir);
        assert_eq!((store.held(), store.poll_interval()), (None, DEFAULT_POLL));
        store.record(passed());
        let instance = store.instance();
        drop(store);
        for name in names {
            assert!(path(&dir, &format!("{name}.corrupt-1")).exists(), "{name}, {damage:?}");
        }
        assert_eq!(open(&dir).instance(), instance, "the new one is kept");
    }
}

#[test]
fn a_lost_journal_repeats_no_number() {
    let dir = dir();
    let mut store = open(&dir);
    for _ in 0..5 {
        store.record(passed());
    }
    drop(store);
    std::fs::write(path(&dir, "journal"), "rubbish").expect("room");
    let mut store = open(&dir);
    assert!(store.record(passed()) > RecordId(5));
    assert_eq!(store.unacknowledged().len(), 1);
}

#[test]
fn journals_that_are_lost_repeat_no_number_even_if_the_clock_goes_back() {
    let dir = dir();
    let mut newest = RecordId(0);
    for now in [NOW, Timestamp(NOW.0 - 86_400_000), Timestamp(0)] {
        let mut store = Store::open(&dir.path().join("state"), now).expect("usable");
        for _ in 0..3 {
            let id = store.record(passed());
            assert!(id > newest, "{id:?} comes after {newest:?}");
            newest = id;
        }
        drop(store);
        std::fs::write(path(&dir, "journal"), "rubbish").expect("room");
    }
}

#[test]
fn what_was_cut_off_by_a_crash_is_dropped_and_the_rest_kept() {
    let dir = dir();
    let mut store = open(&dir);
    for _ in 0..3 {
        store.record(passed());
    }
    drop(store);
    let whole = std::fs::read(path(&dir, "journal")).expect("there");
    std::fs::write(path(&dir, "journal"), &whole[..whole.len() - 5]).expect("room");
    let mut store = open(&dir);
    assert_eq!(ids(&store), [1, 2]);
    store.record(passed());
    drop(store);
    assert_eq!(ids(&open(&dir))[..2], [1, 2]);
    assert_eq!(ids(&open(&dir)).len(), 3);
}

#[test]
fn a_disk_that_takes_nothing_stops_nothing_and_is_made_up_for() {
    let dir = dir();
    let mut store = open(&dir);
    store.record(passed());
    let (state, away) = (dir.path().join("state"), dir.path().join("away"));
    std::fs::rename(&state, &away).expect("ours");
    std::fs::write(&state, "in the way").expect("room");
    store.keep_held(held());
    // The open file still takes records; a rewrite needs the directory.
    store.file = None;
    store.record(passed());
    assert!(store.is_behind());
    assert_eq!((ids(&store), store.held()), (vec![1, 2], Some(&held())));

    std::fs::remove_file(&state).expect("ours");
    std::fs::rename(&away, &state).expect("ours");
    store.record(passed());
    assert!(!store.is_behind());
    drop(store);
    let store = open(&dir);
    assert_eq!((ids(&store), store.held()), (vec![1, 2, 3], Some(&held())));
}

#[test]
fn the_journals_file_does_not_grow_without_end() {
    let dir = dir();
    let mut store = open(&dir);
    for _ in 0..100 {
        let id = store.record(loud());
        store.acknowledge(id);
        let size = std::fs::metadata(path(&dir, "journal")).expect("there").len();
        assert!(size < 3 * WORTH_REWRITING, "{size}");
    }
}

#[test]
fn numbers_of_records_that_a_disk_did_not_take_are_not_used_again() {
    let dir = dir();
    let mut store = open(&dir);
    store.record(passed());
    let on_disk = std::fs::read(path(&dir, "journal")).expect("there");
    // The server knows these; a crash on a full disk leaves the file as it was.
    let told = store.record(passed());
    drop(store);
    std::fs::write(path(&dir, "journal"), on_disk).expect("room");
    assert!(open(&dir).record(passed()) > told);
}

#[test]
fn numbers_are_not_used_again_either_where_nothing_could_be_written_from_the_start() {
    let dir = dir();
    drop(open(&dir));
    // Nothing can be renamed to where a folder with something in it is.
    let blocked = path(&dir, "journal");
    let journal = std::fs::read(&blocked).expect("there");
    let mut last = RecordId(0);
    for (now, in_the_way) in [(NOW.0, true), (NOW.0 + 1000, true), (NOW.0 + 2000, false)] {
        let beside = path(&dir, "journal.new");
        if in_the_way {
            std::fs::create_dir(&beside).expect("room");
        }
        let mut store = Store::open(&dir.path().join("state"), Timestamp(now)).expect("usable");
        assert_eq!(store.is_behind(), in_the_way);
        if in_the_way {
            let id = store.record(passed());
            assert!(id > last, "{id:?} after {last:?}");
            last = id;
            std::fs::remove_dir(&beside).expect("ours");
        }
        drop(store);
        assert!(in_the_way || std::fs::read(&blocked).expect("there") != journal);
    }
}

#[test]
fn a_directory_that_was_removed_is_made_anew_with_all_that_was_in_it() {
    for everything in [true, false] {
        let dir = dir();
        let mut store = open(&dir);
        let instance = store.instance();
        store.keep_held(held());
        store.begin_run();
        store.record(passed());
        let state = dir.path().join("state");
        std::fs::remove_dir_all(&state).expect("ours");
        if !everything {
            std::fs::create_dir(&state).expect("room");
        }
        store.record(passed());
        assert!(!store.is_behind());
        assert!(path(&dir, "run").exists() && path(&dir, "lock").exists());
        let error = Store::open(&state, NOW).expect_err("taken, as before");
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        drop(store);
        let store = open(&dir);
        assert_eq!((store.instance(), store.held()), (instance, Some(&held())));
        assert_eq!(ids(&store), [1, 2]);
    }
}
