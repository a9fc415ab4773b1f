use proptest::prelude::*;

use super::*;

fn raw(mode: &str, name: &[u8], id: u8) -> Vec<u8> {
    [mode.as_bytes(), b" ", name, b"\0", &[id; 20]].concat()
}

#[test]
fn a_directory_lists_its_files_by_kind() {
    let content = [
        raw("100644", b"a", 1),
        raw("100755", b"b", 2),
        raw("120000", b"c", 3),
        raw("160000", b"d", 4),
        raw("40000", b"e", 5),
    ]
    .concat();
    let directory = parse_directory(&content, 20).expect("parses");
    let kinds: Vec<_> = directory.items.iter().map(|item| (&*item.name, item.kind)).collect();
    use ItemKind::*;
    assert_eq!(
        kinds,
        [
            ("a", Entry(EntryKind::File)),
            ("b", Entry(EntryKind::File)),
            ("c", Entry(EntryKind::Symlink)),
            ("d", Entry(EntryKind::Submodule)),
            ("e", Directory),
        ]
    );
    assert_eq!(&*directory.items[4].id, "05".repeat(20));
}

#[test]
fn names_that_lead_elsewhere_are_left_out() {
    for name in [&b".."[..], b".", b"", b"a/b", b"\xff", b"a\x1b[2J"] {
        let directory = parse_directory(&raw("100644", name, 1), 20).expect("parses");
        assert!(directory.items.is_empty() && directory.skipped.len() == 1, "{name:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_parsers_panic(content in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_directory(&content, 20);
        let _ = parse_commit("x".into(), &content);
    }
}
