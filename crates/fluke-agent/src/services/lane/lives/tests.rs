use std::process::Command;

use futures_util::FutureExt;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::*;

#[tokio::test]
async fn the_end_of_a_process_is_heard_once_and_of_one_that_is_not_watched_never() {
    let sleep = || Command::new("sleep").arg("1000").spawn().expect("it runs");
    let [mut one, mut other, mut third] = [sleep(), sleep(), sleep()];
    let ids = |all: &[&std::process::Child]| all.iter().map(|it| it.id() as i32).collect();
    let mut lives = Lives::default();
    lives.see(&ids(&[&one, &other, &third]));
    lives.see(&ids(&[&other, &third]));
    assert!(!lives.has_one_ended() && lives.knows(third.id() as i32));
    for child in [&mut one, &mut other] {
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    assert!(lives.has_one_ended(), "before anybody is woken up");
    lives.next().await;
    assert!(!lives.has_one_ended() && !lives.knows(other.id() as i32));
    assert_eq!(lives.watched.keys().copied().collect::<Vec<_>>(), [third.id() as i32]);
    assert!(std::pin::pin!(lives.next()).as_mut().now_or_never().is_none());
    lives.see(&ids(&[&other, &third]));
    assert_eq!(lives.watched.len(), 1, "who is gone cannot be watched");
    third.kill().expect("killed");
    third.wait().expect("gone");
    lives.next().await;
}

#[tokio::test(start_paused = true)]
async fn an_end_that_podman_does_not_note_is_overdue_after_a_while() {
    let [mut gone, mut left] = [(), ()].map(|()| Command::new("true").spawn().expect("it runs"));
    gone.wait().expect("gone");
    let it = WaitId::Pid(Pid::from_child(&left));
    waitid(it, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("ended");
    let both = [&gone, &left].map(|it| it.id() as i32);
    let mut lives = Lives::default();
    lives.see(&both.into());
    assert!(both.iter().all(|it| !lives.knows(*it) && !lives.is_overdue(*it)));
    lives.see(&both.into());
    for _ in both {
        lives.next().await;
    }
    assert!(both.iter().all(|it| lives.is_overdue(*it)));
    lives.see(&both.into());
    assert!(lives.running.is_empty(), "it is told once");
    lives.see(&BTreeSet::new());
    assert!(!both.iter().any(|it| lives.is_overdue(*it)), "Podman noted it");
    left.wait().expect("gone");
}
