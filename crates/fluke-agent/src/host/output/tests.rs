use proptest::prelude::*;

use super::*;

fn collect(chunks: impl IntoIterator<Item = Vec<u8>>) -> Output {
    let mut tail = Tail::default();
    chunks.into_iter().for_each(|chunk| tail.room().extend_from_slice(&chunk));
    tail.into_output()
}

#[test]
fn the_tail_is_kept_and_the_rest_is_counted() {
    let output = collect((0..100).map(|n| vec![n; 10_000]));
    assert_eq!(output.tail.len(), MAX_OUTPUT);
    assert_eq!(output.dropped, 1_000_000 - MAX_OUTPUT as u64);
    assert_eq!(output.tail.last(), Some(&99));
}

#[test]
fn secrets_are_masked_wherever_they_stand() {
    let secrets = Secrets::new([&b"hunter2"[..], b"hunter2-long", b"", b"two\nlonger line\n"]);
    for (printed, shown) in [
        ("nothing", "nothing"),
        ("pw=hunter2.", "pw=•••."),
        ("hunter2-long", "•••"),
        ("hunter2hunter2", "••••••"),
        ("a longer line alone", "a ••• alone"),
        ("two is short", "two is short"),
    ] {
        assert_eq!(secrets.mask_text(printed), shown);
    }
}

#[test]
fn a_secret_cut_in_two_by_the_tail_is_masked_too() {
    let secrets = Secrets::new([&b"hunter2"[..]]);
    let cut = secrets.mask(Output { tail: b"ter2 rest".to_vec(), dropped: 3 });
    assert_eq!(cut.tail, "••• rest".as_bytes());
    let whole = secrets.mask(Output { tail: b"ter2 rest".to_vec(), dropped: 0 });
    assert_eq!(whole.tail, b"ter2 rest");
}

#[test]
fn a_reason_shows_the_last_lines_that_say_something() {
    let output = Output::from_text("first\n\x1b[31msecond\x1b[0m\r\n\n  third  \n\n");
    assert_eq!(last_lines(&output, 1), "third");
    assert_eq!(last_lines(&output, 2), "second\nthird");
    assert_eq!(last_lines(&Output::default(), 2), "");
    let long = Output::from_text("é".repeat(1000));
    assert_eq!(last_lines(&long, 1).chars().count(), 301);
}

proptest! {
    #[test]
    fn no_secret_survives_masking(
        before in proptest::collection::vec(any::<u8>(), 0..50),
        secret in proptest::collection::vec(1..128u8, 4..20),
        after in proptest::collection::vec(any::<u8>(), 0..50),
    ) {
        let needle = secret.trim_ascii().to_vec();
        prop_assume!(!needle.is_empty());
        let printed = [&before[..], &needle, &after].concat();
        let masked = Secrets::new([&secret[..]]).mask(Output { tail: printed, dropped: 0 });
        prop_assert!(!masked.tail.windows(needle.len()).any(|window| window == needle));
    }

    #[test]
    fn whatever_is_printed_the_tail_is_its_end(
        sizes in proptest::collection::vec((any::<u8>(), 0..60_000usize), 0..20),
    ) {
        let chunks: Vec<Vec<u8>> = sizes.into_iter().map(|(byte, size)| vec![byte; size]).collect();
        let all = chunks.concat();
        let output = collect(chunks);
        prop_assert_eq!(output.dropped as usize + output.tail.len(), all.len());
        prop_assert!(all.ends_with(&output.tail));
        prop_assert!(output.tail.len() <= MAX_OUTPUT);
    }
}
