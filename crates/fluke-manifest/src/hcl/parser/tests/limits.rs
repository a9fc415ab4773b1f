//! Texts made to break a parser: they get one answer, soon, on a small stack.

use super::{parse, parse_expression, parse_template};

/// The stack that threads get by default.
const STACK: usize = 2 << 20;

fn on_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run);
    thread.expect("threads can be started").join().expect("the stack is large enough");
}

#[test]
fn deep_nesting_ends_with_one_problem() {
    const OPENINGS: [&str; 15] = [
        "[",
        "(",
        "{ a = ",
        "-",
        "!",
        "f(",
        "a ? b : ",
        "a ? ",
        "[for x in ",
        "{for x in ",
        "\"${",
        "<<E\n${",
        "a[",
        "\"%{ if ",
        "(-f([{a = \"${",
    ];
    on_small_stack(|| {
        for opening in OPENINGS {
            let text = format!("a = {}", opening.repeat(100_000));
            let problems = parse(text.as_bytes()).problems;
            assert_eq!(problems.len(), 1, "{opening:?}: {problems:?}");
            assert!(problems[0].message.contains("more than"), "{opening:?}: {problems:?}");
        }
    });
}

#[test]
fn deep_blocks_and_directives_end_with_one_problem() {
    on_small_stack(|| {
        let problems = parse("a {\n".repeat(100_000).as_bytes()).problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        let directives = "%{ if a }".repeat(100_000);
        let problems = parse_template(directives.as_bytes()).expect_err("it is too deep");
        assert_eq!(problems.len(), 1, "{problems:?}");
    });
}

#[test]
fn long_chains_end_with_one_problem() {
    on_small_stack(|| {
        for link in [" + 1", " && a", ".a", "[0]", ".*", "[*]", " == 1"] {
            let text = format!("a{}", link.repeat(100_000));
            let problems = parse_expression(text.as_bytes()).expect_err("it is too long");
            assert_eq!(problems.len(), 1, "{link:?}: {problems:?}");
        }
    });
}

#[test]
fn what_is_within_the_limits_can_be_read_and_dropped() {
    on_small_stack(|| {
        let chain = format!("a{}", " + 1".repeat(190));
        assert!(parse_expression(chain.as_bytes()).is_ok());
        let deep = format!("{}1{}", "[".repeat(99), "]".repeat(99));
        assert!(parse_expression(deep.as_bytes()).is_ok());
        let blocks = format!("{}{}", "a {\n".repeat(99), "}\n".repeat(99));
        assert_eq!(parse(blocks.as_bytes()).problems, []);
    });
}

#[test]
fn too_many_parts_and_too_much_text_are_refused() {
    let many = parse("a{}\n".repeat(400_000).as_bytes());
    assert_eq!(many.problems.len(), 1);
    assert_eq!(many.problems[0].message, "this file has too many parts");
    let long = parse(&vec![b' '; (32 << 20) + 1]);
    assert_eq!(long.problems[0].message, "this file has more than 32 MiB");
}

#[test]
fn reading_stops_after_a_hundred_problems() {
    let problems = parse("= @ ] \n".repeat(100_000).as_bytes()).problems;
    assert_eq!(problems.len(), 101);
    assert_eq!(problems[100].message, "more than 100 problems in this file");
}
