//! JSON, YAML, Base64 and URLs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Failure, Function, Parameter, Wanted, text, yaml};
use crate::hcl::scope::Scope;
use crate::hcl::value::Value;

type Outcome = Result<Value, Failure>;

const STR: Parameter = Parameter::new("str", Wanted::String);
const VAL: &[Parameter] = &[Parameter::new("val", Wanted::Any).or_null()];
const SRC: &[Parameter] = &[Parameter::new("src", Wanted::String)];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("base64decode", &[STR], base64decode),
    Function::new("base64encode", &[STR], base64encode),
    Function::new("jsondecode", &[STR], jsondecode),
    Function::new("jsonencode", VAL, jsonencode),
    Function::new("urlencode", &[STR], urlencode),
    Function::new("yamldecode", SRC, yamldecode),
    Function::new("yamlencode", &[Parameter::new("value", Wanted::Any).or_null()], yamlencode),
];

fn base64encode(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::string(STANDARD.encode(text(args, 0))))
}

fn base64decode(args: &[Value], _: &Scope) -> Outcome {
    // Line ends are often there, and mean nothing.
    let encoded: String = text(args, 0).chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = STANDARD
        .decode(encoded)
        .map_err(|error| Failure::of(0, format!("it is not Base64: {error}")))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Value::string(text)),
        Err(_) => Err(Failure::of(0, "what it encodes is not text in UTF-8")),
    }
}

fn jsonencode(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::string(args.first().unwrap_or(&Value::NULL).to_json_string()))
}

fn jsondecode(args: &[Value], _: &Scope) -> Outcome {
    Value::from_json_str(text(args, 0)).map_err(|error| Failure::of(0, error.to_string()))
}

fn yamlencode(args: &[Value], _: &Scope) -> Outcome {
    yaml::encode(args.first().unwrap_or(&Value::NULL)).map(Value::string)
}

fn yamldecode(args: &[Value], scope: &Scope) -> Outcome {
    yaml::decode(text(args, 0), scope)
}

fn urlencode(args: &[Value], _: &Scope) -> Outcome {
    let mut encoded = String::new();
    for byte in text(args, 0).bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(Value::string(encoded))
}
