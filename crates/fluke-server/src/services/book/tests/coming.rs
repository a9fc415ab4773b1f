//! An agent comes before what its host runs.

use fluke_model::service::RESCHEDULE_AFTER;

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
