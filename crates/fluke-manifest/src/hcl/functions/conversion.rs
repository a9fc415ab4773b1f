//! Explicit conversions.

use super::{Failure, Function, Parameter, Wanted};
use crate::hcl::convert::convert;
use crate::hcl::scope::Scope;
use crate::hcl::types::Type;
use crate::hcl::value::Value;

const V: &[Parameter] = &[Parameter::new("v", Wanted::Any).or_null()];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("tobool", V, |args, _: &Scope| to(args, &Type::Bool)),
    Function::new("tolist", V, |args, _: &Scope| to(args, &Type::Any.list())),
    Function::new("tomap", V, |args, _: &Scope| to(args, &Type::Any.map())),
    Function::new("tonumber", V, |args, _: &Scope| to(args, &Type::Number)),
    Function::new("toset", V, |args, _: &Scope| to(args, &Type::Any.set())),
    Function::new("tostring", V, |args, _: &Scope| to(args, &Type::String)),
];

fn to(args: &[Value], wanted: &Type) -> Result<Value, Failure> {
    let value = args.first().unwrap_or(&Value::NULL);
    convert(value, wanted).map_err(|error| {
        let what = match value {
            Value::String(text) if text.len() <= 100 => format!("\"{text}\""),
            _ => value.type_name(),
        };
        let wanted = wanted.wanted();
        match error.to_string() {
            reason if reason.starts_with(&wanted) => {
                Failure::of(0, format!("cannot convert {what} to {wanted}"))
            }
            reason => Failure::of(0, format!("cannot convert {what} to {wanted}: {reason}")),
        }
    })
}
