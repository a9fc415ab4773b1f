//! `format` and `formatlist`.

use unicode_segmentation::UnicodeSegmentation;

use super::{Failure, Function, Parameter, Wanted, check_size, text};
use crate::hcl::convert::{convert, to_text};
use crate::hcl::number::Number;
use crate::hcl::scope::Scope;
use crate::hcl::types::Type;
use crate::hcl::value::{Value, write_quoted};

type Outcome<T = Value> = Result<T, Failure>;

const FORMAT: &[Parameter] = &[Parameter::new("format", Wanted::String)];
const ARGS: Parameter = Parameter::new("args", Wanted::Any).or_null();

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("format", FORMAT, format).with_rest(ARGS),
    Function::new("formatlist", FORMAT, formatlist).with_rest(ARGS),
];

/// No width or precision may be larger.
const MAX_WIDTH: usize = 100_000;

fn format(args: &[Value], _: &Scope) -> Outcome {
    let values: Vec<&Value> = args.iter().skip(1).collect();
    Ok(Value::string(write(text(args, 0), &values)?))
}

/// Once for each element; what is no sequence is the same each time.
fn formatlist(args: &[Value], scope: &Scope) -> Outcome {
    let format = text(args, 0);
    let mut length: Option<(usize, usize)> = None;
    for (index, arg) in args.iter().enumerate().skip(1) {
        let Some(items) = arg.as_items() else {
            continue;
        };
        match length {
            Some((first, wanted)) if wanted != items.len() => {
                let given = items.len();
                return Err(Failure::of(
                    index,
                    format!(
                        "it has {given} elements, but argument {first} has {wanted}; all lists \
                         must be equally long"
                    ),
                ));
            }
            Some(_) => {}
            None => length = Some((index, items.len())),
        }
    }
    let rounds = length.map_or(1, |(_, length)| length);
    let mut results = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let values: Vec<&Value> = args
            .iter()
            .skip(1)
            .map(|arg| arg.as_items().and_then(|items| items.get(round)).unwrap_or(arg))
            .collect();
        let result = write(format, &values).map_err(|failure| {
            Failure::new(format!("with the elements at {round}: {}", failure.message))
        })?;
        scope.budget.bytes(32 + result.len() as u64)?;
        scope.budget.work(1 + result.len() as u64 / 64)?;
        results.push(Value::string(result));
    }
    Ok(Value::list(Type::String, results))
}

/// `%[flags][width][.precision][[index]]letter`
#[derive(Default)]
struct Verb {
    sharp: bool,
    zero: bool,
    minus: bool,
    plus: bool,
    space: bool,
    width: Option<usize>,
    precision: Option<usize>,
    letter: char,
    written: String,
}

fn write(format: &str, values: &[&Value]) -> Outcome<String> {
    let mut result = String::new();
    let mut rest = format;
    let (mut next, mut highest) = (1, 0);
    while let Some((before, after)) = rest.split_once('%') {
        result.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            result.push('%');
            rest = after;
            continue;
        }
        let mut reader = Reader { rest: after, index: next };
        let verb = reader.verb()?;
        let index = reader.index;
        highest = highest.max(index);
        next = index + 1;
        rest = reader.rest;
        let value = values.get(index - 1).ok_or_else(|| {
            Failure::new(format!(
                "`{}` needs a value at {index}, but there are only {}",
                verb.written,
                values.len()
            ))
        })?;
        verb.write(value, &mut result)?;
        check_size(result.len())?;
    }
    result.push_str(rest);
    match highest < values.len() {
        true => Err(Failure::of(
            highest + 1,
            format!("there are {} values, but the format uses only {highest}", values.len()),
        )),
        false => Ok(result),
    }
}

struct Reader<'f> {
    rest: &'f str,
    index: usize,
}

impl Reader<'_> {
    fn verb(&mut self) -> Outcome<Verb> {
        let start = self.rest;
        let mut verb = Verb::default();
        self.flags(&mut verb);
        verb.width = self.digits()?;
        if let Some(rest) = self.rest.strip_prefix('.') {
            self.rest = rest;
            verb.precision = Some(self.digits()?.unwrap_or(0));
        }
        if let Some(rest) = self.rest.strip_prefix('[') {
            self.rest = rest;
            let index = self.digits()?.filter(|index| *index > 0);
            let closed = self.rest.strip_prefix(']');
            let (Some(index), Some(rest)) = (index, closed) else {
                return Err(Failure::of(0, "`%[` needs a number from 1 on and `]`"));
            };
            self.index = index;
            self.rest = rest;
        }
        let letter = self.rest.chars().next();
        verb.letter = letter
            .ok_or_else(|| Failure::of(0, "the format ends within a `%`; write `%%` for itself"))?;
        self.rest = &self.rest[verb.letter.len_utf8()..];
        verb.written = format!("%{}", &start[..start.len() - self.rest.len()]);
        Ok(verb)
    }

    fn flags(&mut self, verb: &mut Verb) {
        while let Some(flag) = self.rest.bytes().next() {
            match flag {
                b'#' => verb.sharp = true,
                b'0' => verb.zero = true,
                b'-' => verb.minus = true,
                b'+' => verb.plus = true,
                b' ' => verb.space = true,
                _ => return,
            }
            self.rest = &self.rest[1..];
        }
    }

    fn digits(&mut self) -> Outcome<Option<usize>> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse() {
            Ok(number) if number <= MAX_WIDTH => Ok(Some(number)),
            _ => Err(Failure::of(0, format!("{digits} is too large a number for a format"))),
        }
    }
}

impl Verb {
    fn write(&self, value: &Value, result: &mut String) -> Outcome<()> {
        if value.is_null() && self.letter != 'v' {
            return Err(self.unfit("null cannot be formatted"));
        }
        let written = match self.letter {
            'v' => self.pad(self.as_is(value)),
            't' => match convert(value, &Type::Bool) {
                Ok(Value::Bool(truth)) => truth.to_string(),
                Ok(_) => return Err(self.unfit("a bool is required")),
                Err(error) => return Err(self.unfit(&error.to_string())),
            },
            's' | 'q' => self.string(value)?,
            'b' | 'd' | 'o' | 'x' | 'X' | 'e' | 'E' | 'f' | 'g' | 'G' => self.number(value)?,
            letter => {
                return Err(Failure::of(
                    0,
                    format!("`{}` is not known: there is no `%{letter}`", self.written),
                ));
            }
        };
        result.push_str(&written);
        Ok(())
    }

    fn unfit(&self, reason: &str) -> Failure {
        Failure::new(format!("the value for `{}` does not fit: {reason}", self.written))
    }

    fn as_is(&self, value: &Value) -> String {
        match value {
            Value::String(text) if !self.sharp => text.to_string(),
            Value::Number(number) if !self.sharp => number.to_general(None),
            _ => value.to_json_string(),
        }
    }

    fn string(&self, value: &Value) -> Outcome<String> {
        let text = to_text(value).map_err(|error| self.unfit(&error.to_string()))?;
        let kept = match self.precision {
            Some(most) if most > 0 => text.graphemes(true).take(most).collect(),
            _ => text.to_string(),
        };
        if self.letter == 's' {
            return Ok(self.pad(kept));
        }
        let mut quoted = String::new();
        write_quoted(&kept, &mut quoted);
        Ok(self.pad(quoted))
    }

    fn pad(&self, text: String) -> String {
        let missing = self.width.unwrap_or(0).saturating_sub(text.graphemes(true).count());
        let padding = if self.zero { "0" } else { " " }.repeat(missing);
        if self.minus { text + &padding } else { padding + &text }
    }

    fn number(&self, value: &Value) -> Outcome<String> {
        let number = match convert(value, &Type::Number) {
            Ok(Value::Number(number)) => number,
            Ok(_) => return Err(self.unfit("a number is required")),
            Err(error) => return Err(self.unfit(&error.to_string())),
        };
        let negative = number.sign().is_lt();
        let digits = match self.letter {
            'b' | 'd' | 'o' | 'x' | 'X' => self.integer(&number)?,
            _ => self.float(&number.absolute()),
        };
        Ok(self.sign_and_pad(negative, digits))
    }

    fn integer(&self, number: &Number) -> Outcome<String> {
        let whole = number.to_big_integer();
        let whole = whole.ok_or_else(|| self.unfit("a whole number is required"))?;
        let magnitude = whole.magnitude();
        let (radix, prefix) = match self.letter {
            'b' => (2, "0b"),
            'o' => (8, "0"),
            'x' => (16, "0x"),
            'X' => (16, "0X"),
            _ => (10, ""),
        };
        let mut digits = magnitude.to_str_radix(radix);
        if self.letter == 'X' {
            digits.make_ascii_uppercase();
        }
        if let Some(least) = self.precision {
            digits = match (least, digits.as_str()) {
                (0, "0") => String::new(),
                _ => format!("{}{digits}", "0".repeat(least.saturating_sub(digits.len()))),
            };
        }
        Ok(if self.sharp { format!("{prefix}{digits}") } else { digits })
    }

    fn float(&self, number: &Number) -> String {
        let text = match self.letter {
            'f' => number.to_fixed(self.precision.unwrap_or(6)),
            'e' | 'E' => number.to_scientific(Some(self.precision.unwrap_or(6))),
            _ => number.to_general(self.precision),
        };
        if self.letter.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text }
    }

    /// Zeros go between sign and digits, spaces in front of the sign.
    fn sign_and_pad(&self, negative: bool, digits: String) -> String {
        let sign = match () {
            () if negative => "-",
            () if self.plus => "+",
            () if self.space => " ",
            () => "",
        };
        let missing = self.width.unwrap_or(0).saturating_sub(sign.len() + digits.len());
        let whole_with_precision = self.precision.is_some() && "bdoxX".contains(self.letter);
        match () {
            () if self.minus => format!("{sign}{digits}{}", " ".repeat(missing)),
            () if self.zero && !whole_with_precision => {
                format!("{sign}{}{digits}", "0".repeat(missing))
            }
            () => format!("{}{sign}{digits}", " ".repeat(missing)),
        }
    }
}
