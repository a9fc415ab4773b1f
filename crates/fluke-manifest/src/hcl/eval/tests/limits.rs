//! No expression can exhaust the machine.

use std::time::{Duration, Instant};

use super::super::super::budget::Budget;
use super::super::super::scope::Scope;
use super::{Locals, parse, problems};
use crate::hcl::eval;

fn first_problem(text: &str) -> String {
    problems(text, &())[0].message.clone()
}

#[test]
fn a_loop_in_a_loop_in_a_loop_is_stopped() {
    let text = "[for a in range(1024) : [for b in range(1024) : [for c in range(1024) : 1]]]";
    let message = first_problem(text);
    assert!(message.contains("too m"), "{message}");
    let text = "\"%{ for a in range(1024) }%{ for b in range(1024) }xxxxxxxx%{ for c in \
                range(1024) }yyyyyyyy%{ endfor }%{ endfor }%{ endfor }\"";
    let message = first_problem(text);
    assert!(message.contains("too m") || message.contains("16 MiB"), "{message}");
}

#[test]
fn text_that_doubles_is_stopped() {
    let mut text = String::from("\"0123456789\"");
    for _ in 0..30 {
        text = format!("[for x in [{text}] : \"${{x}}${{x}}\"][0]");
    }
    assert_eq!(first_problem(&text), "the value would be larger than 16 MiB");
}

#[test]
fn collections_that_share_everything_count_in_full() {
    let mut text = String::from("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]");
    for _ in 0..9 {
        text = format!("[for x in [{text}] : [x, x, x, x, x, x, x, x, x, x]][0]");
    }
    assert_eq!(first_problem(&text), "the value would be larger than 16 MiB");
}

#[test]
fn functions_that_multiply_are_stopped() {
    let letters =
        "join(\"\", [for i in range(1024) : \"0123456789012345678901234567890123456789\"])";
    let cases = [
        format!("join({letters}, [for i in range(1024) : {letters}])"),
        format!("replace({letters}, \"0\", {letters})"),
        format!("replace({letters}, \"/[0-9]/\", {letters})"),
        "format(\"%999999999d\", 1)".to_string(),
        "indent(999999999, \"a\\nb\")".to_string(),
        "indent(9999999999999999999, \"a\\nb\")".to_string(),
        "range(1e9)".to_string(),
        "range(0, 1, 1e-300)".to_string(),
        "regex(\"(a{1000}){1000}\", \"a\")".to_string(),
        "regex(\"((((a*)*)*)*)*b\", \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\")".to_string(),
        "pow(10, 1000000)".to_string(),
        "1e999999999".to_string(),
        "tonumber(\"1e999999999\")".to_string(),
    ];
    for text in cases {
        let started = Instant::now();
        assert!(!problems(&text, &()).is_empty(), "{text}");
        // Generous, for a machine that does much else; without limits it would be for ever.
        assert!(started.elapsed() < Duration::from_secs(60), "{text}");
    }
}

#[test]
fn yaml_that_multiplies_is_stopped() {
    let mut yaml = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        yaml += &format!("a{level}: &a{level} [{}]\\n", vec![before; 9].join(", "));
    }
    let message = first_problem(&format!("yamldecode(\"{yaml}\")"));
    assert!(message.contains("16 MiB"), "{message}");
    let deep = "[".repeat(100_000);
    assert!(!problems(&format!("yamldecode(\"{deep}\")"), &()).is_empty());
    assert!(!problems(&format!("jsondecode(\"{deep}\")"), &()).is_empty());
}

#[test]
fn values_cannot_be_nested_without_end() {
    let locals: Vec<(String, String)> = (0..300)
        .map(|index| match index {
            0 => ("x0".to_string(), "1".to_string()),
            _ => (format!("x{index}"), format!("[local.x{}]", index - 1)),
        })
        .collect();
    let locals: Vec<(&str, &str)> = locals.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert!(Locals::new(&locals).eval("local.x299").is_err());
}

#[test]
fn an_empty_budget_stays_empty_and_no_try_gets_around_it() {
    let budget = Budget::new(50, 1_000_000);
    let scope = Scope::new(&(), &budget);
    let text = "try([for i in range(100) : i + i], can([for i in range(100) : i + i]), 1)";
    let found = eval(&parse(text), &scope).expect_err("no budget");
    assert_eq!(found[0].message, "evaluating takes too many steps");
    assert!(eval(&parse("upper(\"x\")"), &scope).is_err());
}

#[test]
fn expressions_as_high_as_the_parser_allows_fit_on_a_small_stack() {
    let work = || {
        let nested = |open: &str, close: &str, count: usize| {
            format!("{}1{}", open.repeat(count), close.repeat(count))
        };
        for (open, close) in [
            ("[", "]"),
            ("(", ")"),
            ("{a=", "}"),
            ("abs(", ")"),
            ("-(", ")"),
            ("[for x in [1] : ", "]"),
            ("true ? 1 : (", ")"),
            ("try(", ")"),
        ] {
            for count in [20, 45, 90] {
                if let Ok(expr) =
                    crate::hcl::parse_expression(nested(open, close, count).as_bytes())
                {
                    let budget = Budget::default();
                    let _ = eval(&expr, &Scope::new(&(), &budget));
                }
            }
        }
        let sum = vec!["1"; 150].join(" + ");
        if let Ok(expr) = crate::hcl::parse_expression(sum.as_bytes()) {
            let budget = Budget::default();
            assert!(eval(&expr, &Scope::new(&(), &budget)).is_ok());
        }
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
    thread.expect("a thread").join().expect("no overflow");
}
