//! What of services this host's own config refuses, whatever a server says. Pure.

use std::collections::BTreeMap;

use fluke_model::gather::Gather;
use fluke_model::service::ServiceExecutor;

use crate::executor::Allow;

/// Why each that is refused is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ceiling(BTreeMap<ServiceExecutor, String>);

impl Ceiling {
    /// What `allow` means for services.
    pub fn of(allow: &Allow) -> Self {
        let refused = |it: ServiceExecutor| Some((it, allow.refuses(it.as_str())?));
        Self(ServiceExecutor::ALL.into_iter().filter_map(refused).gather())
    }

    /// Why this is not done here; none where it may be.
    pub fn refuses(&self, executor: ServiceExecutor) -> Option<&str> {
        self.0.get(&executor).map(String::as_str)
    }

    /// What may be done here, as the server is told.
    pub fn permitted(&self) -> impl Iterator<Item = String> {
        let all = ServiceExecutor::ALL.into_iter();
        all.filter(|it| !self.0.contains_key(it)).map(|it| it.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(executors: Option<&[&str]>) -> Allow {
        let executors = executors.map(|kinds| kinds.iter().map(ToString::to_string).collect());
        Allow { executors, run_as: None, stated: Some("agent.hcl:7".into()) }
    }

    #[test]
    fn what_is_not_listed_is_refused_and_it_is_said_where_that_stands() {
        use ServiceExecutor::*;
        for (listed, permitted) in [
            (None, &[Container, Dns, Routes, Mesh][..]),
            (Some(&["shell"][..]), &[][..]),
            (Some(&["container", "mesh"][..]), &[Container, Mesh][..]),
        ] {
            let ceiling = Ceiling::of(&allow(listed));
            for it in ServiceExecutor::ALL {
                let is_refused = ceiling.refuses(it).is_some();
                assert_eq!(is_refused, !permitted.contains(&it), "{it:?} of {listed:?}");
            }
            let named: Vec<_> = permitted.iter().map(|it| it.as_str().to_owned()).collect();
            assert_eq!(ceiling.permitted().collect::<Vec<_>>(), named);
        }
        let ceiling = Ceiling::of(&allow(Some(&[])));
        assert_eq!(
            ceiling.refuses(Mesh),
            Some(
                "refused by this host's own config: `mesh` is not among `allow.executors` (agent.hcl:7)"
            )
        );
    }
}
