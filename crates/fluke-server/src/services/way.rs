//! How one route is on one proxy, by what the proxy says. Pure.

use fluke_model::directory::RouteKey;
use fluke_model::message::SectionReport;

use super::editions::Editions;

/// How a route is on a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way<'a> {
    /// It has loaded it as it is now, whatever became of others since.
    Loaded,
    /// It leaves it out, and may have loaded all others; what it says of that.
    LeftOut(Option<&'a str>),
    /// It has loaded none, or another than there is now; what it says of that.
    Behind(Option<&'a str>),
}

impl<'a> Way<'a> {
    /// By what it says of its routes, if it has said anything.
    pub fn of(route: &RouteKey, said: Option<&'a SectionReport>, editions: &Editions) -> Self {
        let Some(said) = said else { return Self::Behind(None) };
        let problem = said.problem.as_deref();
        match editions.since(route) {
            _ if said.left_out.contains(route) => Self::LeftOut(problem),
            Some(since) if editions.has(Some(said.hash), since) => Self::Loaded,
            _ => Self::Behind(problem),
        }
    }
}
