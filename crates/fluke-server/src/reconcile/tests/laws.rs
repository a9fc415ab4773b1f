//! What holds whatever happens, in whatever order.

use proptest::prelude::*;

use super::*;

/// Something that may happen next.
#[derive(Debug, Clone)]
enum Happening {
    Connect,
    Disconnect,
    Commit(Vec<u8>),
    Answer(Vec<u8>),
    Perform(u8),
    Pass(u16),
    Ask(bool),
    Look(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..4);
    prop_oneof![
        1 => Just(Happening::Connect),
        1 => Just(Happening::Disconnect),
        3 => bytes().prop_map(Happening::Commit),
        6 => bytes().prop_map(Happening::Answer),
        6 => any::<u8>().prop_map(Happening::Perform),
        3 => (0..2000u16).prop_map(Happening::Pass),
        1 => any::<bool>().prop_map(Happening::Ask),
        1 => any::<u8>().prop_map(Happening::Look),
    ]
}

fn tasks(choice: &[u8]) -> Vec<SnapshotTask> {
    let mut tasks: Vec<_> = choice
        .iter()
        .map(|n| {
            let policy = Policy::ALL[usize::from(*n) % 3];
            let commands: &[&str] = if n % 2 == 0 { &["x"] } else { &["x", "y"] };
            task(&format!("t{}", n % 5), policy, commands)
        })
        .collect();
    tasks.sort_by(|a, b| a.name.cmp(&b.name));
    tasks.dedup_by(|a, b| a.name == b.name);
    tasks
}

/// Follows what the agent was told and notices whatever must never be.
#[derive(Default)]
struct Watcher {
    held: Option<Hash256>,
    under_way: Option<ToAgent>,
}

impl Watcher {
    fn see(&mut self, sent: &[ToAgent]) {
        for message in sent {
            match message {
                ToAgent::Snapshot { snapshot, .. } => {
                    self.held = Some(snapshot.hash());
                    // A check is given up for it, an apply goes on.
                    self.under_way.take_if(|it| matches!(it, ToAgent::Check { .. }));
                }
                ToAgent::Check { snapshot, .. } => {
                    assert!(self.under_way.is_none(), "two instructions at once");
                    assert_eq!(Some(*snapshot), self.held, "of a snapshot the agent lacks");
                    self.under_way = Some(message.clone());
                }
                ToAgent::Apply { snapshot, steps, .. } => {
                    assert!(self.under_way.is_none(), "two instructions at once");
                    assert_eq!(Some(*snapshot), self.held, "of a snapshot the agent lacks");
                    assert!(!steps.is_empty() && steps.is_sorted(), "in order, and something");
                    self.under_way = Some(message.clone());
                }
                _ => {}
            }
        }
    }
}

fn run(happenings: &[Happening]) -> Lab {
    let mut lab = Lab::new();
    let mut watcher = Watcher::default();
    let mut desired = tasks(&[0]);
    for happening in happenings {
        let connected = lab.machine.session().is_some();
        let sent = match happening {
            Happening::Connect if !connected => {
                watcher = Watcher::default();
                lab.connect(&desired)
            }
            Happening::Disconnect if connected => {
                watcher = Watcher::default();
                lab.step(Input::Disconnected { why: "test".into() })
            }
            Happening::Commit(choice) if connected => {
                desired = tasks(choice);
                lab.commit("c", &desired)
            }
            Happening::Answer(choice) if connected => {
                let Some(check @ ToAgent::Check { .. }) = watcher.under_way.take() else {
                    continue;
                };
                let ToAgent::Check { ref steps, .. } = check else { continue };
                let steps = indices(&lab.machine.board.as_ref().expect("a board").snapshot, steps);
                lab.last = Some(check.clone());
                let verdicts: Vec<_> = steps
                    .iter()
                    .zip(choice.iter().cycle().chain([&0]))
                    .map(|(step, n)| match n % 4 {
                        0 | 1 => off(step.0),
                        2 => unsure(step.0),
                        _ => ok(step.0),
                    })
                    .collect();
                lab.answer(&verdicts)
            }
            Happening::Perform(n) if connected => {
                let Some(apply @ ToAgent::Apply { .. }) = watcher.under_way.take() else {
                    continue;
                };
                lab.last = Some(apply);
                lab.perform(match n % 3 {
                    0 => Outcome::Success,
                    1 => Outcome::Failure,
                    _ => Outcome::AppliedButDrifted,
                })
            }
            Happening::Pass(seconds) => lab.pass(Duration::from_secs(u64::from(*seconds))),
            Happening::Ask(all) if connected => lab.ask((!all).then_some("t1")),
            Happening::Look(n) if connected => {
                let Some(snapshot) = watcher.held else { continue };
                let steps = vec![StepIndex(u32::from(*n))];
                lab.step(Input::Message(ToServer::LookAgain { snapshot, steps }))
            }
            _ => continue,
        };
        watcher.see(&sent);
    }
    lab
}

proptest! {
    /// One instruction at a time, only of a snapshot that the agent holds.
    #[test]
    fn instructions_never_overlap(happenings in proptest::collection::vec(happening(), 0..60)) {
        run(&happenings);
    }

    /// Whatever happened, an agent that from now on does what it is told ends in sync.
    #[test]
    fn everything_converges_once_faults_stop(
        happenings in proptest::collection::vec(happening(), 0..40),
    ) {
        let mut lab = run(&happenings);
        if lab.machine.session().is_some() {
            lab.step(Input::Disconnected { why: "test".into() });
        }
        let calm = [task("a", Policy::Remediate, &["x", "y"]), quiet("b")];
        lab.last = None;
        let mut sent = lab.connect(&calm);
        for _ in 0..20 {
            sent = match sent.last() {
                Some(ToAgent::Check { .. }) if lab.status() == Status::Unknown => {
                    lab.answer(&[off(0), off(1), off(2)])
                }
                Some(ToAgent::Check { .. }) => lab.answer(&[]),
                Some(ToAgent::Apply { .. }) => lab.perform(Outcome::Success),
                _ => break,
            };
        }
        prop_assert_eq!(lab.status(), Status::InSync);
        prop_assert!(lab.machine.drift().is_empty());
    }

    /// Whoever asks hears of the end, once.
    #[test]
    fn every_request_ends(happenings in proptest::collection::vec(happening(), 0..60)) {
        let mut lab = run(&happenings);
        lab.step(Input::Disconnected { why: "test".into() });
        let ended = |progress: &&Progress| matches!(progress, Progress::Ended { .. });
        prop_assert_eq!(lab.progress.iter().filter(ended).count(), lab.asked);
    }

    /// Every apply that began has exactly one end in the events, and each is acknowledged.
    #[test]
    fn every_beginning_has_one_end(happenings in proptest::collection::vec(happening(), 0..60)) {
        let lab = run(&happenings);
        let count = |kind| lab.events.iter().filter(|event| event.kind == kind).count();
        prop_assert_eq!(count(EventKind::ApplyStarted), count(EventKind::ApplyFinished));
    }
}
