//! Whatever is written, evaluating it ends, with a value or with problems.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::super::budget::Budget;
use super::super::super::scope::Scope;
use super::super::super::value::tests::any_json_value;
use super::super::references;
use crate::hcl::functions;
use crate::hcl::{eval, parse_expression};

fn any_text() -> impl Strategy<Value = String> {
    let names = functions::names();
    let leaf = prop_oneof![
        Just("null".to_string()),
        Just("true".to_string()),
        Just("x".to_string()),
        Just("nope".to_string()),
        (-3i64..2000).prop_map(|it| it.to_string()),
        Just("1.5e3".to_string()),
        Just("1e400".to_string()),
        "[a-z %.,/$\\[\\](){}*é-]{0,8}"
            .prop_map(|it| { format!("\"{}\"", it.replace("${", "$").replace("%{", "%")) }),
    ];
    leaf.prop_recursive(5, 60, 4, move |inner| {
        let names = names.clone();
        let some = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            (prop::sample::select(names), some.clone())
                .prop_map(|(name, args)| format!("{name}({})", args.join(", "))),
            some.clone().prop_map(|items| format!("[{}]", items.join(", "))),
            some.prop_map(|items| {
                let items = items.iter().enumerate().map(|(at, it)| format!("k{at} = {it}"));
                format!("{{ {} }}", items.collect::<Vec<_>>().join(", "))
            }),
            (
                inner.clone(),
                inner.clone(),
                prop::sample::select(
                    &["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "&&", "||"][..]
                )
            )
                .prop_map(|(left, right, operator)| format!("({left} {operator} {right})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(condition, yes, no)| format!("({condition} ? {yes} : {no})")),
            (inner.clone(), inner.clone()).prop_map(|(of, key)| format!("({of})[{key}]")),
            inner.clone().prop_map(|of| format!("({of})[*].k0")),
            inner.clone().prop_map(|of| format!("({of}).k0")),
            (inner.clone(), inner.clone())
                .prop_map(|(of, each)| format!("[for x in {of} : {each}]")),
            (inner.clone(), inner.clone())
                .prop_map(|(of, each)| format!("{{for k, x in {of} : k => {each}...}}")),
            (inner.clone(), inner).prop_map(|(a, b)| {
                format!("\"a${{{a}}}%{{ for x in {b} }}${{x}}%{{ endfor }}\"")
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn evaluating_ends(text in any_text(), x in any_json_value()) {
        if let Ok(expr) = parse_expression(text.as_bytes()) {
            let variables = BTreeMap::from([(Arc::<str>::from("x"), x)]);
            let budget = Budget::new(200_000, 16 << 20);
            let outcome = eval(&expr, &Scope::new(&variables, &budget));
            let end = text.len() as u32;
            for problem in outcome.err().into_iter().flatten() {
                prop_assert!(problem.span.start <= problem.span.end && problem.span.end <= end);
                prop_assert!(!problem.message.is_empty());
            }
            for reference in references(&expr) {
                prop_assert!(["x", "nope"].contains(&&*reference.root));
            }
        }
    }

    #[test]
    fn evaluating_twice_gives_the_same(text in any_text()) {
        if let Ok(expr) = parse_expression(text.as_bytes()) {
            let run = || {
                let budget = Budget::new(200_000, 16 << 20);
                eval(&expr, &Scope::new(&(), &budget))
            };
            prop_assert_eq!(run(), run());
        }
    }
}
