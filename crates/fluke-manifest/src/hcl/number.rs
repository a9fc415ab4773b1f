//! Numbers of any size: binary floating point with a precision that travels with the value.
//!
//! HCL computes with 512 bits for what is written in a file, 64 for counts and 53 for the results
//! of `pow` and `log`; a result has the larger precision of its operands. Small whole numbers,
//! which is nearly all of them, are kept in a machine word.

mod text;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use num_bigint::{BigInt, BigUint, Sign};

/// Bits of numbers that are written in files.
const WRITTEN: u16 = 512;
/// Bits of counts and indices.
const COUNTED: u16 = 64;
/// Bits of what comes out of machine floating point.
const MACHINE: u16 = 53;
/// No number reaches two to this power, nor the inverse of it.
const MAX_EXPONENT: i64 = 4096;
/// Longer literals are refused unread.
const MAX_LITERAL: usize = 2048;

/// A number, exact up to its precision.
#[derive(Debug, Clone)]
pub struct Number(Form);

#[derive(Debug, Clone)]
enum Form {
    Small { value: i64, precision: u16 },
    Large(Arc<Float>),
}

/// `± magnitude · 2^exponent`, where the magnitude is odd or zero.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Float {
    negative: bool,
    magnitude: BigUint,
    exponent: i64,
    precision: u16,
}

/// Why there is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// The text is something else.
    #[error("a number is required")]
    NotANumber,
    /// More than two to the power of 4096, or closer to zero than its inverse.
    #[error("the number is too large or too small; its size must stay within 1e-1200 and 1e1200")]
    OutOfRange,
    /// Nothing can be divided by zero.
    #[error("division by zero")]
    DivisionByZero,
}

impl Number {
    /// Reads a decimal literal as it may stand in a file, with sign, fraction and exponent.
    pub fn parse(text: &str) -> Result<Self, NumberError> {
        // Nearly all literals are short runs of digits.
        if text.len() <= 18
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(value) = text.parse()
        {
            return Ok(Self(Form::Small { value, precision: WRITTEN }));
        }
        parse_decimal(text)
    }

    /// A count, an index or a length.
    pub fn count(value: usize) -> Self {
        Self::integer(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// A whole number that was computed, not written.
    pub fn integer(value: i64) -> Self {
        Self(Form::Small { value, precision: COUNTED })
    }

    /// A whole number of any size, with as many bits as it needs and no fewer than a count has.
    pub fn big_integer(value: &BigInt) -> Result<Self, NumberError> {
        let precision = u16::try_from(value.bits()).map_err(|_| NumberError::OutOfRange)?;
        let (sign, magnitude) = (value.sign() == Sign::Minus, value.magnitude().clone());
        build(sign, magnitude, 0, precision.max(COUNTED))
    }

    /// What machine floating point gave; infinities and not-a-number are out of range.
    pub fn from_f64(value: f64) -> Result<Self, NumberError> {
        if !value.is_finite() {
            return Err(NumberError::OutOfRange);
        }
        let bits = value.to_bits();
        let biased = i64::try_from((bits >> 52) & 0x7ff).unwrap_or_default();
        let fraction = bits & ((1 << 52) - 1);
        let (magnitude, exponent) = match biased {
            0 => (fraction, -1074),
            _ => (fraction | (1 << 52), biased - 1075),
        };
        build(value.is_sign_negative(), BigUint::from(magnitude), exponent, MACHINE)
    }

    /// The closest machine number.
    pub fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The value, where it is whole and fits.
    pub fn to_i64(&self) -> Option<i64> {
        match &self.0 {
            Form::Small { value, .. } => Some(*value),
            Form::Large(_) => self.to_big_integer().and_then(|whole| i64::try_from(whole).ok()),
        }
    }

    /// The value, where it is whole.
    pub fn to_big_integer(&self) -> Option<BigInt> {
        let float = self.float();
        (float.exponent >= 0).then(|| float.truncated())
    }

    /// Whether the number is held in a machine word, so that computing with it costs nothing.
    pub fn is_small(&self) -> bool {
        matches!(self.0, Form::Small { .. })
    }

    /// Less than, equal to or greater than zero.
    pub fn sign(&self) -> Ordering {
        match &self.0 {
            Form::Small { value, .. } => value.cmp(&0),
            Form::Large(float) if float.magnitude == BigUint::ZERO => Ordering::Equal,
            Form::Large(float) if float.negative => Ordering::Less,
            Form::Large(_) => Ordering::Greater,
        }
    }

    /// `self + other`
    pub fn add(&self, other: &Self) -> Result<Self, NumberError> {
        if let Some(sum) = self.in_words(other, i64::checked_add) {
            return Ok(sum);
        }
        let (left, right) = (self.float(), other.float());
        let exponent = left.exponent.min(right.exponent);
        let sum = left.signed(exponent) + right.signed(exponent);
        let negative = sum.sign() == Sign::Minus;
        build(negative, sum.into_parts().1, exponent, left.precision.max(right.precision))
    }

    /// `self - other`
    pub fn subtract(&self, other: &Self) -> Result<Self, NumberError> {
        self.add(&other.negate())
    }

    /// `self * other`; the product may have more bits than its factors.
    pub fn multiply(&self, other: &Self) -> Result<Self, NumberError> {
        if let Some(product) = self.in_words(other, i64::checked_mul) {
            return Ok(product);
        }
        let (left, right) = (self.float(), other.float());
        let product = build(
            left.negative != right.negative,
            &left.magnitude * &right.magnitude,
            left.exponent + right.exponent,
            WRITTEN,
        )?;
        let needed = u16::try_from(product.float().magnitude.bits()).unwrap_or(WRITTEN);
        Ok(product.with_precision(needed.max(left.precision).max(right.precision)))
    }

    /// `self / other`
    pub fn divide(&self, other: &Self) -> Result<Self, NumberError> {
        let (left, right) = (self.float(), other.float());
        if right.magnitude == BigUint::ZERO {
            return Err(NumberError::DivisionByZero);
        }
        let precision = left.precision.max(right.precision);
        // Enough bits that the quotient has two more than are kept.
        let wanted = u64::from(precision) + 2 + right.magnitude.bits();
        let shift = wanted.saturating_sub(left.magnitude.bits());
        let dividend = &left.magnitude << shift;
        let mut quotient = &dividend / &right.magnitude;
        let exact = &quotient * &right.magnitude == dividend;
        let mut exponent = left.exponent - right.exponent - i64::try_from(shift).unwrap_or(0);
        if !exact {
            // A last bit that stands for all those behind it decides ties.
            quotient = (quotient << 1u8) | BigUint::from(1u8);
            exponent -= 1;
        }
        build(left.negative != right.negative, quotient, exponent, precision)
    }

    /// What is left of `self` when whole multiples of `other` are taken away.
    pub fn modulo(&self, other: &Self) -> Result<Self, NumberError> {
        if let (Form::Small { value, precision }, Form::Small { value: by, precision: other }) =
            (&self.0, &other.0)
            && let Some(value) = value.checked_rem(*by)
        {
            return Ok(Self(Form::Small { value, precision: *precision.max(other) }));
        }
        let precision = self.float().precision;
        let times = self.divide(other)?.float().truncated();
        let times = build(times.sign() == Sign::Minus, times.magnitude().clone(), 0, precision)?;
        let taken = {
            let (left, right) = (other.float(), times.float());
            build(
                left.negative != right.negative,
                &left.magnitude * &right.magnitude,
                left.exponent + right.exponent,
                precision,
            )?
        };
        let rest = self.subtract(&taken)?.float();
        build(rest.negative, rest.magnitude, rest.exponent, precision)
    }

    /// `-self`
    pub fn negate(&self) -> Self {
        match &self.0 {
            Form::Small { value, precision } if *value != i64::MIN => {
                Self(Form::Small { value: -value, precision: *precision })
            }
            _ => {
                let float = self.float();
                Self(Form::Large(Arc::new(Float { negative: !float.negative, ..float })))
            }
        }
    }

    /// The distance from zero.
    pub fn absolute(&self) -> Self {
        match self.sign() {
            Ordering::Less => self.negate(),
            _ => self.clone(),
        }
    }

    /// The largest whole number that is not larger.
    pub fn floor(&self) -> Result<Self, NumberError> {
        self.to_whole(|float, whole| if float.negative { whole - 1 } else { whole })
    }

    /// The smallest whole number that is not smaller.
    pub fn ceil(&self) -> Result<Self, NumberError> {
        self.to_whole(|float, whole| if float.negative { whole } else { whole + 1 })
    }

    fn to_whole(&self, adjust: fn(&Float, BigInt) -> BigInt) -> Result<Self, NumberError> {
        let float = self.float();
        if float.exponent >= 0 {
            return Ok(self.clone());
        }
        let whole = adjust(&float, float.truncated());
        build(whole.sign() == Sign::Minus, whole.magnitude().clone(), 0, float.precision)
    }

    fn in_words(&self, other: &Self, operate: fn(i64, i64) -> Option<i64>) -> Option<Self> {
        let (
            Form::Small { value: left, precision: of_left },
            Form::Small { value: right, precision: of_right },
        ) = (&self.0, &other.0)
        else {
            return None;
        };
        let value = operate(*left, *right)?;
        let precision = *of_left.max(of_right);
        let bits = u64::BITS - value.unsigned_abs().leading_zeros();
        (bits <= u32::from(precision)).then_some(Self(Form::Small { value, precision }))
    }

    fn with_precision(self, precision: u16) -> Self {
        match self.0 {
            Form::Small { value, .. } => Self(Form::Small { value, precision }),
            Form::Large(float) => {
                Self(Form::Large(Arc::new(Float { precision, ..Arc::unwrap_or_clone(float) })))
            }
        }
    }

    fn float(&self) -> Float {
        match &self.0 {
            Form::Small { value, precision } => {
                let magnitude = BigUint::from(value.unsigned_abs());
                Float { negative: *value < 0, magnitude, exponent: 0, precision: *precision }
            }
            Form::Large(float) => Float::clone(float),
        }
    }
}

impl Float {
    /// As a whole number of units of two to the `exponent`, which must not be above its own.
    fn signed(&self, exponent: i64) -> BigInt {
        let shift = u64::try_from(self.exponent - exponent).unwrap_or(0);
        let sign = if self.negative { Sign::Minus } else { Sign::Plus };
        BigInt::from_biguint(sign, &self.magnitude << shift)
    }

    /// The whole part, rounded towards zero.
    fn truncated(&self) -> BigInt {
        let sign = if self.negative { Sign::Minus } else { Sign::Plus };
        let magnitude = match u64::try_from(self.exponent) {
            Ok(shift) => &self.magnitude << shift,
            Err(_) => &self.magnitude >> self.exponent.unsigned_abs(),
        };
        BigInt::from_biguint(sign, magnitude)
    }
}

/// Rounds to the precision, brings into normal form and checks the range.
fn build(
    negative: bool,
    magnitude: BigUint,
    exponent: i64,
    precision: u16,
) -> Result<Number, NumberError> {
    let (mut magnitude, mut exponent) = round(magnitude, exponent, u64::from(precision));
    let Some(zeros) = magnitude.trailing_zeros() else {
        return Ok(Number(Form::Small { value: 0, precision }));
    };
    if zeros > 0 {
        magnitude >>= zeros;
        exponent += i64::try_from(zeros).unwrap_or(0);
    }
    let top = exponent + i64::try_from(magnitude.bits()).unwrap_or(i64::MAX / 2);
    if !(-MAX_EXPONENT..=MAX_EXPONENT).contains(&top) {
        return Err(NumberError::OutOfRange);
    }
    if exponent >= 0 && top <= i64::from(precision).min(62) {
        let value = i64::try_from(magnitude << exponent.unsigned_abs()).unwrap_or(i64::MAX);
        let value = if negative { -value } else { value };
        return Ok(Number(Form::Small { value, precision }));
    }
    Ok(Number(Form::Large(Arc::new(Float { negative, magnitude, exponent, precision }))))
}

/// To the nearest with so many bits; ties go to the even one.
fn round(magnitude: BigUint, exponent: i64, precision: u64) -> (BigUint, i64) {
    let Some(shift) = magnitude.bits().checked_sub(precision).filter(|&shift| shift > 0) else {
        return (magnitude, exponent);
    };
    let kept = &magnitude >> shift;
    let lost = &magnitude - (&kept << shift);
    let up = match lost.cmp(&(BigUint::from(1u8) << (shift - 1))) {
        Ordering::Less => false,
        Ordering::Equal => kept.bit(0),
        Ordering::Greater => true,
    };
    (kept + u8::from(up), exponent + i64::try_from(shift).unwrap_or(i64::MAX / 2))
}

fn parse_decimal(text: &str) -> Result<Number, NumberError> {
    if text.len() > MAX_LITERAL {
        return Err(match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => NumberError::OutOfRange,
            false => NumberError::NotANumber,
        });
    }
    let (negative, rest) = split_sign(text);
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 {
        return Err(NumberError::NotANumber);
    }
    let digits = format!("{whole}{fraction}");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NumberError::NotANumber);
    }
    let digits = BigUint::parse_bytes(digits.as_bytes(), 10).ok_or(NumberError::NotANumber)?;
    let exponent = exponent.saturating_sub(i64::try_from(fraction.len()).unwrap_or(0));
    from_decimal(negative, digits, exponent)
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn parse_exponent(text: &str) -> Result<i64, NumberError> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NumberError::NotANumber);
    }
    let value = digits.bytes().fold(0i64, |sum, digit| {
        sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')).min(i64::MAX / 4)
    });
    Ok(if negative { -value } else { value })
}

/// `digits · 10^exponent`, correctly rounded.
fn from_decimal(negative: bool, digits: BigUint, exponent: i64) -> Result<Number, NumberError> {
    if digits == BigUint::ZERO {
        return Ok(Number(Form::Small { value: 0, precision: WRITTEN }));
    }
    let reach = MAX_EXPONENT + i64::try_from(MAX_LITERAL).unwrap_or(0);
    if exponent.abs() > reach {
        return Err(NumberError::OutOfRange);
    }
    let power = u32::try_from(exponent.unsigned_abs()).map_err(|_| NumberError::OutOfRange)?;
    let scale = BigUint::from(5u8).pow(power);
    if exponent >= 0 {
        return build(negative, digits * scale, exponent, WRITTEN);
    }
    let shift = u64::from(WRITTEN) + 2 + scale.bits();
    let dividend = digits << shift;
    let quotient = &dividend / &scale;
    let exact = &quotient * &scale == dividend;
    let quotient = (quotient << 1u8) | BigUint::from(u8::from(!exact));
    build(negative, quotient, exponent - i64::try_from(shift).unwrap_or(0) - 1, WRITTEN)
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Form::Small { value: left, .. }, Form::Small { value: right, .. }) =
            (&self.0, &other.0)
        {
            return left.cmp(right);
        }
        let (left, right) = (self.float(), other.float());
        let exponent = left.exponent.min(right.exponent);
        left.signed(exponent).cmp(&right.signed(exponent))
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self::integer(value)
    }
}
