//! What plain text in YAML stands for.

use crate::hcl::number::Number;
use crate::hcl::value::Value;

/// The value of a scalar, by its tag or, without one, by its looks.
pub(super) fn resolve(text: &str, is_quoted: bool, tag: Option<&str>) -> Result<Value, String> {
    match tag {
        Some("str" | "binary") => return Ok(Value::string(text)),
        Some("bool" | "int" | "float" | "null" | "timestamp") | None => {}
        Some(tag) => return Err(format!("the tag `!!{tag}` is not known")),
    }
    if is_quoted {
        return Ok(Value::string(text));
    }
    if let Some(word) = word(text) {
        return Ok(word);
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") || text.to_ascii_lowercase().ends_with(".inf") {
        return Err(format!("`{text}` is no number that can be computed with"));
    }
    if matches!(tag, None | Some("timestamp"))
        && let Some(time) = timestamp(text)
    {
        return Ok(Value::string(time));
    }
    match (number(text, tag), tag) {
        (Some(number), None | Some("int" | "float")) => Ok(number),
        (_, None) => Ok(Value::string(text)),
        (_, Some("null")) => Ok(Value::NULL),
        (_, Some(tag)) => Err(format!("`{text}` is no {tag}")),
    }
}

fn word(text: &str) -> Option<Value> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::NULL,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        _ => return None,
    })
}

fn number(text: &str, tag: Option<&str>) -> Option<Value> {
    let first = text.bytes().next()?;
    let looks_like = first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.');
    if !looks_like {
        return None;
    }
    let radix = match (text.get(..2), tag) {
        (Some("0x"), _) => Some(16),
        (Some("0o"), _) => Some(8),
        _ => None,
    };
    if let Some(radix) = radix {
        let digits = text.get(2..).filter(|digits| !digits.starts_with(['+', '-']))?;
        let value = u64::from_str_radix(digits, radix).ok()?;
        return Number::big_integer(&value.into()).ok().map(Value::Number);
    }
    let plain = if tag.is_some() { text.replace('_', "") } else { text.to_string() };
    Number::parse(&plain).ok().map(Value::Number)
}

/// Dates and times, in the form that RFC 3339 gives them.
fn timestamp(text: &str) -> Option<String> {
    let (year, rest) = text.split_once('-')?;
    if year.len() != 4 {
        return None;
    }
    let (month, rest) = rest.split_once('-')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, time) = rest.split_at(end);
    let date = date(digits(year, 4)?, digits(month, 2)?, digits(day, 2)?)?;
    if time.is_empty() {
        return Some(format!("{date}T00:00:00Z"));
    }
    let (separator, time) = time.split_at(1);
    let (clock, zone) = match separator {
        " " => (time, "Z".to_string()),
        "T" | "t" => split_zone(time)?,
        _ => return None,
    };
    Some(format!("{date}T{}{zone}", clock_of(clock)?))
}

fn digits(text: &str, most: usize) -> Option<u32> {
    let fits = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

fn date(year: u32, month: u32, day: u32) -> Option<String> {
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

fn clock_of(text: &str) -> Option<String> {
    let mut parts = text.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let second = match second.split_once('.') {
        Some((second, fraction)) => {
            digits(fraction, 9)?;
            second
        }
        None => second,
    };
    let (hour, minute, second) = (digits(hour, 2)?, digits(minute, 2)?, digits(second, 2)?);
    let fits = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    fits.then(|| format!("{hour:02}:{minute:02}:{second:02}"))
}

fn split_zone(text: &str) -> Option<(&str, String)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, "Z".into()));
    }
    let (clock, zone) = text.split_at(text.find(['+', '-'])?);
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let fits = hours.len() == 2 && minutes.len() == 2;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    if !fits || hours > 24 || minutes >= 60 {
        return None;
    }
    let zone = if hours + minutes == 0 { "Z".into() } else { zone.to_string() };
    Some((clock, zone))
}
