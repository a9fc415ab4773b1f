//! Numbers as text: the shortest that reads back as the same, or a fixed number of digits.

use std::fmt;

use num_bigint::BigUint;

use super::{Float, Form, Number};

/// `0.digits · 10^point`, exact, without zeros at the end.
struct Decimal {
    digits: Vec<u8>,
    point: i64,
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Small { value, .. } => value.fmt(formatter),
            Form::Large(float) => {
                let decimal = shortest(float);
                let places = decimal.places();
                formatter.write_str(sign(float))?;
                formatter.write_str(&decimal.fixed(places))
            }
        }
    }
}

impl Number {
    /// Like C's `%f`: so many digits behind the point.
    pub fn to_fixed(&self, places: usize) -> String {
        let float = self.float();
        let mut decimal = Decimal::of(&float.magnitude, float.exponent);
        let length = decimal.point + i64::try_from(places).unwrap_or(0);
        decimal.round(length);
        format!("{}{}", sign(&float), decimal.fixed(places))
    }

    /// Like C's `%e`: one digit before the point, so many behind, and an exponent. Without a
    /// count, as many as it takes to read back the same number.
    pub fn to_scientific(&self, places: Option<usize>) -> String {
        let float = self.float();
        let mut decimal = match places {
            Some(_) => Decimal::of(&float.magnitude, float.exponent),
            None => shortest(&float),
        };
        if let Some(places) = places {
            decimal.round(i64::try_from(places).unwrap_or(0) + 1);
        }
        let places = places.unwrap_or(decimal.digits.len().saturating_sub(1));
        format!("{}{}", sign(&float), decimal.scientific(places))
    }

    /// Like C's `%g`: whichever of the two forms is shorter, with so many significant digits.
    pub fn to_general(&self, digits: Option<usize>) -> String {
        let float = self.float();
        let mut decimal = match digits {
            Some(_) => Decimal::of(&float.magnitude, float.exponent),
            None => shortest(&float),
        };
        let mut most = 6;
        if let Some(digits) = digits {
            let digits = digits.max(1);
            decimal.round(i64::try_from(digits).unwrap_or(0));
            most = i64::try_from(digits).unwrap_or(i64::MAX);
            let given = i64::try_from(decimal.digits.len()).unwrap_or(i64::MAX);
            if most > given && given >= decimal.point {
                most = given;
            }
        }
        let exponent = decimal.point - 1;
        let text = if !decimal.digits.is_empty() && (exponent < -4 || exponent >= most) {
            decimal.scientific(decimal.digits.len().saturating_sub(1))
        } else {
            decimal.fixed(decimal.places())
        };
        format!("{}{text}", sign(&float))
    }
}

fn sign(float: &Float) -> &'static str {
    if float.negative { "-" } else { "" }
}

/// The fewest digits that, read with the number's own precision, give the number again.
fn shortest(float: &Float) -> Decimal {
    let exact = Decimal::of(&float.magnitude, float.exponent);
    if float.magnitude == BigUint::ZERO {
        return exact;
    }
    // The number in units of half of its last bit; its neighbours are one unit away.
    let wanted = u64::from(float.precision) + 1;
    let shift = wanted.saturating_sub(float.magnitude.bits());
    let middle = &float.magnitude << shift;
    let exponent = float.exponent - i64::try_from(shift).unwrap_or(0);
    let lower = Decimal::of(&(&middle - 1u8), exponent);
    let upper = Decimal::of(&(&middle + 1u8), exponent);
    // Ties are rounded to even, so that an even number also owns its bounds.
    let inclusive = !middle.bit(1);
    exact.shorten(&lower, &upper, inclusive)
}

impl Decimal {
    fn of(magnitude: &BigUint, exponent: i64) -> Self {
        let power = u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX);
        let (digits, behind) = match exponent {
            0.. => ((magnitude << power).to_string(), 0),
            _ => ((magnitude * BigUint::from(5u8).pow(power)).to_string(), exponent.abs()),
        };
        let mut digits = digits.into_bytes();
        let point = i64::try_from(digits.len()).unwrap_or(0) - behind;
        trim(&mut digits);
        let point = if digits.is_empty() { 0 } else { point };
        Self { digits, point }
    }

    /// Digits that stand behind the point.
    fn places(&self) -> usize {
        usize::try_from(i64::try_from(self.digits.len()).unwrap_or(0) - self.point).unwrap_or(0)
    }

    fn digit(&self, index: i64) -> u8 {
        let index = usize::try_from(index).ok();
        index.and_then(|index| self.digits.get(index)).copied().unwrap_or(b'0')
    }

    fn shorten(mut self, lower: &Self, upper: &Self, inclusive: bool) -> Self {
        for index in 0..self.digits.len() {
            let place = i64::try_from(index).unwrap_or(0);
            let (low, here, high) = (lower.digit(place), self.digits[index], upper.digit(place));
            let down = low != here || (inclusive && index + 1 == lower.digits.len());
            let up =
                here != high && (inclusive || here + 1 < high || index + 1 < upper.digits.len());
            match (down, up) {
                (true, true) => self.round(place + 1),
                (true, false) => self.cut(index + 1),
                (false, true) => self.raise(index + 1),
                (false, false) => continue,
            }
            return self;
        }
        self
    }

    /// To so many digits; ties go to the even one.
    fn round(&mut self, length: i64) {
        let Ok(keep) = usize::try_from(length) else {
            self.cut(0);
            return;
        };
        if keep >= self.digits.len() {
            return;
        }
        let tie = self.digits[keep] == b'5' && keep + 1 == self.digits.len();
        let up = match tie {
            true => keep > 0 && (self.digits[keep - 1] - b'0') % 2 == 1,
            false => self.digits[keep] >= b'5',
        };
        if up { self.raise(keep) } else { self.cut(keep) }
    }

    fn cut(&mut self, keep: usize) {
        self.digits.truncate(keep);
        trim(&mut self.digits);
        if self.digits.is_empty() {
            self.point = 0;
        }
    }

    fn raise(&mut self, keep: usize) {
        self.digits.truncate(keep);
        while self.digits.last() == Some(&b'9') {
            self.digits.pop();
        }
        match self.digits.last_mut() {
            Some(last) => *last += 1,
            None => {
                self.digits.push(b'1');
                self.point += 1;
            }
        }
    }

    fn fixed(&self, places: usize) -> String {
        let mut text = String::new();
        match self.point {
            1.. => (0..self.point).for_each(|index| text.push(char::from(self.digit(index)))),
            _ => text.push('0'),
        }
        if places > 0 {
            text.push('.');
            let places = i64::try_from(places).unwrap_or(0);
            (0..places).for_each(|place| text.push(char::from(self.digit(self.point + place))));
        }
        text
    }

    fn scientific(&self, places: usize) -> String {
        let mut text = String::from(char::from(self.digit(0)));
        if places > 0 {
            text.push('.');
            let places = i64::try_from(places).unwrap_or(0);
            (1..=places).for_each(|place| text.push(char::from(self.digit(place))));
        }
        let exponent = if self.digits.is_empty() { 0 } else { self.point - 1 };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{text}e{sign}{:02}", exponent.abs())
    }
}

fn trim(digits: &mut Vec<u8>) {
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    digits.truncate(end);
}
