//! Rows that cannot all be right: copies of others, and those who claim the same.

use super::*;

#[test]
fn those_who_claim_the_same_are_left_out_and_named() {
    let mut copy = row(1, &[]);
    copy.0 = name("h1-copy");
    copy.1.subnet = subnet(7);
    let mut twin = row(8, &[]);
    twin.1.subnet = subnet(1);
    let mut like_us = row(9, &[]);
    like_us.1.subnet = subnet(100);
    let wanted = wanted(&[row(1, &[]), copy, twin, like_us]);
    assert_eq!(wanted.peers.len(), 1);
    let words: Vec<String> =
        wanted.left_out.iter().map(|(name, why)| format!("{name} {why}")).collect();
    assert_eq!(
        words,
        [
            "h1-copy has the key of h1: was one a copy of the other?",
            "h8 has the subnet of h1",
            "h9 has the subnet of this host"
        ]
    );
}

#[test]
fn a_copy_calls_nobody_and_the_original_everybody() {
    let ours = |called: &str, number, since| {
        let mut row = row(2, &[]);
        (row.0, row.1.public_key, row.1.subnet) = (name(called), OWN, subnet(number));
        row.1.since = Timestamp(since);
        row
    };
    let words = |rows: &[(AgentName, Peer)]| wanted(rows).left_out.into_iter().collect::<Vec<_>>();
    for (original, copy) in [("a", "b"), ("b", "a")] {
        let rows = [row(1, &[]), ours(original, 7, 1), ours(copy, 100, 2)];
        let said = words(&rows);
        assert!(
            said.len() == 1 && said[0].0 == name(original) && said[0].1.contains("mesh.key"),
            "{said:?}"
        );
        assert!(wanted(&rows).peers.is_empty());
    }
    for rows in [
        vec![ours("a", 100, 1), ours("b", 7, 2)],
        vec![ours("b", 100, 1), ours("a", 7, 2)],
        // Not yet, or not as what this host is now.
        vec![ours("a", 7, 1)],
        vec![ours("a", 7, 1), ours("b", 8, 2)],
        vec![],
    ] {
        let rows = [rows, vec![row(1, &[])]].concat();
        assert_eq!((wanted(&rows).peers.len(), words(&rows)), (1, vec![]), "{rows:?}");
    }
}
