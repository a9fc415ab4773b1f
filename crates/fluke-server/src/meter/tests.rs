use std::time::Instant;

use fluke_model::id::{Hash256, InstructionId, SessionId, StepAddress};
use fluke_model::message::{Scope, ToAgent};
use fluke_model::policy::Trigger;
use fluke_model::time::Timestamp;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_took_long_is_in_a_higher_bucket() {
    let histogram = Histogram::new([0.1, 1.0]);
    for millis in [50, 100, 101, 1000, 5000] {
        histogram.record(Duration::from_millis(millis));
    }
    let (buckets, count, sum) = histogram.read();
    assert_eq!(buckets, [(0.1, 2), (1.0, 4)]);
    assert_eq!((count, sum), (5, Duration::from_millis(6251)));
}

fn instruction(number: u64) -> InstructionId {
    InstructionId { session: SessionId(1), number }
}

fn check(number: u64) -> ToAgent {
    let snapshot = Hash256::of(b"x");
    ToAgent::Check { instruction: instruction(number), snapshot, steps: Scope::All }
}

fn apply(number: u64) -> ToAgent {
    let (instruction, snapshot) = (instruction(number), Hash256::of(b"x"));
    ToAgent::Apply { instruction, snapshot, steps: vec![], trigger: Trigger::Poll }
}

/// How many checks, quiet cycles and applying cycles were counted.
fn counted(meter: &Meter) -> (u64, u64, u64) {
    let count = |durations: &Durations| durations.read().1;
    (count(&meter.checks), count(&meter.quiet_cycles), count(&meter.applying_cycles))
}

#[test]
fn a_cycle_lasts_from_its_check_to_its_last_answer() {
    let (meter, mut watch, start) = (Meter::default(), Stopwatch::default(), Instant::now());
    watch.observe(None, &[check(1)], start, &meter);
    watch.observe(None, &[ToAgent::Heartbeat], start, &meter);
    assert_eq!(counted(&meter), (0, 0, 0));
    watch.observe(Some(Heard::Checked(instruction(1), 20)), &[], start + SECOND, &meter);
    assert_eq!(counted(&meter), (1, 1, 0), "nothing was due");
    assert_eq!(meter.steps_checked.get(), 20);

    watch.observe(None, &[check(2)], start, &meter);
    let checked = Some(Heard::Checked(instruction(2), 20));
    watch.observe(checked, &[apply(3)], start + SECOND, &meter);
    assert_eq!(counted(&meter), (2, 1, 0));
    watch.observe(Some(Heard::Finished(instruction(3))), &[check(4)], start + 5 * SECOND, &meter);
    assert_eq!(counted(&meter), (2, 1, 1));
    assert_eq!(meter.applying_cycles.read().2, 5 * SECOND);
    watch.observe(Some(Heard::Checked(instruction(4), 1)), &[check(5)], start, &meter);
    assert_eq!(counted(&meter), (3, 2, 1), "one cycle follows another at once");
}

#[test]
fn a_check_that_was_replaced_counts_nowhere() {
    let (meter, mut watch, now) = (Meter::default(), Stopwatch::default(), Instant::now());
    watch.observe(None, &[check(1)], now, &meter);
    watch.observe(None, &[check(2)], now, &meter);
    watch.observe(Some(Heard::Checked(instruction(1), 1)), &[], now, &meter);
    watch.observe(Some(Heard::Finished(instruction(9))), &[apply(9)], now, &meter);
    assert_eq!(counted(&meter), (0, 0, 0));
}

#[test]
fn applies_are_counted_by_executor() {
    let meter = Meter::default();
    for (kind, outcome) in [
        ("shell", Outcome::Success),
        ("shell", Outcome::Failure),
        ("systemd", Outcome::Interrupted),
        ("brand-new", Outcome::AppliedButDrifted),
    ] {
        let mut event = Event::new(EventKind::ApplyFinished, Timestamp(0));
        event.step = StepAddress::new(kind, "x").ok();
        (event.outcome, event.duration_ms) = (Some(outcome), Some(1500));
        meter.note(&event);
        meter.note(&Event { kind: EventKind::ApplyStarted, ..event });
    }
    let counts = meter.applies.each_ref().map(|applies| applies.read().1);
    assert_eq!(counts, [2, 0, 0, 0, 0, 0, 0, 1], "what was interrupted has no duration");
    assert_eq!(meter.apply_failures.each_ref().map(Counter::get), [1, 0, 1, 0, 0, 0, 0, 1]);
}
