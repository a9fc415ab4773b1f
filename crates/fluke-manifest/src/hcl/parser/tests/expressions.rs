use super::{check, expression};
use crate::hcl::ast::{ExprKind, Span};
use crate::hcl::parse_expression;

#[test]
fn literals_and_names() {
    check(
        expression,
        &[
            ("1", "1"),
            ("  1.50 ", "1.50"),
            ("1e10", "1e10"),
            ("2.5E-3", "2.5E-3"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("true", "true"),
            ("false", "false"),
            ("null", "null"),
            ("truely", "truely"),
            ("with-dashes", "with-dashes"),
            ("_x9", "_x9"),
            ("größe", "größe"),
            ("変数", "変数"),
            ("\u{feff}bom", "bom"),
        ],
    );
}

#[test]
fn operators_bind_as_the_language_says_and_group_to_the_left() {
    check(
        expression,
        &[
            ("1 + 2 * 3", "(+ 1 (* 2 3))"),
            ("1 * 2 + 3", "(+ (* 1 2) 3)"),
            ("7 - 2 - 1", "(- (- 7 2) 1)"),
            ("8 / 4 % 3", "(% (/ 8 4) 3)"),
            ("a || b && c", "(|| a (&& b c))"),
            ("a && b == c", "(&& a (== b c))"),
            ("a == b < c", "(== a (< b c))"),
            ("a != b >= c + d", "(!= a (>= b (+ c d)))"),
            ("a == b == c", "(== (== a b) c)"),
            ("a < b <= c > d", "(> (<= (< a b) c) d)"),
            ("(1 + 2) * 3", "(* (paren (+ 1 2)) 3)"),
            ("-46 + 5", "(+ (neg 46) 5)"),
            ("!a && b", "(&& (not a) b)"),
            ("-a.b[0]", "(neg (idx (. a b) 0))"),
            ("!!a", "(not (not a))"),
            ("- -1", "(neg (neg 1))"),
            ("a - b", "(- a b)"),
            ("a-b", "a-b"),
            ("a -b", "(- a b)"),
            ("1-1", "(- 1 1)"),
        ],
    );
}

#[test]
fn conditionals_nest_to_the_right() {
    check(
        expression,
        &[
            ("a ? b : c", "(? a b c)"),
            ("a ? b : c ? d : e", "(? a b (? c d e))"),
            ("a ? b ? c : d : e", "(? a (? b c d) e)"),
            ("a == 1 ? b : c + 1", "(? (== a 1) b (+ c 1))"),
        ],
    );
}

#[test]
fn accesses_in_all_forms() {
    check(
        expression,
        &[
            ("a.b.c", "(. (. a b) c)"),
            ("a . b", "(. a b)"),
            ("a[0]", "(idx a 0)"),
            ("a[\n0\n]", "(idx a 0)"),
            ("a[\"k\"].b", "(. (idx a t[\"k\"]) b)"),
            ("a[b.c]", "(idx a (. b c))"),
            ("a.0", "(. a 0)"),
            ("a.0.b", "(. (. a 0) b)"),
            ("f(x).y", "(. (f x) y)"),
            ("[1, 2][0]", "(idx [1 2] 0)"),
            ("{ a = 1 }.a", "(. {'a=1} a)"),
            ("(a).b", "(. (paren a) b)"),
            ("\"abc\"[0]", "(idx t[\"abc\"] 0)"),
            ("a.for", "(. a for)"),
            ("a.true", "(. a true)"),
        ],
    );
}

#[test]
fn splats_take_what_follows_them() {
    check(
        expression,
        &[
            ("a[*]", "(splat a @)"),
            ("a[*].b", "(splat a (. @ b))"),
            ("a[*].b[0].c", "(splat a (. (idx (. @ b) 0) c))"),
            ("a[*].b[*].c", "(splat a (splat (. @ b) (. @ c)))"),
            ("a.*", "(splat a @)"),
            ("a.*.b.c", "(splat a (. (. @ b) c))"),
            // An index behind an attribute-only splat picks from the resulting list.
            ("a.*.b[0]", "(idx (splat a (. @ b)) 0)"),
            ("a.*.b[0].c", "(. (idx (splat a (. @ b)) 0) c)"),
            ("a.*.0.b", "(splat a (. (. @ 0) b))"),
            ("a.*.b[*].c", "(splat (splat a (. @ b)) (. @ c))"),
        ],
    );
}

#[test]
fn calls() {
    check(
        expression,
        &[
            ("f()", "(f)"),
            ("f(1, a, \"x\")", "(f 1 a t[\"x\"])"),
            ("f(1,)", "(f 1)"),
            ("f (1)", "(f 1)"),
            ("f(a...)", "(f a...)"),
            ("f(1, a...)", "(f 1 a...)"),
            ("f(\n  1,\n  2,\n)", "(f 1 2)"),
            ("ns::f(1)", "(ns::f 1)"),
            ("a::b::c()", "(a::b::c)"),
            ("true(1)", "(true 1)"),
        ],
    );
}

#[test]
fn tuples_and_objects() {
    check(
        expression,
        &[
            ("[]", "[]"),
            ("[1, 2,]", "[1 2]"),
            ("[\n  1,\n  # comment\n  2 /* here */,\n]", "[1 2]"),
            ("{}", "{}"),
            ("{\n}", "{}"),
            ("{ a = 1, b : 2 }", "{'a=1 'b=2}"),
            ("{\n  a = 1\n  b = 2\n\n}", "{'a=1 'b=2}"),
            ("{\n  a = 1,\n  b = 2, # last\n}", "{'a=1 'b=2}"),
            ("{ \"a b\" = 1 }", "{t[\"a b\"]=1}"),
            ("{ (a) = 1 }", "{(paren a)=1}"),
            ("{ (a.b) = 1 }", "{(paren (. a b))=1}"),
            ("{ \"${a}-x\" = 1 }", "{t[${a} \"-x\"]=1}"),
            ("{ 1 = 2 }", "{1=2}"),
            ("{ true = 1, null = 2, if = 3 }", "{'true=1 'null=2 'if=3}"),
            ("{ a = [\n1,\n2\n] }", "{'a=[1 2]}"),
            ("{ a = (\n1\n) }", "{'a=(paren 1)}"),
            ("{ f(x) = 1 }", "{(f x)=1}"),
        ],
    );
}

#[test]
fn for_expressions() {
    check(
        expression,
        &[
            ("[for x in y : x]", "(for x y x)"),
            ("[for k, v in y: v]", "(for k,v y v)"),
            ("[for x in y : x if x != 1]", "(for x y x if (!= x 1))"),
            ("[\n  for x in y :\n  x\n  if x\n]", "(for x y x if x)"),
            ("{for k, v in y : k => v}", "(for k,v y k => v)"),
            ("{\n  for v in y : v.id => v...\n}", "(for v y (. v id) => v...)"),
            ("{for v in y : v => 1 if v}", "(for v y v => 1 if v)"),
            ("[for x in [1, 2]: [for y in x: y]]", "(for x [1 2] (for y x y))"),
            ("[for x in a ? b : c : x]", "(for x (? a b c) x)"),
        ],
    );
}

#[test]
fn line_ends_are_free_within_brackets_and_whole_expressions() {
    check(
        expression,
        &[
            ("1 +\n2", "(+ 1 2)"),
            ("(1\n+\n2)", "(paren (+ 1 2))"),
            ("f(1\n+ 2)", "(f (+ 1 2))"),
            ("a\n? b\n: c", "(? a b c)"),
            ("\"${\n a\n}\"", "t[${a}]"),
        ],
    );
}

#[test]
fn every_expression_knows_its_place() {
    let text = "foo(a.b, \"x${c}\") + 1";
    let expr = parse_expression(text.as_bytes()).expect("it is correct");
    assert_eq!(expr.span, Span { start: 0, end: text.len() as u32 });
    let ExprKind::Binary { at, left, .. } = expr.kind else { panic!("{:?}", expr.kind) };
    assert_eq!(at, Span { start: 18, end: 19 });
    let ExprKind::Call { name, args, .. } = left.kind else { panic!("{:?}", left.kind) };
    assert_eq!(name.span, Span { start: 0, end: 3 });
    assert_eq!(args[0].span, Span { start: 4, end: 7 });
    assert_eq!(args[1].span, Span { start: 9, end: 16 });
}
