//! Words for why one type is not another.

use super::is_convertible;
use crate::hcl::types::Type;

/// Says what is wanted and what is there instead, as closely to the cause as can be told.
pub fn mismatch(got: &Type, want: &Type) -> String {
    match (got, want) {
        (Type::Object(kinds), Type::Object(wanted)) => {
            for (name, want) in wanted.iter() {
                match kinds.get(name) {
                    None => return format!("attribute `{name}` is required"),
                    Some(got) if got != want && !is_convertible(got, want, true) => {
                        return format!("attribute `{name}`: {}", mismatch(got, want));
                    }
                    Some(_) => {}
                }
            }
            "the attributes do not fit".into()
        }
        (Type::Tuple(_), Type::List(element) | Type::Set(element))
        | (Type::Object(_), Type::Map(element))
            if **element == Type::Any =>
        {
            "all elements must have the same type".into()
        }
        (Type::Tuple(kinds), Type::List(want) | Type::Set(want)) => {
            let kinds = kinds.iter().enumerate().map(|(index, kind)| (index.to_string(), kind));
            nested(kinds, want)
        }
        (Type::Object(kinds), Type::Map(want)) => {
            let kinds = kinds.iter().map(|(name, kind)| (format!("\"{name}\""), kind));
            nested(kinds, want)
        }
        (Type::List(got) | Type::Set(got), Type::List(want) | Type::Set(want))
        | (Type::Map(got), Type::Map(want)) => format!("elements: {}", mismatch(got, want)),
        _ => format!("{} required, but have {got}", want.wanted()),
    }
}

fn nested<'t>(kinds: impl Iterator<Item = (String, &'t Type)>, want: &Type) -> String {
    for (place, got) in kinds {
        if got != want && !is_convertible(got, want, true) {
            return format!("element {place}: {}", mismatch(got, want));
        }
    }
    format!("all elements must be {}", want.wanted())
}
