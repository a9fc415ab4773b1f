//! Volumes of services: whose they are, and what they are called on a host.

use std::collections::BTreeSet;
use std::fmt;

use crate::id::{ServiceName, VolumeName};
use crate::service::Replica;

/// What all names of volumes begin with.
const OURS: &str = "fluke";

/// The volumes that a host has.
pub type Volumes = BTreeSet<Volume>;

/// One volume of one replica; the same for every version of the service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Volume {
    /// Of which service.
    pub service: ServiceName,
    /// Of which of its replicas.
    pub replica: Replica,
    /// Which of its volumes.
    pub name: VolumeName,
}

impl Volume {
    /// The volume that is called so on a host; none if it is nobody's. Names have no dots in them, so
    /// no two volumes are called alike.
    pub fn called(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (ours, service, name) = (parts.next()?, parts.next()?, parts.next()?);
        let replica = match parts.next() {
            None => Replica::Own,
            Some(number) => Replica::Number(number.parse().ok()?),
        };
        let volume = Self {
            service: ServiceName::new(service).ok()?,
            replica,
            name: VolumeName::new(name).ok()?,
        };
        // A number may be written in other ways, which are other names.
        (ours == OURS && volume.to_string() == text).then_some(volume)
    }
}

/// What it is called on a host.
impl fmt::Display for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, replica, name } = self;
        match replica {
            Replica::Own => write!(f, "{OURS}.{service}.{name}"),
            Replica::Number(number) => write!(f, "{OURS}.{service}.{name}.{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn volume(service: &str, replica: Replica, name: &str) -> Volume {
        Volume {
            service: ServiceName::new(service).expect("a name"),
            replica,
            name: VolumeName::new(name).expect("a name"),
        }
    }

    #[test]
    fn what_is_nobody_s_is_not_taken_for_a_volume_of_a_service() {
        for text in [
            "",
            "data",
            "fluke",
            "fluke.db",
            "fluke-db-data",
            "fluke..data",
            "fluke.db.data.x",
            "fluke.db.data.-1",
            "fluke.db.data.01",
            "fluke.db.data.+1",
            "fluke.db.data.0.1",
            "fluke.DB.data.0",
            "other.db.data.0",
        ] {
            assert_eq!(Volume::called(text), None, "{text}");
        }
        let own = volume("db", Replica::Own, "data");
        assert_eq!(Volume::called("fluke.db.data"), Some(own));
        let numbered = volume("db", Replica::Number(7), "data");
        assert_eq!(Volume::called("fluke.db.data.7"), Some(numbered));
    }

    proptest! {
        #[test]
        fn no_two_volumes_are_called_alike(
            service in "[a-z0-9]([a-z0-9-]{0,4}[a-z0-9])?",
            name in "[a-z0-9]([a-z0-9-]{0,4}[a-z0-9])?",
            number in prop::option::of(any::<u32>()),
        ) {
            let replica = number.map_or(Replica::Own, Replica::Number);
            let volume = volume(&service, replica, &name);
            prop_assert_eq!(Volume::called(&volume.to_string()), Some(volume));
        }
    }
}
