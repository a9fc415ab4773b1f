//! What a proxy lacks that has all it can take: what is said of it, and certificates, which are asked
//! for until they are there.

use std::time::SystemTime;

use fluke_model::directory::Routes;
use tokio::time::Instant;

use super::compile::{self, Generation, Plan};
use super::succession::SEE;
use super::{Found, Proxy, RoutesError, Supervisor, files};

impl<S: Supervisor> Proxy<S> {
    /// What cannot be had while `one` serves all else; and `why`, if that is not all there is to it.
    pub(super) async fn lacks(
        &mut self,
        why: Option<RoutesError>,
        one: Option<&Generation>,
        plan: &Plan,
        wanted: &Routes,
    ) -> Result<Found, RoutesError> {
        let awaited = match one {
            Some(one) => self.certificates_are_had(one, plan, wanted).await?,
            None => None,
        };
        let left_out = plan.problems.iter().cloned().chain(awaited).collect();
        Ok(Found { drift: None, problem: words(why.map(|why| why.to_string()), left_out) })
    }

    /// Sees to it that certificates are asked for until they are there; what is said of those that
    /// are not.
    async fn certificates_are_had(
        &mut self,
        one: &Generation,
        plan: &Plan,
        wanted: &Routes,
    ) -> Result<Option<String>, RoutesError> {
        let (store, now) = (compile::store(&self.settings.folder), Instant::now());
        let has = files::fitting(&self.settings.folder, plan, one);
        if self.awaited.look(&has.dynamic, &store, now) {
            self.ask_again(one, plan, wanted).await?;
        }
        Ok(self.awaited.words(now, SystemTime::now().into()))
    }

    /// Has a process ask for the certificates that it has not got: it does whenever it is told anything
    /// new.
    pub(super) async fn ask_again(
        &mut self,
        one: &Generation,
        plan: &Plan,
        wanted: &Routes,
    ) -> Result<(), RoutesError> {
        let is_another = *one != plan.fixed.generation;
        let as_well = if is_another { vec![(one.clone(), false)] } else { Vec::new() };
        let dynamic = plan.dynamic.clone().stirred();
        for plan in [Plan { dynamic, ..plan.clone() }, plan.clone()] {
            let plan = self.write(plan, as_well.clone()).await?;
            let plan = files::fitting(&self.settings.folder, &plan, one);
            // One that does not is looked after with the next check.
            let soon = Instant::now() + SEE;
            let _ = self.until_loaded(one, &plan, wanted, soon).await;
        }
        Ok(())
    }
}

/// What is said of a proxy that leaves something out, or is not the one that it should be.
fn words(why: Option<String>, left_out: Vec<String>) -> Option<String> {
    match why {
        None if left_out.is_empty() => None,
        None => Some(format!("all other routes are in effect, but {}", left_out.join("; "))),
        why => Some(why.into_iter().chain(left_out).collect::<Vec<_>>().join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_said_also_of_one_that_should_be_another() {
        let said = |why: Option<&str>, left_out: &[&str]| {
            let left_out = left_out.iter().copied().map(str::to_owned).collect();
            words(why.map(str::to_owned), left_out).unwrap_or_default()
        };
        assert_eq!(said(None, &[]), "");
        assert_eq!(said(None, &["a", "b"]), "all other routes are in effect, but a; b");
        assert_eq!(said(Some("so"), &[]), "so");
        assert_eq!(said(Some("so"), &["a", "b"]), "so; a; b");
    }
}
