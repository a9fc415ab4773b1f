//! Which connections have nothing to do: an idle one ends after a while, and sooner when somebody
//! else waits for its place.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// So many answers may be left unread on one connection before it ends: what is left of each
/// stays with it.
const MOST_UNREAD: u32 = 8;

/// What goes on over one connection.
#[derive(Debug, Clone)]
pub struct Usage(Arc<watch::Sender<State>>);

#[derive(Debug, Clone, Copy)]
struct State {
    under_way: u32,
    unread: u32,
    /// Since when nothing is under way, if nothing is.
    since: Instant,
    /// Somebody else needs the place.
    unwanted: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.under_way == 0
    }
}

/// A request that is under way, until it is dropped.
#[derive(Debug)]
pub struct Busy(Usage);

impl Usage {
    fn new() -> Self {
        let new = State { under_way: 0, unread: 0, since: Instant::now(), unwanted: false };
        Self(Arc::new(watch::Sender::new(new)))
    }

    /// A request begins.
    pub fn begin(&self) -> Busy {
        self.0.send_modify(|state| state.under_way += 1);
        Busy(self.clone())
    }

    /// Waits until the connection is to end.
    pub async fn over(&self, idle: Duration) {
        let mut told = self.0.subscribe();
        loop {
            let state = *told.borrow_and_update();
            if state.unread >= MOST_UNREAD || (state.unwanted && state.is_idle()) {
                return;
            }
            tokio::select! {
                _ = told.changed() => {}
                () = sleep_until(state.since + idle), if state.is_idle() => return,
            }
        }
    }
}

impl Busy {
    /// Nobody read the answer.
    pub fn was_unread(&self) {
        self.0.0.send_modify(|state| state.unread += 1);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| {
            state.under_way -= 1;
            state.since = Instant::now();
        });
    }
}

/// All connections of one listener.
#[derive(Debug, Default)]
pub struct Lobby(Mutex<Vec<Weak<watch::Sender<State>>>>);

impl Lobby {
    /// One more; it is in as long as it is held.
    pub fn enter(&self) -> Usage {
        let usage = Usage::new();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == all.capacity() {
            all.retain(|one| one.strong_count() > 0);
        }
        all.push(Arc::downgrade(&usage.0));
        usage
    }

    /// Tells the one that has been idle for longest to end.
    pub fn make_room(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.iter().filter_map(Weak::upgrade);
        let idle = all.filter(|one| {
            let state = one.borrow();
            state.is_idle() && !state.unwanted
        });
        if let Some(longest) = idle.min_by_key(|one| one.borrow().since) {
            longest.send_modify(|state| state.unwanted = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_and_a_busy_one_does_not() {
        let (usage, begun) = (Lobby::default().enter(), Instant::now());
        let busy = usage.begin();
        let second = usage.begin();
        let ends = async {
            usage.over(MINUTE).await;
            begun.elapsed()
        };
        let works = async {
            tokio::time::sleep(10 * MINUTE).await;
            drop(busy);
            tokio::time::sleep(10 * MINUTE).await;
            drop(second);
        };
        let (ended, ()) = tokio::join!(ends, works);
        assert_eq!(ended, 21 * MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_answers_are_not_read_ends() {
        let (usage, begun) = (Lobby::default().enter(), Instant::now());
        let _works = usage.begin();
        (0..MOST_UNREAD).for_each(|_| usage.begin().was_unread());
        usage.over(MINUTE).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_idle_for_longest_makes_room() {
        let lobby = Lobby::default();
        let (first, second, third) = (lobby.enter(), lobby.enter(), lobby.enter());
        let works = first.begin();
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(third.begin());
        let is_unwanted = |usage: &Usage| usage.0.borrow().unwanted;
        lobby.make_room();
        assert_eq!([&first, &second, &third].map(is_unwanted), [false, true, false]);
        lobby.make_room();
        lobby.make_room();
        assert_eq!([&first, &second, &third].map(is_unwanted), [false, true, true]);
        drop(works);
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let _within = runtime.enter();
        let lobby = Lobby::default();
        (0..10_000).for_each(|_| drop(lobby.enter()));
        assert!(lobby.0.lock().expect("lock").len() < 100);
    }
}
