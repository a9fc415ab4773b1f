//! Numbers.

use num_bigint::BigInt;

use super::{Failure, Function, Parameter, Wanted, number, text, whole};
use crate::hcl::number::Number;
use crate::hcl::scope::Scope;
use crate::hcl::value::Value;

type Outcome = Result<Value, Failure>;

const NUM: Parameter = Parameter::new("num", Wanted::Number);
const NUMBERS: Parameter = Parameter::new("numbers", Wanted::Number);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abs", &[NUM], abs),
    Function::new("ceil", &[NUM], ceil),
    Function::new("floor", &[NUM], floor),
    Function::new("log", &[NUM, Parameter::new("base", Wanted::Number)], log),
    Function::new("max", &[], max).with_rest(NUMBERS),
    Function::new("min", &[], min).with_rest(NUMBERS),
    Function::new(
        "parseint",
        &[Parameter::new("number", Wanted::Any), Parameter::new("base", Wanted::Number)],
        parseint,
    ),
    Function::new("pow", &[NUM, Parameter::new("power", Wanted::Number)], pow),
    Function::new("signum", &[NUM], signum),
];

fn abs(args: &[Value], _: &Scope) -> Outcome {
    Ok(number(args, 0)?.absolute().into())
}

fn ceil(args: &[Value], _: &Scope) -> Outcome {
    Ok(number(args, 0)?.ceil()?.into())
}

fn floor(args: &[Value], _: &Scope) -> Outcome {
    Ok(number(args, 0)?.floor()?.into())
}

fn max(args: &[Value], _: &Scope) -> Outcome {
    extreme(args, |best, number| number > best)
}

fn min(args: &[Value], _: &Scope) -> Outcome {
    extreme(args, |best, number| number < best)
}

fn extreme(args: &[Value], better: fn(&Number, &Number) -> bool) -> Outcome {
    let mut numbers = args.iter().filter_map(Value::as_number);
    let first = numbers.next().ok_or_else(|| Failure::new("at least one number is required"))?;
    let best = numbers.fold(first, |best, number| if better(best, number) { number } else { best });
    Ok(best.clone().into())
}

fn pow(args: &[Value], _: &Scope) -> Outcome {
    let power = power(number(args, 0)?.to_f64(), number(args, 1)?.to_f64());
    Ok(Number::from_f64(power)?.into())
}

/// By squaring, with the exponent kept apart: other ways differ in the last digits, which show.
fn power(base: f64, exponent: f64) -> f64 {
    let (whole, fraction) = (exponent.abs().trunc(), exponent.abs().fract());
    if base == 0.0 || base == 1.0 || exponent == 1.0 || whole >= 9e18 {
        return base.powf(exponent);
    }
    if exponent.abs() == 0.5 {
        let root = base.sqrt();
        return if exponent > 0.0 { root } else { 1.0 / root };
    }
    let (mut rest, mut result) = (whole, 1.0);
    if fraction == 0.5 {
        result = base.sqrt();
    } else if fraction != 0.0 {
        let up = fraction > 0.5;
        rest += f64::from(u8::from(up));
        result = ((fraction - f64::from(u8::from(up))) * base.ln()).exp();
    }
    let (mut square, mut square_exponent) = split_exponent(base);
    let mut result_exponent = 0i32;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    let mut bits = rest as u64;
    while bits != 0 {
        if square_exponent.abs() > 4096 {
            result_exponent += square_exponent;
            break;
        }
        if bits & 1 == 1 {
            result *= square;
            result_exponent += square_exponent;
        }
        square *= square;
        square_exponent *= 2;
        if square < 0.5 {
            square += square;
            square_exponent -= 1;
        }
        bits >>= 1;
    }
    if exponent < 0.0 {
        result = 1.0 / result;
        result_exponent = -result_exponent;
    }
    // In two steps, since a power of two alone may be out of range where the product is not.
    let half = result_exponent / 2;
    result * 2f64.powi(half) * 2f64.powi(result_exponent - half)
}

/// `(m, e)` with `value = m · 2^e` and `m` from a half to one.
fn split_exponent(value: f64) -> (f64, i32) {
    let biased = i32::try_from((value.to_bits() >> 52) & 0x7ff).unwrap_or(0);
    if biased == 0 {
        let (mantissa, exponent) = split_exponent(value * 2f64.powi(64));
        return (mantissa, exponent - 64);
    }
    let mantissa = f64::from_bits((value.to_bits() & !(0x7ff << 52)) | (1022 << 52));
    (mantissa, biased - 1022)
}

fn log(args: &[Value], _: &Scope) -> Outcome {
    let (number, base) = (number(args, 0)?.to_f64(), number(args, 1)?.to_f64());
    Ok(Number::from_f64(number.ln() / base.ln())?.into())
}

fn signum(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::from(whole(args, 0)?.signum()))
}

fn parseint(args: &[Value], _: &Scope) -> Outcome {
    let Some(digits) = args.first().and_then(Value::as_str) else {
        let name = args.first().map(Value::type_name).unwrap_or_default();
        return Err(Failure::of(0, format!("it must be a string, not {name}")));
    };
    let base = u32::try_from(whole(args, 1)?).ok().filter(|base| (2..=62).contains(base));
    let base =
        base.ok_or_else(|| Failure::of(1, "the base must be a whole number from 2 to 62"))?;
    let value = parse_digits(text(args, 0), base)
        .ok_or_else(|| Failure::of(0, format!("\"{digits}\" is no whole number in base {base}")))?;
    Ok(Number::big_integer(&value)?.into())
}

/// Up to base 36 capital and small letters are the same, above they are different digits.
fn parse_digits(text: &str, base: u32) -> Option<BigInt> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || digits.len() > 2048 {
        return None;
    }
    let mut value = BigInt::ZERO;
    for letter in digits.bytes() {
        let digit = match letter {
            b'0'..=b'9' => letter - b'0',
            b'a'..=b'z' => letter - b'a' + 10,
            b'A'..=b'Z' if base <= 36 => letter - b'A' + 10,
            b'A'..=b'Z' => letter - b'A' + 36,
            _ => return None,
        };
        if u32::from(digit) >= base {
            return None;
        }
        value = value * base + digit;
    }
    Some(if negative { -value } else { value })
}
