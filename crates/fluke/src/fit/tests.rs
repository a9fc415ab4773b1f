use proptest::prelude::*;

use super::*;
use crate::colour::Paint;

#[test]
fn what_is_cut_shows_a_mark() {
    for (text, width, end, middle) in [
        ("web-01", 6, "web-01", "web-01"),
        ("web-eu-west-0017", 10, "web-eu-we…", "web-e…0017"),
        ("日本語日本語", 9, "日本語日…", "日本…本語"),
        ("日本語", 4, "日…", "日…"),
        ("日本語", 0, "", ""),
    ] {
        assert_eq!((cut(text, width).as_str(), cut_middle(text, width).as_str()), (end, middle));
    }
}

#[test]
fn words_stay_whole_where_they_fit() {
    assert_eq!(wrap("the certificate ends soon", 11, 9), ["the", "certificate", "ends soon"]);
    assert_eq!(wrap("the certificate ends soon", 11, 2), ["the", "certificat…"]);
    assert_eq!(wrap("abcdefgh ij", 3, 9), ["abc", "def", "gh", "ij"]);
    assert_eq!(wrap("日本", 1, 9), ["…", "…"], "no room for even one, and still an end");
}

#[test]
fn colours_take_no_room_and_end_where_their_text_does() {
    let line = format!("ok {}", Paint::Red.on("certificate", true));
    assert_eq!(shown_width(&line), 14);
    assert_eq!(clip(&line, 14), line);
    assert_eq!(clip(&line, 8), "ok \u{1b}[31mcert…\u{1b}[0m");
    let line = format!("  {}", Paint::Red.on("one two three", true));
    assert_eq!(fold(&line, 10), ["  \u{1b}[31mone two\u{1b}[0m", "  \u{1b}[31mthree\u{1b}[0m"]);
}

proptest! {
    #[test]
    fn whatever_the_text_it_fits_and_nothing_is_lost_in_folding(
        text in "[a-z日é ]{0,60}",
        width in 2usize..40,
    ) {
        prop_assert!(cut(&text, width).width() <= width);
        prop_assert!(cut_middle(&text, width).width() <= width);
        prop_assert!(shown_width(&clip(&text, width)) <= width);
        let folded = fold(&text, width);
        for line in folded.iter().chain(&wrap(&text, width, 99)) {
            prop_assert!(shown_width(line) <= width, "{line:?} is wider than {width}");
        }
        let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
        prop_assert_eq!(letters(&folded.concat()), letters(&text));
    }
}
