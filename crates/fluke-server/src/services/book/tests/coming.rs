//! An agent comes before what its host runs.

use fluke_model::service::RESCHEDULE_AFTER;
use fluke_model::verdict::Verdict;

use super::*;

/// Two hosts that serve, of which one lost power and boots: its agent is connected, and has said
/// nothing yet.
fn booted(gone: &[Word]) -> Lab {
    let mut lab = Lab::settled(None);
    lab.joins("a", vec![deployment("a", Replica::Own, at(4))]);
    lab.joins("b", vec![deployment("b", Replica::Own, at(5))]);
    for word in gone {
        lab.says("b", word.clone());
    }
    assert_eq!(lab.addresses(), ["10.200.1.4"]);
    lab.comes("b", NodeType::Worker);
    lab
}

#[test]
fn a_host_that_was_silent_is_led_to_again_when_it_has_said_what_runs_there() {
    for gone in [&[Word::Silent][..], &[Word::Silent, Word::Left], &[Word::GoesDown]] {
        let mut lab = booted(gone);
        assert_eq!(lab.addresses(), ["10.200.1.4"], "nothing runs there yet");
        // Nor by losing its agent, nor by how often that comes.
        lab.says("b", Word::Left);
        assert_eq!(lab.addresses(), ["10.200.1.4"]);
        lab.comes("b", NodeType::Worker);
        assert_eq!(lab.addresses(), ["10.200.1.4"]);
        lab.reports("b", vec![deployment("b", Replica::Own, at(5))]);
        assert_eq!(lab.addresses(), ["10.200.1.4", "10.200.1.5"]);
    }
}

#[test]
fn a_host_that_comes_does_not_displace_the_others_that_may_serve() {
    let mut lab = Lab::settled(None);
    lab.joins("a", vec![deployment("a", Replica::Own, at(4))]);
    lab.joins("b", vec![deployment("b", Replica::Own, at(5))]);
    for host in ["a", "b"] {
        lab.says(host, Word::Silent);
        lab.says(host, Word::Left);
    }
    assert_eq!(lab.addresses().len(), 2, "somewhere to go is better than nowhere");
    lab.comes("b", NodeType::Worker);
    assert_eq!(lab.addresses().len(), 2, "nobody knows more than before");
    lab.reports("b", vec![deployment("b", Replica::Own, at(5))]);
    assert_eq!(lab.addresses(), ["10.200.1.5"]);
}

#[test]
fn an_agent_that_falls_before_it_says_a_word_does_not_keep_its_host_led_to() {
    let mut lab = Lab::settled(Some(1));
    let it = deployment("0", Replica::Number(0), at(4));
    lab.joins("a", vec![it.clone()]);
    lab.joins("b", vec![]);
    let falls = |lab: &mut Lab| {
        lab.says("a", Word::Left);
        lab.passes(Duration::from_secs(10));
        lab.comes("a", NodeType::Worker);
    };
    let serving = |lab: &Lab| lab.book.view().served(&web(), lab.now).len();
    let began = lab.now;
    for (seconds, expected) in [(10, 1), (20, 1), (30, 0), (40, 0)] {
        falls(&mut lab);
        assert_eq!(serving(&lab), expected, "after {seconds} s");
    }
    while lab.moves.is_empty() && lab.now < began + RESCHEDULE_AFTER {
        assert_eq!(lab.placed()[&0], name("a"), "it may come back");
        falls(&mut lab);
    }
    assert_eq!(lab.placed()[&0], name("b"));
    assert_eq!(lab.moves[0].why, "a was away for 5m");
    lab.says("a", Word::Left);
    lab.joins("a", vec![it]);
    assert_eq!(serving(&lab), 1, "whoever has spoken is there");
    lab.says("a", Word::Left);
    lab.passes(RESTART_GRACE / 2);
    assert_eq!(serving(&lab), 1, "that is another time of being away");
}

/// What an agent says that was started while Podman does not answer: of what is wanted, and nothing
/// of what is on its way out.
fn cannot_tell(ids: &[&str]) -> Word {
    let why = "Podman does not answer";
    let unknown = |id: &&str| DeploymentReport {
        verdict: Verdict::Error { reason: why.into() },
        phase: Phase::Failed,
        address: None,
        serves: false,
        note: Some(why.into()),
        ..deployment(id, Replica::Own, at(0))
    };
    let deployments = ids.iter().map(unknown).collect();
    let report = ServicesReport { whole: true, unseen: true, deployments, ..Default::default() };
    Word::Services(report)
}

#[test]
fn an_agent_that_restarts_while_nobody_can_look_takes_nothing_out_of_names() {
    let mut lab = Lab::settled(None);
    let serving = deployment("serves", Replica::Own, at(4));
    let leaving = DeploymentReport {
        phase: Phase::Retiring,
        ..deployment("leaves", Replica::Number(0), at(5))
    };
    lab.joins("a", vec![serving.clone(), leaving.clone()]);
    lab.joins("b", vec![deployment("b", Replica::Own, at(6))]);
    let before = lab.addresses();
    assert!(before.contains(&"10.200.1.4".to_string()));
    for _ in 0..3 {
        lab.says("a", Word::Left);
        lab.passes(RESTART_GRACE - Duration::from_secs(1));
        lab.comes("a", NodeType::Worker);
        lab.says("a", cannot_tell(&["serves", "new"]));
        lab.passes(RESTART_GRACE);
        assert_eq!(lab.addresses(), before);
        let known = &lab.book.view().hosts[&name("a")].deployments;
        assert_eq!(
            known.get(&serving.id).and_then(|it| it.note.as_deref()),
            Some("Podman does not answer")
        );
        assert_eq!(known.get(&leaving.id), Some(&leaving), "nobody can tell that it is gone");
    }
    lab.reports("a", vec![]);
    assert_eq!(lab.addresses(), ["10.200.1.6"], "now somebody has looked");
}

#[test]
fn that_nobody_can_look_makes_nothing_run_on_a_host_that_lost_power() {
    for gone in [Word::Silent, Word::GoesDown] {
        let mut lab = booted(&[gone]);
        lab.says("b", cannot_tell(&["b"]));
        assert_eq!(lab.addresses(), ["10.200.1.4"]);
        lab.says("a", Word::Silent);
        assert_eq!(lab.addresses(), ["10.200.1.4"], "the last one that may");
    }
}
