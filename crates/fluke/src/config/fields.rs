//! Kinds of attributes that more than one block has.

use std::path::PathBuf;
use std::time::Duration;

use fluke_manifest::hcl::ast::Block;
use fluke_manifest::hcl::decode::{Evaluate, Field, Fields, Mistake};
use fluke_manifest::hcl::problem::Problem;
use fluke_model::id::{LabelKey, LabelValue, check_name};
use fluke_model::label::Labels;
use fluke_model::secret::Secret;

use crate::logging::{Level, LogConfig, LogFormat};

/// A path.
pub fn path(name: &'static str) -> Field<PathBuf> {
    Field::nonempty_string(name).then(|text| Ok(PathBuf::from(text)))
}

/// A path that means the same wherever the program was started.
pub fn absolute_path(name: &'static str) -> Field<PathBuf> {
    path(name).then(|path| match path.is_absolute() {
        true => Ok(path),
        false => Err(Mistake::value("it is not an absolute path").help("let it begin with `/`")),
    })
}

/// An address of the web.
pub fn url(name: &'static str, schemes: &'static [&'static str]) -> Field<String> {
    secret_url(name, schemes).then(|url| Ok(url.expose().to_owned()))
}

/// An address that mail goes to.
pub fn email(name: &'static str) -> Field<String> {
    Field::nonempty_string(name).then(|text| {
        let is_plain = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        match text.split_once('@') {
            Some((whose, host)) if is_plain(whose) && is_host_name(host) => Ok(text),
            _ => Err(Mistake::value("it is not an address for mail")
                .help("write it like \"ops@example.com\"")),
        }
    })
}

/// A text that is not to be shown, not even when it is wrong.
pub fn secret(name: &'static str) -> Field<Secret> {
    Field::nonempty_string(name).then(|text| Ok(Secret::new(text)))
}

/// Several of them, none empty.
pub fn secrets(name: &'static str) -> Field<Vec<Secret>> {
    Field::strings(name).each(|_, text| match text.trim().is_empty() {
        true => Err(Mistake::value("a token must not be empty")),
        false => Ok(Secret::new(text)),
    })
}

/// An address of the web that may hold a secret: what is wrong is said without it.
pub fn secret_url(name: &'static str, schemes: &'static [&'static str]) -> Field<Secret> {
    Field::nonempty_string(name).then(move |text| match reqwest::Url::parse(&text) {
        Ok(url) if schemes.contains(&url.scheme()) && url.has_host() => Ok(Secret::new(text)),
        Ok(_) => Err(Mistake::value(format!("it must begin with {}://", schemes.join(":// or ")))),
        Err(error) => Err(Mistake::value(format!("it is not a URL: {error}"))),
    })
}

/// Labels of a host.
pub fn labels(name: &'static str) -> Field<Labels> {
    let key = |key: &str| LabelKey::new(key).map_err(Mistake::of);
    let value = |key: &str, value| {
        LabelValue::new(value).map_err(|error| Mistake::value(format!("label {key}: {error}")))
    };
    Field::string_map(name).entries(key, value).then(|labels| Ok(Labels(labels)))
}

/// Words that keep to the grammar of names.
pub fn names(name: &'static str, what: &'static str) -> Field<Vec<String>> {
    Field::strings(name)
        .each(move |_, name| check_name(what, &name).map(|()| name).map_err(Mistake::of))
}

/// Names of hosts, as they stand in an address between scheme and port; given in lower case.
pub fn host_names(name: &'static str) -> Field<Vec<String>> {
    Field::strings(name).each(|_, name| match is_host_name(&name) {
        true => Ok(name.trim_end_matches('.').to_ascii_lowercase()),
        false => Err(Mistake::value(format!("`{name}` is not the name of a host"))
            .help("write it like \"fluke.example.com\", without scheme, port, path and `*`")),
    })
}

fn is_host_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| !label.is_empty() && label.len() <= 63 && label.bytes().all(fits);
    name.len() <= 253 && name.split('.').all(is_label)
}

/// A duration that is worth waiting for.
pub fn at_least_a_second(name: &'static str) -> Field<Duration> {
    Field::duration(name).then(|duration| match duration < Duration::from_secs(1) {
        true => Err(Mistake::value("it must be at least \"1s\"")),
        false => Ok(duration),
    })
}

/// A port to listen on.
pub fn port(name: &'static str) -> Field<u16> {
    Field::integer(name, 1..=65535).then(|number| Ok(number as u16))
}

/// `log { … }`
pub fn log(block: &Block, evaluate: Evaluate<'_>, problems: &mut Vec<Problem>) -> LogConfig {
    let mut fields = Fields::of_block(block, evaluate, problems);
    let log = LogConfig {
        level: fields.or(Field::word("level", Level::ALL), Level::default()),
        format: fields.or(Field::word("format", LogFormat::ALL), LogFormat::default()),
    };
    fields.finish();
    log
}
