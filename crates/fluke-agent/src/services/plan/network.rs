//! What becomes of the network that containers are in: decided once, for all that are in it.

use super::place::may_change;
use super::{Change, Container, Deployment, Network, Plan, Situation, THE_NETWORK};

/// What is to be done to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate<'a> {
    /// Nothing: it is as it should be, or nobody may need it.
    Stays,
    /// It is made.
    Made {
        /// Instead of one in which nothing is.
        replaces: bool,
        /// Why it could not be a moment ago.
        failed: Option<&'a str>,
    },
    /// What is in it goes, so that it can be made anew; how it is another.
    Emptied(&'a str),
    /// It is another, and something is in it that has to stay. So everything stays: what would go
    /// could not come back.
    Kept(String),
}

impl<'a> Fate<'a> {
    /// Decides.
    pub(super) fn of(situation: &'a Situation<'_>) -> Self {
        let failed = situation.is_held_up(THE_NETWORK).map(|it| it.why.as_str());
        let made = |replaces| match situation.wanted.iter().any(|it| may_change(it, situation)) {
            true => Self::Made { replaces, failed },
            false => Self::Stays,
        };
        let mut inside = situation.containers.iter().filter(|it| it.in_network).peekable();
        match situation.network {
            Network::Ready | Network::Untold => Self::Stays,
            // Nobody needs another one.
            _ if situation.wanted.is_empty() => Self::Stays,
            Network::Missing => made(false),
            Network::Other(_) if inside.peek().is_none() => made(true),
            Network::Other(how) => match inside.find_map(|it| why_it_stays(it, situation)) {
                None => Self::Emptied(how),
                Some(why) => Self::Kept(format!(
                    "the network is not as it should be ({how}), and cannot be made anew: {why}"
                )),
            },
        }
    }

    /// Why nothing can be connected yet; nothing once it can.
    pub(super) fn waits(&self) -> Option<String> {
        match self {
            Self::Stays => None,
            Self::Made { failed: Some(why), .. } => {
                Some(format!("its network cannot be made: {why}"))
            }
            Self::Made { failed: None, .. } => Some("its network is not there yet".into()),
            Self::Emptied(_) => Some("its network is made anew".into()),
            Self::Kept(why) => Some(why.clone()),
        }
    }

    /// Whether it takes more than waiting.
    pub(super) fn is_hopeless(&self) -> bool {
        matches!(self, Self::Kept(_) | Self::Made { failed: Some(_), .. })
    }

    /// Adds what is to be done, and what is to be said.
    pub(super) fn plan(self, plan: &mut Plan) {
        match self {
            Self::Stays | Self::Emptied(_) => {}
            Self::Made { replaces, .. } => plan.changes.push(Change::MakeNetwork { replaces }),
            Self::Kept(why) => plan.network_problem = Some(why),
        }
    }
}

/// Why a container that is in the network cannot go, and what to do about that.
fn why_it_stays(container: &Container, situation: &Situation<'_>) -> Option<String> {
    let Container { name, origin, .. } = container;
    if !container.is_ours {
        let is_theirs =
            format!("the container {name}, which is not fluke's, is in it: take it out");
        return (!situation.exclusive).then_some(is_theirs);
    }
    let service = origin.service.as_ref()?;
    if situation.not_understood.contains(service) {
        return Some(format!(
            "the container {name} is in it, of {service}, which this agent is too old for: update it"
        ));
    }
    let is_its = |it: &&Deployment| it.service == *service && Some(it.replica) == origin.replica;
    let wanted = situation.wanted.iter().find(is_its)?;
    (!may_change(wanted, situation)).then(|| {
        let policy = wanted.policy.as_str();
        format!(
            "the container {name} is in it, of {service}, whose policy is {policy}: reconcile this \
             host"
        )
    })
}
