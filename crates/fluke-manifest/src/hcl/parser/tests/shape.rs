//! Trees in a few words, without places.

use crate::hcl::ast::{BinaryOp, Body, Expr, ExprKind, ForExpr, Part, UnaryOp};

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" ")
}

/// Attributes first, then blocks.
pub fn body(body: &Body) -> String {
    let attributes = body.attributes.iter().map(|a| format!("{}={}", a.name.text, expr(&a.value)));
    let blocks = body.blocks.iter().map(|block| {
        let labels = block.labels.iter().map(|label| format!(" {:?}", label.text));
        let labels: String = labels.collect();
        format!("{}{labels} {}", block.kind.text, self::body(&block.body))
    });
    format!("<{}>", attributes.chain(blocks).collect::<Vec<_>>().join("; "))
}

pub fn parts(parts: &[Part]) -> String {
    joined(parts.iter().map(part))
}

fn part(part: &Part) -> String {
    match part {
        Part::Literal(text) => format!("{text:?}"),
        Part::Interpolation(inner) => format!("${{{}}}", expr(inner)),
        Part::If { condition, yes, no, .. } => {
            format!("%if {} [{}] [{}]", expr(condition), parts(yes), parts(no))
        }
        Part::For { key_name, value_name, collection, body, .. } => {
            let key = key_name.as_ref().map(|key| format!("{},", key.text)).unwrap_or_default();
            format!("%for {key}{} {} [{}]", value_name.text, expr(collection), parts(body))
        }
    }
}

pub fn expr(expr: &Expr) -> String {
    let of = self::expr;
    match &expr.kind {
        ExprKind::Null => "null".into(),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Number(text) => text.to_string(),
        ExprKind::Template(parts) => format!("t[{}]", self::parts(parts)),
        ExprKind::Variable(name) => name.to_string(),
        ExprKind::GetAttr { of: inner, name } => format!("(. {} {})", of(inner), name.text),
        ExprKind::Index { of: inner, key } => format!("(idx {} {})", of(inner), of(key)),
        ExprKind::Splat { of: inner, each } => format!("(splat {} {})", of(inner), of(each)),
        ExprKind::SplatItem => "@".into(),
        ExprKind::Call { name, args, expand_last } => {
            let args: String = args.iter().map(|arg| format!(" {}", of(arg))).collect();
            format!("({}{args}{})", name.text, if *expand_last { "..." } else { "" })
        }
        ExprKind::Tuple(items) => format!("[{}]", joined(items.iter().map(of))),
        ExprKind::Object(items) => {
            let items = items.iter().map(|item| {
                let mark = if item.literal_key { "'" } else { "" };
                format!("{mark}{}={}", of(&item.key), of(&item.value))
            });
            format!("{{{}}}", joined(items))
        }
        ExprKind::For(parts) => for_expr(parts),
        ExprKind::Conditional { condition, yes, no } => {
            format!("(? {} {} {})", of(condition), of(yes), of(no))
        }
        ExprKind::Binary { operator, left, right, .. } => {
            format!("({} {} {})", sign(*operator), of(left), of(right))
        }
        ExprKind::Unary { operator: UnaryOp::Negate, operand } => format!("(neg {})", of(operand)),
        ExprKind::Unary { operator: UnaryOp::Not, operand } => format!("(not {})", of(operand)),
        ExprKind::Paren(inner) => format!("(paren {})", of(inner)),
    }
}

fn for_expr(parts: &ForExpr) -> String {
    let mut text = String::from("(for ");
    parts.key_name.iter().for_each(|key| text += &format!("{},", key.text));
    text += &format!("{} {}", parts.value_name.text, expr(&parts.collection));
    parts.key.iter().for_each(|key| text += &format!(" {} =>", expr(key)));
    text += &format!(" {}", expr(&parts.value));
    text += if parts.group { "..." } else { "" };
    parts.condition.iter().for_each(|condition| text += &format!(" if {}", expr(condition)));
    text + ")"
}

pub fn sign(operator: BinaryOp) -> &'static str {
    match operator {
        BinaryOp::Or => "||",
        BinaryOp::And => "&&",
        BinaryOp::Equal => "==",
        BinaryOp::NotEqual => "!=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterOrEqual => ">=",
        BinaryOp::Less => "<",
        BinaryOp::LessOrEqual => "<=",
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
    }
}
