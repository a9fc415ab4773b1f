use std::time::Duration;

use super::super::ast::Body;
use super::super::budget::Budget;
use super::super::problem::Problem;
use super::super::scope::Scope;
use super::part::MOST_PARTS;
use super::{Field, Fields, parse_duration};
use crate::hcl::{eval, parse};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    Red,
    Green,
}

const COLOURS: &[(&str, Colour)] = &[("red", Colour::Red), ("green", Colour::Green)];

fn body(text: &str) -> Body {
    let parsed = parse(text.as_bytes());
    assert_eq!(parsed.problems, [], "{text}");
    parsed.body
}

/// What the schema of a door reads from the first block, and all problems with it.
fn read_door(text: &str) -> (Option<String>, Vec<Problem>) {
    let body = body(text);
    let budget = Budget::default();
    let scope = Scope::new(&(), &budget);
    let evaluate = |expr: &_| eval(expr, &scope);
    let mut problems = Vec::new();
    let mut fields = Fields::of_block(&body.blocks[0], &evaluate, &mut problems);
    let name = fields.required(Field::nonempty_string("name"));
    let colour = fields.or(Field::word("colour", COLOURS), Colour::Red);
    let width = fields.optional(Field::integer("width", 1..=300));
    let locked = fields.or(Field::bool("locked"), false);
    let delay = fields.optional(Field::duration("delay"));
    let keys = fields.or(Field::strings("keys"), Vec::new());
    let labels = fields.optional(Field::string_map("labels"));
    let hinge = fields.required_block("hinge");
    let bells = fields.blocks("bell", &["name"]);
    fields.finish();
    let hinge = hinge.is_ok();
    let door = name.ok().map(|name| {
        let bells: Vec<_> = bells.iter().map(|bell| &*bell.labels[0].text).collect();
        format!(
            "{name} {colour:?} {width:?} {locked} {delay:?} {keys:?} {labels:?} {hinge} {bells:?}"
        )
    });
    (door, problems)
}

fn messages(text: &str) -> Vec<String> {
    let (_, problems) = read_door(text);
    let shown = problems.iter().map(|problem| {
        let at = &text[problem.span.start as usize..problem.span.end as usize];
        let help = problem.help.as_deref().unwrap_or("-");
        format!("[{at}] {} ({help})", problem.message)
    });
    shown.collect()
}

#[test]
fn a_block_is_read_field_by_field() {
    let (door, problems) = read_door(
        r#"door {
          name   = "front${1 + 1}"
          colour = "green"
          width  = "90"
          locked = "true"
          delay  = "1m30s"
          keys   = ["a", 1]
          labels = { floor = 2 }
          hinge {}
          bell "low" {}
          bell "high" {}
        }"#,
    );
    assert_eq!(problems, []);
    assert_eq!(
        door.as_deref(),
        Some(
            "front2 Green Some(90) true Some(90s) [\"a\", \"1\"] Some({\"floor\": \"2\"}) true \
             [\"low\", \"high\"]"
        )
    );
}

#[test]
fn what_is_missing_is_reported_at_the_header() {
    assert_eq!(
        messages("door \"x\" {\n}"),
        [
            "[door \"x\"] a `door` block needs the attribute `name` (add `name = …`: a string)",
            "[door \"x\"] a `door` block needs a `hinge` block (add `hinge { … }`)",
        ]
    );
    assert_eq!(
        messages("door {\n name = null\n hinge {}\n}"),
        ["[null] `name` is required and must not be null (give it a string)"]
    );
}

#[test]
fn wrong_values_say_what_was_expected_and_what_is_there() {
    let cases = [
        ("name = []", "[[]] `name` must be a string, but this is a tuple (-)"),
        ("name = \" \"", "[\" \"] `name`: it must not be empty (-)"),
        ("name = 1 / 0", "[1 / 0] division by zero (-)"),
        (
            "name = \"a\"\n colour = \"gren\"",
            "[\"gren\"] `colour`: \"gren\" is not one of \"red\", \"green\" (did you mean \
             \"green\"?)",
        ),
        (
            "name = \"a\"\n colour = 5",
            "[5] `colour` must be one of \"red\", \"green\", but this is a number (-)",
        ),
        (
            "name = \"a\"\n width = 301",
            "[301] `width`: 301 is not a whole number from 1 to 300 (-)",
        ),
        (
            "name = \"a\"\n width = 1.5",
            "[1.5] `width`: 1.5 is not a whole number from 1 to 300 (-)",
        ),
        (
            "name = \"a\"\n width = {}",
            "[{}] `width` must be a whole number from 1 to 300, but this is an object (-)",
        ),
        (
            "name = \"a\"\n locked = 1",
            "[1] `locked` must be true or false, but this is a number (-)",
        ),
        (
            "name = \"a\"\n delay = 10",
            "[10] `delay`: 10 has no unit (write \"10s\" for seconds; units are ns, us, ms, s, m, h)",
        ),
        (
            "name = \"a\"\n delay = \"2d\"",
            "[\"2d\"] `delay`: \"2d\" has an unknown unit `d`; units are ns, us, ms, s, m and h \
             (write it like \"500ms\", \"30s\", \"5m\" or \"1h30m\")",
        ),
        (
            "name = \"a\"\n keys = [\"a\", []]",
            "[[]] `keys`: element 1 must be a string, but is a tuple (-)",
        ),
        (
            "name = \"a\"\n keys = \"a\"",
            "[\"a\"] `keys` must be a list of strings, but this is a string (-)",
        ),
        (
            "name = \"a\"\n labels = { a = null }",
            "[null] `labels`: \"a\" must be a string, but is null (-)",
        ),
    ];
    for (attributes, expected) in cases {
        assert_eq!(messages(&format!("door {{\n {attributes}\n hinge {{}}\n}}")), [expected]);
    }
}

#[test]
fn every_part_that_is_wrong_is_told_where_it_is_written() {
    let cases: [(&str, &[&str]); 5] = [
        (
            "keys = [[], \"a\", ({})]",
            &[
                "[[]] `keys`: element 0 must be a string, but is a tuple (-)",
                "[({})] `keys`: element 2 must be a string, but is an object (-)",
            ],
        ),
        (
            "labels = ({ a = null, \"b\" = 1, \"c\" : [] })",
            &[
                "[null] `labels`: \"a\" must be a string, but is null (-)",
                "[[]] `labels`: \"c\" must be a string, but is a tuple (-)",
            ],
        ),
        (
            "labels = { a = [], a = null, a = {} }",
            &["[{}] `labels`: \"a\" must be a string, but is an object (-)"],
        ),
        (
            "labels = { \"${\"a\"}\" = [] }",
            &["[{ \"${\"a\"}\" = [] }] `labels`: \"a\" must be a string, but is a tuple (-)"],
        ),
        (
            "keys = [for it in [[], 1, {}] : it]",
            &[
                "[[for it in [[], 1, {}] : it]] `keys`: element 0 must be a string, but is a tuple (-)",
                "[[for it in [[], 1, {}] : it]] `keys`: element 2 must be a string, but is an object (-)",
            ],
        ),
    ];
    for (line, expected) in cases {
        let text = format!("door {{\n name = \"a\"\n hinge {{}}\n {line}\n}}");
        assert_eq!(messages(&text), expected);
    }
}

#[test]
fn of_many_parts_that_are_wrong_the_first_are_told_and_the_others_counted() {
    let told =
        messages("door {\n name = \"a\"\n hinge {}\n keys = [for it in range(1000) : [it]]\n}");
    assert_eq!(told.len(), MOST_PARTS + 1, "{told:?}");
    assert!(told[9].contains("element 9 must be a string"), "{told:?}");
    assert!(told[10].ends_with("990 more problems in it are not shown (mend these first)"));
}

#[test]
fn what_does_not_belong_is_reported_with_what_was_meant() {
    let cases = [
        ("colur = 1", "[colur] unknown attribute `colur` (did you mean `colour`?)"),
        ("widht = 1", "[widht] unknown attribute `widht` (did you mean `width`?)"),
        (
            "zzzzzzzz = 1",
            "[zzzzzzzz] unknown attribute `zzzzzzzz` (a `door` block takes `colour`, `delay`, \
             `keys`, `labels`, `locked`, `name`, `width`)",
        ),
        ("bel \"x\" {}", "[bel \"x\"] unknown block `bel` (did you mean `bell`?)"),
        (
            "bell = {}",
            "[bell] `bell` is a block, not an attribute (write `bell { … }`, without `=`)",
        ),
        (
            "labels {}",
            "[labels] `labels` is an attribute, not a block (write `labels = { … }` or `labels = …`)",
        ),
        ("bell {}", "[bell] a `bell` block needs a name as its label (write `bell \"name\" {`)"),
        (
            "bell \"a\" \"b\" {}",
            "[\"b\"] a `bell` block takes only one label (write `bell \"name\" {`)",
        ),
        (
            "hinge {}",
            "[hinge] a `door` block can have only one `hinge` block (put all of it into the first one)",
        ),
    ];
    for (line, expected) in cases {
        let text = format!("door {{\n name = \"a\"\n hinge {{}}\n {line}\n}}");
        assert_eq!(messages(&text), [expected]);
    }
}

#[test]
fn files_are_read_like_blocks_and_kinds_can_be_mixed() {
    let text = "listen = \"x\"\nb \"one\" {}\na \"two\" {}\n";
    let body = body(text);
    let budget = Budget::default();
    let scope = Scope::new(&(), &budget);
    let evaluate = |expr: &_| eval(expr, &scope);
    let mut problems = Vec::new();
    let mut fields = Fields::of_file(&body, &evaluate, &mut problems);
    let listen = fields.required_spanned(Field::string("listen")).expect("an address");
    let kinds = fields.any_of(&["a", "b"], &["name"]);
    let order: Vec<&str> = kinds.iter().map(|block| &*block.labels[0].text).collect();
    assert_eq!((listen.value.as_str(), listen.span.start), ("x", 9));
    assert_eq!(order, ["one", "two"]);
    fields.any_of(&["c", "d"], &[]);
    fields.finish();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].message, "this file needs at least one block of `c`, `d`");
}

#[test]
fn durations_are_read_as_go_writes_them() {
    let good = [
        ("0", Duration::ZERO),
        ("0s", Duration::ZERO),
        ("10s", Duration::from_secs(10)),
        ("1h30m", Duration::from_secs(5400)),
        ("1.5h", Duration::from_secs(5400)),
        ("100ms", Duration::from_millis(100)),
        ("1m0.5s", Duration::from_millis(60_500)),
        ("5us", Duration::from_micros(5)),
        ("5µs", Duration::from_micros(5)),
        ("7ns", Duration::from_nanos(7)),
        (".5s", Duration::from_millis(500)),
    ];
    for (text, expected) in good {
        assert_eq!(parse_duration(text), Ok(expected), "{text}");
    }
    for text in
        ["", " ", "10", "s", "-5s", "5 s", "1d", "1.2.3s", ".s", "1h30", "9999999999h", "1e3s"]
    {
        assert!(parse_duration(text).is_err(), "{text}");
    }
}
