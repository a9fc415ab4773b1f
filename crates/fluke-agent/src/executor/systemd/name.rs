//! Unit names: what systemd takes for one, and where it keeps the unit on the bus.

/// A name that systemd will take: checked here, because one bad name among many would spoil the
/// answer for all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitName(String);

/// The longest name there can be.
const LONGEST: usize = 255;

impl UnitName {
    /// Takes a full name, with its suffix; the error is for people.
    pub fn parse(name: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("`{name}` cannot be a unit's name: {why}"));
        let Some((stem, suffix)) = name.rsplit_once('.') else {
            return wrong("it has no suffix such as `.service`");
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
        if let Some(odd) = name.chars().find(|c| !allowed(*c)) {
            return wrong(&format!(
                "`{odd}` is not allowed in it (`systemd-escape` writes it so that it is)"
            ));
        }
        match stem.split_once('@') {
            _ if name.len() > LONGEST => wrong("it is longer than 255 characters"),
            _ if stem.is_empty() || suffix.is_empty() => {
                wrong("there is nothing before its suffix")
            }
            Some(("", _)) => wrong("there is nothing before its `@`"),
            Some((template, "")) => Err(format!(
                "`{name}` is a template, and only its instances can run; name one, such as \
                 `{template}@1.{suffix}`"
            )),
            _ => Ok(Self(name.to_owned())),
        }
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What comes behind the last dot.
    pub fn kind(&self) -> &str {
        kind(&self.0)
    }

    /// The name of the file that an instance is made from; the name itself for other units.
    pub fn file(&self) -> String {
        match self.0.split_once('@') {
            Some((template, _)) => format!("{template}@.{}", self.kind()),
            None => self.0.clone(),
        }
    }
}

impl std::fmt::Display for UnitName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What comes behind the last dot of a unit's name.
pub fn kind(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, kind)| kind)
}

/// Where systemd shows the unit of this name on the bus.
pub fn object_path(name: &str) -> String {
    let mut path = String::from("/org/freedesktop/systemd1/unit/");
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'0'..=b'9' if at == 0 => path.push_str(&format!("_{byte:02x}")),
            byte if byte.is_ascii_alphanumeric() => path.push(byte as char),
            byte => path.push_str(&format!("_{byte:02x}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_systemd_takes_are_sent_to_it() {
        for (name, problem) in [
            ("nginx.service", ""),
            ("getty@tty1.service", ""),
            ("dev-disk-by\\x2dlabel.swap", ""),
            ("-.mount", ""),
            ("dbus-org.example.Hello.service", ""),
            ("nginx", "it has no suffix"),
            (".service", "nothing before its suffix"),
            ("@a.service", "nothing before its `@`"),
            ("a b.service", "` ` is not allowed in it"),
            ("a/b.service", "`/` is not allowed in it"),
            ("é.service", "`é` is not allowed"),
            (
                "foo@.service",
                "is a template, and only its instances can run; name one, such as `foo@1.service`",
            ),
        ] {
            match UnitName::parse(name) {
                Ok(parsed) => assert_eq!((parsed.as_str(), problem), (name, "")),
                Err(said) => assert!(!problem.is_empty() && said.contains(problem), "{said}"),
            }
        }
        assert!(UnitName::parse(&format!("{}.service", "x".repeat(250))).is_err());
    }

    #[test]
    fn an_instance_comes_from_its_templates_file() {
        for (name, file) in
            [("a@b.service", "a@.service"), ("a@b@c.timer", "a@.timer"), ("a.b.path", "a.b.path")]
        {
            assert_eq!(UnitName::parse(name).map(|name| name.file()), Ok(file.to_owned()));
        }
    }

    #[test]
    fn object_paths_are_those_of_systemd() {
        for (name, path) in [
            ("dbus.service", "dbus_2eservice"),
            ("2ping.service", "_32ping_2eservice"),
            ("getty@tty1.service", "getty_40tty1_2eservice"),
            ("-.mount", "_2d_2emount"),
        ] {
            assert_eq!(object_path(name), format!("/org/freedesktop/systemd1/unit/{path}"));
        }
    }
}
