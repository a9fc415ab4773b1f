//! A part for each client, so that a noisy one does not take what all of them need.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of something that there is not much of.
#[derive(Debug)]
pub struct Shares {
    most: usize,
    held: Mutex<HashMap<IpAddr, usize>>,
}

/// One of them, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    of: Arc<Shares>,
    client: IpAddr,
}

impl Shares {
    /// No client gets more than `most` at the same time.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    /// One for `client`, unless it has its part.
    pub fn take(self: &Arc<Self>, client: IpAddr) -> Option<Share> {
        let mut held = self.held();
        let count = held.entry(client).or_default();
        let is_free = *count < self.most;
        *count += usize::from(is_free);
        is_free.then(|| Share { of: self.clone(), client })
    }

    fn held(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Whose it is.
    pub fn client(&self) -> IpAddr {
        self.client
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.of.held();
        if let Some(count) = held.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_part_and_nothing_is_remembered_of_those_who_left() {
        let shares = Shares::new(2);
        let [one, other]: [IpAddr; 2] = [[10, 200, 1, 2].into(), [10, 200, 1, 3].into()];
        let held = [shares.take(one), shares.take(one), shares.take(other)];
        assert!(held.iter().all(Option::is_some));
        assert!(shares.take(one).is_none());
        assert!(shares.take(other).is_some());
        drop(held);
        assert!(shares.held().is_empty());
        assert!(shares.take(one).is_some());
    }
}
