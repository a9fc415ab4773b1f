//! Thousands of bad nights, and the ones that once were too bad.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fluke_sim::host::Mode;
use fluke_sim::schedule::{Action, Schedule};
use fluke_sim::{Night, shrink, spend};

/// How many nights are played.
const NIGHTS: u64 = 2_000;

#[test]
fn no_law_is_broken_in_any_night() {
    let next = AtomicU64::new(0);
    let bad: Mutex<Option<Night>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while bad.lock().expect("no panic").is_none() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= NIGHTS {
                        return;
                    }
                    let night = spend(Schedule::of(seed));
                    if !night.breaches.is_empty() {
                        bad.lock().expect("no panic").get_or_insert(night);
                    }
                }
            });
        }
    });
    if let Some(night) = bad.into_inner().expect("no panic") {
        // The night itself, as long as none that is shorter breaks the same law: one that goes
        // well when it is played again is told as it was.
        panic!("{}", shrink(night).tell(false));
    }
}

/// What once broke a law, as small as it gets: what it was, the seed, hosts, what happened at which
/// millisecond, and when it was over.
type BadNight = (&'static str, u64, usize, &'static [(u64, Action)], u64);

const NIGHTS_THAT_WERE_TOO_BAD: &[BadNight] = &[
    (
        "records had numbers of old ones after a journal was lost and the clock went back",
        123,
        2,
        &[
            (406, Action::Misbehave(1, 3, 0, Mode::ApplyLies)),
            (8_545, Action::LoseJournal(1)),
            (46_329, Action::StartAgent(1)),
            (54_181, Action::JumpHost(1, -1_000_000)),
            (54_181, Action::LoseJournal(1)),
        ],
        334_996,
    ),
    (
        "an apply that kills its agent was tried again whenever the agent was back",
        578,
        1,
        &[
            (6_330, Action::Misbehave(0, 1, 1, Mode::ApplyKillsAgent)),
            (14_980, Action::Drift(0, 1, 1)),
        ],
        59_108,
    ),
    (
        "an apply that failed was tried again when the connection was back",
        7,
        1,
        &[
            (100, Action::Misbehave(0, 0, 0, Mode::ApplyFails)),
            (3_000, Action::Reset(0)),
            (4_000, Action::Reset(0)),
            (5_000, Action::Reset(0)),
        ],
        30_000,
    ),
    (
        "what had just failed for the server, its agent tried at once when the server went",
        775,
        2,
        &[
            (64_097, Action::Misbehave(1, 0, 2, Mode::ApplyFails)),
            (64_097, Action::Drift(1, 0, 2)),
            (69_503, Action::StopServer),
        ],
        100_000,
    ),
    (
        "a server that went silent in the middle of a greeting cost its agent a connection",
        3757,
        2,
        &[
            (42_794, Action::KillAgent(0)),
            (49_640, Action::Slow(0, 1_989)),
            (61_798, Action::StartAgent(0)),
            (66_087, Action::CrashServer),
            (66_711, Action::StartServer),
            (71_629, Action::StopServer),
        ],
        98_608,
    ),
];

#[test]
fn nights_that_once_were_too_bad_are_no_more() {
    for (case, seed, hosts, actions, quiet) in NIGHTS_THAT_WERE_TOO_BAD {
        let at = |(at, action): &(u64, Action)| (Duration::from_millis(*at), *action);
        let actions = actions.iter().map(at).collect();
        let quiet = Duration::from_millis(*quiet);
        let night = spend(Schedule { seed: *seed, hosts: *hosts, actions, quiet });
        assert!(night.breaches.is_empty(), "{case}\n{}", night.tell(false));
    }
}

/// What happens at the same moment may be written down in any order: the runtime wakes those who
/// wait for the same thing as it likes.
#[test]
fn a_night_is_the_same_whenever_it_is_played() {
    for seed in [1, 7, 42, 100, 860] {
        let told = || {
            let night = spend(Schedule::of(seed));
            let entries = night.record.entries.iter();
            let mut lines: Vec<_> = entries.map(ToString::to_string).collect();
            lines.sort();
            lines
        };
        let (first, second) = (told(), told());
        let differing = first.iter().zip(&second).find(|(first, second)| first != second);
        assert_eq!(differing, None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}
