//! How much of everything a service may have. A manifest is held to these when its commit is read, and
//! the wire when a message comes in: what is accepted in Git arrives on a host.

use std::fmt::Display;

use crate::service::ContainerSpec;

/// The most replicas that one service may have, that all services may have together (one that every
/// matching host has counts as one), and so the most that one host can be given.
pub const MAX_REPLICAS: u32 = 10_000;
/// The most deployments that a host speaks of: all replicas that it can be given, and as many that
/// they take over from.
pub const MAX_DEPLOYMENTS: usize = 2 * MAX_REPLICAS as usize;
/// The most words of a command.
pub const MAX_WORDS: usize = 1000;
/// The most variables.
pub const MAX_ENV: usize = 1000;
/// The most volumes.
pub const MAX_VOLUMES: usize = 64;
/// The most volumes of numbered replicas that a host speaks of.
pub const MAX_VOLUMES_OF_HOST: usize = 10_000;
/// The most places where volumes of one service are that hosts tell each other of.
pub const MAX_PLACES: usize = 20_000;
/// The most ports.
pub const MAX_PORTS: usize = 1000;
/// The most rows that a table may have; so the most ports of all services together.
pub const MAX_ROWS: usize = 100_000;
/// The most addresses that a name or a route leads to: more than there are hosts.
pub const MAX_ADDRESSES: usize = 100_000;
/// Bytes of an image's name.
pub const MAX_IMAGE: usize = 1024;
/// Bytes of a domain.
pub const MAX_DOMAIN: usize = 253;
/// Bytes of a path in a container, as Linux has it.
pub const MAX_PATH: usize = 4096;
/// Bytes of a word of a command, of a variable's name or value, of a health command.
pub const MAX_TEXT: usize = 64 * 1024;
/// Bytes of all that a container is made from.
pub const MAX_SPEC: usize = 1024 * 1024;

/// What there is too much of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// Too many of something.
    #[error("{what} has {count} entries; at most {most} are accepted")]
    Many {
        /// Of what.
        what: String,
        /// So many.
        count: usize,
        /// May be.
        most: usize,
    },
    /// A text that is too long.
    #[error("{what} has {bytes} bytes; at most {most} are accepted")]
    Long {
        /// Which.
        what: String,
        /// So long.
        bytes: usize,
        /// May be.
        most: usize,
    },
}

/// Accepts so many of something.
pub fn many(what: impl Into<String>, count: usize, most: usize) -> Result<(), Excess> {
    match count <= most {
        true => Ok(()),
        false => Err(Excess::Many { what: what.into(), count, most }),
    }
}

/// Accepts a text of this length.
pub fn long(what: impl Display, text: &str, most: usize) -> Result<(), Excess> {
    match text.len() <= most {
        true => Ok(()),
        false => Err(Excess::Long { what: what.to_string(), bytes: text.len(), most }),
    }
}

/// Accepts a command.
pub fn words(words: &[String]) -> Result<(), Excess> {
    many("command", words.len(), MAX_WORDS)?;
    words.iter().enumerate().try_for_each(|(n, it)| word(n, it))
}

/// Accepts one word of a command, counted from 0.
pub fn word(n: usize, word: &str) -> Result<(), Excess> {
    long(format_args!("its word {}", n + 1), word, MAX_TEXT)
}

/// Accepts variables.
pub fn env<'a>(env: impl ExactSizeIterator<Item = (&'a String, &'a String)>) -> Result<(), Excess> {
    many("env", env.len(), MAX_ENV)?;
    env.into_iter().try_for_each(|(name, value)| {
        variable(name)?;
        value_of(name, value)
    })
}

/// Accepts a variable's name.
pub fn variable(name: &str) -> Result<(), Excess> {
    long("a variable's name", name, MAX_TEXT)
}

/// Accepts a variable's value.
pub fn value_of(name: &str, value: &str) -> Result<(), Excess> {
    long(format_args!("the value of `{name}`"), value, MAX_TEXT)
}

/// Accepts all that a container is made from.
pub fn container(spec: &ContainerSpec) -> Result<(), Excess> {
    long("image", &spec.image, MAX_IMAGE)?;
    spec.command.as_deref().map_or(Ok(()), words)?;
    env(spec.env.iter())?;
    many("volumes", spec.volumes.len(), MAX_VOLUMES)?;
    spec.volumes.values().try_for_each(|path| long("a volume's path", path, MAX_PATH))?;
    spec.health.iter().try_for_each(|health| long("health.command", &health.command, MAX_TEXT))?;
    let bytes = size(spec);
    match bytes <= MAX_SPEC {
        true => Ok(()),
        false => Err(Excess::Long { what: "all of it together".into(), bytes, most: MAX_SPEC }),
    }
}

/// Bytes of all texts of a container.
fn size(spec: &ContainerSpec) -> usize {
    let pair = |(name, value): (&String, &String)| name.len() + value.len();
    spec.image.len()
        + spec.command.iter().flatten().map(String::len).sum::<usize>()
        + spec.env.iter().map(pair).sum::<usize>()
        + spec.volumes.iter().map(|(name, path)| name.as_str().len() + path.len()).sum::<usize>()
        + spec.health.iter().map(|health| health.command.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::VolumeName;
    use crate::service::{HealthSpec, Resources};

    fn x(count: usize) -> String {
        "x".repeat(count)
    }

    fn spec() -> ContainerSpec {
        ContainerSpec {
            image: "web:1".into(),
            command: None,
            env: [].into(),
            volumes: [].into(),
            health: None,
            resources: Resources::default(),
        }
    }

    #[test]
    fn of_everything_there_may_be_so_much_and_no_more() {
        let health = |command| HealthSpec {
            command,
            interval_ms: 1,
            timeout_ms: 1,
            retries: 1,
            start_period_ms: 1,
        };
        let volume = |n: usize, path| (VolumeName::new(format!("v{n}")).expect("a name"), path);
        type Make<'a> = &'a dyn Fn(usize) -> ContainerSpec;
        let rows: [(&str, usize, Make<'_>); 8] = [
            ("image", MAX_IMAGE, &|it| ContainerSpec { image: x(it), ..spec() }),
            ("command", MAX_WORDS, &|it| ContainerSpec { command: Some(vec![x(1); it]), ..spec() }),
            ("word", MAX_TEXT, &|it| ContainerSpec { command: Some(vec![x(it)]), ..spec() }),
            ("env", MAX_ENV, &|it| ContainerSpec {
                env: (0..it).map(|n| (n.to_string(), x(1))).collect(),
                ..spec()
            }),
            ("value", MAX_TEXT, &|it| ContainerSpec { env: [(x(1), x(it))].into(), ..spec() }),
            ("volumes", MAX_VOLUMES, &|it| ContainerSpec {
                volumes: (0..it).map(|n| volume(n, x(1))).collect(),
                ..spec()
            }),
            ("path", MAX_PATH, &|it| ContainerSpec {
                volumes: [volume(0, x(it))].into(),
                ..spec()
            }),
            ("health", MAX_TEXT, &|it| ContainerSpec { health: Some(health(x(it))), ..spec() }),
        ];
        for (what, most, make) in rows {
            assert_eq!(container(&make(most)), Ok(()), "{what}");
            assert!(container(&make(most + 1)).is_err(), "{what}");
        }
        let large = |it| {
            let env = (0..16).map(|n| (n.to_string(), x(it))).collect();
            ContainerSpec { env, ..spec() }
        };
        assert_eq!(container(&large(MAX_TEXT - 2)), Ok(()));
        let excess = container(&large(MAX_TEXT)).expect_err("all together is too much");
        assert_eq!(
            excess.to_string(),
            "all of it together has 1048603 bytes; at most 1048576 are accepted"
        );
    }
}
