use proptest::prelude::*;

use super::*;

fn style(width: usize) -> Style {
    Style { colours: false, width: Some(width), height: Some(24) }
}

fn fleet() -> Table {
    let mut table = Table::new(&[
        Column::new("NAME"),
        Column::new("STATUS"),
        Column::cut("LABELS", 2, 8),
        Column::cut("REASON", 1, 10),
    ]);
    table.row([
        "web-01".into(),
        Cell::painted("in_sync", Paint::Green),
        "env=production,role=web".into(),
        "".into(),
    ]);
    table.row([
        "db-1".into(),
        Cell::painted("drifted", Paint::Yellow),
        "role=db".into(),
        "the certificate ends in 3 days".into(),
    ]);
    table
}

#[test]
fn a_pipe_gets_everything() {
    assert_eq!(
        fleet().render(Style::default(), 0),
        "NAME    STATUS   LABELS                   REASON
web-01  in_sync  env=production,role=web
db-1    drifted  role=db                  the certificate ends in 3 days
"
    );
}

#[test]
fn a_narrow_terminal_loses_the_least_important_first() {
    assert_eq!(
        fleet().render(style(60), 0),
        "NAME    STATUS   LABELS       REASON
web-01  in_sync  env=produc…
db-1    drifted  role=db      the certificate ends in 3 days
"
    );
    assert_eq!(
        fleet().render(style(46), 0),
        "NAME    STATUS   LABELS    REASON
web-01  in_sync  env=pro…
db-1    drifted  role=db   the certificate en…
"
    );
}

#[test]
fn a_column_without_room_is_left_out() {
    assert_eq!(
        fleet().render(style(30), 0),
        "NAME    STATUS   REASON
web-01  in_sync
db-1    drifted  the certific…
"
    );
    assert_eq!(fleet().render(style(5), 0), "NAME\nweb-…\ndb-1\n");
}

#[test]
fn colours_do_not_move_columns() {
    let text = fleet().render(Style { colours: true, ..Style::default() }, 2);
    assert!(
        text.starts_with("  \u{1b}[1mNAME\u{1b}[0m    \u{1b}[1mSTATUS\u{1b}[0m   "),
        "{text:?}"
    );
    assert!(text.contains("web-01  \u{1b}[32min_sync\u{1b}[0m  env"), "{text:?}");
}

#[test]
fn wide_characters_are_counted_as_they_are_shown() {
    let mut table = Table::new(&[Column::new("A"), Column::new("B")]);
    table.row(["日本".into(), "x".into()]);
    table.row(["abc".into(), "y".into()]);
    assert_eq!(table.render(Style::default(), 0), "A     B\n日本  x\nabc   y\n");
    assert_eq!(cut("日本語", 4), "日…");
    assert_eq!(cut("日本語", 0), "");
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(
        cells in prop::collection::vec("\\PC{0,40}", 12),
        width in 20usize..120,
    ) {
        let mut table = fleet();
        for row in cells.chunks(4) {
            table.row(row.iter().map(|cell| Cell::from(cell.as_str())));
        }
        for line in table.render(style(width), 0).lines() {
            prop_assert!(line.width() <= width, "{line:?} is wider than {width}");
        }
    }
}
