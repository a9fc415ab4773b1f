//! What the lane keeps across restarts, on a thread that may wait for the disk: this one also says
//! that the host is alive.

use super::Lane;

/// What is new of what is this host's own, and not on disk yet.
#[derive(Debug, Default)]
pub(super) struct Unkept {
    /// Its subnet.
    pub claim: bool,
    /// Which deployment has which address in it.
    pub addresses: bool,
    /// The images that were fetched.
    pub fetched: bool,
}

impl Lane {
    /// Keeps what is new of what is this host's own.
    pub(super) async fn keep_own(&mut self) {
        let Unkept { claim, addresses, fetched } = std::mem::take(&mut self.unkept);
        let given_up = self.deployments.given_up();
        let is_given_up = given_up != self.given_up;
        let made_way = self.made_way();
        let have_made_way = made_way != self.made_way;
        let left = self.forgotten.left();
        let is_left = left != self.left;
        if claim || addresses || fetched || is_given_up || have_made_way || is_left {
            self.given_up.clone_from(&given_up);
            self.made_way.clone_from(&made_way);
            self.left.clone_from(&left);
            let claim = self.claim.filter(|_| claim);
            let addresses = addresses.then(|| self.addresses.clone());
            let fetched = fetched.then(|| self.fetched.clone());
            let folder = self.folder.clone();
            let kept = tokio::task::spawn_blocking(move || {
                claim.iter().for_each(|claim| folder.keep_claim(claim));
                addresses.iter().for_each(|addresses| folder.keep_addresses(addresses));
                fetched.iter().for_each(|fetched| folder.keep_fetched(fetched));
                if is_given_up {
                    folder.keep_given_up(&given_up);
                }
                if have_made_way {
                    folder.keep_made_way(&made_way);
                }
                if is_left {
                    folder.keep_left(&left);
                }
            });
            // It says itself what went wrong.
            let _ = kept.await;
        }
    }

    /// Keeps what was heard of others.
    pub(super) async fn keep_tables(&mut self) {
        let tables = self.inbox.tables();
        let before = std::mem::replace(&mut self.tables, tables.clone());
        if !tables.is_same(&before) {
            let folder = self.folder.clone();
            let kept = tokio::task::spawn_blocking(move || folder.keep_tables(&tables, &before));
            let _ = kept.await;
        }
    }
}
