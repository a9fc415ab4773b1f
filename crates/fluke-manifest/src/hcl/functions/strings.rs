//! Text.

use unicode_segmentation::UnicodeSegmentation;

use super::{Failure, Function, Parameter, Wanted, check_size, items, text, whole};
use crate::hcl::scope::Scope;
use crate::hcl::value::Value;

type Outcome = Result<Value, Failure>;

const STR: Parameter = Parameter::new("str", Wanted::String);
const SEPARATOR: Parameter = Parameter::new("separator", Wanted::String);

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("chomp", &[STR], chomp),
    Function::new("endswith", &[STR, Parameter::new("suffix", Wanted::String)], endswith),
    Function::new("indent", &[Parameter::new("spaces", Wanted::Number), STR], indent),
    Function::new("join", &[SEPARATOR], join)
        .with_rest(Parameter::new("lists", Wanted::ListOfString)),
    Function::new("lower", &[STR], lower),
    Function::new("split", &[SEPARATOR, STR], split),
    Function::new("startswith", &[STR, Parameter::new("prefix", Wanted::String)], startswith),
    Function::new("strcontains", &[STR, Parameter::new("substr", Wanted::String)], strcontains),
    Function::new("strrev", &[STR], strrev),
    Function::new(
        "substr",
        &[STR, Parameter::new("offset", Wanted::Number), Parameter::new("length", Wanted::Number)],
        substr,
    ),
    Function::new("title", &[STR], title),
    Function::new("trim", &[STR, Parameter::new("cutset", Wanted::String)], trim),
    Function::new("trimprefix", &[STR, Parameter::new("prefix", Wanted::String)], trimprefix),
    Function::new("trimspace", &[STR], trimspace),
    Function::new("trimsuffix", &[STR, Parameter::new("suffix", Wanted::String)], trimsuffix),
    Function::new("upper", &[STR], upper),
];

/// Letter by letter: `ß` stays one letter.
fn upper(args: &[Value], _: &Scope) -> Outcome {
    Ok(text(args, 0).chars().map(|letter| single(letter.to_uppercase(), letter)).collect())
}

fn lower(args: &[Value], _: &Scope) -> Outcome {
    Ok(text(args, 0).chars().map(|letter| single(letter.to_lowercase(), letter)).collect())
}

/// What a letter becomes, where that is one letter again.
fn single(mut becomes: impl Iterator<Item = char>, letter: char) -> char {
    match (becomes.next(), becomes.next()) {
        (Some(only), None) => only,
        // The capital dotted i has a small form that other languages write as one letter.
        _ if letter == 'İ' => 'i',
        _ => letter,
    }
}

impl FromIterator<char> for Value {
    fn from_iter<I: IntoIterator<Item = char>>(letters: I) -> Self {
        Self::string(letters.into_iter().collect::<String>())
    }
}

fn title(args: &[Value], _: &Scope) -> Outcome {
    let mut before = ' ';
    let letters = text(args, 0).chars().map(|letter| {
        let starts = match before.is_ascii() {
            true => !(before.is_ascii_alphanumeric() || before == '_'),
            false => before.is_whitespace(),
        };
        before = letter;
        if starts { single(letter.to_uppercase(), letter) } else { letter }
    });
    Ok(letters.collect())
}

fn strrev(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::string(text(args, 0).graphemes(true).rev().collect::<String>()))
}

fn chomp(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::string(text(args, 0).trim_end_matches(['\r', '\n'])))
}

fn trimspace(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::string(text(args, 0).trim()))
}

fn trim(args: &[Value], _: &Scope) -> Outcome {
    let cutset = text(args, 1);
    Ok(Value::string(text(args, 0).trim_matches(|letter| cutset.contains(letter))))
}

fn trimprefix(args: &[Value], _: &Scope) -> Outcome {
    let string = text(args, 0);
    Ok(Value::string(string.strip_prefix(text(args, 1)).unwrap_or(string)))
}

fn trimsuffix(args: &[Value], _: &Scope) -> Outcome {
    let string = text(args, 0);
    Ok(Value::string(string.strip_suffix(text(args, 1)).unwrap_or(string)))
}

fn startswith(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::Bool(text(args, 0).starts_with(text(args, 1))))
}

fn endswith(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::Bool(text(args, 0).ends_with(text(args, 1))))
}

fn strcontains(args: &[Value], _: &Scope) -> Outcome {
    Ok(Value::Bool(text(args, 0).contains(text(args, 1))))
}

fn indent(args: &[Value], _: &Scope) -> Outcome {
    let spaces = usize::try_from(whole(args, 0)?)
        .map_err(|_| Failure::of(0, "the number of spaces must not be negative"))?;
    let string = text(args, 1);
    let lines = string.matches('\n').count();
    check_size(string.len().saturating_add(lines.saturating_mul(spaces)))?;
    check_size(spaces)?;
    Ok(Value::string(string.replace('\n', &format!("\n{}", " ".repeat(spaces)))))
}

fn split(args: &[Value], _: &Scope) -> Outcome {
    let (separator, string) = (text(args, 0), text(args, 1));
    if separator.is_empty() {
        let mut buffer = [0; 4];
        return Ok(Value::strings(
            string.chars().map(|it| it.encode_utf8(&mut buffer).to_string()),
        ));
    }
    Ok(Value::strings(string.split(separator)))
}

fn join(args: &[Value], _: &Scope) -> Outcome {
    if args.len() < 2 {
        return Err(Failure::new("at least one list is required"));
    }
    let separator = text(args, 0);
    let mut pieces = Vec::new();
    for index in 1..args.len() {
        for (place, item) in items(args, index).iter().enumerate() {
            let piece = item.as_str().ok_or_else(|| {
                Failure::of(index, format!("element {place} is null; null cannot be joined"))
            })?;
            pieces.push(piece);
        }
    }
    let letters: usize = pieces.iter().map(|piece| piece.len()).sum();
    check_size(letters.saturating_add(separator.len().saturating_mul(pieces.len())))?;
    Ok(Value::string(pieces.join(separator)))
}

/// Counts what people see as one character. A negative offset counts from the end, a negative
/// length takes all the rest.
fn substr(args: &[Value], _: &Scope) -> Outcome {
    let string = text(args, 0);
    let (mut offset, length) = (whole(args, 1)?, whole(args, 2)?);
    if offset < 0 {
        let count = i64::try_from(string.graphemes(true).count()).unwrap_or(i64::MAX);
        offset = offset.saturating_add(count);
    } else if length == 0 {
        return Ok(Value::from(""));
    }
    let skip = usize::try_from(offset).unwrap_or(0);
    let rest = string.graphemes(true).skip(skip);
    // Behind a negative offset, a length of zero takes everything too.
    let take = usize::try_from(length).ok().filter(|take| *take > 0).unwrap_or(usize::MAX);
    Ok(Value::string(rest.take(take).collect::<String>()))
}
