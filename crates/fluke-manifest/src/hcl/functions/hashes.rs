//! Hashes, as lower-case hexadecimal digits.

use std::fmt::Write;

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::{Failure, Function, Parameter, Wanted, text};
use crate::hcl::scope::Scope;
use crate::hcl::value::Value;

const STR: &[Parameter] = &[Parameter::new("str", Wanted::String)];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("md5", STR, hash::<Md5>),
    Function::new("sha1", STR, hash::<Sha1>),
    Function::new("sha256", STR, hash::<Sha256>),
    Function::new("sha512", STR, hash::<Sha512>),
];

fn hash<H: Digest>(args: &[Value], _: &Scope) -> Result<Value, Failure> {
    let mut digits = String::new();
    for byte in H::digest(text(args, 0)).iter() {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(Value::string(digits))
}
