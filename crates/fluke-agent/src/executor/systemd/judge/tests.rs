use Action::*;

use super::*;
use crate::executor::systemd::facts::Job;

/// What is wanted: state and enabled.
type Wish = (UnitState, bool);

const RUN: Wish = (UnitState::Running, true);
const RUN_NOT_ENABLED: Wish = (UnitState::Running, false);
const STOP: Wish = (UnitState::Stopped, false);
const STOP_ENABLED: Wish = (UnitState::Stopped, true);

/// A unit in systemd's words.
fn unit(load: &str, active: &str, sub: &str, file: &str) -> Facts {
    Facts {
        id: "u.service".into(),
        load: load.into(),
        active: active.into(),
        sub: sub.into(),
        job: None,
        file: FileState::read(file),
        restless: false,
        details: Some(details()),
    }
}

fn details() -> Details {
    Details { service_type: "simple".into(), can_start: true, can_stop: true, ..Details::default() }
}

fn with(mut facts: Facts, change: impl FnOnce(&mut Details)) -> Facts {
    change(facts.details.as_mut().expect("details"));
    facts
}

fn job(mut facts: Facts, kind: &str) -> Facts {
    facts.job = Some(Job { id: 7, kind: kind.into() });
    facts
}

fn spec(unit: &str, (state, enabled): Wish) -> SystemdSpec {
    SystemdSpec { unit: unit.into(), state, enabled }
}

fn ok() -> Judgement {
    Judgement::Satisfied
}

/// A drift whose reason contains this.
fn drift(reason: &str, plan: &[Action]) -> Judgement {
    Judgement::Drifted { reason: reason.into(), plan: plan.to_vec() }
}

fn error(reason: &str) -> Judgement {
    Judgement::Error(reason.into())
}

fn expect(case: &str, spec: &SystemdSpec, facts: &Facts, expected: &Judgement) {
    let judged = judge(spec, facts);
    match (&judged, expected) {
        (Judgement::Satisfied, Judgement::Satisfied) => {}
        (
            Judgement::Drifted { reason, plan },
            Judgement::Drifted { reason: part, plan: expected },
        ) => {
            assert!(reason.contains(part.as_str()), "{case}: {reason}");
            assert_eq!(plan, expected, "{case}");
        }
        (Judgement::Error(reason), Judgement::Error(part)) => {
            assert!(reason.contains(part.as_str()), "{case}: {reason}");
        }
        _ => panic!("{case}: {judged:?} instead of {expected:?}"),
    }
}

fn table(cases: impl IntoIterator<Item = (&'static str, Wish, Facts, Judgement)>) {
    for (case, wish, facts, expected) in cases {
        expect(case, &spec("u.service", wish), &facts, &expected);
    }
}

#[test]
fn units_of_every_state_are_judged() {
    let enabled = |active, sub| unit("loaded", active, sub, "enabled");
    let disabled = |active, sub| unit("loaded", active, sub, "disabled");
    table([
        ("up", RUN, enabled("active", "running"), ok()),
        ("its work is done, and it stays up", RUN, enabled("active", "exited"), ok()),
        ("reads its config", RUN, enabled("reloading", "reload"), ok()),
        ("down", RUN, enabled("inactive", "dead"), drift("is inactive (dead), should", &[Start])),
        (
            "failed",
            RUN,
            enabled("failed", "failed"),
            drift("is failed, should be", &[ResetFailed, Start]),
        ),
        ("starts", RUN, enabled("activating", "start"), ok()),
        ("starts, and takes its time", RUN, job(enabled("activating", "start-pre"), "start"), ok()),
        ("is about to start", RUN, job(enabled("inactive", "dead"), "start"), ok()),
        (
            "is restarted, and down for a moment",
            RUN,
            job(enabled("inactive", "dead"), "restart"),
            ok(),
        ),
        (
            "waits for its restart",
            RUN,
            enabled("activating", "auto-restart"),
            drift("is starting (waits for systemd to restart it)", &[Start]),
        ),
        (
            "waits for its restart, by a newer systemd",
            RUN,
            job(enabled("activating", "auto-restart-queued"), "restart"),
            drift("waits for systemd to restart it", &[Start]),
        ),
        (
            "goes down by itself",
            RUN,
            enabled("deactivating", "final-sigterm"),
            drift("is stopping (final-sigterm)", &[Start]),
        ),
        (
            "somebody stops it",
            RUN,
            job(enabled("deactivating", "stop-sigterm"), "stop"),
            drift("is being stopped, should be running", &[Await(7), Start]),
        ),
        (
            "somebody is about to stop it",
            RUN,
            job(enabled("active", "running"), "stop"),
            drift("is being stopped", &[Await(7), Start]),
        ),
        ("down as it should be", STOP, disabled("inactive", "dead"), ok()),
        ("failed is down", STOP, disabled("failed", "failed"), ok()),
        ("goes down", STOP, disabled("deactivating", "stop-sigterm"), ok()),
        (
            "up against its wish",
            STOP,
            disabled("active", "running"),
            drift("is active (running), should be stopped", &[Stop]),
        ),
        (
            "starts against its wish",
            STOP,
            disabled("activating", "start"),
            drift("is starting", &[Stop]),
        ),
        (
            "somebody starts it",
            STOP,
            job(disabled("inactive", "dead"), "start"),
            drift("is being started, should be stopped", &[Stop]),
        ),
        (
            "comes again and again",
            STOP,
            disabled("activating", "auto-restart"),
            drift("starting", &[Stop]),
        ),
        ("somebody stops it already", STOP, job(disabled("active", "running"), "stop"), ok()),
    ]);
}

#[test]
fn what_starts_on_boot_is_judged_by_what_the_unit_is() {
    let up = |file| unit("loaded", "active", "running", file);
    let down = |file| unit("loaded", "inactive", "dead", file);
    let enable: &[Action] = &[Enable, Reload];
    table([
        ("disabled", RUN, up("disabled"), drift("is disabled, should be enabled", enable)),
        ("disabled, as it should be", RUN_NOT_ENABLED, up("disabled"), ok()),
        (
            "enabled against its wish",
            RUN_NOT_ENABLED,
            up("enabled"),
            drift("is enabled, should not be", &[Disable { runtime: false }, Reload]),
        ),
        ("enabled for now", RUN, up("enabled-runtime"), drift("until the next boot only", enable)),
        (
            "enabled for now against its wish",
            RUN_NOT_ENABLED,
            up("enabled-runtime"),
            drift("is enabled", &[Disable { runtime: true }, Reload]),
        ),
        (
            "both are wrong",
            RUN,
            down("disabled"),
            drift(
                "is disabled, should be enabled; is inactive (dead), should be running",
                &[Enable, Reload, Start],
            ),
        ),
        ("stopped, and starts on boot", STOP_ENABLED, down("enabled"), ok()),
        ("static", RUN, up("static"), ok()),
        ("static, not enabled", RUN_NOT_ENABLED, up("static"), ok()),
        (
            "static and down",
            RUN,
            down("static"),
            drift("is inactive (dead), should be running", &[Start]),
        ),
        ("indirect", RUN, up("indirect"), ok()),
        ("indirect, not enabled", RUN_NOT_ENABLED, up("indirect"), ok()),
        ("an alias of something unknown", RUN, up("alias"), ok()),
        ("generated", RUN, up("generated"), ok()),
        ("generated, not enabled", RUN_NOT_ENABLED, up("generated"), error("made by a generator")),
        (
            "transient",
            RUN,
            up("transient"),
            error("exists only until it stops, so it cannot be enabled"),
        ),
        ("transient, not enabled", RUN_NOT_ENABLED, up("transient"), ok()),
        ("linked", RUN, up("linked"), drift("is linked, but not enabled", enable)),
        ("linked for now", RUN, up("linked-runtime"), drift("is linked", enable)),
        (
            "linked, without [Install]",
            RUN,
            with(up("linked"), |d| d.installable = Some(false)),
            ok(),
        ),
        ("linked, not enabled", RUN_NOT_ENABLED, up("linked"), ok()),
        ("a bad file", RUN, up("bad"), error("cannot read the file")),
        ("a word of the future", RUN, up("quantum"), error("calls `u.service` `quantum`")),
        ("no file", RUN, up(""), error("has no unit file, so it cannot be enabled")),
        ("no file, not enabled", RUN_NOT_ENABLED, up(""), ok()),
    ]);
}

#[test]
fn masked_units_are_left_to_whoever_masked_them() {
    let masked = |active, sub, file| unit("masked", active, sub, file);
    table([
        (
            "masked",
            RUN,
            masked("inactive", "dead", "masked"),
            error("run `systemctl unmask u.service`"),
        ),
        (
            "masked for now",
            RUN,
            masked("inactive", "dead", "masked-runtime"),
            error("run `systemctl unmask --runtime u.service`"),
        ),
        (
            "masked, to be run",
            RUN_NOT_ENABLED,
            masked("inactive", "dead", "masked"),
            error("is masked"),
        ),
        ("masked while it runs", RUN_NOT_ENABLED, masked("active", "running", "masked"), ok()),
        ("masked, and nothing is wanted of it", STOP, masked("inactive", "dead", "masked"), ok()),
        (
            "masked while it runs, to be stopped",
            STOP,
            masked("active", "running", "masked"),
            drift("should be stopped", &[Stop]),
        ),
        (
            "masked, to be enabled",
            STOP_ENABLED,
            masked("inactive", "dead", "masked"),
            error("is masked"),
        ),
    ]);
}

#[test]
fn what_is_not_there_or_cannot_be_read_is_an_error_unless_reading_again_helps() {
    let missing = || unit("not-found", "inactive", "dead", "");
    let bad = |word| unit(word, "inactive", "dead", "bad");
    table([
        ("missing", RUN, missing(), error("there is no unit `u.service` on this host; install")),
        ("missing, to be stopped", STOP, missing(), error("there is no unit")),
        (
            "missing, with others like it",
            RUN,
            with(missing(), |d| d.near = vec!["v.service".into(), "w.service".into()]),
            error("did you mean `v.service` or `w.service`?"),
        ),
        (
            "deleted while it runs",
            RUN,
            unit("not-found", "active", "running", ""),
            error("there is no unit"),
        ),
        (
            "new on the disk",
            RUN,
            unit("not-found", "inactive", "dead", "disabled"),
            drift("is on the disk, but systemd has not read it yet", &[Reload]),
        ),
        (
            "bad",
            RUN,
            with(bad("bad-setting"), |d| d.load_error = "no ExecStart=".into()),
            error("cannot use `u.service`: no ExecStart=; `systemd-analyze verify u.service`"),
        ),
        ("in error", RUN, bad("error"), error("its file has a mistake")),
        ("bad, to be stopped", STOP, bad("bad-setting"), error("cannot use")),
        (
            "mended on the disk",
            RUN,
            with(bad("bad-setting"), |d| d.needs_reload = true),
            drift("was changed on the disk since", &[Reload]),
        ),
        (
            "changed on the disk while it runs",
            RUN,
            with(unit("loaded", "active", "running", "enabled"), |d| d.needs_reload = true),
            ok(),
        ),
        (
            "changed on the disk while it is down",
            RUN,
            with(unit("loaded", "inactive", "dead", "enabled"), |d| d.needs_reload = true),
            drift("is inactive", &[Reload, Start]),
        ),
        ("a state of the future", RUN, unit("stub", "inactive", "dead", ""), error("not loaded")),
    ]);
}

#[test]
fn services_that_cannot_stay_up_are_told_apart_from_those_that_failed() {
    let oneshot = |active, sub, remain| {
        with(unit("loaded", active, sub, "enabled"), |details| {
            details.service_type = "oneshot".into();
            details.remain_after_exit = remain;
        })
    };
    let failed = |result: &'static str, status, restarts| {
        with(unit("loaded", "failed", "failed", "enabled"), |details| {
            details.result = result.into();
            details.status = status;
            details.restarts = restarts;
        })
    };
    table([
        (
            "has done its work",
            RUN,
            oneshot("inactive", "dead", false),
            error(
                "does its work and ends (inactive (dead)), so it cannot stay running; give it RemainAfterExit=yes",
            ),
        ),
        ("failed at its work", RUN, oneshot("failed", "failed", false), error("ends (failed)")),
        ("is at its work", RUN, oneshot("activating", "start", false), ok()),
        (
            "has done its work, as it should",
            STOP,
            oneshot("inactive", "dead", false),
            drift("is enabled", &[Disable { runtime: false }, Reload]),
        ),
        ("stays up", RUN, oneshot("active", "exited", true), ok()),
        ("should stay up", RUN, oneshot("inactive", "dead", true), drift("is inactive", &[Start])),
        (
            "exited",
            RUN,
            failed("exit-code", 3, 0),
            drift("is failed (exit status 3)", &[ResetFailed, Start]),
        ),
        (
            "killed",
            RUN,
            failed("signal", 9, 0),
            drift("is failed (result signal)", &[ResetFailed, Start]),
        ),
        (
            "gave up",
            RUN,
            failed("start-limit-hit", 1, 5),
            drift("result start-limit-hit, restarted 5 times by systemd", &[ResetFailed, Start]),
        ),
        (
            "a condition",
            RUN,
            with(unit("loaded", "inactive", "dead", "enabled"), |d| d.condition_failed = true),
            drift("a Condition of its own is not met", &[Start]),
        ),
        (
            "only for others",
            RUN,
            with(unit("loaded", "inactive", "dead", "enabled"), |d| d.refuses_start = true),
            error("RefuseManualStart=yes"),
        ),
        (
            "not to be stopped",
            STOP,
            with(unit("loaded", "active", "running", "disabled"), |d| d.refuses_stop = true),
            error("cannot be stopped by itself (RefuseManualStop=yes)"),
        ),
        (
            "not known to be one that ends",
            RUN,
            {
                let mut facts = oneshot("inactive", "dead", false);
                facts.details = None;
                facts
            },
            drift("is inactive", &[Start]),
        ),
    ]);
}

#[test]
fn a_unit_that_is_up_only_between_two_failures_is_not_up() {
    for (active, sub) in
        [("active", "running"), ("activating", "start"), ("activating", "auto-restart")]
    {
        let facts = unit("loaded", active, sub, "enabled");
        let restless = Facts { restless: true, ..with(facts, |details| details.restarts = 9) };
        let expected = drift("keeps failing, and systemd keeps restarting it, 9 times", &[Start]);
        expect(sub, &spec("u.service", RUN), &restless, &expected);
    }
    let facts = unit("loaded", "failed", "failed", "enabled");
    let given_up = Facts { restless: true, ..facts };
    let expected = drift("is failed", &[ResetFailed, Start]);
    expect("given up", &spec("u.service", RUN), &given_up, &expected);
}

#[test]
fn units_of_every_kind_are_judged_alike() {
    for (name, sub, file) in [
        ("u.timer", "waiting", "enabled"),
        ("u.timer", "elapsed", "enabled"),
        ("u.socket", "listening", "enabled"),
        ("u.path", "waiting", "enabled"),
        ("srv-data.mount", "mounted", "generated"),
        ("srv-data.automount", "waiting", "generated"),
        ("u.target", "active", "static"),
        ("u@one.service", "running", "enabled"),
        ("dev-sda.device", "plugged", ""),
        ("u.slice", "active", ""),
        ("session-1.scope", "running", "transient"),
    ] {
        let wish = if file == "transient" { RUN_NOT_ENABLED } else { RUN };
        let mut facts = unit("loaded", "active", sub, file);
        expect(name, &spec(name, wish), &facts, &ok());
        facts.active = Active::Down;
        facts.sub = "dead".into();
        expect(name, &spec(name, wish), &facts, &drift("is inactive (dead)", &[Start]));
    }
    let absent = with(unit("loaded", "inactive", "dead", ""), |details| details.can_start = false);
    expect(
        "a device",
        &spec("dev-sdb.device", RUN),
        &absent,
        &error("of this kind cannot be started"),
    );
    let mounted_by_hand = unit("loaded", "active", "mounted", "");
    expect("by hand", &spec("mnt.mount", RUN), &mounted_by_hand, &error("has no unit file"));
}
